# SPDX-License-Identifier: Apache-2.0
"""Helpers for training loops in JAX and Flax, which have no callbacks: StepLoop counts
and times steps, MetricWriter has the methods of clu.metric_writers. JAX computes while
Python goes on: neither waits for the values of the step that has just been dispatched."""

from __future__ import annotations

import importlib
import os
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _core, _ends
from ._callback import is_number
from ._events import attr, event
from ._run import current, init
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MetricWriter", "StepLoop"]

LAG = 2  # steps that may be on their way
REMIND = 20  # steps without ready() before it is asked for


class _Late:
    """Values that the device has not made yet; recorded when they are there, with the step
    and time that they belong to."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int | None, int, dict[str, Any]]] = deque()

    def put(self, values: Mapping[str, Any], step: int | None) -> None:
        kept = {name: value for name, value in values.items() if is_number(value)}
        if kept:
            _ends.at_end(_settle)
            _on_their_way.add(self)
            self._waiting.append((step, _core.now(), kept))
        self.poll()

    def poll(self) -> int:
        """Record what is there; how many frames."""
        done = 0
        while self._waiting:
            step, time_ns, values = self._waiting[0]
            try:
                if not _ready(values):
                    return done
                _core.log(values, step, time_ns)
            except Exception as error:  # what computes them has failed, or they were donated
                tell_once("jax", f"values are lost: {type(error).__name__}: {error}")
            self._waiting.popleft()
            done += 1
        _on_their_way.discard(self)
        return done

    def wait(self) -> None:
        """Record all, unless the device is stuck or an exception is handled."""
        if _ends.failing():
            self.poll()
        else:
            _ends.drain(self.poll, lambda: bool(self._waiting))

    def lose(self) -> int:
        """Forget what is on its way; how many frames."""
        lost = len(self._waiting)
        self._waiting.clear()
        _on_their_way.discard(self)
        return lost


_on_their_way: set[_Late] = set()


def _poll() -> int:
    return sum(late.poll() for late in list(_on_their_way))


def _settle(wait: bool) -> None:
    """The run ends: what is not there by now is lost."""
    _poll()
    if wait:
        _ends.drain(_poll, lambda: bool(_on_their_way))
    lost = sum(late.lose() for late in list(_on_their_way))
    if lost:
        tell_once("jax", f"the values of {lost} calls of log() had not arrived from the device "
                  "when the run ended; they are lost")  # fmt: skip


def _after_fork() -> None:
    """What is on its way is the parent's."""
    for late in list(_on_their_way):
        late.lose()


os.register_at_fork(after_in_child=_after_fork)


def _ready(tree: Any) -> bool:
    leaves = importlib.import_module("jax").tree_util.tree_leaves(tree)
    return all(leaf.is_ready() for leaf in leaves if hasattr(leaf, "is_ready"))


class StepLoop:
    """Iterate over the numbers of the steps, and each is recorded as a step:

        loop = lapse.jax.StepLoop(1000, samples=64)
        for step in loop:
            state, loss = train_step(state, next(batches))
            loop.ready(loss)            # what this step made
            loop.log({"loss": loss})    # not waited for

    JAX returns before the device has computed, so the time of a step by itself is that of
    its dispatch. ready(outputs) makes it true: at the beginning of each step the loop waits
    (jax.block_until_ready) for the outputs of the step `lag` before it. So at most `lag`
    steps are on their way, the device stays busy, and the time between steps is the
    device's. lag=0 waits at the end of each step: exact for each, slower. Without ready()
    a RuntimeWarning reminds of it once.

    first: number of the first step; samples, tokens: of each step, for the rates."""

    def __init__(
        self,
        total: int,
        first: int = 0,
        samples: float | None = None,
        tokens: float | None = None,
        lag: int = LAG,
    ) -> None:
        if total < 0 or lag < 0:
            raise ValueError("StepLoop(): total and lag are at least 0")
        self.total, self.first, self.lag = total, first, lag
        self.samples, self.tokens = samples, tokens
        self._late = _Late()
        self._outputs: deque[tuple[int, Any]] = deque()
        self._said_ready = False
        self._step = first

    def __len__(self) -> int:
        return max(0, self.total - self.first)

    def __iter__(self) -> Iterator[int]:
        run = current()
        if run is None or not run.recording:
            init()
        attr("total_steps", self.total)
        try:
            for step in range(self.first, self.total):
                self._wait(step - self.lag)
                self._step = step
                _core.step_begin(step)
                yield step
                if self.lag == 0:
                    self._wait(step)
                _core.step_end(self.samples, self.tokens)
                self._remind(step)
            self._wait(self.total)
            self.flush()
        finally:
            # After `break` or an exception, which look alike from here: what is not there
            # yet is waited for, or not, when the run ends.
            self._outputs.clear()
            self._late.poll()

    def ready(self, outputs: Any) -> None:
        """These arrays (or trees of them) are what the current step computes."""
        self._said_ready = True
        self._outputs.append((self._step, outputs))

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record values, arrays among them when the device has made them."""
        self._late.put(values, self._step if step is None else step)

    def flush(self) -> None:
        """Wait for the values of log() that are on their way: until none has come for 2 s, at
        most 10 s, and not while an exception is handled."""
        self._late.wait()

    def _wait(self, last: int) -> None:
        """For the outputs of the steps up to this one."""
        while self._outputs and self._outputs[0][0] <= last:
            importlib.import_module("jax").block_until_ready(self._outputs.popleft()[1])

    def _remind(self, step: int) -> None:
        if self._said_ready or step - self.first + 1 != REMIND:
            return
        text = (
            "JAX computes asynchronously: without StepLoop.ready(outputs), or "
            "jax.block_until_ready(outputs) in the loop, the times of the steps are those of "
            "their dispatch"
        )
        tell_once("jax", text)
        warnings.warn(f"lapse.jax: {text}", RuntimeWarning, stacklevel=3)


class MetricWriter:
    """Has the methods of clu.metric_writers.MetricWriter, so that it can stand where one
    does. Scalars become series (arrays on the device are recorded when they are made),
    hyperparameters attributes config/NAME, texts events, histograms histograms of at most
    `histogram_max` elements, evenly picked. Images, audio, video and point clouds are not
    kept, which is said once."""

    def __init__(self, histogram_max: int = 4096) -> None:
        if histogram_max < 1:
            raise ValueError("MetricWriter(): histogram_max is at least 1")
        self.histogram_max = histogram_max
        self._late = _Late()
        run = current()
        if run is None or not run.recording:
            init()

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        self._late.put(scalars, int(step))

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        init(config=dict(hparams))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            event("text", str(text), name=name, step=int(step))

    def write_histograms(
        self,
        step: int,
        arrays: Mapping[str, Any],
        num_buckets: Mapping[str, int] | None = None,
    ) -> None:
        """The buckets are lapse's own: num_buckets has no meaning here."""
        numpy = importlib.import_module("numpy")
        for name, array in arrays.items():
            flat = numpy.asarray(array, dtype=numpy.float64).reshape(-1)
            if flat.size > self.histogram_max:
                flat = flat[:: -(-flat.size // self.histogram_max)]
            metric = _core.metric(name, kind="histogram")
            metric.observe_bins(flat.tolist(), [1] * flat.size, int(step))

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        self._not_kept("images")

    def write_audios(self, step: int, audios: Mapping[str, Any], *, sample_rate: int) -> None:
        self._not_kept("audio")

    def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
        self._not_kept("videos")

    def write_pointcloud(self, step: int, point_clouds: Mapping[str, Any], **more: Any) -> None:
        self._not_kept("point clouds")

    def write_summaries(self, step: int, values: Mapping[str, Any], metadata: Any = None) -> None:
        self._not_kept("summaries of other plugins")

    def _not_kept(self, what: str) -> None:
        tell_once("jax", f"MetricWriter keeps no {what}", warning=False)

    def flush(self) -> None:
        """Wait for the scalars that are on their way, as StepLoop.flush() does. At the end
        of the run it is done by itself."""
        self._late.wait()

    def close(self) -> None:
        self.flush()
