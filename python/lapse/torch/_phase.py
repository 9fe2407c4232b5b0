# SPDX-License-Identifier: Apache-2.0
"""Phases of a training loop: a lapse span, a range that PyTorch's profiler shows, and
on CUDA a pair of events that is read later."""

from __future__ import annotations

import functools
import inspect
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

import torch

from .. import _core, _wrap
from .._tell import tell_helper
from . import _later
from ._step import step_now
from ._summary import Summary

if TYPE_CHECKING:
    from types import TracebackType

KNOWN_MAX = 1024  # phases that are kept by name
_F = TypeVar("_F", bound=Callable[..., Any])
_REBASE_NS = 2e9  # elapsed_time() is a float32 of ms: exact to 1/8 us at 2 s
_DRIFT = 20e-6  # of a device's clock against the host's, at most, as it is assumed
_SPECIAL = (
    inspect.isgeneratorfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
)
_internal: Any = torch._C
_torch_cuda: Any = torch.cuda
_profiling: Callable[[], bool] = _internal._autograd._profiler_enabled


class _Cuda:
    """What is needed of torch.cuda, by its fastest calls: these are made at each phase."""

    def __init__(self) -> None:
        self.used = False
        built = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
        kind = getattr(_internal, "_CudaEventBase", None)
        self.Event: Any = kind if built and kind is not None else torch.cuda.Event
        self._device: Any = getattr(_internal, "_cuda_getDevice", None)
        self.capturing: Callable[[], bool] = (
            _later._is_capturing or torch.cuda.is_current_stream_capturing
        )

    def is_initialized(self) -> bool:
        """Does the program use it? Once it does, it goes on."""
        if not self.used:
            self.used = bool(_torch_cuda.is_initialized())
        return self.used

    def current_stream(self) -> Any:
        if self._device is None or _later._raw_stream is None:
            return torch.cuda.current_stream()
        index = self._device()
        stream = _later._streams.get((index, _later._raw_stream(index)))
        return stream if stream is not None else _later.current_stream(torch.device("cuda", index))


_cuda: Any = _Cuda()


class _Clock:
    """Device time on lapse's scale. An event runs after it was recorded and before it was
    seen to have run, by the host's clock. The first bound is tight whenever the device was
    idle, so the best of it is kept; it ages, as the two clocks drift."""

    def __init__(self, event: Any, recorded: int) -> None:
        self.base = event  # an event that has run
        self.at = float(recorded)  # its time by the host's clock, ns
        self.upper = math.inf
        self.best = 0.0  # when `at` was last found, ns after the base

    def place(self, event: Any, recorded: int, seen: int) -> float:
        """The time of an event that has run, in ns on lapse's scale."""
        since = float(self.base.elapsed_time(event)) * 1e6
        if recorded - since > self.at:
            self.at, self.best = recorded - since, since
        self.upper = min(self.upper, seen - since)
        self.at = min(self.at, self.upper)
        time = self.at + since
        if since > _REBASE_NS:
            self.at = time - _DRIFT * (since - self.best)
            self.base, self.upper, self.best = event, math.inf, 0.0
        return time


class _Resolver:
    """Pairs of events on their way, and what they said."""

    def __init__(self) -> None:
        self.clocks: dict[torch.device, _Clock] = {}
        self.free: dict[torch.device, list[Any]] = {}
        self.metrics: dict[str, _core.Metric] = {}
        self.times: dict[str, Summary] = {}
        self.lock = threading.Lock()

    def event(self, device: torch.device) -> Any:
        free = self.free.get(device)
        try:
            return free.pop() if free else _cuda.Event(enable_timing=True)
        except IndexError:  # another thread took the last
            return _cuda.Event(enable_timing=True)

    def resolve(self, pair: _Pair) -> tuple[float, int]:
        """(seconds between two events that have run, when the second ran in ns)."""
        device = pair.stream.device
        seen = _core.now()
        seconds: float = pair.begin.elapsed_time(pair.end) / 1e3
        with self.lock:
            clock = self.clocks.get(device)
            if clock is None:
                clock = self.clocks[device] = _Clock(pair.begin, pair.began)
            begun = clock.place(pair.begin, pair.began, seen)
            free = self.free.setdefault(device, [])
            free.extend(e for e in (pair.begin, pair.end) if e is not clock.base)
        return seconds, int(begun + seconds * 1e9)

    def phase(self, name: str, seconds: float, step: int | None, time_ns: int) -> None:
        with self.lock:
            times = self.times.get(name)
            if times is None:
                times = self.times[name] = Summary()
            times.add(seconds)
        self.metric(name).observe_at(seconds, step, time_ns)

    def metric(self, name: str) -> _core.Metric:
        metric = self.metrics.get(name)
        if metric is None:
            metric = _core.metric(f"device/{name}", "s", "histogram",
                                  "time of a phase on its stream")  # fmt: skip
            self.metrics[name] = metric
        return metric


class _Pair:
    """Two events of one stream around a phase."""

    __slots__ = ("began", "begin", "end", "step", "stream", "then")

    def __init__(self, begin: Any, began: int, stream: Any, step: int | None) -> None:
        self.begin, self.began, self.stream, self.step = begin, began, stream, step
        self.end: Any = None
        self.then: Any = None

    def arrive(self, pool: Any) -> None:
        """Both have run."""
        seconds, time_ns = _resolver.resolve(self)
        self.then(seconds, self.step, time_ns)


_resolver = _Resolver()
_inherited: list[_Resolver] = []


def _begin_pair(stream: Any) -> _Pair | None:
    if _cuda.capturing():
        return None
    step = step_now()
    _later.queue.turn(step)
    if stream is None:
        stream = _cuda.current_stream()
    begin = _resolver.event(stream.device)
    began = _core.now()
    begin.record(stream)
    return _Pair(begin, began, stream, step)


def _end_pair(pair: _Pair, then: Callable[[float, int | None, int], None]) -> None:
    queue = _later.queue
    if _cuda.capturing() or queue.full():
        return
    device = pair.stream.device
    end = pair.end = _resolver.event(device)
    end.record(pair.stream)
    pair.then = then
    queue.put(device, pair.stream, pair, end)


class DevicePair:
    """Events around something else than a phase: see device_pair()."""

    __slots__ = ("_pair",)

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def end(self, then: Callable[[float, int | None, int], None]) -> None:
        """Call then(seconds, step, time_ns) when both have run."""
        _end_pair(self._pair, then)


def device_pair() -> DevicePair | None:
    """Begin to measure on the current stream of the device; None without CUDA in use, or
    while a graph is captured."""
    if not _cuda.is_initialized():
        return None
    try:
        pair = _begin_pair(None)
    except RuntimeError as error:
        tell_helper("phase", str(error))
        return None
    return None if pair is None else DevicePair(pair)


class _Open:
    """A phase that has begun."""

    __slots__ = ("pair", "range", "token")

    def __init__(self, token: bytes, range: Any, pair: _Pair | None) -> None:
        self.token, self.range, self.pair = token, range, pair


class phase:  # noqa: N801 - read as a function, as span()
    """A phase of the training loop, as context manager and as decorator:

        with lapse.torch.phase("forward"):
            loss = model(batch)

    It is a span of lapse (`lapse.span(name)`), a `record_function` range while PyTorch's
    profiler runs, and, once CUDA is in use, a pair of events on the current stream (or on
    `stream`), resolved later without waiting: series `device/NAME`, seconds, with the step
    in which the phase began and the time at which it ended on the device.

    Phases nest, and may be open in several threads; an exception passes, and the phase
    ends there. While a CUDA graph is captured it is a span only. A decorated generator has
    a phase for each item; a coroutine one from its start to its end."""

    __slots__ = ("_opened", "_span", "_stream", "name")
    name: str
    _span: _core.Span
    _stream: Any
    _opened: threading.local

    def __new__(cls, name: str, stream: Any = None) -> phase:
        """The same object for the same name: it may be open many times."""
        known = _known.get(name) if stream is None and isinstance(name, str) else None
        if known is not None and cls is phase:
            return known
        if not isinstance(name, str) or not name:
            raise TypeError("phase(): the name must be a str that is not empty")
        self = super().__new__(cls)
        self.name = name
        self._span = _core.span(name)
        self._stream = stream
        self._opened = threading.local()
        if stream is None and cls is phase and len(_known) < KNOWN_MAX:
            _known[name] = self
        return self

    def begin(self) -> _Open:
        """Begin it; what is returned is for end(), in whichever order others end."""
        token = self._span.begin()
        range: Any = None
        pair = None
        try:
            if _profiling():
                range = torch.autograd.profiler.record_function(self.name)
                range.__enter__()
            if _cuda.is_initialized():
                pair = _begin_pair(self._stream)
        except Exception as error:
            tell_helper("phase", f"{type(error).__name__}: {error}")
        return _Open(token, range, pair)

    def end(self, opened: _Open) -> None:
        """End what begin() began."""
        try:
            if opened.pair is not None:
                _end_pair(opened.pair, self._arrived)
            if opened.range is not None:
                opened.range.__exit__(None, None, None)
        except Exception as error:
            tell_helper("phase", f"{type(error).__name__}: {error}")
        self._span.end(opened.token)

    def _arrived(self, seconds: float, step: int | None, time_ns: int) -> None:
        _resolver.phase(self.name, seconds, step, time_ns)

    def __enter__(self) -> phase:
        opened = self.begin()
        try:
            self._opened.stack.append(opened)
        except AttributeError:
            self._opened.stack = [opened]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.end(self._opened.stack.pop())

    def __call__(self, function: _F) -> _F:
        """Decorate: a phase around each call."""
        if isinstance(function, (staticmethod, classmethod)):
            return cast("_F", type(function)(self(function.__func__)))
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"phase() decorates functions, not {type(function).__name__}")
        if any(is_one(function) for is_one in _SPECIAL):
            return cast("_F", _wrap.wrap(cast("_core.Span", self), function))

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            opened = self.begin()
            try:
                return function(*args, **kwargs)
            finally:
                self.end(opened)

        return cast("_F", wrapper)

    def __repr__(self) -> str:
        return f"<lapse.torch.phase {self.name!r}>"


_known: dict[str, phase] = {}


def phase_times() -> dict[str, Summary]:
    """What the events of each phase said so far on the device, in seconds, by name: a
    copy. Phases whose end has not arrived are not in it; flush(wait=True) waits."""
    out: dict[str, Summary] = {}
    with _resolver.lock:
        for name, times in _resolver.times.items():
            out[name] = Summary()
            out[name].merge(times)
    return out


def _after_fork() -> None:
    """A child has no device context. The parent's events are kept: to free one would need
    it."""
    global _resolver
    _inherited.append(_resolver)
    _resolver = _Resolver()
    _cuda.used = False


os.register_at_fork(after_in_child=_after_fork)
