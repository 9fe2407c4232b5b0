# SPDX-License-Identifier: Apache-2.0
"""What NeMo RL's programs call themselves: a logger, a timer, and the performance metrics of
a step."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

from ... import _callback, _config, _core, _events, _run
from ..._tell import tell_once
from ._common import hook, leaves, log, open_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

OBSERVATIONS = 32768  # that one record of a histogram may hold


class LoggerInterface:
    """A logger backend that records into lapse's run: give it to NeMo RL's Logger, or call it.

    log_dir: where figures are written, below `plots/`. What cannot be logged is said once."""

    def __init__(self, log_dir: str | os.PathLike[str] = "logs") -> None:
        open_run()
        self.log_dir = os.fspath(log_dir)
        self._histograms: dict[str, _core.Metric] = {}

    @hook
    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: int,
        prefix: str | None = "",
        step_metric: str | None = None,
        step_finished: bool = False,
    ) -> None:
        """Numbers under PREFIX/NAME at `step`. With step_metric, one of the metrics, that is
        their step instead (its whole part), and has no prefix. Tensors on a device are not
        waited for. Texts are attributes. step_finished has no effect: nothing is held back
        until a step ends, and a smaller step is not dropped."""
        at = step
        if step_metric and step_metric in metrics:
            at = int(float(metrics[step_metric]))
        values: dict[str, Any] = {}
        for name, value in leaves(metrics):
            full = f"{prefix}/{name}" if prefix and name != step_metric else name
            if isinstance(value, str):
                _events.attr(full, value)
            elif value is not None and not _callback.is_number(value):
                tell_once("nemo", f"{full} is no number and not logged: {type(value).__name__}",
                          False)  # fmt: skip
            else:
                values[full] = value
        log(values, int(at))

    @hook
    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        """As attributes config/PATH; secrets are replaced."""
        mapping = _config.as_mapping(params)
        if mapping is None:
            raise TypeError(f"params must be a dict, not {type(params).__name__}")
        _run.init(config=mapping)

    @hook
    def log_histogram(self, histogram: Iterable[Any], step: int, name: str) -> None:
        """All values as one histogram at `step`; NaN and infinite ones are left out."""
        metric = self._histograms.get(name)
        if metric is None:
            metric = self._histograms[name] = _core.metric(name, "", "histogram")
        numbers = [float(value) for value in histogram]
        finite = [number for number in numbers if number - number == 0]
        for begin in range(0, len(finite), OBSERVATIONS):
            part = finite[begin : begin + OBSERVATIONS]
            metric.observe_bins(part, [1] * len(part), int(step))

    @hook
    def log_plot(self, figure: Any, step: int, name: str) -> None:
        """A figure of matplotlib (anything with savefig(path)) as log_dir/plots/NAME_STEP.png,
        an artifact of the run."""
        folder = os.path.join(self.log_dir, "plots")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, re.sub(r"[^\w.-]", "_", f"{name}_{int(step)}") + ".png")
        figure.savefig(path)
        _events.artifact(path, "plot", name)


_REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "std": statistics.pstdev,
    "sum": sum,
    "count": len,
}


class Timer:
    """Times by label: start() and stop(), `with time(label)`, record() of what was measured
    elsewhere; mark() notes a moment. Each time is also in the run, as a span (of record() as
    histogram) PREFIX/LABEL, each mark as event `mark`. Labels may run in several threads.

    prefix: "timing/train", "timing/setup", "timing/validation", ... context: what the marks
    say of themselves."""

    def __init__(
        self, context: dict[str, object] | None = None, prefix: str = "timing/train"
    ) -> None:
        self.prefix = prefix.rstrip("/")
        self._context = dict(context or {})
        self._times: dict[str, list[float]] = {}
        self._open: dict[str, tuple[float, Any, bytes]] = {}
        self._marks: dict[str, list[tuple[float, dict[str, Any] | None]]] = {}
        self._lock = threading.RLock()

    def start(self, label: str) -> None:
        """ValueError: it runs already."""
        with self._lock:
            if label in self._open:
                raise ValueError(f"Timer '{label}' is already running")
            span = _core.span(self._name(label))
            self._open[label] = (time.perf_counter(), span, span.begin())

    def stop(self, label: str) -> float:
        """Seconds. ValueError: it does not run."""
        now = time.perf_counter()
        with self._lock:
            if label not in self._open:
                raise ValueError(f"Timer '{label}' is not running; running: {list(self._open)}")
            began, span, token = self._open.pop(label)
            span.end(token)
            self._times.setdefault(label, []).append(now - began)
        return now - began

    @contextlib.contextmanager
    def time(self, label: str) -> Iterator[None]:
        """A block, also one that raises."""
        self.start(label)
        try:
            yield
        finally:
            self.stop(label)

    def record(self, label: str, elapsed: float) -> None:
        """A time in seconds that was measured elsewhere."""
        with self._lock:
            self._times.setdefault(label, []).append(float(elapsed))
        _core.metric(self._name(label), "s", "histogram").observe(elapsed)

    def mark(self, label: str, metadata: dict[str, Any] | None = None) -> float:
        """Note this moment: seconds since 1970."""
        now = time.time()
        with self._lock:
            self._marks.setdefault(label, []).append((now, metadata))
        attrs = {str(key): value for key, value in {**self._context, **(metadata or {})}.items()
                 if key not in ("kind", "text", "severity")}  # fmt: skip
        _events.event("mark", label, **attrs)
        return now

    def get_markers(
        self, label: str | None = None
    ) -> dict[str, list[tuple[float, dict[str, Any] | None]]]:
        """[(seconds since 1970, metadata)] by label, or of one."""
        with self._lock:
            if label is not None:
                return {label: list(self._marks.get(label, ()))}
            return {name: list(marks) for name, marks in self._marks.items()}

    def get_elapsed(self, label: str) -> list[float]:
        """All times of a label. KeyError: there are none."""
        with self._lock:
            if label not in self._times:
                raise KeyError(f"No timings recorded for '{label}'")
            return list(self._times[label])

    def get_latest_elapsed(self, label: str) -> float:
        return self.get_elapsed(label)[-1]

    def reduce(self, label: str, operation: str = "mean") -> float:
        """mean, median, min, max, std (of the population), sum or count. KeyError, ValueError."""
        function = _REDUCTIONS.get(operation)
        if function is None:
            raise ValueError(f"Invalid operation '{operation}': it is one of "
                             f"{', '.join(_REDUCTIONS)}")  # fmt: skip
        return function(self.get_elapsed(label))

    def get_timing_metrics(
        self, reduction_op: str | Mapping[str, str] = "mean"
    ) -> dict[str, float | list[float]]:
        """Each label reduced; with a dict, {label: operation}, the others are lists."""
        with self._lock:
            labels = list(self._times)
        found: dict[str, float | list[float]] = {}
        for label in labels:
            operation = (reduction_op if isinstance(reduction_op, str)
                         else reduction_op.get(label))  # fmt: skip
            found[label] = (self.get_elapsed(label) if operation is None
                            else self.reduce(label, operation))  # fmt: skip
        return found

    def reset(self, label: str | None = None) -> None:
        """Forget a label, or all; what was recorded stays in the run."""
        with self._lock:
            for of in (self._times, self._marks):
                if label is None:
                    of.clear()
                else:
                    of.pop(label, None)
            for name in list(self._open) if label is None else [label]:
                if name in self._open:
                    _, span, token = self._open.pop(name)
                    span.end(token)

    def _name(self, label: str) -> str:
        return f"{self.prefix}/{label}" if self.prefix else label


def _rate(n: float | None, seconds: float) -> float | None:
    return n / seconds if n is not None and seconds > 0 else None


def performance_metrics(
    timing: Mapping[str, float],
    *,
    samples: float | None = None,
    tokens: float | None = None,
    valid_tokens: float | None = None,
    training_gpus: int = 1,
    generation_gpus: int | None = None,
    train_flops: float | None = None,
    peak_flops: float | None = None,
    step: int | None = None,
) -> dict[str, float]:
    """The metrics `performance/…` of a step of reinforcement learning; recorded too, at `step`.

    timing: seconds, of which these are used: total_step_time, policy_training,
    policy_and_reference_logprobs, generation, exposed_generation (training waited for it),
    "prepare_for_generation/total". samples, tokens, valid_tokens (without padding) and
    train_flops are of the step and all GPUs; peak_flops of one GPU. generation_gpus: None:
    the same GPUs train and generate. Each rate is there of all and of a GPU (…_per_gpu). What
    cannot be said is absent.

    training_worker_idle_time_ratio is exposed_generation over training, log-probabilities,
    preparing and itself, however long that is."""
    training = timing.get("policy_training", 0.0)
    whole = timing.get("total_step_time", 0.0)
    generators = training_gpus if generation_gpus is None else generation_gpus
    gpus = training_gpus + (generation_gpus or 0)
    exposed = timing.get("exposed_generation")
    logprobs = timing.get("policy_and_reference_logprobs", 0.0)
    # Generation that runs beside training has had that time too.
    generation = timing.get("generation", 0.0)
    if not generation and exposed is not None:
        generation = exposed + logprobs + training
    rates = {
        "samples_per_sec": (_rate(samples, whole), gpus),
        "tokens_per_sec": (_rate(tokens, whole), gpus),
        "policy_training_tokens_per_sec": (_rate(tokens, training), training_gpus),
        "generation_tokens_per_sec": (_rate(tokens, generation), generators),
        "train_flops": (_rate(train_flops, training), training_gpus),
    }
    found: dict[str, float] = {}
    for name, (rate, over) in rates.items():
        if rate is not None:
            found[f"performance/{name}"] = rate
            if over > 0:
                found[f"performance/{name}_per_gpu"] = rate / over
    flops = found.get("performance/train_flops_per_gpu")
    if flops is not None and peak_flops:
        found["performance/train_fp_utilization"] = flops / peak_flops
    if exposed is not None:
        busy = training + logprobs + timing.get("prepare_for_generation/total", 0.0) + exposed
        if busy > 0:
            found["performance/training_worker_idle_time_ratio"] = exposed / busy
    valid = _rate(valid_tokens, training)
    if valid is not None and training_gpus > 0:
        found["timing/train/valid_tokens_per_sec"] = valid
        found["timing/train/valid_tokens_per_sec_per_gpu"] = valid / training_gpus
    log(found, step)
    return found
