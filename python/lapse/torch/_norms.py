# SPDX-License-Identifier: Apache-2.0
"""Norms of many tensors by one fused operation for each device and type, left on the
device; parts of distributed tensors are put together by one reduction."""

from __future__ import annotations

import math
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_HALF = (torch.float16, torch.bfloat16)
_INF = float("inf")
_NOTHING = type(None)
_PLAIN = {torch.Tensor}
_KIND = attrgetter("dtype", "layout", "device")


def _has_dtype() -> bool:
    """Can the fused norm be told the type of its result? Since 2.4."""
    try:
        torch._foreach_norm([torch.zeros(1)], 2.0, dtype=torch.float32)
    except (TypeError, RuntimeError):
        return False
    return True


_WITH_DTYPE = _has_dtype()


def plain(gradient: torch.Tensor) -> torch.Tensor | None:
    """The values to take a norm of; None: they cannot be had without waiting for the
    device, because a sparse gradient has rows twice."""
    if gradient.layout is torch.sparse_coo:
        if not gradient.is_coalesced():
            if gradient.device.type != "cpu":
                return None
            gradient = gradient.coalesce()
        return gradient._values()
    return gradient


def _groups(tensor: Any) -> tuple[Any, ...]:
    """The process groups over which a distributed tensor's other parts are; () of what is
    whole here."""
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return ()
    mesh = tensor.device_mesh
    return tuple(mesh.get_group(i) for i, p in enumerate(placements) if p.is_shard())


def groups_of(model: Any, parameters: list[torch.Tensor]) -> list[tuple[Any, ...]]:
    """For each parameter the process groups that have its other parts: DTensors (tensor
    parallel, FSDP2), and those of FullyShardedDataParallel."""
    found = {id(p): _groups(p) for p in parameters}
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and isinstance(model, torch.nn.Module):
        for module in model.modules():  # an inner one comes later, and holds
            if not isinstance(module, fsdp.FullyShardedDataParallel):
                continue
            if module.sharding_strategy is not fsdp.ShardingStrategy.NO_SHARD:
                found.update((id(p), (module.process_group,)) for p in module.parameters())
    return [found[id(p)] for p in parameters]


def _local(gradient: Any) -> torch.Tensor:
    placements = getattr(gradient, "placements", None)
    if placements is None:
        return gradient
    if any(p.is_partial() for p in placements):  # sums that are yet to be made
        whole: torch.Tensor = gradient.full_tensor()
        return whole
    local: torch.Tensor = gradient._local_tensor
    return local


def _fused(tensors: list[torch.Tensor], norm: float, full: bool = False) -> torch.Tensor:
    """Norms of tensors of one device and type, of half precision in single. full: none of
    them is empty."""
    dtype = tensors[0].dtype
    full = full or all(t.numel() for t in tensors)
    if dtype in _HALF:
        if _WITH_DTYPE and full:
            return torch.stack(torch._foreach_norm(tensors, norm, dtype=torch.float32))
        return torch.stack(
            [
                torch.linalg.vector_norm(t, norm if t.numel() else 2.0, dtype=torch.float32)
                for t in tensors
            ]
        )
    if dtype.is_complex or not full:
        # An empty part of a distributed tensor has no maximum; its sum is 0.
        return torch.stack(
            [torch.linalg.vector_norm(t, norm if t.numel() else 2.0) for t in tensors]
        )
    return torch.stack(torch._foreach_norm(tensors, norm))


def _reduced(norms: torch.Tensor, groups: tuple[Any, ...], norm: float) -> torch.Tensor:
    """Over the ranks that hold the other parts: a collective, all of them make it."""
    from torch import distributed

    whole = norms.clone() if norm == _INF else norms**norm
    operation = distributed.ReduceOp.MAX if norm == _INF else distributed.ReduceOp.SUM
    for group in groups:
        distributed.all_reduce(whole, op=operation, group=group)
    return whole if norm == _INF else whole ** (1.0 / norm)


class _Group:
    """Gradients of one device and type whose parts are on the same ranks. None: not here,
    but a rank that has a part may have it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.tensors: list[torch.Tensor | None] = []

    def norms(self, device: torch.device, norm: float) -> torch.Tensor:
        there = [t for t in self.tensors if t is not None]
        if len(there) == len(self.tensors):
            return _fused(there, norm)
        fused = _fused(there, norm) if there else torch.zeros(1, device=device)
        zero, each = torch.zeros_like(fused[0]), iter(fused)
        return torch.stack([zero if t is None else next(each) for t in self.tensors])


class Norms:
    """Of one step: vectors on devices, and which parameter each element is of."""

    def __init__(self) -> None:
        self.vectors: list[torch.Tensor] = []
        self.order: list[Sequence[int]] = []  # beside each vector
        self.left_out: list[int] = []  # sparse ones that would have to be waited for

    def of_alike(self, parameters: list[torch.Tensor], norm: float) -> bool:
        """of(), for gradients that are whole, plain, and of one device and type, without
        looking at each: False if they are not."""
        order: Sequence[int] = range(len(parameters))
        gradients: Any = [parameter.grad for parameter in parameters]
        types = set(map(type, gradients))
        if _NOTHING in types:  # of parameters that do not learn
            types.discard(_NOTHING)
            order = [i for i in order if gradients[i] is not None]
            gradients = [gradients[i] for i in order]
        if types != _PLAIN:
            return False
        kinds = set(map(_KIND, gradients))
        dtype, layout, _ = kinds.pop()
        if kinds or layout is not torch.strided or dtype.is_complex:
            return False
        self.vectors.append(_fused(gradients, norm, True))
        self.order.append(order)
        return True

    def of(
        self, parameters: list[torch.Tensor], groups: list[tuple[Any, ...]], norm: float
    ) -> None:
        """Norms of the gradients of all of them. Ranks of a group must agree on their
        number and order, so it is the parameters that decide these."""
        found: dict[Any, _Group] = {}
        for number, parameter in enumerate(parameters):
            gradient, of = parameter.grad, groups[number]
            if gradient is None and not of:
                continue
            values: torch.Tensor | None = gradient
            if gradient is not None and gradient.layout is not torch.strided:
                values = plain(gradient)
                if values is None:
                    self.left_out.append(number)
                    continue
            if values is not None and type(values) is not torch.Tensor:
                values = _local(values)
            like = parameter if values is None else values
            group = found.setdefault((like.device, like.dtype, of), _Group())
            group.numbers.append(number)
            group.tensors.append(values)
        for (device, _, of), group in found.items():
            vector = group.norms(device, norm)
            self.vectors.append(_reduced(vector, of, norm) if of else vector)
            self.order.append(group.numbers)


def together(norms: list[float], norm: float) -> float:
    """The norm of all from the norms of parts, on the host, in double precision."""
    if norm == _INF:
        return max(norms, key=lambda x: (math.isnan(x), x), default=0.0)
    if norm == 2.0:
        return float(sum([x * x for x in norms]) ** 0.5)
    return float(sum([x**norm for x in norms]) ** (1.0 / norm))
