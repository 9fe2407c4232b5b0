# SPDX-License-Identifier: Apache-2.0
"""LapseLogger: what a module logs, and its hyperparameters, in lapse's run."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any

from .. import _callback, _events, _machine, _run
from .._ranks import rank_and_world

if TYPE_CHECKING:
    from collections.abc import Mapping


class LapseLogger:
    """A logger of Lightning's that records into lapse's run:

        Trainer(logger=lapse.lightning.LapseLogger(project="ocr"))

    Every value keeps its name, the step that Lightning gives it, and, of a tensor on a
    device, is not waited for. Hyperparameters become the run's configuration, saved
    checkpoints artifacts. Only the global rank 0 records, unless ranks="all"."""

    _lapse_logger = True

    def __init__(
        self, project: str | None = None, name: str | None = None, *, ranks: str = "zero"
    ) -> None:
        super().__init__()
        if ranks not in ("zero", "all"):
            raise ValueError(f'LapseLogger(): ranks must be "zero" or "all", not {ranks!r}')
        self._project, self._run_name, self._ranks = project, name, ranks
        self._saved: set[str] = set()

    @property
    def _records(self) -> bool:
        return self._ranks == "all" or rank_and_world()[0] == 0

    @property
    def experiment(self) -> Any:
        """The run."""
        _callback.begin_run(self._project, self._run_name, None)
        return _run.current()

    @property
    def name(self) -> str:
        """Name of the folder in which Lightning puts checkpoints."""
        return "lapse"

    @property
    def version(self) -> str:
        """Id of the run, so that each has checkpoints of its own."""
        run = _run.current()
        return run.id if run is not None and run.id else "0"

    @property
    def save_dir(self) -> str | None:
        """Nothing of the run itself is saved by the program; None: Lightning's own."""
        return None

    def log_hyperparams(self, params: Any = None, *args: Any, **kwargs: Any) -> None:
        if params is None or not self._records:
            return
        if isinstance(params, argparse.Namespace):
            params = vars(params)
        _callback.begin_run(self._project, self._run_name, dict(params))

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        if not self._records:
            return
        current = _run.current()
        if current is None:
            _callback.begin_run(self._project, self._run_name, None)
        _callback.log(metrics, step)

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        if not self._records:
            return
        for name in ("best_model_path", "last_model_path"):
            path = getattr(checkpoint_callback, name, "")
            if path and path not in self._saved:
                self._saved.add(path)
                _events.artifact(path, "checkpoint")

    def save(self) -> None:
        importlib.import_module("lapse.torch").flush()

    def finalize(self, status: str) -> None:
        if self._records:
            importlib.import_module("lapse.torch").flush(wait=True)
            _events.event("fit", str(status), "info" if status == "success" else "warning")

    @property
    def run_folder(self) -> str | None:
        """Where the run is stored."""
        return _machine.run_folder()
