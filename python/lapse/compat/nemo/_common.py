# SPDX-License-Identifier: Apache-2.0
"""What the classes share: the run, loops' guard, and numbers that may still be on a device."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ... import _callback, _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

hook = _callback.guard("nemo")
MIB, GIB = float(1 << 20), float(1 << 30)


def open_run() -> None:
    """Record into the program's run, or into one of our own."""
    if not _core.is_open():
        _callback.begin_run(None, None, None)


def leaves(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` is `a/b`: 1."""
    for key, value in values.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, dict):
            yield from leaves(value, name)
        else:
            yield name, value


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors without their graph, so that none is kept alive or complained about."""
    torch = sys.modules.get("torch")
    if torch is None:
        return dict(values)
    return {name: value.detach() if isinstance(value, torch.Tensor) else value
            for name, value in values.items()}  # fmt: skip


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """Numbers, and tensors that are not waited for, into the run."""
    _callback.log(plain(values), step)


def when_there(value: Any, then: Callable[[float], None], step: int | None = None) -> None:
    """then(number): now, or, of a tensor on a device, when it has arrived. A tensor has one
    element. What is no number is left out."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.numel() != 1:
            return
        later = importlib.import_module("lapse.torch").later
        later([value.detach()], lambda values, at, time_ns: then(values[0]), step)
    elif _callback.is_number(value):
        then(float(value))


def arrived() -> None:
    """Take what has arrived from devices; no waiting."""
    if "lapse.torch" in sys.modules:
        sys.modules["lapse.torch"].flush()
