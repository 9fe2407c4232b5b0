# SPDX-License-Identifier: Apache-2.0
"""Values on a device that the host reads later: copied into pinned memory on the
stream that made them, and handed on when an event says that they have arrived. The
training thread never waits for them."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

import torch

from .. import _core
from ._step import NONE, step_now
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Then = Callable[[list[float], "int | None", int], None]

PENDING_MAX = 4096  # copies on their way; more are dropped and said
_ASYNC = ("cuda", "xpu")  # devices with streams and events like CUDA's


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
        size = max(16, 1 << (n - 1).bit_length())
        free = self.buffers.setdefault((dtype, size), [])
        if not free:  # 32 at once: locking pages takes long
            with torch.inference_mode(False):  # or it could be written there only
                free.extend(_pinned(size, 32, dtype))
        return free.pop()

    def event(self, device: torch.device) -> Any:
        free = self.events.setdefault(device, [])
        return free.pop() if free else _module(device).Event()

    def back(self, pending: Pending) -> None:
        """An event without a buffer is not from here."""
        buffer = pending.buffer
        if buffer is not None:
            self.buffers[buffer.dtype, buffer.numel()].append(buffer)
            self.events[pending.device].append(pending.event)


class Pending:
    """One copy, or one event without a copy, on its way."""

    __slots__ = ("arrived", "buffer", "device", "event", "n", "source")

    def __init__(
        self,
        device: torch.device,
        event: Any,
        arrived: Callable[[list[float]], None],
        buffer: torch.Tensor | None = None,
        n: int = 0,
        source: torch.Tensor | None = None,
    ) -> None:
        self.device, self.event, self.arrived = device, event, arrived
        self.buffer, self.n, self.source = buffer, n, source

    def take(self) -> list[float]:
        if self.buffer is None:
            return []
        values: list[float] = self.buffer[: self.n].tolist()
        return values


class Queue:
    """What is on its way, in order for each device. Any thread may put; one at a time
    takes out."""

    def __init__(self) -> None:
        self.pool = _Pool()
        self.lines: dict[torch.device, deque[Pending]] = {}
        self.count = 0
        self.dropped = 0
        self.putting = threading.Lock()
        self.taking = threading.RLock()

    def put(self, pending: Pending) -> None:
        with self.putting:
            if not self.count:
                _at_exit()
            self.count += 1
            self.lines.setdefault(pending.device, deque()).append(pending)

    def full(self) -> bool:
        if self.count < PENDING_MAX:
            return False
        self.poll(PENDING_MAX)
        if self.count < PENDING_MAX:
            return False
        self.dropped += 1
        tell_once("later", f"{PENDING_MAX} values are on their way from the device; newer ones "
                  "are left out until some have arrived")  # fmt: skip
        return True

    def poll(self, most: int = 64) -> int:
        """Hand on what has arrived; how many."""
        if not self.count or not self.taking.acquire(blocking=False):
            return 0
        done = 0
        try:
            for line in list(self.lines.values()):
                while line and done < most and self._arrived(line[0]):
                    self._hand_on(line)
                    done += 1
        finally:
            self.taking.release()
        return done

    def wait(self) -> int:
        """Hand on everything; waits for the devices."""
        done = 0
        with self.taking:
            for line in list(self.lines.values()):
                while line:
                    try:
                        line[0].event.synchronize()
                    except RuntimeError as error:
                        self._lost(error)
                        break
                    self._hand_on(line)
                    done += 1
        return done

    def _arrived(self, pending: Pending) -> bool:
        try:
            return bool(pending.event.query())
        except RuntimeError as error:  # the device has failed: so will training
            self._lost(error)
            return False

    def _hand_on(self, line: deque[Pending]) -> None:
        pending = line.popleft()
        values = pending.take()
        with self.putting:
            self.count -= 1
            self.pool.back(pending)
        try:
            pending.arrived(values)
        except Exception as error:
            tell_once("later", f"{type(error).__name__}: {error}")

    def _lost(self, error: BaseException) -> None:
        with self.putting:
            self.lines, self.count = {}, 0
        tell_once("later", f"values are lost: the device failed: {error}")


queue = Queue()
_registered = False


def _at_exit() -> None:
    """At the first value, so after init(): it runs before the run is closed."""
    global _registered
    if not _registered:
        _registered = True
        atexit.register(flush, True)


def _after_fork() -> None:
    """A child has no device context; what is on its way is the parent's."""
    global queue
    queue = Queue()


os.register_at_fork(after_in_child=_after_fork)


def asynchronous(device: torch.device) -> bool:
    """Can values of this device be read without waiting for it?"""
    return device.type in _ASYNC


def capturing(device: torch.device) -> bool:
    """Is the current stream being captured into a CUDA graph? Nothing may be added."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All their elements in order, in one tensor: exact, in as few operations as can be."""
    with torch.no_grad():
        flat = [tensor.detach().reshape(-1) for tensor in tensors]
        if len({t.dtype for t in flat}) > 1:
            flat = [t.to(torch.float64) for t in flat]
        return flat[0] if len(flat) == 1 else torch.cat(flat)


def _local(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor itself; of a distributed one the local part if that is all of it."""
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
    CUDA it is called by a later `later()`, `log()`, `phase()` or `flush()`, in whichever
    thread that is. All tensors are on one device. Nothing raises: what fails is said once
    (event `lapse.torch`)."""
    if step is None:
        step = step_now()
    if time_ns is None:
        time_ns = _core.now()
    try:
        _later(tensors, then, step, time_ns)
    except Exception as error:
        tell_once("later", f"{type(error).__name__}: {error}")


def _later(tensors: Sequence[torch.Tensor], then: Then, step: int | None, time_ns: int) -> None:
    if not tensors:
        then([], step, time_ns)
        return
    device = tensors[0].device
    if device.type == "meta" or capturing(device):
        tell_once("later", "values made while a CUDA graph is captured, or without data, "
                  "cannot be read")  # fmt: skip
        return
    local = [_local(tensor) for tensor in tensors]
    whole = [tensor for tensor in local if tensor is not None]
    if len(whole) < len(local):
        tell_once("later", "a distributed tensor is spread over ranks: reduce it first")
        return
    if not asynchronous(device):
        then(_joined(whole).tolist(), step, time_ns)
        return
    queue.poll()
    if queue.full():
        return
    with _module(device).device(device):
        source = _joined(whole)
        with queue.putting:
            buffer = queue.pool.buffer(source.dtype, source.numel())
            event = queue.pool.event(device)
        buffer[: source.numel()].copy_(source, non_blocking=True)
        event.record(_module(device).current_stream(device))

    def arrived(values: list[float]) -> None:
        then(values, step, time_ns)

    queue.put(Pending(device, event, arrived, buffer, source.numel(), source))


def _is_late(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and asynchronous(value.device)


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
        elif _is_late(value):
            late[name] = value
        else:
            ready[name] = value


def log(values: Mapping[Any, Any], step: int | None = None) -> None:
    """Like `lapse.log()`: one frame of scalars, nested dicts become `outer/inner`. Tensors
    on a device with one element are not waited for: they are recorded when they arrive,
    with the step (the current one unless given) and the time of this call. About 20 us
    with tensors on a device, as `lapse.log()` without."""
    queue.poll()
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


def _log_late(names: list[str], tensors: list[torch.Tensor], at: int, time_ns: int) -> None:
    def then(arrived: list[float], step: int | None, time_ns: int) -> None:
        _core.log(dict(zip(names, arrived)), step, time_ns)

    later(tensors, then, at, time_ns)


def flush(wait: bool = False) -> None:
    """Record what has arrived from the devices. wait=True: all that is on its way, by
    waiting for the devices: for the end of a run, before `lapse.finish()`. At exit it is
    done by itself."""
    if wait:
        queue.wait()
    else:
        queue.poll(PENDING_MAX)
