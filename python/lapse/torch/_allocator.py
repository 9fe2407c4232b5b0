# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's caching allocator says of a device's memory, by its fastest call."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .. import _core, _events
from ._helper import Helper, quiet

GIB = 1 << 30
_GAUGES = {
    "allocated": "memory of tensors",
    "reserved": "memory that the allocator has taken from the device",
    "allocated/peak": "most memory of tensors, since the start or the last reset",
    "reserved/peak": "most memory taken from the device, since the start or the last reset",
    "inactive_split": "memory reserved in split blocks that no tensor uses",
}
_COUNTERS = {
    "retries": "allocations that freed the cache and tried again",
    "ooms": "allocations that failed for lack of memory",
}
_SOURCES = {
    "allocated": ("allocated_bytes", "all", "current"),
    "reserved": ("reserved_bytes", "all", "current"),
    "allocated/peak": ("allocated_bytes", "all", "peak"),
    "reserved/peak": ("reserved_bytes", "all", "peak"),
    "inactive_split": ("inactive_split_bytes", "all", "current"),
    "retries": ("num_alloc_retries",),
    "ooms": ("num_ooms",),
}

Stats = dict[str, Any]  # as the allocator gives them, nested
Read = Callable[[int], Stats]


def _flat(stats: dict[str, Any]) -> Stats:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`; what is nested stays."""
    out: Stats = {}
    for key, value in stats.items():
        *path, last = str(key).split(".")
        at = out
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return out


def _cuda_reader() -> Read:
    """The call below memory_stats(), which sorts and joins some hundred names."""
    fast = getattr(torch._C, "_cuda_memoryStats", None)
    if fast is not None:
        return fast  # type: ignore[no-any-return]
    nested = getattr(torch.cuda, "memory_stats_as_nested_dict", None)
    if nested is not None:
        return nested  # type: ignore[no-any-return]
    return lambda index: _flat(torch.cuda.memory_stats(index))


def _accelerator_reader(kind: str) -> Read | None:
    own = getattr(torch, kind, None)
    nested = getattr(own, "memory_stats_as_nested_dict", None)
    if nested is not None:
        return nested  # type: ignore[no-any-return]
    stats = getattr(own, "memory_stats", None)
    if stats is None and hasattr(torch, "accelerator"):
        stats = getattr(torch.accelerator, "memory_stats", None)
    return None if stats is None else lambda index: _flat(stats(index))


def _mps_stats(index: int) -> Stats:
    """Apple's allocator has two numbers."""
    return {
        "allocated_bytes": {"all": {"current": torch.mps.current_allocated_memory()}},
        "reserved_bytes": {"all": {"current": torch.mps.driver_allocated_memory()}},
    }


def _kind() -> str:
    """The kind of accelerator that is there; "" if none."""
    if torch.cuda.is_available():
        return "cuda"
    for kind in ("xpu", "mps"):
        module = getattr(torch, kind, None)
        if module is None:
            continue
        backend = getattr(torch.backends, kind, module)
        if getattr(backend, "is_available", lambda: False)():
            return kind
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return str(accelerator.current_accelerator().type)
    return ""


def _at(stats: Stats, *path: str) -> int | None:
    at: Any = stats
    for part in path:
        if not isinstance(at, dict) or part not in at:
            return None
        at = at[part]
    return int(at)


def read(stats: Stats) -> dict[str, int]:
    """The numbers that are recorded; those that an allocator does not have are absent."""
    found = {name: _at(stats, *path) for name, path in _SOURCES.items()}
    return {name: value for name, value in found.items() if value is not None}


def fragmentation(allocated: float, reserved: float) -> float | None:
    """(reserved - allocated) / reserved; None while nothing is reserved."""
    return (reserved - allocated) / reserved if reserved > 0 else None


class _Device:
    """One device: its metrics, and what its counters were."""

    def __init__(self, index: int, total: int | None) -> None:
        self.index, self.total = index, total
        self.metrics: dict[str, _core.Metric] = {}
        self.before: dict[str, int] = {}
        self.high = False

    def metric(self, name: str, unit: str, kind: Any, help: str) -> _core.Metric:
        metric = self.metrics.get(name)
        if metric is None:
            labels = {"gpu": self.index}
            metric = _core.metric(f"torch/memory/{name}", unit, kind, help, labels)
            self.metrics[name] = metric
        return metric


class Allocator(Helper):
    """Memory of a device as PyTorch's caching allocator counts it.

        memory = lapse.torch.Allocator()
        for batch in loader:
            ...
            memory.step()

    every: read each so many calls of step(). devices: indices as PyTorch counts them, "all"
    for every visible one, None for the current one. threshold: share of the reserved memory
    that is free from which on an event says so, once until it was below again (None: never).
    Retries and failed allocations since the last step are an event too.

    `last` has the numbers by device: bytes; "fragmentation", (reserved - allocated) /
    reserved, absent while nothing is reserved; "share", of the device's memory that is
    reserved. A device is not touched before the program uses it."""

    def __init__(
        self,
        every: int = 10,
        devices: int | list[int] | str | None = None,
        threshold: float | None = 0.3,
    ) -> None:
        super().__init__(every)
        if isinstance(devices, str) and devices != "all":
            raise ValueError(f'Allocator: devices is a list of indices or "all", not {devices!r}')
        self.threshold = threshold
        self.last: dict[int, dict[str, float]] = {}
        self._wanted: Any = [devices] if isinstance(devices, int) else devices
        self._devices: list[_Device] | None = None
        self.kind = _kind()
        reader = {"": None, "cuda": _cuda_reader, "mps": lambda: _mps_stats}.get(
            self.kind, lambda: _accelerator_reader(self.kind)
        )
        found = None if reader is None else reader()
        self._read: Read = found or (lambda index: {})
        if found is None:
            self._cannot("there is no accelerator with a caching allocator", False)

    def _module(self) -> Any:
        return getattr(torch, self.kind)

    def _used(self) -> bool:
        """Has the program used the device? Looking must not make a context on it."""
        asked = getattr(self._module(), "is_initialized", None)
        return asked is None or bool(asked())

    def _find(self) -> list[_Device]:
        module = self._module()
        indices = self._wanted
        if indices is None:
            current = getattr(module, "current_device", None)
            indices = [current() if current else 0]
        elif indices == "all":
            indices = range(module.device_count())
        found = []
        for index in indices:
            properties = getattr(module, "get_device_properties", None)
            total = properties(index).total_memory if properties else None
            found.append(_Device(index, total))
        return found

    @quiet
    def step(self) -> None:
        """Read and record. No waiting for a device."""
        if not self._due() or not self._used():
            return
        if self._devices is None:
            self._devices = self._find()
        for device in self._devices:
            self._take(device, read(self._read(device.index)))

    def _take(self, device: _Device, now: dict[str, int]) -> None:
        last: dict[str, float] = dict(now)
        for name, help in _GAUGES.items():
            if name in now:
                device.metric(name, "By", "gauge", help).set(now[name])
        split = fragmentation(now.get("allocated", 0), now.get("reserved", 0))
        if split is not None:
            last["fragmentation"] = split
            help = "(reserved - allocated) / reserved"
            device.metric("fragmentation", "1", "gauge", help).set(split)
        if device.total and "reserved" in now:
            last["share"] = now["reserved"] / device.total
            help = "reserved memory over the device's"
            device.metric("share", "1", "gauge", help).set(last["share"])
        self._counters(device, now)
        self._fragmented(device, split)
        self.last[device.index] = last

    def _counters(self, device: _Device, now: dict[str, int]) -> None:
        """What happened since the last time; what did before the first is not ours."""
        more = {}
        for name, help in _COUNTERS.items():
            if name not in now:
                continue
            before = device.before.setdefault(name, now[name])
            # Fewer than before: the program has reset them.
            delta = now[name] - before if now[name] >= before else now[name]
            device.before[name] = now[name]
            if delta or name not in device.metrics:
                device.metric(name, "1", "counter", help).add(delta)
            if delta:
                more[name] = delta
        if more:
            said = ", ".join(f"{count} {_COUNTERS[name]}" for name, count in more.items())
            _events.event("memory", f"GPU {device.index}: {said}", "warning", gpu=device.index,
                          **more)  # fmt: skip

    def _fragmented(self, device: _Device, split: float | None) -> None:
        high = self.threshold is not None and split is not None and split > self.threshold
        if high and not device.high:
            _events.event(
                "memory-fragmentation",
                f"⚠️ High memory fragmentation: {split:.1%}",
                "warning",
                gpu=device.index,
                fragmentation=split,
                threshold=self.threshold,
            )
        device.high = high

    def document(self, step: int, device: int | None = None) -> dict[str, float | int | None]:
        """The last numbers in the form that one of the source documents gives them: keys
        step, allocated_gb, reserved_gb, peak_allocated_gb, peak_reserved_gb (in GiB), and
        fragmentation, None while nothing is reserved. device: None is the first."""
        last = self.last.get(next(iter(self.last), 0) if device is None else device, {})
        gib = {
            key: last[name] / GIB if name in last else None
            for key, name in (
                ("allocated_gb", "allocated"),
                ("reserved_gb", "reserved"),
                ("peak_allocated_gb", "allocated/peak"),
                ("peak_reserved_gb", "reserved/peak"),
            )
        }
        return {"step": step, **gib, "fragmentation": last.get("fragmentation")}

    def report(self) -> str:
        """A line for each device."""
        lines = []
        for index, last in self.last.items():
            parts = [
                f"{word} {last[name] / GIB:.2f} GiB"
                for word, name in (
                    ("allocated", "allocated"),
                    ("reserved", "reserved"),
                    ("peak", "allocated/peak"),
                )
                if name in last
            ]
            if "share" in last:
                parts.append(f"{last['share']:.1%} of the device reserved")
            if "fragmentation" in last:
                parts.append(f"fragmentation {last['fragmentation']:.1%}")
            lines.append(f"GPU {index}: " + ", ".join(parts))
        return "\n".join(lines) or self.reason
