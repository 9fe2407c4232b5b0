# SPDX-License-Identifier: Apache-2.0
"""How fast, how large and how exact a model is at inference, and two models compared."""

from __future__ import annotations

import json
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

import torch

from .. import _core, _events
from ._sizes import serialised_size, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MB = 1 << 20


def quantile(ordered: list[float], q: float) -> float:
    """Between the two nearest of ascending values, as numpy's default."""
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass
class Times:
    """Of all runs, in seconds; std is of the population."""

    mean: float
    median: float
    p95: float
    p99: float
    min: float
    max: float
    std: float

    @staticmethod
    def of(seconds: list[float]) -> Times:
        ordered = sorted(seconds)
        mean = sum(ordered) / len(ordered)
        variance = sum((s - mean) ** 2 for s in ordered) / len(ordered)
        mid, p95, p99 = (quantile(ordered, q) for q in (0.5, 0.95, 0.99))
        return Times(mean, mid, p95, p99, ordered[0], ordered[-1], math.sqrt(variance))


@dataclass
class Benchmark:
    """What benchmark() found. Seconds and bytes; None: not known.

    latency: from the call until the result is there. host: until the call returns, which on
    a device is before the result is there. device: between two events around the call on
    the device's stream. peak_memory: most memory of tensors on the device during the runs,
    the model's included; on the CPU the process's peak so far (`peak_of` says which)."""

    name: str
    device: str
    runs: int
    warmup: int
    batch_size: int | None
    sequence_length: int | None
    latency: Times
    host: Times
    device_time: Times | None
    samples_per_second: float | None
    tokens_per_second: float | None
    size: dict[str, int]  # bytes by type of element, parameters and buffers
    serialised: int | None  # bytes of the state as torch.save() writes it
    peak_memory: int | None
    peak_of: str
    latencies: list[float] = field(repr=False, default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(self.size.values())

    def metrics(self) -> dict[str, float | int | None]:
        """Under the names of the source document; MB are MiB there, as here."""
        times = {
            f"{key}_latency_ms": getattr(self.latency, name) * 1e3
            for key, name in (
                ("avg", "mean"), ("median", "median"), ("p95", "p95"), ("p99", "p99"),
                ("min", "min"), ("max", "max"),
            )
        }  # fmt: skip
        return {
            **times,
            "latency_std_ms": self.latency.std * 1e3,
            "samples_per_second": self.samples_per_second,
            "tokens_per_second": self.tokens_per_second,
            "model_size_mb": self.size_bytes / MB,
            "model_memory_mb": self.size_bytes / MB,
            "peak_memory_mb": None if self.peak_memory is None else self.peak_memory / MB,
            "batch_size": self.batch_size,
            "sequence_length": self.sequence_length,
        }

    def against(self, base: Benchmark) -> dict[str, float | None]:
        """What became of `base`, say by quantisation: size_ratio (bytes of it over bytes of
        this: 4 for a quarter), quantization_ratio (percent saved), latency_ratio (its mean
        latency over this one's: 2 is twice as fast), throughput_ratio, and compression_ratio,
        the size ratio of what torch.save() writes."""
        size = self.size_bytes
        rates = self.samples_per_second, base.samples_per_second
        files = self.serialised, base.serialised
        return {
            "size_ratio": base.size_bytes / size if size else None,
            "quantization_ratio": 100 * (1 - size / base.size_bytes) if base.size_bytes else None,
            "latency_ratio": base.latency.mean / self.latency.mean,
            "throughput_ratio": rates[0] / rates[1] if rates[0] and rates[1] else None,
            "compression_ratio": files[1] / files[0] if files[0] and files[1] else None,
        }

    def report(self) -> str:
        """Some lines for people."""
        t = self.latency
        lines = [
            f"{self.name} on {self.device}: {self.runs} runs after {self.warmup} to warm up",
            f"latency {t.mean * 1e3:.3f} ms (median {t.median * 1e3:.3f}, p95 {t.p95 * 1e3:.3f}, "
            f"p99 {t.p99 * 1e3:.3f}, min {t.min * 1e3:.3f}, max {t.max * 1e3:.3f}, "
            f"std {t.std * 1e3:.3f})",
        ]
        if self.device_time is not None:
            lines.append(
                f"host {self.host.mean * 1e3:.3f} ms, device {self.device_time.mean * 1e3:.3f} ms"
            )
        if self.samples_per_second is not None:
            rate = f"{self.samples_per_second:.1f} samples/s"
            if self.tokens_per_second is not None:
                rate += f", {self.tokens_per_second:.0f} tokens/s"
            lines.append(rate)
        by_type = ", ".join(f"{kind} {n / MB:.2f}" for kind, n in self.size.items())
        lines.append(f"size {self.size_bytes / MB:.2f} MiB ({by_type})")
        if self.peak_memory is not None:
            lines.append(f"peak memory of the {self.peak_of} {self.peak_memory / MB:.1f} MiB")
        return "\n".join(lines)


# ---- running it -------------------------------------------------------------------


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Those in nested lists, tuples, dicts and data classes, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict) or hasattr(value, "items"):
        return [t for v in value.values() for t in tensors_in(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    if hasattr(value, "__dataclass_fields__"):
        return [t for v in vars(value).values() for t in tensors_in(v)]
    return []


def caller(model: Callable[..., Any], inputs: Any) -> Callable[[], Any]:
    """A dict is keyword arguments, a tuple or list arguments, anything else the one."""
    if isinstance(inputs, dict) or hasattr(inputs, "keys"):
        keywords = dict(inputs)
        return lambda: model(**keywords)
    if isinstance(inputs, (tuple, list)):
        return lambda: model(*inputs)
    return lambda: model(inputs)


@contextmanager
def at_inference(*models: Any, grad: str = "inference") -> Iterator[None]:
    """In evaluation mode; afterwards each submodule is in the mode that it was in."""
    modes = {"inference": torch.inference_mode, "no_grad": torch.no_grad}
    modules = [m for model in models if isinstance(model, torch.nn.Module) for m in model.modules()]
    before = [(module, module.training) for module in modules]
    try:
        for model in models:
            if isinstance(model, torch.nn.Module):
                model.eval()
        with modes.get(grad, torch.enable_grad)():
            yield
    finally:
        for module, training in before:
            module.training = training


def _device_of(model: Any, inputs: Any) -> torch.device:
    for tensor in tensors_in(inputs):
        if tensor.device.type != "cpu":
            return tensor.device
    if isinstance(model, torch.nn.Module):
        for tensor in [*model.parameters(), *model.buffers()]:
            return tensor.device
    return torch.device("cpu")


class _Clock:
    """Times calls: on devices with events by these, and by waiting for the result."""

    def __init__(self, device: torch.device) -> None:
        self.module = getattr(torch, device.type, None) if device.type != "cpu" else None
        self.device = device
        self.events = device.type in ("cuda", "xpu")
        self.latency: list[float] = []
        self.host: list[float] = []
        self.on_device: list[float] = []

    def wait(self) -> None:
        if self.module is None:
            return
        if self.device.type in ("cuda", "xpu"):
            self.module.synchronize(self.device)
        else:
            self.module.synchronize()

    def run(self, call: Callable[[], Any]) -> None:
        if self.events and self.module is not None:
            first, last = (self.module.Event(enable_timing=True) for _ in range(2))
            stream = self.module.current_stream(self.device)
            start = time.perf_counter()
            first.record(stream)
            call()
            last.record(stream)
            self.host.append(time.perf_counter() - start)
            last.synchronize()
            self.latency.append(time.perf_counter() - start)
            self.on_device.append(first.elapsed_time(last) * 1e-3)
            return
        start = time.perf_counter()
        call()
        self.host.append(time.perf_counter() - start)
        self.wait()
        self.latency.append(time.perf_counter() - start)


def _peak_process() -> int | None:
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None


def _measure(
    clock: _Clock, call: Callable[[], Any], warmup: int, runs: int
) -> tuple[int | None, str]:
    """Run it; (peak memory, of what)."""
    for _ in range(warmup):
        call()
    clock.wait()
    if clock.device.type != "cuda":
        for _ in range(runs):
            clock.run(call)
        return _peak_process(), "process"
    torch.cuda.reset_peak_memory_stats(clock.device)
    for _ in range(runs):
        clock.run(call)
    return torch.cuda.max_memory_allocated(clock.device), "device"


def _shape(inputs: Any, batch: int | None, length: int | None) -> tuple[int | None, int | None]:
    """Samples, and tokens of each: said, or the first two sizes of the inputs; only whole
    numbers (ids) have a length."""
    tensors = tensors_in(inputs)
    if tensors and batch is None and tensors[0].dim() > 0:
        batch = int(tensors[0].shape[0])
    ids = [t for t in tensors if t.dim() == 2 and not t.is_floating_point() and not t.is_complex()]
    if length is None and ids:
        length = int(ids[0].shape[1])
    return batch, length


def benchmark(
    model: Any,
    inputs: Any,
    warmup: int = 10,
    runs: int = 100,
    name: str | None = None,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    grad: str = "inference",
    record: bool = True,
    serialise: bool = True,
) -> Benchmark:
    """Run a model `warmup` times unmeasured and `runs` times measured, one after the other,
    waiting for each: not for use while it trains.

    inputs: the argument; a tuple or list of them; or a dict of keyword arguments, on the
    model's device. Samples and tokens a run are the first two sizes of the inputs unless
    given. grad: "inference" (torch.inference_mode), "no_grad", or "enabled". Every submodule
    is in evaluation mode meanwhile and is afterwards as it was. serialise: write the state
    into nothing, to count its bytes. record: into the run as `inference/...` with the label
    `model`, and as event `inference`. On CUDA the device's peak statistics are reset. What
    the model raises is raised."""
    if runs < 1 or warmup < 0:
        raise ValueError(f"benchmark(): runs={runs!r}, warmup={warmup!r}")
    if grad not in ("inference", "no_grad", "enabled"):
        raise ValueError(f'benchmark(): grad is "inference", "no_grad" or "enabled", not {grad!r}')
    clock = _Clock(_device_of(model, inputs))
    with at_inference(model, grad=grad):
        peak, peak_of = _measure(clock, caller(model, inputs), warmup, runs)
    batch, length = _shape(inputs, batch_size, sequence_length)
    latency = Times.of(clock.latency)
    rate = None if batch is None else batch / latency.mean
    is_module = isinstance(model, torch.nn.Module)
    result = Benchmark(
        name=name or type(model).__name__,
        device=str(clock.device),
        runs=runs,
        warmup=warmup,
        batch_size=batch,
        sequence_length=length,
        latency=latency,
        host=Times.of(clock.host),
        device_time=Times.of(clock.on_device) if clock.on_device else None,
        samples_per_second=rate,
        tokens_per_second=None if rate is None or length is None else rate * length,
        size=sizes(model) if is_module else {},
        serialised=serialised_size(model) if is_module and serialise else None,
        peak_memory=peak,
        peak_of=peak_of,
        latencies=clock.latency,
    )
    if record:
        _record(result)
    return result


def _record(of: Benchmark) -> None:
    labels = {"model": of.name}
    latency = _core.metric("inference/latency", "s", "histogram", "time of a run", labels)
    for seconds in of.latencies:
        latency.observe(seconds)
    rows: list[tuple[str, str, float | None, Mapping[str, str]]] = [
        ("inference/samples", "1/s", of.samples_per_second, {}),
        ("inference/tokens", "1/s", of.tokens_per_second, {}),
        ("inference/memory/peak", "By", of.peak_memory, {}),
        *(("inference/size", "By", n, {"dtype": kind}) for kind, n in of.size.items()),
    ]
    for name, unit, value, more in rows:
        if value is not None:
            _core.metric(name, unit, "gauge", "", {**labels, **more}).set(value)
    metrics: dict[str, Any] = {
        key: value for key, value in of.metrics().items() if value is not None
    }
    _events.event("inference", of.report(), model=of.name, device=of.device, **metrics)
    _events.attr(f"inference/{of.name}", json.dumps(metrics))


# ---- two models -------------------------------------------------------------------


@dataclass
class Difference:
    """How much the outputs of two models differ, over all of their tensors.

    max_abs and max_relative (over the larger magnitude of the two, 0 where both are 0):
    the largest of an element; cosine: the smallest of a tensor, 1 if it points in the same
    direction. consistency_score: the same cosine between repeated runs of the second model
    with the same inputs, the smallest of all; 1 if it repeats itself. repeat_max_abs: the
    largest difference of an element between these runs."""

    max_abs: float
    max_relative: float
    mean_abs: float
    cosine: float
    consistency_score: float
    repeat_max_abs: float

    def metrics(self) -> dict[str, float]:
        """Under the names of the source document: the quality is the cosine."""
        return {
            "inference_quality_score": self.cosine,
            "consistency_score": self.consistency_score,
            "max_abs_difference": self.max_abs,
            "max_relative_difference": self.max_relative,
        }


def _cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    if torch.equal(a, b):
        return 1.0
    norms = float(a.norm() * b.norm())
    return float(torch.dot(a, b)) / norms if norms else 0.0


def _differ(a: list[torch.Tensor], b: list[torch.Tensor]) -> tuple[float, float, float, float]:
    """Largest absolute, largest relative, mean absolute difference, smallest cosine."""
    if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b)):
        shapes = [[tuple(x.shape) for x in side] for side in (a, b)]
        raise ValueError(f"compare_outputs(): the outputs have shapes {shapes[0]} and {shapes[1]}")
    largest = relative = total = 0.0
    elements, cosine = 0, 1.0
    for x, y in zip(a, b):
        if not x.numel():
            continue
        difference = (x - y).abs()
        scale = torch.maximum(x.abs(), y.abs())
        nan = bool(difference.isnan().any())
        largest = math.nan if nan else max(largest, float(difference.max()))
        relative = max(relative, float((difference / scale.clamp_min(1e-300)).max()))
        total += float(difference.sum())
        elements += x.numel()
        cosine = min(cosine, _cosine(x, y))
    return largest, relative, total / elements if elements else 0.0, cosine


def _outputs(call: Callable[[], Any]) -> list[torch.Tensor]:
    found = tensors_in(call())
    if not found:
        raise TypeError("compare_outputs(): the output has no tensors")
    return [
        (t.dequantize() if t.is_quantized else t).detach().to("cpu", torch.float64).flatten()
        for t in found
    ]


def compare_outputs(
    a: Any, b: Any, inputs: Any, repeats: int = 3, record: bool = True
) -> Difference:
    """Run two models (the second quantised, say, or compiled) with the same inputs, in
    evaluation mode, and compare their outputs in double precision. repeats: how often the
    second is run, 2 or more to see whether it repeats itself. Random operations that stay in
    evaluation mode count as differences. record: event `inference-difference`."""
    if repeats < 1:
        raise ValueError(f"compare_outputs(): repeats={repeats!r}")
    with at_inference(a, b):
        first = _outputs(caller(a, inputs))
        again = [_outputs(caller(b, inputs)) for _ in range(repeats)]
    largest, relative, mean, cosine = _differ(first, again[0])
    runs = [_differ(again[0], other) for other in again[1:]]
    result = Difference(
        max_abs=largest,
        max_relative=relative,
        mean_abs=mean,
        cosine=cosine,
        consistency_score=min((run[3] for run in runs), default=1.0),
        repeat_max_abs=max((run[0] for run in runs), default=0.0),
    )
    if record:
        _events.event(
            "inference-difference",
            f"outputs differ by at most {largest:.3g}, cosine {cosine:.6f}",
            **dict[str, Any](result.metrics()),
        )
    return result
