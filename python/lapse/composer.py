# SPDX-License-Identifier: Apache-2.0
"""LapseCallback for Composer (the package mosaicml): Trainer(loggers=[LapseCallback()]).
It is a logger and a callback in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._callback import Recorder, begin_run, guard, is_number
from ._events import attr, event

if TYPE_CHECKING:
    from collections.abc import Mapping

    class LoggerDestination:
        pass

else:
    from composer.loggers import LoggerDestination

__all__ = ["LapseCallback"]


class LapseCallback(LoggerDestination):
    """As a logger (loggers=[...]) it records all that Composer logs, under Composer's names,
    and the hyperparameters; in either place steps with the samples and tokens of all ranks
    together (Composer counts them so), epochs, and the spans data, forward, loss, backward
    and evaluate.

    ranks: "all": every rank records steps and spans; what Composer logs is recorded by
    rank 0. "zero" and "aggregate" as lapse.transformers.LapseCallback."""

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        ranks: str = "all",
        every: int = 50,
    ) -> None:
        super().__init__()
        self.project, self.name = project, name
        self.recorder = Recorder(ranks, every)
        self._step = 0
        self._samples = self._tokens = 0

    def _open(self, config: Any = None, state: Any = None) -> None:
        if self.recorder.records:
            name = self.name or getattr(state, "run_name", None)
            begin_run(self.project, name, config)

    # ---- as a logger -----------------------------------------------------

    @guard("composer")
    def log_hyperparameters(self, hyperparameters: dict[str, Any]) -> None:
        self._open(dict(hyperparameters))

    @guard("composer")
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        if self.recorder.ranks.rank == 0:
            self._open()
            values = {name: value for name, value in metrics.items() if is_number(value)}
            self.recorder.log(values, self._step if step is None else int(step))

    @guard("composer")
    def log_traces(self, traces: dict[str, Any]) -> None:
        for name, text in traces.items():
            event("text", str(text), name=name)

    # ---- as a callback ---------------------------------------------------

    @guard("composer")
    def init(self, state: Any, logger: Any) -> None:
        self._open(state=state)

    @guard("composer")
    def fit_start(self, state: Any, logger: Any) -> None:
        self.recorder.renew()
        self._open(state=state)
        stamp = state.timestamp
        self._samples, self._tokens = int(stamp.sample.value), int(stamp.token.value)
        length = getattr(state, "dataloader_len", None)
        duration = state.max_duration
        if duration is not None and self.recorder.records:
            unit = getattr(duration.unit, "name", "")
            steps = {"BATCH": 1, "EPOCH": int(length) if length is not None else 0}.get(unit, 0)
            if steps:
                attr("total_steps", int(duration.value) * steps)

    @guard("composer")
    def epoch_start(self, state: Any, logger: Any) -> None:
        self.recorder.epoch_begin(int(state.timestamp.epoch.value))

    @guard("composer")
    def epoch_end(self, state: Any, logger: Any) -> None:
        self.recorder.epoch_end()

    @guard("composer")
    def before_dataloader(self, state: Any, logger: Any) -> None:
        self.recorder.begin("data")

    @guard("composer")
    def after_dataloader(self, state: Any, logger: Any) -> None:
        self.recorder.end("data")

    @guard("composer")
    def batch_start(self, state: Any, logger: Any) -> None:
        self.recorder.end("data")
        self._step = int(state.timestamp.batch.value)
        self.recorder.step_begin(self._step)

    @guard("composer")
    def batch_end(self, state: Any, logger: Any) -> None:
        stamp = state.timestamp  # counts the batch that ends here
        samples, tokens = int(stamp.sample.value), int(stamp.token.value)
        mine = self.recorder.ranks.rank == 0  # of all ranks: once
        self.recorder.step_end(
            samples - self._samples if mine else None,
            (tokens - self._tokens) or None if mine else None,
        )
        self._samples, self._tokens = samples, tokens

    @guard("composer")
    def before_forward(self, state: Any, logger: Any) -> None:
        self.recorder.begin("forward")

    @guard("composer")
    def after_forward(self, state: Any, logger: Any) -> None:
        self.recorder.end("forward")

    @guard("composer")
    def before_loss(self, state: Any, logger: Any) -> None:
        self.recorder.begin("loss")

    @guard("composer")
    def after_loss(self, state: Any, logger: Any) -> None:
        self.recorder.end("loss")

    @guard("composer")
    def before_backward(self, state: Any, logger: Any) -> None:
        self.recorder.begin("backward")

    @guard("composer")
    def after_backward(self, state: Any, logger: Any) -> None:
        self.recorder.end("backward")

    @guard("composer")
    def eval_start(self, state: Any, logger: Any) -> None:
        self.recorder.begin("evaluate")

    @guard("composer")
    def eval_end(self, state: Any, logger: Any) -> None:
        self.recorder.end("evaluate")

    @guard("composer")
    def fit_end(self, state: Any, logger: Any) -> None:
        self.recorder.end("data")  # the request for a batch that did not come
        self.recorder.close()
