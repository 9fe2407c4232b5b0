# SPDX-License-Identifier: Apache-2.0
"""ResourceMonitorCallback: what machine and GPUs do while Lightning trains, with alerts
and a CSV file of each epoch."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .. import _callback, _events, _machine
from .._callback import guard
from .._console import style_of
from .._resource_alerts import Alerts, gpus_of_this_program
from .._resource_log import ResourceLog
from ._common import is_second, say, send

if TYPE_CHECKING:
    from .._resource_alerts import Alert

_hook = guard("lightning")
_GIB = 1024.0  # of MiB


class ResourceMonitorCallback:
    """Reports what lapse's agent measures, every log_interval batches:

        Trainer(callbacks=[lapse.lightning.ResourceMonitorCallback(log_interval=10)])

    Nothing is sampled in the training: the agent reads machine, GPUs and processes each
    second, and a thread reads what it stored. gpu_monitoring, cpu_monitoring (memory
    among it) and io_monitoring choose what is reported; alert_* what is warned of:
    a GPU below gpu_util_threshold (each GPU of this program for itself), memory of
    machine or cgroup above memory_threshold, waiting for disks above io_wait_threshold, a
    GPU above temperature_threshold degrees: over hold_batches batches and at least three
    readings, and again after `cooldown` seconds. Of two in one Trainer the second does
    nothing.

    export_timeseries: a row each time in timeseries_path/epoch_0.csv (0-based; with
    several ranks each has epoch_0_rank_1.csv), whose columns stay the same when GPUs come
    or go. console_style as of ThroughputMonitorCallback; "classic" prints the guide's
    lines each time, "lapse" one line an epoch, and alerts."""

    def __init__(
        self,
        enabled: bool = True,
        log_interval: int = 10,
        gpu_monitoring: bool = True,
        cpu_monitoring: bool = True,
        io_monitoring: bool = True,
        alert_gpu_underutilization: bool = True,
        alert_memory_pressure: bool = True,
        alert_io_bottleneck: bool = True,
        gpu_util_threshold: float = 0.5,
        memory_threshold: float = 0.9,
        io_wait_threshold: float = 0.3,
        export_timeseries: bool = True,
        timeseries_path: str | os.PathLike[str] = "resource_logs",
        *,
        temperature_threshold: float = 80.0,
        hold_batches: int = 30,
        cooldown: float = 300.0,
        console_style: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(log_interval, bool) or int(log_interval) != log_interval or log_interval < 1:
            raise ValueError(f"log_interval is a whole number of batches from 1 on, "
                             f"not {log_interval!r}")  # fmt: skip
        self.enabled = bool(enabled)
        self.log_interval = int(log_interval)
        self.gpu_monitoring, self.cpu_monitoring = gpu_monitoring, cpu_monitoring
        self.io_monitoring, self.export_timeseries = io_monitoring, export_timeseries
        self._style = style_of(console_style)
        self.alerts = Alerts(
            gpu_util=gpu_util_threshold if alert_gpu_underutilization and gpu_monitoring else None,
            memory=memory_threshold if alert_memory_pressure else None,
            io_wait=io_wait_threshold if alert_io_bottleneck and io_monitoring else None,
            temperature=temperature_threshold if gpu_monitoring else None,
            hold=hold_batches, cooldown=cooldown,
        )  # fmt: skip
        self._log = ResourceLog(timeseries_path)
        self._machine: Any = None
        self._batches = 0
        self._version = 0
        self._logged = 0.0
        self.last: dict[str, float | None] = {}  #: the last report

    # ---- fit ------------------------------------------------------------------------------

    @_hook
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if not self.enabled or self._machine is not None:
            return
        if is_second(trainer, self, ResourceMonitorCallback):
            return
        ranks = (trainer.global_rank, trainer.local_rank, trainer.world_size)
        _callback.begin_run(None, None, None, ranks)
        self._machine = _machine.share()
        self._log.rank = trainer.global_rank if trainer.world_size > 1 else None
        self._batches, self._logged = 0, time.monotonic()
        self.alerts.renew()

    @_hook
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """A checkpoint has been read by now."""
        self._log.begin(resumed=trainer.global_step > 0)

    @_hook
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._machine is None:
            return
        self._batches += 1
        if self._machine.version != self._version:
            self._version = self._machine.version
            self._watch(trainer)
        if self._batches % self.log_interval == 0:
            self._report(trainer)

    @_hook
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._machine is None:
            return
        self._log.close()
        if self._style == "lapse":
            say(trainer, *self._line(trainer))

    @_hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end()

    @_hook
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._end()

    def _end(self) -> None:
        self._log.close()
        if self._machine is not None:
            self._machine = None
            _machine.give_back()

    # ---- alerts ---------------------------------------------------------------------------

    def _watch(self, trainer: Any) -> None:
        """A new reading: one process of each machine looks at it."""
        if trainer.local_rank != 0:
            return
        gpus = gpus_of_this_program(self._machine.gpus, self._machine.gpu_uuid)
        for alert in self.alerts.look(self._machine, gpus, self._batches):
            _events.event("alert", alert.text, "warning", rule=alert.rule, gpu=alert.gpu,
                          value=alert.value, threshold=alert.threshold,
                          batches=alert.batches, advice=alert.advice)  # fmt: skip
            if self._style != "none":
                say(trainer, self._alert_line(alert))

    def _alert_line(self, alert: Alert) -> str:
        if self._style == "classic":
            return f"ResourceMonitor: ALERT - {alert.classic}"
        return f"lapse: {alert.text}; {alert.advice}"

    # ---- report ---------------------------------------------------------------------------

    def _report(self, trainer: Any) -> None:
        now = time.monotonic()
        seconds, self._logged = max(now - self._logged, 1.0), now
        row = self._machine.row("ocr", seconds)
        self.last = {name: value if self._wanted(name) else None for name, value in row.items()}
        if self.export_timeseries:
            self._log.add(self.last, trainer.global_step, trainer.current_epoch)
        values = {name: value for name, value in self.last.items() if value is not None}
        if self.cpu_monitoring:
            values.update({f"cpu_core_{cpu}_percent": busy
                           for cpu, busy in self._machine.cores().items()})  # fmt: skip
            left = self._machine.out_of_memory_in()
            if left is not None:
                values["memory_oom_seconds"] = left
        if self.io_monitoring:
            for name in ("read_size_bytes", "read_cached_percent"):
                value = self._machine.get(name, seconds)
                if value is not None:
                    values[name] = value
        send(trainer, values, record=False)  # the agent has recorded them already
        if self._style == "classic":
            say(trainer, *self._classic())

    def _wanted(self, name: str) -> bool:
        if name.startswith("gpu_"):
            return self.gpu_monitoring
        if name.startswith("io_"):
            return self.io_monitoring
        return self.cpu_monitoring

    def _classic(self) -> list[str]:
        lines = []
        get = self.last.get
        for gpu in self._machine.gpus if self.gpu_monitoring else ():
            util, temp = get(f"gpu_{gpu}_util"), get(f"gpu_{gpu}_temp_c")
            used, total = get(f"gpu_{gpu}_memory_used_mb"), get(f"gpu_{gpu}_memory_total_mb")
            parts = []
            if util is not None:
                parts.append(f"Util: {100 * util:.0f}%")
            if used is not None and total is not None:
                parts.append(f"Mem: {used / _GIB:.1f}/{total / _GIB:.1f}GB")
            if temp is not None:
                parts.append(f"Temp: {temp:.0f}°C")
            if parts:
                lines.append(f"ResourceMonitor: GPU {gpu} - " + ", ".join(parts))
        busy, used = get("cpu_percent"), get("memory_system_mb")
        total = self._machine.get("memory_total_mb")
        if busy is not None and used is not None and total:
            lines.append(f"ResourceMonitor: CPU - Usage: {busy:.0f}%, "
                         f"Memory: {used / _GIB:.1f}/{total / _GIB:.0f}GB")  # fmt: skip
        return lines

    def _line(self, trainer: Any) -> list[str]:
        get = self.last.get
        parts = []
        for gpu in self._machine.gpus if self.gpu_monitoring else ():
            util, power = get(f"gpu_{gpu}_util"), get(f"gpu_{gpu}_power_w")
            if util is not None:
                parts.append(f"GPU {gpu} busy {100 * util:.0f} %"
                             + (f", {power:.0f} W" if power is not None else ""))  # fmt: skip
        if get("cpu_percent") is not None:
            parts.append(f"CPUs busy {get('cpu_percent'):.0f} %")
        if get("memory_percent") is not None:
            parts.append(f"memory {get('memory_percent'):.0f} %")
        if get("io_wait_pct") is not None:
            parts.append(f"tasks wait for disks {get('io_wait_pct'):.1f} % of the time")
        if not parts:
            return []
        return [f"lapse: epoch {trainer.current_epoch}: " + "; ".join(parts)]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_machine"] = None
        return state
