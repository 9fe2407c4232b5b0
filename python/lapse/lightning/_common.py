# SPDX-License-Identifier: Apache-2.0
"""What the callbacks for Lightning share: console, loggers, samples of a batch, steps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .. import _core

if TYPE_CHECKING:
    from collections.abc import Mapping


def say(trainer: Any, *lines: str) -> None:
    """Lines on the console of the global rank 0 alone, through the progress bar."""
    if not trainer.is_global_zero:
        return
    for line in lines:
        try:
            trainer.print(line)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            trainer.print(line.encode(encoding, "replace").decode(encoding))


def logger_step(trainer: Any) -> int:
    """The step that Lightning gives its loggers: it never goes back."""
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    step = getattr(loop, "_batches_that_stepped", None)
    return int(trainer.global_step if step is None else step)


def is_second(trainer: Any, callback: Any, kind: Any) -> bool:
    """Does an enabled callback of this kind stand before it in the Trainer?"""
    enabled = (cb for cb in trainer.callbacks if isinstance(cb, kind) and cb.enabled)
    return next(enabled, callback) is not callback


def has_lapse_logger(trainer: Any) -> bool:
    return any(getattr(logger, "_lapse_logger", False) for logger in trainer.loggers)


def send(trainer: Any, values: Mapping[str, float], record: bool = True) -> None:
    """Values to the Trainer's loggers (rank 0), and, unless one of them is a LapseLogger of
    this rank or record is False, into lapse's run (all ranks)."""
    if not values:
        return
    if trainer.is_global_zero:
        step = logger_step(trainer)
        for logger in trainer.loggers:
            if record or not getattr(logger, "_lapse_logger", False):
                logger.log_metrics(dict(values), step=step)
    taken = trainer.is_global_zero and has_lapse_logger(trainer)
    if record and not taken:
        _core.log(values, trainer.global_step)


def batch_size(batch: Any, depth: int = 0) -> int | None:
    """Samples of a batch: the first dimension of the first tensor in it; None: no tensor."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        try:
            return int(shape[0]) if len(shape) else 1
        except TypeError:
            return None
    if depth > 4 or isinstance(batch, (str, bytes)):
        return None
    parts: Any = ()
    if hasattr(batch, "values"):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    elif hasattr(batch, "__dict__"):
        parts = vars(batch).values()
    for part in parts:
        size = batch_size(part, depth + 1)
        if size is not None:
            return size
    return None


def ratio(value: float) -> str:
    return f"{100 * value:.1f} %"
