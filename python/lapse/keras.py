# SPDX-License-Identifier: Apache-2.0
"""LapseCallback for keras.Model.fit(), evaluate() and predict(), whatever the backend."""

from __future__ import annotations

import heapq
import threading
from typing import TYPE_CHECKING, Any

from ._callback import Recorder, begin_run, folders, guard, is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    class Callback:
        params: Any
        model: Any

        def __init__(self) -> None: ...

else:
    from keras.callbacks import Callback

__all__ = ["LapseCallback"]


def _numbers(logs: Mapping[str, Any] | None, prefix: str = "") -> dict[str, float]:
    return {prefix + folders(k): float(v) for k, v in (logs or {}).items() if is_number(v)}


class LapseCallback(Callback):
    """Records steps, epochs, evaluations (span evaluate) and the logs of Keras: loss and
    metrics at each batch are Keras's running means of the epoch; epoch/NAME, val/NAME and
    learning_rate come at its end.

    Keras gives no batch size to callbacks: batch_size, if given, becomes the samples of each
    step. log_every: batches between records of the logs. Where all callbacks allow it (the
    JAX backend), Keras calls back from another thread, so that training does not wait for
    the numbers: a step then lasts until the next begins. With
    compile(steps_per_execution=N) a step is an execution of up to N batches.
    ranks as lapse.transformers."""

    async_safe = True  # on_train_batch_end() needs no Keras state

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        batch_size: int | None = None,
        log_every: int = 1,
        ranks: str = "all",
        every: int = 50,
    ) -> None:
        super().__init__()
        if log_every < 1 or (batch_size is not None and batch_size < 1):
            raise ValueError("LapseCallback(): log_every and batch_size are at least 1")
        self.project, self.name = project, name
        self.batch_size, self.log_every = batch_size, log_every
        self.recorder = Recorder(ranks, every)
        self._thread = 0
        self._fitting = False
        self._execution = 1  # batches of one
        self._base = 0  # steps before this epoch
        self._done = 0  # batches of this epoch that have ended
        self._begun: list[int] = []  # of this epoch: the first batch of each execution
        self._logged = 0  # executions of it
        self._ended: list[tuple[int, dict[str, float]]] = []  # a heap, not logged yet
        self._lock = threading.Lock()

    @guard("keras")
    def on_train_begin(self, logs: Any = None) -> None:
        self.recorder.renew()
        self._thread, self._fitting = threading.get_ident(), True
        # Here only: asking for the model copies JAX's state back.
        self._execution = int(getattr(self.model, "steps_per_execution", None) or 1)
        self._new_epoch()
        if self.recorder.records:
            begin_run(self.project, self.name, self._config())

    def _config(self) -> dict[str, Any]:
        found: dict[str, Any] = {"fit": dict(self.params or {})}
        model = self.model
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None:
            found["optimizer"] = dict(optimizer.get_config())
        if getattr(model, "built", False):
            found["model"] = {"name": model.name, "parameters": int(model.count_params())}
        return found

    @guard("keras")
    def on_train_end(self, logs: Any = None) -> None:
        self._fitting = False
        self.recorder.close()

    @guard("keras")
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.recorder.epoch_begin(int(epoch))

    def _in_epoch(self, batches: int) -> int:
        """Keras tells of the last execution as if it were a whole one, too."""
        return min(batches, int((self.params or {}).get("steps") or batches))

    def _end_of(self, first: int) -> int:
        """The batch after the execution that began with this one."""
        return max(first + 1, self._in_epoch(first + self._execution))

    def _step_end(self) -> None:
        """Of the execution that is open, if one is."""
        with self._lock:
            first = self._begun[-1] if self._begun else 0
        batches = self._end_of(first) - first
        self.recorder.step_end(self.batch_size and self.batch_size * batches)

    @guard("keras")
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._step_end()
        values = {
            name if name.startswith("val/") else f"epoch/{name}": value
            for name, value in _numbers(logs).items()
        }
        rate = getattr(getattr(self.model, "optimizer", None), "learning_rate", None)
        if rate is not None:
            values["learning_rate"] = float(rate)
        self.recorder.log(values, self._base + max(0, self._done - 1))
        self.recorder.epoch_end()
        self._base += self._done
        self._new_epoch()

    @guard("keras")
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._step_end()  # of the one before, if it is still open
        self.recorder.step_begin(self._base + int(batch))
        with self._lock:
            self._begun.append(int(batch))

    @guard("keras")
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """batch is the last one of an execution (compile(steps_per_execution=))."""
        if threading.get_ident() == self._thread:
            self._step_end()
        with self._lock:
            self._done = max(self._done, self._in_epoch(int(batch) + 1))
            heapq.heappush(self._ended, (int(batch), _numbers(logs)))
            self._log_in_order()

    def _log_in_order(self) -> None:
        """Threads of Keras may come out of order; steps that go back would be a resumption."""
        begun = self._begun
        while self._ended and self._logged < len(begun):
            last = self._ended[0][0]
            after = begun[self._logged + 1] if self._logged + 1 < len(begun) else last + 1
            first = begun[self._logged]
            if not first <= last < after:
                return  # one before it is still to come
            _, values = heapq.heappop(self._ended)
            self._logged += 1
            last = min(last, self._end_of(first) - 1)
            if last // self.log_every * self.log_every >= first:  # a multiple was passed
                self.recorder.log(values, self._base + last)

    def _new_epoch(self) -> None:
        with self._lock:
            self._done = self._logged = 0
            self._begun.clear()
            self._ended.clear()

    @guard("keras")
    def on_test_begin(self, logs: Any = None) -> None:
        self._step_end()
        self.recorder.begin("evaluate")

    @guard("keras")
    def on_test_end(self, logs: Any = None) -> None:
        """In fit() the values come with the end of the epoch."""
        self.recorder.end("evaluate")
        if not self._fitting and self.recorder.records:
            begin_run(self.project, self.name, None)
            self.recorder.log(_numbers(logs, "test/"))

    @guard("keras")
    def on_predict_begin(self, logs: Any = None) -> None:
        self.recorder.begin("predict")

    @guard("keras")
    def on_predict_end(self, logs: Any = None) -> None:
        self.recorder.end("predict")
