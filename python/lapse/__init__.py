# SPDX-License-Identifier: Apache-2.0
"""lapse records what a training program does, for nanoseconds a record.

    import lapse

    run = lapse.init(project="ocr", config={"lr": 1e-3})
    for batch in loader:
        with lapse.step(samples=len(batch)):
            with lapse.span("forward"):
                loss = model(batch)
            lapse.log({"loss": loss})
    lapse.finish()

Records go into shared memory; the lapse agent stores them, also when the program
is killed. Run it as `lapse run -- python train.py`, or just run it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._core import (
    Metric,
    Span,
    Step,
    heartbeat,
    log,
    metric,
    now,
    span,
    stats,
    step,
    step_begin,
    step_end,
)
from ._core import version as __version__
from ._events import Epoch, artifact, attr, epoch, event, rank
from ._run import Run, finish, init

if TYPE_CHECKING:
    import os

    from ._cli_args import add_cli_args, callbacks_from_args
    from ._configure import Plan, configure
    from ._reader import RunReader, Series

__all__ = [
    "Epoch",
    "Metric",
    "Plan",
    "Run",
    "RunReader",
    "Series",
    "Span",
    "Step",
    "__version__",
    "add_cli_args",
    "artifact",
    "attr",
    "callbacks_from_args",
    "configure",
    "epoch",
    "event",
    "finish",
    "heartbeat",
    "init",
    "log",
    "metric",
    "now",
    "open_run",
    "rank",
    "span",
    "stats",
    "step",
    "step_begin",
    "step_end",
]


def open_run(
    run: str | os.PathLike[str] = "last", dir: str | os.PathLike[str] | None = None
) -> RunReader:
    """Open a stored run for reading, also while it is being written.

    run: "last", an id, the beginning of an id, or the path of the run's folder.
    dir: the folder that holds the runs; None: $LAPSE_DIR, else ./lapse-runs.
    FileNotFoundError: there is none; FileExistsError: several ids begin like that;
    other OSErrors: it cannot be read (errno EUCLEAN: it is corrupt)."""
    reader: RunReader = importlib.import_module("lapse._reader").open_run(run, dir)
    return reader


# What is loaded when it is first used: reading needs SQLite, the rest few programs need.
_LATER = {
    "RunReader": "_reader",
    "Series": "_reader",
    "add_cli_args": "_cli_args",
    "callbacks_from_args": "_cli_args",
    "Plan": "_configure",
    "configure": "_configure",
}

if not TYPE_CHECKING:  # or every name would be one

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return getattr(importlib.import_module(f"lapse.{_LATER[name]}"), name)
        raise AttributeError(f"module 'lapse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
