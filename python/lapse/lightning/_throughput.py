# SPDX-License-Identifier: Apache-2.0
"""ThroughputMonitorCallback: how fast Lightning trains, and what its data cost."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from .. import _callback, _events, _machine
from .._callback import guard
from .._console import style_of
from ..torch import CacheMemory, DatasetMemory, Throughput, Times
from ._common import batch_size, is_second, ratio, say, send
from ._tap import tap_of

_hook = guard("lightning")
_MIB, _GIB = float(1 << 20), float(1 << 30)
_INTERVAL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(epochs?|batch(?:es)?|s|seconds?|m|min|minutes?)?\s*")
_FETCH = "train_dataloader_next"
EFFICIENCY = {
    "data": "of the rate without waiting for data",
    "ideal": "of theoretical_samples_per_second",
}


def interval(value: Any) -> tuple[str, float]:
    """("epochs" | "batches" | "seconds", how many) of 1, "100 batches", "30s". ValueError."""
    found = _INTERVAL.fullmatch(str(value)) if not isinstance(value, bool) else None
    number = float(found[1]) if found else 0.0
    if found is None or number <= 0:
        raise ValueError('log_interval is a number of epochs from 1 on, or "100 batches", '
                         f'"30s": not {value!r}')  # fmt: skip
    unit = found[2] or "epochs"
    if unit.startswith("m"):
        return "seconds", 60 * number
    if unit.startswith("s"):
        return "seconds", number
    if number != int(number):
        raise ValueError(f"log_interval is a whole number of {unit}, not {value!r}")
    return ("batches" if unit.startswith("b") else "epochs"), number


class ThroughputMonitorCallback:
    """Rates, waiting for data, time in transforms and memory of each epoch:

        Trainer(callbacks=[lapse.lightning.ThroughputMonitorCallback()])

    enabled=False: it does nothing, as the second of two in one Trainer. log_interval:
    epochs between reports, or "100 batches", "30s". track_memory: memory of the processes,
    the data set and registered caches. track_timing: time to load and to transform a batch.

    Each report goes to the console and the Trainer's loggers (rank 0), and into lapse's run
    (all ranks): samples_per_second, batches_per_second (training alone) and
    samples_per_second_with_validation, throughput_efficiency (`efficiency` says of what),
    throughput_efficiency_best (of the best window of this run), data_wait_ratio,
    batch_load_time_ms_avg, _p50, _p95, _p99 (waiting in the loader's next()),
    batch_transform_time_ms_*, memory_peak_mb, memory_dataset_mb, memory_cache_mb (MiB).

    theoretical_samples_per_second: what throughput_efficiency is measured against; None:
    the rate without waiting for data. warmup: batches that count nowhere. caches: {name:
    cache, or function that gives bytes}. low_throughput: fewer samples a second give an
    advice. console_style: "lapse", "classic" (the guide's lines), "none"; None:
    LAPSE_CONSOLE_STYLE, else "lapse"."""

    def __init__(
        self,
        enabled: bool = True,
        log_interval: int | str = 1,
        track_memory: bool = True,
        track_timing: bool = True,
        *,
        theoretical_samples_per_second: float | None = None,
        warmup: int = 0,
        caches: dict[str, Any] | None = None,
        low_throughput: float = 30.0,
        console_style: str | None = None,
    ) -> None:
        super().__init__()
        self.enabled = bool(enabled)
        self.log_interval = log_interval
        self.track_memory, self.track_timing = track_memory, track_timing
        self._unit, self._every = interval(log_interval)
        self._style = style_of(console_style)
        self._ideal = theoretical_samples_per_second
        self.efficiency = EFFICIENCY["ideal" if self._ideal else "data"]
        self._warmup = warmup
        self._low = low_throughput
        self.caches = CacheMemory()
        for name, cache in (caches or {}).items():
            self.caches.register(name, cache)
        self._active = False
        self._rates: Throughput | None = None
        self._times: Times | None = None  # of the batches since the last report
        self._mark: Any = None
        self._pause: Any = None
        self._waiting: Any = None
        self._dataset: DatasetMemory | None = None
        self._machine: Any = None
        self._since = 0.0
        self._said: set[str] = set()
        self.last: dict[str, float] = {}  #: the last report

    # ---- fit ------------------------------------------------------------------------------

    @_hook
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self._rates = None
        self._active = self.enabled and not is_second(trainer, self, ThroughputMonitorCallback)
        if not self._active:
            return
        ranks = (trainer.global_rank, trainer.local_rank, trainer.world_size)
        _callback.begin_run(None, None, None, ranks)
        tap = tap_of(trainer)
        if self.track_timing:
            tap.watch(self)
        tap.listen(self, self._fetch_begins, self._fetch_ends)
        if self.track_memory:
            self._machine = _machine.share()

    def _fetch_begins(self, action: str) -> None:
        """Of loaders that are not watched, the wait is what fetching takes."""
        if action.endswith(_FETCH) and self._rates is not None and not self._rates._loaders:
            self._waiting = self._rates.waiting()
            self._waiting.__enter__()

    def _fetch_ends(self, action: str) -> None:
        if action.endswith(_FETCH) and self._waiting is not None:
            self._waiting.__exit__(None, None, None)
            self._waiting = None

    @_hook
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not self._active:
            return
        self._rates = Throughput(
            warmup=self._warmup, window=10, every=1, loader=list(tap_of(trainer).loaders),
            ideal=self._ideal, world_size=trainer.world_size,
        )  # fmt: skip
        self._mark = self._rates.mark()
        self._since = time.monotonic()
        self._count_in(trainer, Times())

    def _count_in(self, trainer: Any, times: Times | None) -> Times | None:
        """The loaders count in these from here on; those that they have counted in."""
        before, self._times = self._times, times
        for loader in tap_of(trainer).loaders:
            more = loader._watch.more
            more[:] = [one for one in more if one is not before]
            if times is not None:
                more.append(times)
        return before

    @_hook
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._rates is not None:
            self._count_in(trainer, self._times)  # there may be other loaders
            self._rates.begin()

    @_hook
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._rates is None:
            return
        self._rates.step(samples=batch_size(batch) or 0)
        if self._rates._steps <= self._warmup:
            self._count_in(trainer, Times())
        if self._unit == "batches":
            due = self._rates.total.batches - self._mark.batches >= self._every
        elif self._unit == "seconds":
            due = time.monotonic() - self._since >= self._every
        else:
            due = False
        if due:
            self._report(trainer)

    @_hook
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self._rates is not None and not trainer.sanity_checking:
            self._pause = self._rates.validation()
            self._pause.__enter__()

    @_hook
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._pause is not None:
            self._pause.__exit__(None, None, None)
            self._pause = None

    @_hook
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._rates is None:
            return
        # Validation after the last batch is told with the next step, which is another epoch's.
        self._rates.total.validation += self._rates._paused / 1e9
        self._rates._paused = 0
        if self._unit == "epochs" and (trainer.current_epoch + 1) % int(self._every) == 0:
            self._report(trainer)

    @_hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end(trainer)

    @_hook
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._end(trainer)

    def _end(self, trainer: Any) -> None:
        if not self._active:
            return
        self._count_in(trainer, None)
        tap_of(trainer).leave(self)
        if self._machine is not None:
            self._machine = None
            _machine.give_back()

    # ---- report ---------------------------------------------------------------------------

    def _report(self, trainer: Any) -> None:
        assert self._rates is not None
        done = self._rates.total - self._mark
        self._mark, self._since = self._rates.mark(), time.monotonic()
        if not done.seconds:
            return
        values: dict[str, float | None] = {
            "samples_per_second": done.samples_per_second(),
            "samples_per_second_with_validation": done.samples_per_second(validation=True),
            "batches_per_second": done.batches_per_second(),
            "data_wait_ratio": done.waited / done.seconds,
            "throughput_efficiency_best": self._rates.efficiency("best"),
        }
        rate = values["samples_per_second"]
        values["throughput_efficiency"] = done.data_efficiency
        if self._ideal and rate is not None:
            values["throughput_efficiency"] = rate / self._ideal
        if self.track_timing:
            values.update(self._timing(trainer))
        if self.track_memory:
            values.update(self._memory(trainer))
        self.last = {
            name: float(value)
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        }
        send(trainer, self.last)
        if self._style != "none":
            lines = self._classic(trainer) if self._style == "classic" else self._lines(trainer)
            say(trainer, *lines)
        self._advise(trainer)

    def _timing(self, trainer: Any) -> dict[str, float]:
        """Of the batches since the last report, over all loaders: milliseconds."""
        times = self._count_in(trainer, Times())
        values: dict[str, float] = {}
        if times is None:
            return values
        for name, of in (("batch_load_time_ms", times.wait),
                         ("batch_transform_time_ms", times.transform),
                         ("batch_make_time_ms", times.load)):  # fmt: skip
            if of:
                values[f"{name}_avg"] = 1e3 * of.mean
                for q in (50, 95, 99):
                    values[f"{name}_p{q}"] = 1e3 * of.quantile(q / 100)
        return values

    def _memory(self, trainer: Any) -> dict[str, float | None]:
        peak = _peak_bytes()
        if self._machine is not None:
            tree = self._machine.get("memory_tree_mb")
            peak = max(peak, (tree or 0.0) * _MIB)
        values: dict[str, float | None] = {"memory_peak_mb": peak / _MIB if peak else None}
        loaders = tap_of(trainer).loaders
        dataset = getattr(loaders[0], "dataset", None) if loaders else None
        if self._dataset is None and dataset is not None:
            self._dataset = DatasetMemory(dataset)
        elif self._dataset is not None:
            self._dataset.update()
        if self._dataset is not None and not self._dataset.reason:
            values["memory_dataset_mb"] = self._dataset.bytes / _MIB
        if self.caches._caches:
            values["memory_cache_mb"] = self.caches.update() / _MIB
        return values

    def _classic(self, trainer: Any) -> list[str]:
        get = self.last.get
        head = (f"ThroughputMonitor: Epoch {trainer.current_epoch} - "
                f"samples/sec: {get('samples_per_second', 0.0):.1f}")  # fmt: skip
        if "memory_peak_mb" in self.last:
            head += f", memory_peak: {self.last['memory_peak_mb'] * _MIB / _GIB:.1f}GB"
        lines = [head]
        if "batch_load_time_ms_p95" in self.last:
            line = (f"ThroughputMonitor: Batch timing - "
                    f"load: {self.last['batch_load_time_ms_p95']:.0f}ms (p95)")  # fmt: skip
            if "batch_transform_time_ms_p95" in self.last:
                line += f", transform: {self.last['batch_transform_time_ms_p95']:.0f}ms (p95)"
            lines.append(line)
        return lines

    def _lines(self, trainer: Any) -> list[str]:
        get = self.last.get
        parts = [f"{get('samples_per_second', 0.0):.1f} samples/s"]
        parts.append(f"{ratio(get('throughput_efficiency', 0.0))} {self.efficiency}")
        if "batch_load_time_ms_p50" in self.last:
            parts.append(f"waits for a batch p50 {self.last['batch_load_time_ms_p50']:.1f} ms, "
                         f"p95 {self.last['batch_load_time_ms_p95']:.1f} ms")  # fmt: skip
        if "batch_transform_time_ms_p95" in self.last:
            parts.append(f"transforms p95 {self.last['batch_transform_time_ms_p95']:.1f} ms")
        if "memory_peak_mb" in self.last:
            parts.append(f"memory peak {self.last['memory_peak_mb'] * _MIB / _GIB:.2f} GiB")
        return [f"lapse: epoch {trainer.current_epoch}: " + "; ".join(parts)]

    def _advise(self, trainer: Any) -> None:
        """The guide's three readings, each once."""
        get = self.last.get
        rate = get("samples_per_second", math.inf)
        if rate < self._low:
            self._advice(trainer, "throughput.low", f"{rate:.1f} samples/s, below {self._low:g}: "
                         f"waiting for data takes {ratio(get('data_wait_ratio', 0.0))}; "
                         "check the data loader")  # fmt: skip
        p50, p99 = get("batch_load_time_ms_p50", 0.0), get("batch_load_time_ms_p99", 0.0)
        if p50 > 1 and p99 > 2 * p50:
            self._advice(trainer, "batch.uneven", f"batch times are uneven: p99 {p99:.1f} ms is "
                         f"more than twice p50 {p50:.1f} ms; look at augmentation")  # fmt: skip
        total = self._machine.get("memory_total_mb") if self._machine is not None else None
        if total and get("memory_peak_mb", 0.0) > 0.9 * total:
            self._advice(trainer, "memory.high", "memory peak is more than 90 % of the machine's: "
                         "preprocess less at once")  # fmt: skip

    def _advice(self, trainer: Any, rule: str, text: str) -> None:
        if rule in self._said:
            return
        self._said.add(rule)
        _events.event("advice", text, "info", rule=rule)
        if self._style == "lapse":
            say(trainer, f"lapse: {text}")


def _peak_bytes() -> float:
    """Most resident memory that this process ever had."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return float(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return 0.0
