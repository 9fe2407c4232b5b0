# SPDX-License-Identifier: Apache-2.0
"""PerformanceAlerting compares metrics with a baseline and mails what is wrong, from a thread
of its own; RealTimeMonitor does that again and again."""

from __future__ import annotations

import atexit
import os
import queue
import re
import smtplib
import ssl
import statistics
import sys
import threading
import time
from collections import deque
from datetime import datetime
from email.mime.text import MIMEText
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import _events
from ..._tell import tell_once
from ._common import MIB, hook, log, open_run, when_there

if TYPE_CHECKING:
    from collections.abc import Mapping

COOLDOWN_S = 300.0
QUEUE_MAX = 100  # mails that wait; more are dropped and said
TRIES, RETRY_S = 5, 2.0  # after 2, 4, 8, 16 s
EXIT_S = 10.0  # the program's end waits so long for mails
THRESHOLDS = {"loss_increase": 0.1, "gpu_memory": 0.9, "cpu_usage": 0.95, "training_speed": 0.5}
_NEEDED = ("from", "to", "smtp_server", "smtp_port")
_OTHERS = ("username", "password", "starttls", "verify", "timeout")
_GPU_KEY = re.compile(r"gpu_(?=\d)")


def _check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    missing = [key for key in _NEEDED if not config.get(key)]
    if missing:
        raise ValueError(f"PerformanceAlerting: email_config lacks {', '.join(missing)}")
    unknown = [key for key in config if key not in _NEEDED + _OTHERS]
    if unknown:
        raise ValueError(f"PerformanceAlerting: email_config knows no {', '.join(unknown)}; it "
                         f"has {', '.join(_NEEDED + _OTHERS)}")  # fmt: skip
    return dict(config)


def _text(value: Any) -> str:
    """One line: what is in a header cannot begin another."""
    return " ".join(str(value).split())


class _Mailer:
    """Sends mails one after the other in a thread; what fails is tried again."""

    def __init__(self, config: dict[str, Any], retry: float) -> None:
        self.config, self.retry = config, retry
        self.sent = self.failed = 0
        self._queue: queue.Queue[MIMEText] = queue.Queue(QUEUE_MAX)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def put(self, message: MIMEText) -> bool:
        if self._pid != os.getpid():  # forked: the thread is the parent's
            self._queue, self._thread, self._pid = queue.Queue(QUEUE_MAX), None, os.getpid()
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            tell_once("nemo", f"more than {QUEUE_MAX} mails wait: some alerts are not mailed")
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lapse-mail", daemon=True)
            self._thread.start()
            atexit.register(self.wait, EXIT_S)
        return True

    def wait(self, seconds: float) -> bool:
        """Until all are sent or given up, at most so long; are they?"""
        end = time.monotonic() + seconds
        while self._queue.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.02)
        return not self._queue.unfinished_tasks

    def _run(self) -> None:
        while True:
            message = self._queue.get()
            try:
                self._deliver(message)
            finally:
                self._queue.task_done()

    def _deliver(self, message: MIMEText) -> None:
        for attempt in range(TRIES):
            try:
                self._send(message)
                self.sent += 1
                return
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                final = isinstance(error, (smtplib.SMTPNotSupportedError, ValueError)) or (
                    isinstance(error, smtplib.SMTPResponseException) and error.smtp_code >= 500
                )
            if final or attempt == TRIES - 1:
                break
            time.sleep(self.retry * 2**attempt)
        self.failed += 1
        _events.event("alert-failed", f"an alert was not mailed: {why}", "warning")

    def _send(self, message: MIMEText) -> None:
        config = self.config
        with smtplib.SMTP(config["smtp_server"], int(config["smtp_port"]),
                          timeout=float(config.get("timeout", 30))) as server:  # fmt: skip
            if config.get("starttls", True):
                context = ssl.create_default_context()
                if not config.get("verify", True):
                    context.check_hostname = False
                    context.verify_mode = ssl.CERT_NONE
                server.starttls(context=context)
            if config.get("username"):
                server.login(config["username"], config.get("password", ""))
            server.send_message(message)


class PerformanceAlerting:
    """Alerts of four kinds: the loss or the speed against a baseline, memory of GPUs, use of
    the CPUs; each as {"type", "message", "severity"}.

    email_config: from, to, smtp_server, smtp_port, username, password; STARTTLS with a
    checked certificate, unless `starttls` or `verify` is False. None: no mail. thresholds:
    others than the defaults. cooldown: seconds in which the same alert is not sent again.
    `alert_thresholds` may be changed at any time."""

    def __init__(
        self,
        email_config: Mapping[str, Any] | None = None,
        thresholds: Mapping[str, float] | None = None,
        cooldown: float = COOLDOWN_S,
        retry: float = RETRY_S,
    ) -> None:
        unknown = [name for name in thresholds or {} if name not in THRESHOLDS]
        if unknown:
            raise ValueError(f"PerformanceAlerting: no threshold {', '.join(unknown)}; there are "
                             f"{', '.join(THRESHOLDS)}")  # fmt: skip
        self.email_config = _check_config(email_config) if email_config else None
        self.alert_thresholds = {**THRESHOLDS, **(thresholds or {})}
        self.cooldown = cooldown
        self.mailer = _Mailer(self.email_config, retry) if self.email_config else None
        self._sent: dict[str, float] = {}
        self._lock = threading.Lock()

    def check_alerts(
        self, current_metrics: Mapping[str, Any], baseline_metrics: Mapping[str, Any]
    ) -> list[dict[str, str]]:
        """What is beyond its threshold. Keys: loss, training_speed (any unit), cpu_percent,
        gpu_memory {gpu: {memory_used or memory_reserved, memory_total}}; what is absent or
        None is not checked. GPU memory is the share of the device's: without memory_total
        PyTorch is asked for it."""
        found = [
            self._loss(current_metrics.get("loss"), baseline_metrics.get("loss")),
            *self._memory(current_metrics.get("gpu_memory")),
            self._cpu(current_metrics.get("cpu_percent")),
            self._speed(current_metrics.get("training_speed"),
                        baseline_metrics.get("training_speed")),
        ]  # fmt: skip
        return [
            {"type": kind, "message": message, "severity": "warning"}
            for kind, message in (one for one in found if one is not None)
        ]

    def _loss(self, now: Any, base: Any) -> tuple[str, str] | None:
        limit = self.alert_thresholds["loss_increase"]
        if now is None or base is None or not abs(base) > 0:
            return None
        more = (now - base) / abs(base)  # a loss may be below 0
        if not more > limit:
            return None
        return "loss_increase", f"Training loss increased by {more * 100:.1f}%"

    def _cpu(self, percent: Any) -> tuple[str, str] | None:
        if percent is None or not percent > self.alert_thresholds["cpu_usage"] * 100:
            return None
        return "cpu_usage", f"CPU usage is {percent:.1f}%"

    def _speed(self, now: Any, base: Any) -> tuple[str, str] | None:
        if now is None or base is None or not base > 0:
            return None
        less = 1 - now / base
        if not less >= self.alert_thresholds["training_speed"]:
            return None
        return "training_speed", f"Training speed decreased by {less * 100:.1f}%"

    def _memory(self, gpus: Any) -> list[tuple[str, str]]:
        found = []
        for gpu, memory in (gpus or {}).items():
            number = _GPU_KEY.sub("", str(gpu))
            share = _share_of_device(number, memory)
            if share is not None and share > self.alert_thresholds["gpu_memory"]:
                found.append(("gpu_memory", f"GPU {number} memory usage is {share * 100:.1f}%"))
        return found

    def send_alert(self, alert: Mapping[str, str]) -> bool:
        """Note it in the run (event `alert`) and mail it, at once and without waiting. False:
        the same one (of the same GPU) was sent less than `cooldown` seconds ago."""
        key = re.sub(r"-?[\d.]+%", "", f"{alert['type']} {alert['message']}")
        now = time.monotonic()
        with self._lock:
            before = self._sent.get(key)
            if before is not None and now - before < self.cooldown:
                return False
            self._sent[key] = now
        severity = {"critical": "error", "error": "error", "info": "info"}.get(
            alert["severity"], "warning"
        )
        _events.event("alert", alert["message"], severity, type=alert["type"])
        if self.mailer is not None:
            self.mailer.put(self._message(alert))
        return True

    def _message(self, alert: Mapping[str, str]) -> MIMEText:
        assert self.email_config is not None
        to = self.email_config["to"]
        message = MIMEText("\n".join([
            "NeMo RL Training Alert", "",
            f"Type: {alert['type']}", f"Message: {alert['message']}",
            f"Severity: {alert['severity']}", f"Time: {datetime.now()}", "",
        ]), "plain", "utf-8")  # fmt: skip
        message["Subject"] = _text(f"NeMo RL Alert: {alert['type']}")
        message["From"] = _text(self.email_config["from"])
        message["To"] = _text(to if isinstance(to, str) else ", ".join(to))
        return message

    def wait(self, seconds: float = EXIT_S) -> bool:
        """Until all mails are sent or given up, at most so long; are they?"""
        return self.mailer is None or self.mailer.wait(seconds)


def _share_of_device(number: str, memory: Mapping[str, Any]) -> float | None:
    used = memory.get("memory_used")
    if used is None:
        used = memory.get("memory_reserved", memory.get("memory_allocated"))
    total = memory.get("memory_total")
    torch = sys.modules.get("torch")
    if total is None and torch is not None and number.isdigit():
        cuda = torch.cuda
        if cuda.is_available() and int(number) < cuda.device_count():
            total = cuda.get_device_properties(int(number)).total_memory / MIB
    if used is None or not total:
        tell_once("nemo", f"memory of GPU {number} is not checked: how much it has is not known "
                  "(memory_total)", False)  # fmt: skip
        return None
    return float(used) / float(total)


class RealTimeMonitor:
    """Looks at the metrics every `interval` seconds, in a thread, and sends what its alerting
    finds.

    training: a TrainingMonitor, whose loss and steps a second are taken; or tell them by
    update(loss=..., training_speed=...). The first `warmup` looks are no baseline; it is the
    median of the `window` looks before the present one, and with fewer than three of them
    nothing is compared."""

    LEAST = 3

    def __init__(
        self,
        alerting_system: Any = None,
        interval: float = 30,
        training: Any = None,
        warmup: int = 3,
        window: int = 10,
    ) -> None:
        self.alerting_system = alerting_system if alerting_system else PerformanceAlerting()
        self.interval = _seconds(interval)
        self.training = training
        self.monitoring_thread: threading.Thread | None = None
        self.baseline_metrics: dict[str, float] | None = None
        self.current_metrics: dict[str, Any] = {}
        self._warmup, self._looks = warmup, 0
        self._past: deque[dict[str, Any]] = deque(maxlen=window)
        self._told: dict[str, float] = {}
        self._steps: tuple[float, int] | None = None
        self._stop = threading.Event()

    @property
    def is_monitoring(self) -> bool:
        thread = self.monitoring_thread
        return thread is not None and thread.is_alive() and not self._stop.is_set()

    def update(self, **values: Any) -> None:
        """Tell the metrics of now; tensors on a device are not waited for."""
        for name, value in values.items():
            when_there(value, partial(self._told.__setitem__, name))

    def start_monitoring(self, interval: float | None = None) -> None:
        """Begin; a second call does nothing."""
        if self.is_monitoring:
            return
        if interval is not None:
            self.interval = _seconds(interval)
        self._stop = threading.Event()
        self.monitoring_thread = threading.Thread(
            target=self._loop, args=(self._stop,), name="lapse-monitor", daemon=True
        )
        self.monitoring_thread.start()

    def stop_monitoring(self) -> None:
        """End; at once, not after the interval."""
        self._stop.set()
        thread, self.monitoring_thread = self.monitoring_thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(30)

    def _loop(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.look()
            except Exception as error:
                print(f"Monitoring error: {error}", flush=True)
                tell_once("nemo", f"monitoring: {type(error).__name__}: {error}")
            stop.wait(self.interval)

    def look(self) -> list[dict[str, str]]:
        """One look, which the thread does: the alerts that were found."""
        current = self.current_metrics = self._get_current_metrics()
        self._looks += 1
        self.baseline_metrics = self._baseline()
        alerts: list[dict[str, str]] = self.alerting_system.check_alerts(
            current, self.baseline_metrics or {}
        )
        for alert in alerts:
            self.alerting_system.send_alert(alert)
        if self._looks > self._warmup:
            self._past.append(current)
        self._log_metrics(current)
        return alerts

    def _baseline(self) -> dict[str, float] | None:
        if len(self._past) < self.LEAST:
            return None
        base = {}
        for name in ("loss", "training_speed", "cpu_percent"):
            known = [one[name] for one in self._past if one.get(name) is not None]
            if len(known) >= self.LEAST:
                base[name] = statistics.median(known)
        return base

    def _get_current_metrics(self) -> dict[str, Any]:
        """loss, training_speed, gpu_memory, cpu_percent, timestamp; a class of one's own may
        give others."""
        from ._metrics import monitor_resources

        resources = monitor_resources()
        return {
            "loss": self._get_current_loss(),
            "training_speed": self._get_training_speed(),
            "gpu_memory": self._devices(resources),
            "cpu_percent": resources["cpu_percent"],
            "timestamp": time.time(),
        }

    @staticmethod
    def _devices(resources: Mapping[str, Any]) -> dict[str, Any]:
        """What the driver says of a device, else what the allocator does."""
        known = {gpu: one for gpu, one in resources["gpu_devices"].items()
                 if one["memory_used"] is not None and one["memory_total"]}  # fmt: skip
        return known or dict(resources["gpu_metrics"])

    def _get_current_loss(self) -> float | None:
        if self.training is not None:
            loss: float | None = self.training.get_training_stats().get("current_loss")
            return loss
        return self._told.get("loss")

    def _get_training_speed(self) -> float | None:
        """Steps a second since the last look; what was told, if it was."""
        if self.training is None or "training_speed" in self._told:
            return self._told.get("training_speed")
        now, steps = time.monotonic(), self.training.total_steps
        before, self._steps = self._steps, (now, steps)
        if before is None or now <= before[0]:
            return None
        return float((steps - before[1]) / (now - before[0]))

    @hook
    def _log_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Into the run: monitoring/loss and so on; the machine's figures are there anyway."""
        open_run()
        wanted = ("loss", "training_speed", "cpu_percent")
        log({f"monitoring/{name}": metrics[name] for name in wanted
                       if metrics.get(name) is not None})  # fmt: skip


def _seconds(interval: Any) -> float:
    if isinstance(interval, bool) or not isinstance(interval, (int, float)) or interval <= 0:
        raise ValueError(f"RealTimeMonitor: interval is seconds above 0, not {interval!r}")
    return float(interval)
