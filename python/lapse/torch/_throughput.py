# SPDX-License-Identifier: Apache-2.0
"""Throughput: samples, batches and tokens a second, how far that is from what could be,
and from what the hardware could do."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._tell import tell_helper
from . import _later
from ._flops import Flops
from ._peaks import KINDS, peak_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ._loader import Loader

_clock = time.perf_counter_ns
# Classes of quantised layers: by these the model's products are not of the dtype's peak.
_QUANTISED = ("torch.ao.nn", "torch.nn.quantized", "torchao", "bitsandbytes", "auto_gptq")
_SERIES = {
    "samples": ("throughput/samples", "1/s", "samples a second of this process"),
    "batches": ("throughput/batches", "1/s", "batches a second of this process"),
    "tokens": ("throughput/tokens", "1/s", "tokens a second of this process"),
    "padded": ("throughput/tokens", "1/s", "tokens a second of this process"),
    "best": ("throughput/efficiency/best", "1", "rate over the best of a window"),
    "data": ("throughput/efficiency/data", "1", "rate over that without waiting for data"),
    "ideal": ("throughput/efficiency/ideal", "1", "rate over the given one"),
    "flops": ("throughput/flops", "1/s", "model FLOPs a second and device"),
    "mfu": ("throughput/mfu", "1", "model FLOPs over the peak"),
    "hfu": ("throughput/hfu", "1", "FLOPs with recomputation over the peak"),
}
_LABELS = {"tokens": {"padding": "no"}, "padded": {"padding": "yes"}}


class Rates:
    """What was done in a time, of one process: `samples`, `batches`, `tokens` (without
    padding), `padded_tokens` (with; None if not told), `seconds` (of training),
    `validation` (seconds of it), `waited` (seconds for data, part of `seconds`)."""

    __slots__ = (
        "batches", "padded_tokens", "samples", "seconds", "tokens", "validation", "waited",
    )  # fmt: skip

    def __init__(self) -> None:
        self.samples = self.tokens = self.seconds = self.validation = self.waited = 0.0
        self.padded_tokens: float | None = None
        self.batches = 0

    def _over(self, n: float, validation: bool) -> float | None:
        seconds = self.seconds + (self.validation if validation else 0.0)
        return n / seconds if seconds > 0 else None

    def samples_per_second(self, validation: bool = False) -> float | None:
        """validation=True: over the time that includes validation. None: no time yet."""
        return self._over(self.samples, validation)

    def batches_per_second(self, validation: bool = False) -> float | None:
        return self._over(self.batches, validation)

    def tokens_per_second(self, validation: bool = False, padding: bool = False) -> float | None:
        """padding=True: with the padding, if padded_tokens were told."""
        n = self.padded_tokens if padding else self.tokens
        return None if n is None else self._over(n, validation)

    @property
    def data_efficiency(self) -> float | None:
        """The rate over the one without waiting for data: 1 - waited / seconds."""
        return max(0.0, 1 - self.waited / self.seconds) if self.seconds > 0 else None

    def copy(self) -> Rates:
        other = Rates()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def __sub__(self, earlier: Rates) -> Rates:
        out = self.copy()
        for name in self.__slots__:
            before = getattr(earlier, name)
            if before is not None:
                setattr(out, name, getattr(out, name) - before)
        return out

    def __repr__(self) -> str:
        rate = self.samples_per_second()
        text = "no" if rate is None else f"{rate:.6g}"
        return f"<Rates of {self.seconds:.6g} s: {text} samples/s>"


class _Step:
    """One step in the window, and what it adds."""

    __slots__ = ("known", "live", "ns", "padded", "samples", "tokens", "waited")

    def __init__(self, ns: int, waited: int, samples: float) -> None:
        self.ns, self.waited, self.samples = ns, waited, samples
        self.tokens = self.padded = 0.0
        self.live = True
        self.known = False  # have its tokens arrived?


class _Window:
    """Sums over the last steps; tokens may come later."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: deque[_Step] = deque()
        self.ns = self.known_ns = self.waited = 0
        self.samples = self.tokens = self.padded = 0.0

    def push(self, step: _Step) -> None:
        self.steps.append(step)
        self._add(step, 1)
        if len(self.steps) > self.size:
            old = self.steps.popleft()
            old.live = False
            self._add(old, -1)

    def _add(self, step: _Step, sign: int) -> None:
        self.ns += sign * step.ns
        self.waited += sign * step.waited
        self.samples += sign * step.samples
        self.tokens += sign * step.tokens
        self.padded += sign * step.padded
        if step.known:
            self.known_ns += sign * step.ns

    def count(self, step: _Step, tokens: float, padded: float) -> None:
        """A step's tokens are known now."""
        step.tokens, step.padded, step.known = tokens, padded, True
        if step.live:
            self.known_ns += step.ns
            self.tokens += tokens
            self.padded += padded

    def rate(self, what: str) -> float | None:
        """A second, or None; of tokens over the steps whose tokens have arrived."""
        ns = self.known_ns if what in ("tokens", "padded") else self.ns
        if not ns:
            return None
        n = len(self.steps) if what == "batches" else getattr(self, what)
        return float(n) / ns * 1e9


class _Pause:
    """A context manager for time that is not training."""

    __slots__ = ("_of", "_start", "_waits")

    def __init__(self, of: Throughput, waits: bool) -> None:
        self._of, self._waits = of, waits

    def __enter__(self) -> None:
        self._start = _clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        took = _clock() - self._start
        if self._waits:
            self._of._waited += took
        else:
            self._of._paused += took


def _world_size() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdigit() and int(text) > 0 else 1


def _is_quantised(model: torch.nn.Module) -> str:
    """The first quantised layer or parameter of a model, or ""."""
    for name, module in model.named_modules():
        kind = type(module)
        if kind.__module__.startswith(_QUANTISED) or "Float8" in kind.__name__:
            return f"{name or 'the model'} is a {kind.__name__}"
    for name, parameter in model.named_parameters():
        if type(parameter.data).__module__.startswith(_QUANTISED):
            return f"{name} is a {type(parameter.data).__name__}"
        if not (parameter.is_floating_point() or parameter.is_complex()):
            return f"{name} is {parameter.dtype}"
    return ""


class Throughput:
    """Rates of a training loop, by the host's clock from the end of a step to the end of
    the next: no waiting for the device.

        rates = lapse.torch.Throughput(loader=loader, flops=transformer_flops(...))
        for batch in loader:
            ...
            rates.step(samples=len(batch), tokens=mask.sum(), padded_tokens=mask.numel())
            with rates.validation(): ...                       # not training

    warmup: steps that count nowhere. window: steps that a rate is over. flops: of one
    sample as a number, or a Flops (`transformer_flops()`, `measure_flops()`). peak_flops:
    of one device, a second; None: by the device's name and `dtype` ("bf16", "fp16",
    "tf32", "fp32", "fp8"; None: bf16 is assumed, and said). loader: what watch_loader()
    gave (or a list of them): its waits count as waiting for data. ideal: samples a second
    that would be possible. world_size: processes, each with one device; None: of
    torch.distributed or WORLD_SIZE. model, quantised: MFU is left out for a quantised
    model (unless dtype is "fp8"); None: look at the model. device: name of the device whose
    peak it is; None: asked for. every: record each so many
    steps. A value that cannot be raises ValueError."""

    def __init__(
        self,
        warmup: int = 10,
        window: int = 100,
        flops: float | Flops | None = None,
        peak_flops: float | None = None,
        dtype: str | None = None,
        loader: Loader | Sequence[Loader] | None = None,
        ideal: float | None = None,
        world_size: int | None = None,
        model: torch.nn.Module | None = None,
        quantised: bool | None = None,
        device: str | None = None,
        every: int = 10,
    ) -> None:
        for name, value, least in (("warmup", warmup, 0), ("window", window, 1),
                                   ("every", every, 1)):  # fmt: skip
            if not isinstance(value, int) or value < least:
                raise ValueError(f"Throughput(): {name} must be {least} or more, not {value!r}")
        if dtype is not None and dtype not in KINDS:
            raise ValueError(f"Throughput(): dtype must be one of {', '.join(KINDS)}, "
                             f"not {dtype!r}")  # fmt: skip
        if isinstance(flops, (int, float)):
            flops = Flops(flops, "sample", "given, per sample")
        self.warmup, self.every = warmup, every
        self.flops = flops
        self.world_size = world_size or _world_size()
        self.ideal = ideal
        self.reason = ""  # why there is no MFU
        self.total = Rates()  # since the warm-up
        self.best: float | None = None  # batches a second, of a full window
        self.best_samples: float | None = None
        self._loaders = _loaders(loader)
        self._window = _Window(window)
        self._steps = 0
        self._waited = self._paused = 0
        self._waited_at = self._loader_waits()
        self._last: int | None = None
        self._metrics: dict[str, _core.Metric] = {}
        self._dtype = dtype or "bf16"
        self._assumed = dtype is None
        self._device = device
        self.peak_flops = peak_flops
        self._seeks = False  # a peak, once the device is in use
        if flops is not None:
            self._see_quantised(model, quantised)

    # ---- what the loop calls ---------------------------------------------------------

    def begin(self) -> None:
        """Training begins now: the first step is counted from here. Without it, from the
        end of the first step, which then counts nowhere. Again at the begin of an epoch:
        what was between two is in no rate, but for validation."""
        if self._steps > self.warmup:
            self.total.validation += self._paused / 1e9
        self._last = _clock()
        self._waited = self._paused = 0
        self._waited_at = self._loader_waits()

    def step(
        self,
        samples: float = 0,
        tokens: float | torch.Tensor | None = None,
        padded_tokens: float | None = None,
    ) -> None:
        """A step of this process ends: so many samples, and tokens without padding (a
        tensor on the device arrives later), and with."""
        now = _clock()
        waits = self._loader_waits()
        waited, paused = self._waited + waits - self._waited_at, self._paused
        first = self._last is None
        ns = 0 if self._last is None else max(now - self._last - paused, 0)
        self._last, self._waited, self._paused, self._waited_at = now, 0, 0, waits
        self._steps += 1
        if first or self._steps <= self.warmup:
            return
        step = _Step(ns, min(waited, ns), float(samples))
        self._window.push(step)
        total = self.total
        total.samples += step.samples
        total.batches += 1
        total.seconds += ns / 1e9
        total.validation += paused / 1e9
        total.waited += step.waited / 1e9
        if isinstance(tokens, torch.Tensor):
            self._take_tokens(step, tokens, padded_tokens)
        else:
            self._count_tokens(step, float(tokens or 0.0), padded_tokens)
        self._see_best()
        if self._seeks:
            self._find_peak()
        if self._steps % self.every == 0:
            self._record()

    def validation(self) -> _Pause:
        """A context manager: time that is no training (validation, a checkpoint)."""
        return _Pause(self, False)

    def waiting(self) -> _Pause:
        """A context manager: time that training waits for data, if no loader was given."""
        return _Pause(self, True)

    def mark(self) -> Rates:
        """The totals now; `rates.total - mark` are those since, of an epoch say."""
        return self.total.copy()

    # ---- what is known ---------------------------------------------------------------

    def rate(self, what: str = "samples", scope: str = "device") -> float | None:
        """A second, over the window: what is "samples", "batches", "tokens", "padded". scope
        "device": of this process; "global": of all, if they do the same. None: not yet."""
        rate = self._window.rate(what)
        if rate is None or scope == "device":
            return rate
        return rate if what == "batches" else rate * self.world_size

    def efficiency(self, against: str = "best") -> float | None:
        """The rate over the window against "best": the best of a full window so far;
        "data": the one without waiting for data; "ideal": the given one."""
        window = self._window
        if against == "data":
            return None if not window.ns else 1 - window.waited / window.ns
        if against == "ideal":
            samples = window.rate("samples")
            return None if samples is None or not self.ideal else samples / self.ideal
        mine, best = self._compared()
        return None if mine is None or not best else mine / best

    def flops_per_second(self, hardware: bool = False) -> float | None:
        """Model FLOPs a second of this device; hardware=True: with recomputation."""
        if self.flops is None:
            return None
        what = {"token": "tokens", "sample": "samples", "batch": "batches"}[self.flops.per]
        rate = self._window.rate(what)
        if not rate:
            return None
        return rate * (self.flops.hardware if hardware else self.flops.model)

    def mfu(self) -> float | None:
        """Model FLOPs over the peak: None if unknown, `reason` says why."""
        rate = self.flops_per_second()
        return None if rate is None or not self.peak_flops else rate / self.peak_flops

    def hfu(self) -> float | None:
        """As mfu(), with what is computed twice."""
        rate = self.flops_per_second(hardware=True)
        return None if rate is None or not self.peak_flops else rate / self.peak_flops

    def report(self) -> str:
        """Lines for people, with formulas."""
        lines = []
        for what, unit in _UNITS.items():
            rate = self.rate(what)
            if rate:
                text = f"{rate:,.2f} {unit}"
                if self.world_size > 1 and what != "batches":
                    text += f" a device, {rate * self.world_size:,.2f} on {self.world_size}"
                lines.append(text)
        for against, text in _AGAINST.items():
            share = self.efficiency(against)
            if share is not None:
                lines.append(f"efficiency {share:.1%}: {text}")
        lines.extend(self._report_flops())
        return "\n".join(lines) if lines else "no rate yet"

    # ---- inside ----------------------------------------------------------------------

    def _loader_waits(self) -> int:
        return sum(loader._watch.waited_ns for loader in self._loaders)

    def _take_tokens(self, step: _Step, tokens: torch.Tensor, padded: float | None) -> None:
        def arrived(values: list[float], at: int | None, time_ns: int) -> None:
            self._count_tokens(step, sum(values), padded)

        if padded is not None:
            self.total.padded_tokens = self.total.padded_tokens or 0.0
        _later.later([tokens], arrived)

    def _count_tokens(self, step: _Step, n: float, padded: float | None) -> None:
        self._window.count(step, n, n if padded is None else float(padded))
        self.total.tokens += n
        if padded is not None:
            self.total.padded_tokens = (self.total.padded_tokens or 0.0) + float(padded)

    def _compared(self) -> tuple[float | None, float | None]:
        """(rate, best rate): of samples, or of batches if samples are not told."""
        if self._window.samples:
            return self._window.rate("samples"), self.best_samples
        return self._window.rate("batches"), self.best

    def _see_best(self) -> None:
        window = self._window
        n, ns = len(window.steps), window.ns
        if n < window.size or not ns:
            return
        batches, samples = n / ns * 1e9, window.samples / ns * 1e9
        if batches > (self.best or 0.0):
            self.best = batches
        if samples > (self.best_samples or 0.0):
            self.best_samples = samples

    def _set(self, key: str, value: float | None) -> None:
        if value is None:
            return
        metric = self._metrics.get(key)
        if metric is None:
            name, unit, help = _SERIES[key]
            metric = _core.metric(name, unit, "gauge", help, _LABELS.get(key))
            self._metrics[key] = metric
        metric.set(value)

    def _record(self) -> None:
        window = self._window
        for what in ("samples", "batches", "tokens"):
            self._set(what, window.rate(what) or None)
        if self.total.padded_tokens is not None:
            self._set("padded", window.rate("padded") or None)
        for against in _AGAINST:
            self._set(against, self.efficiency(against))
        if self.flops is not None:
            self._set("flops", self.flops_per_second())
            self._set("mfu", self.mfu())
            self._set("hfu", self.hfu())

    def _see_quantised(self, model: torch.nn.Module | None, quantised: bool | None) -> None:
        why = "told so" if quantised else ""
        if quantised is None and model is not None:
            why = _is_quantised(model)
        if why and self._dtype != "fp8":
            self.peak_flops = None
            self._cannot(f"the model is quantised ({why}): no peak fits its products")
        elif self.peak_flops is None:
            self._seeks = True

    def _find_peak(self) -> None:
        """Not before CUDA is in use: asking would begin that, on whichever device."""
        cuda: Any = torch.cuda
        if self._device is None and cuda.is_initialized():
            self._device = str(cuda.get_device_name())
        self._seeks = False
        if self._device is None:
            self._cannot("no peak is known for this device: give peak_flops")
            return
        self.peak_flops = peak_of(self._device, self._dtype)
        if self.peak_flops is None:
            self._cannot(f"no peak is known for {self._device} and {self._dtype}: "
                         "give peak_flops")  # fmt: skip

    def _cannot(self, why: str) -> None:
        self.reason = why
        tell_helper("Throughput", why, warning=False)

    def _peak_text(self) -> str:
        assert self.peak_flops is not None
        text = f"peak {self.peak_flops / 1e12:g} TFLOP/s"
        if self._device is not None:
            text += f" ({self._device}, {self._dtype}{', assumed' if self._assumed else ''})"
        return text

    def _report_flops(self) -> list[str]:
        rate = self.flops_per_second()
        if rate is None or self.flops is None:
            return []
        lines = [f"{rate / 1e12:,.3f} TFLOP/s a device: {self.flops.formula}"]
        mfu, hfu = self.mfu(), self.hfu()
        if mfu is None or hfu is None:
            return [*lines, f"no MFU: {self.reason}"]
        lines.append(f"MFU {mfu:.2%}: model FLOPs / {self._peak_text()}")
        if self.flops.hardware != self.flops.model:
            lines.append(f"HFU {hfu:.2%}: with recomputation")
        return lines


_UNITS = {
    "samples": "samples/s",
    "batches": "batches/s",
    "tokens": "tokens/s",
    "padded": "tokens/s with padding",
}
_AGAINST = {
    "best": "of the best rate over a window in this run",
    "data": "of the rate without waiting for data",
    "ideal": "of the given rate",
}


def _loaders(loader: Any) -> list[Loader]:
    if loader is None:
        return []
    several = list(loader) if isinstance(loader, (list, tuple)) else [loader]
    for one in several:
        if not hasattr(type(one), "copying"):
            raise TypeError("Throughput(): loader must be what watch_loader() gave, not "
                            f"{type(one).__name__}")  # fmt: skip
    return several
