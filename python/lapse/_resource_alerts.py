# SPDX-License-Identifier: Apache-2.0
"""Alerts about the machine that a callback gives by itself: a limit that is passed for
many batches and several readings, again only after a pause."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

READINGS = 3  # at least: thirty fast batches may see one reading only

_ADVICE = {
    "gpu_underutilization": "check batch size, model complexity, or data loading",
    "memory_pressure": "consider gradient accumulation or model sharding",
    "io_bottleneck": "optimise data preprocessing or use faster storage",
    "gpu_temperature": "check cooling; the clock is held down when it gets hotter",
}


class Alert(NamedTuple):
    rule: str
    gpu: str  #: "" if it is about no GPU
    value: float
    threshold: float
    batches: int  #: over which it held
    text: str
    classic: str  #: as the guide words it
    advice: str


class _Held:
    """How long a limit has been passed without a break."""

    def __init__(self) -> None:
        self.since: int | None = None
        self.readings = 0
        self.said = -1e18


class Alerts:
    """Limits: None switches one off. gpu_util, memory and io_wait from 0 to 1, temperature
    in degrees Celsius. hold: batches; cooldown: seconds between two of the same."""

    def __init__(
        self,
        gpu_util: float | None,
        memory: float | None,
        io_wait: float | None,
        temperature: float | None,
        hold: int = 30,
        cooldown: float = 300.0,
    ) -> None:
        for name, value in (("gpu_util_threshold", gpu_util), ("memory_threshold", memory),
                            ("io_wait_threshold", io_wait)):  # fmt: skip
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {value!r}")
        self.gpu_util, self.memory, self.io_wait = gpu_util, memory, io_wait
        self.temperature, self.hold, self.cooldown = temperature, hold, cooldown
        self._held: dict[tuple[str, str], _Held] = {}

    def renew(self) -> None:
        """Another training begins."""
        self._held.clear()

    def look(self, machine: Any, gpus: Iterable[str], batch: int) -> list[Alert]:
        """A new reading at a batch: the alerts that are due. About 50 us."""
        found = []
        for rule, gpu, value, limit, passed in self._state(machine, gpus):
            held = self._held.setdefault((rule, gpu), _Held())
            if not passed:
                held.since, held.readings = None, 0
                continue
            if held.since is None:
                held.since = batch
            held.readings += 1
            batches = batch - held.since
            due = batches >= self.hold and held.readings >= READINGS
            now = time.monotonic()
            if due and now - held.said >= self.cooldown:
                held.said = now
                found.append(_alert(rule, gpu, value, limit, self.hold))
        return found

    def _state(
        self, machine: Any, gpus: Iterable[str]
    ) -> Iterator[tuple[str, str, float, float, bool]]:
        """(rule, GPU, value, limit, is it passed?) of what has a value."""
        for gpu in gpus:
            busy = machine.get(f"gpu_{gpu}_util")
            if self.gpu_util is not None and busy is not None:
                yield "gpu_underutilization", gpu, busy, self.gpu_util, busy < self.gpu_util
            hot = machine.get(f"gpu_{gpu}_temp_c")
            if self.temperature is not None and hot is not None:
                yield "gpu_temperature", gpu, hot, self.temperature, hot > self.temperature
        used = [value for name in ("memory_percent", "cgroup_memory_percent")
                if (value := machine.get(name)) is not None]  # fmt: skip
        if self.memory is not None and used:
            share = max(used) / 100
            yield "memory_pressure", "", share, self.memory, share > self.memory
        waits = machine.get("io_wait_pct")
        if self.io_wait is not None and waits is not None:
            yield "io_bottleneck", "", waits / 100, self.io_wait, waits / 100 > self.io_wait


def _alert(rule: str, gpu: str, value: float, limit: float, batches: int) -> Alert:
    if rule == "gpu_underutilization":
        text = f"GPU {gpu} is busy {100 * value:.0f} %, below {100 * limit:g} %"
        classic = f"GPU utilization below {100 * limit:g}%"
    elif rule == "gpu_temperature":
        text = f"GPU {gpu} has {value:.0f} °C, above {limit:g} °C"
        classic = f"GPU {gpu} temperature above {limit:g}°C"
    elif rule == "memory_pressure":
        text = f"memory is {100 * value:.0f} % full, above {100 * limit:g} %"
        classic = f"Memory usage above {100 * limit:g}%"
    else:
        text = f"tasks wait for disks {100 * value:.0f} % of the time, above {100 * limit:g} %"
        classic = f"I/O wait above {100 * limit:g}%"
    return Alert(rule, gpu, value, limit, batches, f"{text}, for {batches} batches",
                 f"{classic} for {batches} batches", _ADVICE[rule])  # fmt: skip


def gpus_of_this_program(gpus: list[str], uuids: Mapping[str, str]) -> list[str]:
    """Those that CUDA_VISIBLE_DEVICES leaves (numbers as nvidia-smi's, uuids or their
    beginnings); all, if it is not set or names something else."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus
    chosen = []
    for word in filter(None, (part.strip() for part in visible.split(","))):
        if re.fullmatch(r"\d+", word):
            chosen.append(word)
        else:
            chosen.extend(gpu for gpu, uuid in uuids.items() if uuid.startswith(word))
    known = [gpu for gpu in gpus if gpu in chosen]
    return known if known or not visible.strip() else gpus
