# SPDX-License-Identifier: Apache-2.0
"""LapseCallback: steps, epochs, phases, loss, validation, checkpoints and exceptions of
Lightning's training, recorded."""

from __future__ import annotations

import importlib
import os
from typing import Any

import torch

from .. import _callback, _events
from .._callback import guard
from ._common import batch_size, has_lapse_logger
from ._phases import Phases
from ._tap import tap_of

_hook = guard("lightning")


class LapseCallback:
    """Records a training of Lightning's into lapse's run, which it opens if the program
    has not:

        Trainer(callbacks=[lapse.lightning.LapseCallback(project="ocr")])

    Steps (global_step; one lasts over the batches whose gradients are accumulated) with
    their samples, epochs, phases `data`, `forward`, `backward`, `optimizer`, `checkpoint`,
    also on the device; the loss of each batch as `loss` (without waiting for the device) and
    the learning rates; what the module logs, at the end of each epoch and validation,
    unless a LapseLogger records it; checkpoints and exceptions as events.

    ranks: "all" record, "zero" (the global rank 0), or "aggregate": figures over all
    ranks each `aggregate_every` steps (docs/callbacks.md). Nothing raises in training. Of
    two in one Trainer the second does nothing."""

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: Any = None,
        *,
        loss: bool = True,
        phases: bool = True,
        metrics: bool = True,
        learning_rate: bool = True,
        ranks: str = "all",
        aggregate_every: int = 50,
    ) -> None:
        super().__init__()
        self._project, self._name, self._config = project, name, config
        self._loss, self._metrics, self._lr = loss, metrics, learning_rate
        self._recorder = _callback.Recorder(ranks, aggregate_every)
        self._phases = Phases() if phases else None
        self._active = False
        self._step_open = self._has_loss = False
        self._samples = 0
        self._saved: set[str] = set()
        self._taken: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    # ---- fit ------------------------------------------------------------------------------

    @_hook
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        first = next((cb for cb in trainer.callbacks if isinstance(cb, LapseCallback)), self)
        self._active = first is self
        if not self._active:
            return
        ranks = (trainer.global_rank, trainer.local_rank, trainer.world_size)
        _callback.begin_run(self._project, self._name, self._configuration(pl_module), ranks)
        self._recorder.renew()
        self._has_loss = False
        if stage == "fit" and self._phases is not None and not _has_spans(trainer):
            tap_of(trainer).listen(self, self._start, self._stop)

    def _configuration(self, pl_module: Any) -> Any:
        if self._config is not None:
            return self._config
        hyper = getattr(pl_module, "hparams_initial", None)
        return dict(hyper) if hyper else None

    def _start(self, action: str) -> None:
        if self._phases is not None and self._recorder.records:
            self._phases.start(action)

    def _stop(self, action: str) -> None:
        if self._phases is not None and self._recorder.records:
            self._phases.stop(action)

    @_hook
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._recorder.epoch_begin(trainer.current_epoch)

    @_hook
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._active:
            return
        if not self._step_open:
            self._step_open, self._samples = True, 0
            self._recorder.step_begin(trainer.global_step)
        self._samples += batch_size(batch) or 0

    @_hook
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        if self._active and self._lr and self._recorder.records:
            groups = optimizer.param_groups
            names = ["optimizer/lr"] if len(groups) == 1 else [
                f"optimizer/lr/{i}" for i in range(len(groups))]  # fmt: skip
            self._recorder.log(dict(zip(names, (float(group["lr"]) for group in groups))))

    @_hook
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._active:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if self._loss and isinstance(loss, torch.Tensor):
            batches = trainer.accumulate_grad_batches
            if batches != 1 and pl_module.automatic_optimization:
                loss = loss * batches  # what training_step() gave: Lightning has divided it
            self._has_loss = True
            self._recorder.log({"loss": loss})
        self._look_for_checkpoints(trainer)
        if _accumulating(trainer) and not trainer.is_last_batch:
            return  # gradients of more batches are to come
        if self._step_open:
            self._step_open = False
            self._recorder.step_end(self._samples or None)

    @_hook
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._take_metrics(trainer)
            self._recorder.epoch_end()

    @_hook
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._recorder.begin("sanity_check" if trainer.sanity_checking else "validation")
            self._before = dict(trainer.callback_metrics)

    @_hook
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._recorder.end("validation")
            self._recorder.end("sanity_check")
            if not trainer.sanity_checking:
                self._take_metrics(trainer, self._before)

    @_hook
    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._recorder.begin("test")

    @_hook
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._recorder.end("test")
            self._take_metrics(trainer)

    def _take_metrics(self, trainer: Any, before: dict[str, Any] | None = None) -> None:
        """What was logged since; Lightning keeps old values, as the same objects."""
        if not self._metrics or has_lapse_logger(trainer):
            return
        known = self._taken if before is None else before
        values = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if value is not known.get(name) and not (self._has_loss and name == "loss")
        }
        self._taken.update(values)
        if values:
            self._recorder.log(values, trainer.global_step)

    # ---- what happens -----------------------------------------------------------------------

    @_hook
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if self._active and trainer.is_global_zero:
            _events.event("checkpoint", f"epoch {trainer.current_epoch}, "
                          f"step {trainer.global_step}", epoch=trainer.current_epoch,
                          step=trainer.global_step)  # fmt: skip

    def _look_for_checkpoints(self, trainer: Any) -> None:
        """The path is known after the hook only. A LapseLogger is told it by Lightning."""
        if not trainer.is_global_zero or has_lapse_logger(trainer):
            return
        for callback in trainer.checkpoint_callbacks:
            for name in ("_last_checkpoint_saved", "best_model_path", "last_model_path"):
                path = getattr(callback, name, "")
                if path and path not in self._saved and os.path.exists(path):
                    self._saved.add(path)
                    _events.artifact(path, "checkpoint")

    @_hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self._active:
            importlib.import_module("lapse._evidence").exception(exception, at="the Trainer")
            self._end(trainer)

    @_hook
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self._active:
            self._look_for_checkpoints(trainer)

    @_hook
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._active:
            self._end(trainer)

    def _end(self, trainer: Any) -> None:
        tap_of(trainer).leave(self)
        if self._phases is not None:
            self._phases.close()
        self._step_open = False
        self._recorder.close()


def _accumulating(trainer: Any) -> bool:
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    should = getattr(loop, "_should_accumulate", None)
    return bool(should()) if callable(should) else False


def _has_spans(trainer: Any) -> bool:
    """Does a LapseProfiler record the phases already?"""
    return bool(getattr(trainer.profiler, "_lapse_spans", False))
