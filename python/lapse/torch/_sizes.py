# SPDX-License-Identifier: Apache-2.0
"""Bytes that a model's state really takes, by the type of its elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


def _storages(value: Any) -> Iterator[tuple[str, tuple[Any, ...], int]]:
    """(type, what it is told apart by, bytes) of the tensors in a value. A quantised one
    has its scales beside it."""
    if isinstance(value, torch.Tensor):
        inner = getattr(value, "__tensor_flatten__", None)
        if inner is not None:  # a tensor made of others: quantised, distributed
            for name in inner()[0]:
                yield from _storages(getattr(value, name))
            return
        if value.is_sparse:
            yield from _storages(value._indices())
            yield from _storages(value._values())
            return
        size = value.numel() * value.element_size()
        place = value.data_ptr() if value.device.type != "meta" else id(value)
        yield str(value.dtype).replace("torch.", ""), (value.device, place, size), size
        if value.is_quantized and value.qscheme() in (
            torch.per_channel_affine,
            torch.per_channel_symmetric,
            torch.per_channel_affine_float_qparams,
        ):
            yield from _storages(value.q_per_channel_scales())
            yield from _storages(value.q_per_channel_zero_points())
    elif isinstance(value, dict):
        for each in value.values():
            yield from _storages(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _storages(each)


def sizes(model: torch.nn.Module) -> dict[str, int]:
    """{"float32": bytes, "qint8": bytes, ...} of parameters, buffers and packed weights,
    what is shared counted once; the most first."""
    out: dict[str, int] = {}
    seen = set()
    # The state has packed weights too, but not buffers that are not saved.
    held = (list(model.parameters()), list(model.buffers()), model.state_dict())
    for kind, identity, size in _storages(held):
        if identity in seen or not size:
            continue
        seen.add(identity)
        out[kind] = out.get(kind, 0) + size
    return dict(sorted(out.items(), key=lambda item: -item[1]))


class _Nothing:
    """A file that counts what is written."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        n = len(memoryview(data).cast("B")) if not isinstance(data, bytes) else len(data)
        self.size += n
        return n

    def flush(self) -> None:
        pass


def serialised_size(model: torch.nn.Module) -> int | None:
    """Bytes that torch.save() writes of the state; None if it cannot be saved."""
    file: Any = _Nothing()
    try:
        torch.save(model.state_dict(), file)
    except Exception:
        return None
    size: int = file.size
    return size
