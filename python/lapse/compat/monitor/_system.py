# SPDX-License-Identifier: Apache-2.0
"""SystemMonitor: the machine's figures under the guide's names, as the agent measures them.
Nothing is sampled here."""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Any, Callable

from ... import _machine
from ..._resource_alerts import gpus_of_this_program
from ..._tell import tell_once
from ._metrics import UNKNOWN, SystemMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

_GPU = ("utilization", "memory_utilization", "memory_mb", "temperature", "power_watts")


class SystemMonitor:
    """Reads what the agent has stored of the machine each update_interval seconds (which
    has its own pace, one second unless configured), in a thread.

    device_ids: GPUs by nvidia-smi's number; None: those of CUDA_VISIBLE_DEVICES, else all.
    `callbacks` are called with each SystemMetrics, in that thread. `absent()` says why a
    figure is not known. It needs no library for GPUs."""

    def __init__(
        self, device_ids: Iterable[int] | None = None, update_interval: float = 1.0
    ) -> None:
        if not update_interval > 0:
            raise ValueError("SystemMonitor: update_interval is a time above 0 seconds, "
                             f"not {update_interval!r}")  # fmt: skip
        self.device_ids = None if device_ids is None else [str(one) for one in device_ids]
        self.update_interval = float(update_interval)
        self.callbacks: list[Callable[[SystemMetrics], None]] = []
        self.monitoring = False
        self._machine: Any = None
        self._seen = 0
        self._latest: SystemMetrics | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start_monitoring(self) -> None:
        """Begin; a second call does nothing. The run must be there: lapse.init()."""
        if self.monitoring and self._pid == os.getpid():
            return
        self.monitoring, self._pid, self._seen = True, os.getpid(), 0
        self._machine = _machine.share()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lapse-system", daemon=True)
        self._thread.start()

    def stop_monitoring(self) -> None:
        """Stop; the last figures stay. What came since the last look is looked at."""
        if not self.monitoring:
            return
        self.monitoring = False
        self._stop.set()
        thread, self._thread = self._thread, None
        if self._pid != os.getpid():
            return
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)
        self._look()
        self._machine = None
        _machine.give_back()

    def get_latest_metrics(self) -> SystemMetrics | None:
        """None until there is a reading."""
        return self._latest

    def absent(self) -> dict[str, str]:
        """{figure: why it is not known}, now."""
        machine = self._machine
        if machine is None:
            return {"": "the monitor does not run"}
        found: dict[str, str] = machine.absent("monitor")
        return found

    def _follow(self) -> None:
        while not self._stop.wait(self.update_interval):
            self._look()

    def _look(self) -> None:
        machine = self._machine
        if machine is None or machine.version == self._seen:
            return
        try:
            self._seen = machine.version
            self._latest = metrics = self._read(machine)
        except Exception as error:
            tell_once("monitor", f"SystemMonitor: {type(error).__name__}: {error}")
            return
        for callback in list(self.callbacks):
            try:
                callback(metrics)
            except Exception as error:
                tell_once("monitor", f"a callback: {type(error).__name__}: {error}")

    def _gpus(self, machine: Any) -> list[str]:
        if self.device_ids is not None:
            return [gpu for gpu in machine.gpus if gpu in self.device_ids]
        return gpus_of_this_program(machine.gpus, machine.gpu_uuid)

    def _read(self, machine: Any) -> SystemMetrics:
        gpus = self._gpus(machine)
        row = machine.row("monitor", max(self.update_interval, 1.0), gpus)
        each: dict[str, dict[str, float]] = {}
        for gpu in gpus:
            values = {name: row.pop(f"gpu_{gpu}_{name}", None) for name in _GPU}
            each[gpu] = {name: value for name, value in values.items() if value is not None}
        row.pop("cpu_memory_mb", None)  # the process's, under its other name
        found = SystemMetrics(gpus=each)
        for name, value in row.items():
            if value is not None and hasattr(found, name):
                setattr(found, name, value)
        found.gpu_utilization = over(each, "utilization", lambda v: math.fsum(v) / len(v))
        found.gpu_memory_utilization = over(each, "memory_utilization", max)
        found.gpu_temperature = over(each, "temperature", max)
        found.gpu_power_watts = over(each, "power_watts", math.fsum)
        found.gpu_memory_mb = over(each, "memory_mb", math.fsum)
        return found


def over(
    each: dict[str, dict[str, float]], name: str, how: Callable[[list[float]], float]
) -> float:
    """One figure of all GPUs that have it; UNKNOWN of none."""
    values = [one[name] for one in each.values() if name in one]
    return float(how(values)) if values else UNKNOWN
