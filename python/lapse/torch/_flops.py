# SPDX-License-Identifier: Apache-2.0
"""How many floating-point operations a model takes: by formula, by counting, or as told;
each says how it was found."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Per = Literal["token", "sample", "batch"]
_PER = ("token", "sample", "batch")


class Flops:
    """FLOPs of one token, sample or batch of training, forward and backward: `model`
    without anything done twice (MFU), `hardware` with recomputation (HFU), and the formula
    as text. A product of two numbers and its sum are two."""

    __slots__ = ("formula", "hardware", "model", "per")

    def __init__(
        self, model: float, per: Per, formula: str = "given", hardware: float | None = None
    ) -> None:
        if per not in _PER:
            raise ValueError(f"Flops(): per must be one of {', '.join(_PER)}, not {per!r}")
        if not model > 0:
            raise ValueError(f"Flops(): must be more than 0, not {model!r}")
        self.model, self.per, self.formula = float(model), per, formula
        self.hardware = self.model if hardware is None else float(hardware)

    def __repr__(self) -> str:
        return f"<Flops {self.model:.6g} per {self.per}: {self.formula}>"


def transformer_flops(
    parameters: int,
    layers: int,
    heads: int,
    head_dim: int,
    sequence: int,
    attention: Literal["full", "causal"] = "full",
    recompute: float = 0.0,
) -> Flops:
    """FLOPs a token of training a transformer.

    attention="full": 6 N + 12 L H Q T, as nanoGPT and PaLM count; "causal": 6 N +
    6 L H Q T, only the half that a causal mask leaves, as llm.c and torchtitan count. N:
    parameters that take part in products (without the table of embeddings, unless it is
    the output too); L layers, H heads of Q, T tokens a sequence. recompute: the share of
    the forward pass that activation checkpointing does again, for `hardware`."""
    if attention not in ("full", "causal"):
        raise ValueError(f'transformer_flops(): attention must be "full" or "causal", '
                         f"not {attention!r}")  # fmt: skip
    if not 0 <= recompute <= 1:
        raise ValueError(f"transformer_flops(): recompute must be from 0 to 1, not {recompute!r}")
    factor = 12 if attention == "full" else 6
    model = 6 * parameters + factor * layers * heads * head_dim * sequence
    formula = (
        f"6 N + {factor} L H Q T a token, N={parameters} L={layers} H={heads} Q={head_dim} "
        f"T={sequence}, {attention} attention"
    )
    if recompute:
        formula += f"; {recompute:g} of the forward pass twice"
    return Flops(model, "token", formula, model * (1 + recompute / 3))


def _on_meta(thing: Any) -> Any:
    """Tensors, in whatever containers, without their data."""
    if isinstance(thing, torch.Tensor):
        return thing.detach().to("meta")
    if isinstance(thing, dict):
        return {k: _on_meta(v) for k, v in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(_on_meta(v) for v in thing))
    if isinstance(thing, (list, tuple)):
        return type(thing)(_on_meta(v) for v in thing)
    return thing


def _meta_copy(model: torch.nn.Module) -> torch.nn.Module:
    """The model without data and hooks; the model itself is not touched, and nothing of
    its size is made."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        empty = parameter.detach().to("meta")
        memo[id(parameter)] = torch.nn.Parameter(empty, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach().to("meta")
    twin = copy.deepcopy(model, memo)
    for module in twin.modules():
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            getattr(module, hooks).clear()
        getattr(module, "_backward_pre_hooks", {}).clear()
    return twin


def _sum(output: Any) -> torch.Tensor | None:
    """Something to go backward from: the sum of what needs a gradient."""
    if isinstance(output, torch.Tensor):
        return output.sum() if output.requires_grad else None
    values = output.values() if isinstance(output, dict) else output
    if not isinstance(output, (dict, list, tuple)) and not hasattr(output, "__iter__"):
        return None
    sums = [s for s in map(_sum, values) if s is not None and s.device.type == "meta"]
    return torch.stack(sums).sum() if sums else None


def measure_flops(
    model: torch.nn.Module,
    *inputs: Any,
    batch: int | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    **keywords: Any,
) -> Flops:
    """Count the FLOPs of one forward and backward pass on the meta device, without data
    and without touching the model: matrix products, convolutions, attention (which
    counts in full, also when causal).

    inputs, keywords: what the model is called with. batch: samples in it, so that the
    result is per sample; None: per batch. loss(output): what to go backward from; None:
    the sum of the outputs. RuntimeError: PyTorch is older than 2.1, or the model needs
    data to run (an .item(), a kernel of its own)."""
    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        raise RuntimeError("measure_flops() needs PyTorch 2.1 or newer") from None
    counter = FlopCounterMode(display=False)
    try:
        twin = _meta_copy(model)
        with counter, torch.enable_grad():
            output = twin(*_on_meta(inputs), **_on_meta(keywords))
            end = loss(output) if loss is not None else _sum(output)
            if end is not None and end.requires_grad:
                torch.autograd.backward(end)
    except Exception as error:
        raise RuntimeError(f"measure_flops(): the model does not run without data: {error}") \
            from error  # fmt: skip
    total = counter.get_total_flops()
    if not total:
        raise RuntimeError("measure_flops(): no operation was counted")
    formula = "counted by FlopCounterMode, forward and backward"
    if batch is None:
        return Flops(total, "batch", formula)
    return Flops(total / batch, "sample", formula)
