# SPDX-License-Identifier: Apache-2.0
"""Values on a device that the host reads later: copied into pinned memory on the
stream that made them, and handed on when an event says that they have arrived. The
training thread never waits for them."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

import torch

from .. import _core, _ends
from .._tell import tell_helper
from ._step import NONE, step_now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Then = Callable[[list[float], "int | None", int], None]

PENDING_MAX = 4096  # values and phases on their way; more are dropped and said
BATCH_MAX = 64  # of them that one event is for
SLICE_NS = 50_000  # of handing on at a step
SIZES_MAX = 64  # of buffers that fit exactly
_ASYNC = ("cuda", "xpu")  # devices with streams and events like CUDA's

_internal: Any = torch._C
_cuda: Any = torch.cuda
_clock = time.perf_counter_ns
# What torch.cuda says of the current stream by several functions in Python, at once.
_raw_stream: Any = getattr(_internal, "_cuda_getCurrentRawStream", None)
_is_capturing: Any = getattr(_internal, "_cuda_isCurrentStreamCapturing", None)
_streams: dict[tuple[int, int], Any] = {}


def _pinned(size: int, n: int, dtype: torch.dtype) -> list[torch.Tensor]:
    slab = torch.empty(size * n, dtype=dtype, device="cpu", pin_memory=True)
    return list(torch.split(slab, size))


def _module(device: torch.device) -> Any:
    """torch.cuda, torch.xpu"""
    return getattr(torch, device.type)


class _Pool:
    """Pinned buffers and events, used again: making them may wait for the device."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[torch.dtype, int], list[torch.Tensor]] = {}
        self.events: dict[torch.device, list[Any]] = {}

    def buffer(self, dtype: torch.dtype, n: int) -> torch.Tensor:
        """Of n elements; of more if there are many sizes."""
        free = self.buffers.get((dtype, n))
        if free is None:
            if len(self.buffers) >= SIZES_MAX:
                n = max(16, 1 << (n - 1).bit_length())
            free = self.buffers.setdefault((dtype, n), [])
        if not free:  # several at once: locking pages takes long
            with torch.inference_mode(False):  # or it could be written there only
                free.extend(_pinned(n, max(1, min(32, 65536 // n)), dtype))
        return free.pop()

    def event(self, device: torch.device) -> Any:
        free = self.events.setdefault(device, [])
        return free.pop() if free else _module(device).Event()


class Copy:
    """Values on their way, and what is done with them."""

    __slots__ = ("buffer", "n", "source", "step", "then", "time_ns")

    def __init__(
        self,
        buffer: torch.Tensor,
        source: torch.Tensor,
        then: Then,
        step: int | None,
        time_ns: int,
    ) -> None:
        self.buffer, self.source, self.n = buffer, source, source.numel()
        self.then, self.step, self.time_ns = then, step, time_ns

    def arrive(self, pool: _Pool) -> None:
        buffer = self.buffer
        whole = buffer.numel() == self.n
        values: list[float] = (buffer if whole else buffer[: self.n]).tolist()
        pool.buffers[buffer.dtype, buffer.numel()].append(buffer)
        self.then(values, self.step, self.time_ns)


class Batch:
    """What was put on one stream in one step: one event says that all of it has arrived.
    It is recorded by log(), or when the step is over; `behind` is one that is there anyway,
    after the last item."""

    __slots__ = ("arrived", "behind", "device", "event", "items", "overdue", "stream")

    def __init__(self, device: torch.device, stream: Any) -> None:
        self.device, self.stream = device, stream
        self.items: deque[Any] = deque()
        self.behind: Any = None
        self.event: Any = None  # None: more may come
        self.arrived = False
        self.overdue = False  # it has been waited for


class Queue:
    """What is on its way, in order for each device. Any thread may put; one at a time
    takes out."""

    def __init__(self) -> None:
        self.pool = _Pool()
        self.open: dict[int, Batch] = {}  # by the id of the stream, which the batch holds
        self.lines: dict[torch.device, deque[Batch]] = {}
        self.step: int | None = None
        self.count = 0
        self.dropped = 0
        self.putting = threading.RLock()  # a handler of a signal may end the run
        self.taking = threading.RLock()

    def put(self, device: torch.device, stream: Any, item: Any, behind: Any = None) -> None:
        """Its `arrive(pool)` is called when what is on the stream now has run. behind: an
        event after it, kept until then."""
        with self.putting:
            if not self.count:
                _ends.at_end(settle)
            self.count += 1
            batch = self.open.get(id(stream))
            if batch is None:
                batch = self.open[id(stream)] = Batch(device, stream)
                line = self.lines.get(device)
                if line is None:
                    line = self.lines[device] = deque()
                line.append(batch)
            batch.items.append(item)
            batch.behind = behind
            full = len(batch.items) >= BATCH_MAX
            if full or self.step is None:
                self._close(batch)
        if full:  # in a step that has much, turn() does not come in time
            self.poll(SLICE_NS)

    def _close(self, batch: Batch) -> None:
        """Nothing more comes to it. `putting` is held."""
        del self.open[id(batch.stream)]
        event = batch.behind
        try:
            if event is None:
                event = self.pool.event(batch.device)
                event.record(batch.stream)
            batch.event = event
        except RuntimeError as error:  # the device has failed: so will training
            self.lines[batch.device].remove(batch)
            self.count -= len(batch.items)
            tell_helper("later", f"values are lost: {error}")

    def close(self) -> None:
        """What was put so far is waited for from now on."""
        with self.putting:
            for batch in list(self.open.values()):
                self._close(batch)

    def turn(self, step: int | None) -> None:
        """Once a step: hand on what has arrived, for a short time."""
        if (step is not None and step == self.step) or not self.count or capturing_now():
            self.step = step
            return
        self.step = step
        if self.open:
            self.close()
        self.poll(SLICE_NS)

    def full(self) -> bool:
        if self.count < PENDING_MAX:
            return False
        self.close()
        self.poll()
        if self.count < PENDING_MAX:
            return False
        self.dropped += 1
        tell_helper("later", f"{PENDING_MAX} values are on their way from the device; newer ones "
                    "are left out until some have arrived")  # fmt: skip
        return True

    def poll(self, slice_ns: int | None = None) -> int:
        """Hand on what has arrived, for so long (longer while much waits); how many."""
        if not self.count or not self.taking.acquire(blocking=False):
            return 0
        done, begun = 0, _clock()
        allowed = None if slice_ns is None else slice_ns * (1 + self.count // 16)
        try:
            for line in list(self.lines.values()):
                while line and self._arrived(line[0]):
                    batch = line[0]
                    while batch.items:
                        self._hand_on(batch)
                        done += 1
                        if allowed is not None and _clock() - begun > allowed:
                            self._done(line, batch)
                            return done
                    self._done(line, batch)
        finally:
            self.taking.release()
        return done

    def wait(self) -> int:
        """Hand on what arrives while one waits: all of it, unless the device is stuck or
        far behind, which is waited for once."""
        self.close()
        done = self.poll()
        if all(batch.overdue for batch in self._first()):
            return done
        done += _ends.drain(self.poll, self._closed)
        for batch in self._first():
            batch.overdue = True
        if self.count:
            tell_helper("later", f"{self.count} values and phases are no longer waited for: the "
                        f"device is stuck, or more than {_ends.QUIET_S:g} s behind")  # fmt: skip
        return done

    def take(self) -> int:
        """Hand on what has arrived, and put nothing on a stream: if it is full, that waits."""
        with self.putting:
            for key, batch in list(self.open.items()):
                batch.event = batch.behind
                batch.arrived = batch.event is None and _has_run(batch.stream)
                if batch.event is not None or batch.arrived:
                    del self.open[key]
        return self.poll()

    def _closed(self) -> bool:
        """Is something on its way that no other thread adds to?"""
        return any(batch.event is not None for batch in self._first())

    def _first(self) -> list[Batch]:
        """What each device makes next."""
        return [line[0] for line in list(self.lines.values()) if line]

    def _arrived(self, batch: Batch) -> bool:
        if batch.arrived or batch.event is None:
            return batch.arrived
        try:
            batch.arrived = bool(batch.event.query())
        except RuntimeError as error:  # the device has failed: so will training
            self._lost(error)
        return batch.arrived

    def _hand_on(self, batch: Batch) -> None:
        item = batch.items.popleft()
        with self.putting:
            self.count -= 1
        try:
            item.arrive(self.pool)
        except Exception as error:
            tell_helper("later", f"{type(error).__name__}: {error}")

    def _done(self, line: deque[Batch], batch: Batch) -> None:
        """A batch without items goes."""
        if not batch.items and line and line[0] is batch:
            line.popleft()
            if batch.event is not batch.behind:
                self.pool.events[batch.device].append(batch.event)

    def _lost(self, error: BaseException) -> None:
        with self.putting:
            self.lines, self.open, self.count = {}, {}, 0
        tell_helper("later", f"values are lost: the device failed: {error}")


queue = Queue()
_kept: list[Queue] = []  # the device may still write into their buffers


def _has_run(stream: Any) -> bool:
    """All that is on it?"""
    try:
        return bool(stream.query())
    except (AttributeError, RuntimeError):
        return False


def settle(wait: bool) -> None:
    """The run ends: what has not arrived by now is lost."""
    global queue
    if not queue.count:
        return
    if not capturing_now():
        queue.wait() if wait else queue.take()
    if queue.count:
        tell_helper("later", f"{queue.count} values and phases had not arrived from the device "
                    "when the run ended; they are lost")  # fmt: skip
        _kept.append(queue)
        queue = Queue()


def _after_fork() -> None:
    """A child has no device context; what is on its way is the parent's. It is kept: to
    free a tensor or an event of the device would need the context."""
    global queue
    _kept.append(queue)
    queue = Queue()


os.register_at_fork(after_in_child=_after_fork)


def asynchronous(device: torch.device) -> bool:
    """Can values of this device be read without waiting for it?"""
    return device.type in _ASYNC


def capturing_now() -> bool:
    """Is the current stream being captured into a CUDA graph? Nothing may be asked then."""
    return bool(_cuda.is_initialized() and _is_capturing is not None and _is_capturing())


def capturing(device: torch.device) -> bool:
    """Is the current stream being captured into a CUDA graph? Nothing may be added."""
    if device.type != "cuda":
        return False
    return bool(torch.cuda.is_current_stream_capturing() if _is_capturing is None
                else _is_capturing())  # fmt: skip


def current_stream(device: torch.device) -> Any:
    """The current stream of a device; of CUDA the same object each time."""
    if device.type != "cuda" or _raw_stream is None:
        return _module(device).current_stream(device)
    key = (device.index, _raw_stream(device.index))
    stream = _streams.get(key)
    if stream is None:
        stream = _streams[key] = torch.cuda.current_stream(device)
    return stream


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All their elements in order, in one tensor: exact, in as few operations as can be."""
    if len(tensors) == 1:
        return tensors[0].detach().reshape(-1)
    flat = [tensor.detach().reshape(-1) for tensor in tensors]
    if len({t.dtype for t in flat}) > 1:
        flat = [t.to(torch.float64) for t in flat]
    return torch.cat(flat)


def _local(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor itself; of a distributed one the local part if that is all of it."""
    if type(tensor) is torch.Tensor:
        return tensor
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return tensor
    if not all(p.is_replicate() for p in placements):
        return None
    spread: Any = tensor
    local: torch.Tensor = spread.to_local()
    return local


def later(
    tensors: Sequence[torch.Tensor],
    then: Then,
    step: int | None = None,
    time_ns: int | None = None,
) -> None:
    """Copy tensors to the host without waiting, and call `then(values, step, time_ns)`
    when they have arrived: the elements of all of them in order, the step (the current
    one unless given; None: none) and the time (now unless given) that they belong to.

    On the CPU, and on devices without streams like CUDA's, `then` is called at once. On
    CUDA it is called by the first `later()`, `log()` or `phase()` of a later step (without
    `lapse.step()`: by a later one), or by `flush()`, in whichever thread that is. All
    tensors are on one device. Nothing raises: what fails is said once (event
    `lapse.torch`)."""
    if step is None:
        step = step_now()
    if time_ns is None:
        time_ns = _core.now()
    try:
        _later(tensors, then, step, time_ns)
    except Exception as error:
        tell_helper("later", f"{type(error).__name__}: {error}")


def _later(tensors: Sequence[torch.Tensor], then: Then, step: int | None, time_ns: int) -> None:
    if not tensors:
        then([], step, time_ns)
        return
    device = tensors[0].device
    if device.type == "meta" or capturing(device):
        tell_helper("later", "values made while a CUDA graph is captured, or without data, "
                  "cannot be read")  # fmt: skip
        return
    local = [_local(tensor) for tensor in tensors]
    whole = [tensor for tensor in local if tensor is not None]
    if len(whole) < len(local):
        tell_helper("later", "a distributed tensor is spread over ranks: reduce it first")
        return
    if not asynchronous(device):
        then(_joined(whole).tolist(), step, time_ns)
        return
    queue.turn(step_now())
    if queue.full():
        return
    source = _joined(whole)
    with queue.putting:
        buffer = queue.pool.buffer(source.dtype, source.numel())
    room = buffer if buffer.numel() == source.numel() else buffer[: source.numel()]
    room.copy_(source, non_blocking=True)
    queue.put(device, current_stream(device), Copy(buffer, source, then, step, time_ns))


def _split(
    values: Mapping[Any, Any],
    prefix: str,
    ready: dict[str, Any],
    late: dict[str, torch.Tensor],
) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _split(value, name + "/", ready, late)
        elif not isinstance(value, torch.Tensor):
            ready[name] = value
        elif value.numel() == 1 and asynchronous(value.device):
            late[name] = value
        else:
            ready[name] = value.detach()


def log(values: Mapping[Any, Any], step: int | None = None) -> None:
    """Like `lapse.log()`: one frame of scalars, nested dicts become `outer/inner`. Tensors
    on a device with one element are not waited for: they are recorded when they arrive,
    with the step (the current one unless given) and the time of this call."""
    if queue.count:
        queue.turn(step_now())
    for value in values.values():
        if isinstance(value, (dict, torch.Tensor)):
            break
    else:
        _core.log(values, step)
        return
    ready: dict[str, Any] = {}
    late: dict[str, torch.Tensor] = {}
    _split(values, "", ready, late)
    time_ns = _core.now()
    if step is None:
        step = step_now()
    at = NONE if step is None else step
    if ready:
        _core.log(ready, at, time_ns)
    devices: dict[torch.device, list[str]] = {}
    for name, tensor in late.items():
        devices.setdefault(tensor.device, []).append(name)
    for names in devices.values():
        _log_late(names, [late[name] for name in names], at, time_ns)
    if queue.open and not capturing_now():
        queue.close()  # not behind the next step, which the device may never finish


def _log_late(names: list[str], tensors: list[torch.Tensor], at: int, time_ns: int) -> None:
    def then(arrived: list[float], step: int | None, time_ns: int) -> None:
        _core.log(dict(zip(names, arrived)), step, time_ns)

    later(tensors, then, at, time_ns)


def flush(wait: bool = False) -> None:
    """Record what has arrived from the devices. wait=True: all that is on its way, by
    waiting for the devices: for the end of a run. It gives up when nothing has come for 2 s,
    and after 10 s, and does not wait while an exception is handled: a program whose device
    is stuck must end. `lapse.finish()`, and the exit, do it by themselves."""
    if not queue.count or capturing_now():
        return
    if not wait:
        queue.close()
        queue.poll()
    elif _ends.failing():
        queue.take()
    else:
        queue.wait()
