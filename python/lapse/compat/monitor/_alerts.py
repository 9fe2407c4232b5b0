# SPDX-License-Identifier: Apache-2.0
"""AlertSystem: rules of the program and of the guide, looked at in this process. A rule
about training sees TrainingMetrics, one about the machine SystemMetrics."""

from __future__ import annotations

import difflib
import json
import os
import string
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from ... import _core, _events, _machine, _program
from ..._settings import text as clean
from ..._tell import tell_once
from ._metrics import SystemMetrics, TrainingMetrics, known, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SEVERITIES = {"info": "info", "warning": "warning", "critical": "error"}
KINDS = ("training", "system", "both")
_TRAINING, _SYSTEM = names_of(TrainingMetrics), names_of(SystemMetrics)
_COMMON = _TRAINING & _SYSTEM

_GUIDE = {
    "cpu_usage_percent": 90.0,
    "memory_usage_percent": 85.0,
    "gpu_memory_usage_percent": 90.0,
    "gpu_temperature_celsius": 80.0,
    "disk_usage_percent": 90.0,
    "grad_norm_exploded": 10.0,
    "learning_rate_too_low": 1e-8,
    "learning_rate_too_high": 1.0,
    "training_loss_spike": 10.0,
}
#: Thresholds by name of the set: "monitor" is the guide's own, "quick_start" that of its
#: quick start, "default" the loosest of all documents.
PRESETS: dict[str, dict[str, float]] = {
    "monitor": _GUIDE,
    "quick_start": {**_GUIDE, "cpu_usage_percent": 85.0, "memory_usage_percent": 80.0},
    "default": {**_GUIDE, "cpu_usage_percent": 95.0, "memory_usage_percent": 90.0},
    "strict": {**_GUIDE, "cpu_usage_percent": 85.0, "memory_usage_percent": 80.0,
               "gpu_memory_usage_percent": 85.0, "disk_usage_percent": 85.0,
               "grad_norm_exploded": 5.0, "training_loss_spike": 3.0},
    "relaxed": {**_GUIDE, "cpu_usage_percent": 98.0, "memory_usage_percent": 95.0,
                "gpu_memory_usage_percent": 97.0, "gpu_temperature_celsius": 85.0,
                "disk_usage_percent": 95.0, "grad_norm_exploded": 100.0},
}  # fmt: skip


@dataclass
class AlertRule:
    """A rule. `hold`: it must be met so many times in a row. `error`: why it could not be
    looked at, the last time."""

    name: str
    condition: Callable[[Any], Any]
    severity: str
    message: str
    cooldown_seconds: float
    metadata: dict[str, Any]
    on: str
    hold: int = 1
    variables: dict[str, Any] = field(default_factory=dict)
    triggered: int = 0
    error: str = ""
    _met: int = 0
    _last: float = -1e18


def _above(figure: str, limit: float, metrics: Any) -> bool:
    return bool(getattr(metrics, figure) > limit)


class _Both:
    """Training figures, and the latest of the machine."""

    def __init__(self, training: TrainingMetrics, system: SystemMetrics | None) -> None:
        self._parts = (training, system if system is not None else SystemMetrics())

    def __getattr__(self, name: str) -> Any:
        for part in self._parts:
            if hasattr(part, name):
                return getattr(part, name)
        raise AttributeError(name)


def _attributes(condition: Any) -> set[str]:
    """Names that a function asks something for: of its own code."""
    code = getattr(getattr(condition, "__func__", condition), "__code__", None)
    return set(code.co_names) if code is not None else set()


def _fields(message: str, name: str) -> list[tuple[str, str]]:
    """(field, how it is written) of a template. ValueError if it is none."""
    try:
        parts = list(string.Formatter().parse(message))
    except ValueError as error:
        raise ValueError(f"add_alert_rule({name!r}): message: {error}") from None
    found = []
    for _, of, spec, conversion in parts:
        if of is not None:
            found.append((of, ("!" + conversion if conversion else "") + f":{spec or ''}"))
    return found


def _about(on: str | None, condition: Any, fields: Iterable[str]) -> str:
    """What a rule is about: said, or by what its condition and its message name."""
    if on is not None:
        if on not in KINDS:
            raise ValueError(f"add_alert_rule(): on is one of {', '.join(KINDS)}, not {on!r}")
        return on
    names = _attributes(condition) | set(fields)
    training, system = names & (_TRAINING - _COMMON), names & (_SYSTEM - _COMMON)
    if system:
        return "both" if training else "system"
    return "training"


def _check_message(rule: AlertRule) -> None:
    """Each field of the template is a figure or a variable, and can be written so."""
    figures = {"training": _TRAINING, "system": _SYSTEM, "both": _TRAINING | _SYSTEM}[rule.on]
    for of, how in _fields(rule.message, rule.name):
        first = of.replace("[", ".").partition(".")[0]
        if first not in rule.variables and first not in figures:
            near = difflib.get_close_matches(first, [*figures, *rule.variables], 1)
            hint = f"did you mean {{{near[0]}}}, or is" if near else "is"
            raise ValueError(
                f"add_alert_rule({rule.name!r}): message: {{{first}}} is no figure of "
                f"{rule.on} metrics; {hint} it a variable? then add {first}=... to the call"
            )
        text = first in ("phase",) or isinstance(rule.variables.get(first), str)
        try:
            ("{0" + how + "}").format("x" if text else 1.0)
        except ValueError as error:
            if not callable(rule.variables.get(first)) and "d" not in how:
                raise ValueError(f"add_alert_rule({rule.name!r}): message: {{{of}{how}}}: "
                                 f"{error}") from None  # fmt: skip


class AlertSystem:
    """Rules, what they said (the last 1,000 in `alerts`), and how often.

    An alert is an event `alert` of the run, a line of the log, a row of the table alerts,
    and goes to each function in `callbacks` as a dict. thresholds: {name: limit}, as one
    of PRESETS; a missing one, or None, leaves its rule out. hold: readings in a row above a
    limit of the machine's. The same rule is quiet for its cooldown afterwards."""

    def __init__(self, thresholds: dict[str, float] | None = None, hold: int = 3) -> None:
        self.alert_rules: list[AlertRule] = []
        self.alerts: deque[dict[str, Any]] = deque(maxlen=1000)
        self.callbacks: list[Callable[[dict[str, Any]], None]] = []
        self.thresholds = dict(PRESETS["monitor"] if thresholds is None else thresholds)
        self._losses: deque[float] = deque(maxlen=100)
        self._count = 0
        self._by_severity: dict[str, int] = {}
        self._by_type: dict[str, int] = {}
        self._system: SystemMetrics | None = None
        self._lock = threading.RLock()  # the machine's figures come in another thread
        self._built_in(hold)

    # ---- rules ----------------------------------------------------------------------------

    def add_alert_rule(
        self,
        name: str,
        condition: Callable[[Any], Any],
        severity: str,
        message: str,
        cooldown_seconds: float = 300,
        metadata: dict[str, Any] | None = None,
        *,
        on: str | None = None,
        hold: int = 1,
        **variables: Any,
    ) -> AlertRule:
        """Add a rule.

        condition: a function of the metrics; what it returns is taken as true or false.
        severity: info, warning or critical. message: a template of figures by name
        ("{loss:.2f}", "{custom_metrics[throughput]:.1f}") and of further variables, given
        by keyword (a value, or a function of the metrics); it is checked here, ValueError.
        on: "training", "system" or "both" (at each step, with the latest of the machine);
        None: by the figures that condition and message name. Training rules see
        validations too: metrics.phase is "train" or "val"."""
        if not name:
            raise ValueError("add_alert_rule(): the name is empty")
        if not callable(condition):
            raise ValueError(
                f"add_alert_rule({name!r}): condition must be a function of the metrics, not "
                f"{condition!r}: conditions as text are not in this version"
            )
        if severity not in SEVERITIES:
            raise ValueError(f"add_alert_rule({name!r}): severity must be one of "
                             f"{', '.join(SEVERITIES)}, not {severity!r}")  # fmt: skip
        if not cooldown_seconds >= 0 or hold < 1:
            raise ValueError(f"add_alert_rule({name!r}): cooldown_seconds={cooldown_seconds!r}, "
                             f"hold={hold!r}")  # fmt: skip
        named = [of.replace("[", ".").partition(".")[0] for of, _ in _fields(message, name)]
        rule = AlertRule(name, condition, severity, message, float(cooldown_seconds),
                         dict(metadata or {}), _about(on, condition, named), hold,
                         dict(variables))  # fmt: skip
        _check_message(rule)
        self.alert_rules.append(rule)
        return rule

    def remove_alert_rule(self, name: str) -> None:
        """KeyError: there is none of that name."""
        kept = [rule for rule in self.alert_rules if rule.name != name]
        if len(kept) == len(self.alert_rules):
            raise KeyError(name)
        self.alert_rules = kept

    def add_source_rules(self) -> None:
        """The three that the guide's configuration file has as examples."""
        add = self.add_alert_rule
        add("High Validation Loss", lambda m: m.phase == "val" and m.loss > 5.0, "warning",
            "High validation loss detected: {loss:.2f}", 300)  # fmt: skip
        add("Slow Training", lambda m: m.batch_time > 10.0, "info",
            "Training step taking longer than expected: {batch_time:.1f}s", 600)  # fmt: skip
        add("Memory Leak", lambda m: m.memory_usage_percent > 95.0, "critical",
            "Potential memory leak detected: {memory_usage_percent:.1f}%", 120)  # fmt: skip

    def _built_in(self, hold: int) -> None:
        limits = self.thresholds
        add = self.add_alert_rule

        def above(name: str, figure: str, limit: str, what: str, unit: str, cooldown: float,
                  severity: str = "warning", times: int = hold) -> None:  # fmt: skip
            value = limits.get(limit)
            if value is not None:
                add(name, partial(_above, figure, value), severity,
                    f"{what}: {{{figure}:.1f}}{unit}", cooldown, {"threshold": value},
                    hold=times, on="system" if figure in _SYSTEM else "training")  # fmt: skip

        above("High CPU Usage", "cpu_usage_percent", "cpu_usage_percent",
              "High CPU usage detected", "%", 300)  # fmt: skip
        above("High Memory Usage", "memory_usage_percent", "memory_usage_percent",
              "High memory usage detected", "%", 300)  # fmt: skip
        above("High GPU Memory Usage", "gpu_memory_utilization", "gpu_memory_usage_percent",
              "High GPU memory usage detected", "%", 300)  # fmt: skip
        above("High Disk Usage", "disk_usage_percent", "disk_usage_percent",
              "High disk usage detected", "%", 300)  # fmt: skip
        above("High GPU Temperature", "gpu_temperature", "gpu_temperature_celsius",
              "High GPU temperature detected", "°C", 300)  # fmt: skip
        above("Gradient Explosion", "grad_norm", "grad_norm_exploded",
              "Gradient explosion detected", "", 60, "critical", 1)  # fmt: skip
        low, high = limits.get("learning_rate_too_low"), limits.get("learning_rate_too_high")
        if low is not None:
            add("Learning Rate Too Low", lambda m: m.phase == "train" and m.learning_rate < low,
                "warning", "Learning rate too low: {learning_rate:.2e}", 300,
                {"threshold": low}, hold=10)  # fmt: skip
        if high is not None:
            add("Learning Rate Too High", lambda m: m.learning_rate > high, "warning",
                "Learning rate too high: {learning_rate:.2e}", 300,
                {"threshold": high})  # fmt: skip
        if limits.get("training_loss_spike") is not None:
            add("Training Loss Spike", self._spike, "critical",
                "Training loss spike detected: {loss:.2f}", 180,
                {"factor": limits["training_loss_spike"]}, on="training")  # fmt: skip
        add("Loss Is Not A Number", lambda m: known(m.loss) and m.loss != m.loss, "critical",
            "Loss is {loss} at step {step:.0f}", 300)  # fmt: skip

    def _spike(self, metrics: TrainingMetrics) -> bool:
        """So many times the mean of the last 100 losses, once there are ten."""
        loss = metrics.loss
        if metrics.phase != "train" or loss - loss != 0:
            return bool(loss == float("inf"))
        before = list(self._losses)
        self._losses.append(loss)
        if len(before) < 10:
            return False
        mean = sum(abs(value) for value in before) / len(before)
        return loss > self.thresholds["training_loss_spike"] * mean

    # ---- looking --------------------------------------------------------------------------

    def evaluate_rules(
        self,
        training_metrics: TrainingMetrics | None = None,
        system_metrics: SystemMetrics | None = None,
    ) -> list[dict[str, Any]]:
        """Look at the rules about what is given; the alerts that came of it. A condition
        that fails is said once, and counts as not met."""
        with self._lock:
            if system_metrics is not None:
                self._system = system_metrics
            pairs = [(rule, self._subject(rule, training_metrics, system_metrics))
                     for rule in self.alert_rules]  # fmt: skip
            return [self._trigger(rule, subject) for rule, subject in pairs
                    if subject is not None and self._met(rule, subject)]  # fmt: skip

    def _subject(
        self, rule: AlertRule, training: TrainingMetrics | None, system: SystemMetrics | None
    ) -> Any:
        """What of the two the rule is about."""
        if rule.on == "system":
            return system
        if rule.on == "both" and training is not None:
            return _Both(training, self._system)
        return training

    def _met(self, rule: AlertRule, subject: Any) -> bool:
        try:
            met = bool(rule.condition(subject))
            rule.error = ""
        except Exception as error:
            rule.error = f"{type(error).__name__}: {error}"
            tell_once("monitor", f"rule {rule.name!r} cannot be looked at: {rule.error}")
            met = False
        rule._met = rule._met + 1 if met else 0
        now = time.monotonic()
        if rule._met < rule.hold or now - rule._last < rule.cooldown_seconds:
            return False
        rule._last = now
        return True

    def _trigger(self, rule: AlertRule, subject: Any) -> dict[str, Any]:
        message = _write(rule, subject)
        rule.triggered += 1
        self._count += 1
        self._by_severity[rule.severity] = self._by_severity.get(rule.severity, 0) + 1
        self._by_type[rule.name] = self._by_type.get(rule.name, 0) + 1
        alert = {
            "id": self._count,
            "timestamp": time.time(),
            "type": rule.name,
            "alert_type": rule.name,
            "severity": rule.severity,
            "message": message,
            "metadata": rule.metadata,
            "acknowledged": False,
        }
        self.alerts.append(alert)
        attrs = {**rule.metadata, "type": rule.name, "message": message, "severity": rule.severity}
        level = _events.SEVERITIES[SEVERITIES[rule.severity]]
        _core.event(level, "alert", clean(message), _events._json(attrs, "alert"))
        for callback in list(self.callbacks):
            try:
                callback(alert)
            except Exception as error:
                tell_once("monitor", f"a callback of alerts: {type(error).__name__}: {error}")
        return alert

    def get_alert_statistics(self) -> dict[str, Any]:
        """Since the start: total_alerts, alerts_by_severity, alerts_by_type."""
        return {
            "total_alerts": self._count,
            "alerts_by_severity": dict(self._by_severity),
            "alerts_by_type": dict(self._by_type),
        }

    def summary(self) -> dict[str, Any]:
        """get_alert_statistics(), and `agent`: agent_alerts()."""
        return {**self.get_alert_statistics(), "agent": self.agent_alerts()}

    def agent_alerts(self) -> list[dict[str, Any]]:
        """What the agent's own checks (docs/alerts.md) say of the run so far, the newest
        first, in the form of `alerts`; `state` is active, resolved or ended. What is a second
        old may be missing. [] without a run, or if it cannot be read, which is said once."""
        folder, program = _machine.run_folder(), _program.find()
        if folder is None or program is None or not os.path.isdir(folder):
            return []
        try:
            done = subprocess.run([program, "alerts", "--json", folder], capture_output=True,
                                  timeout=30, check=True)  # fmt: skip
            rows = json.loads(done.stdout)["alerts"]
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            tell_once("monitor", f"the agent's alerts: {type(error).__name__}: {error}")
            return []
        return [_of_agent(row) for row in rows]


def _of_agent(row: dict[str, Any]) -> dict[str, Any]:
    """An alert of the agent's, as one of ours."""
    return {
        "id": row["id"],
        "timestamp": int(row["since_ns"]) / 1e9,
        "type": row["title"],
        "alert_type": row["rule"],
        "severity": "critical" if row["severity"] == "error" else row["severity"],
        "message": row["text"],
        "metadata": {key: row[key] for key in ("value", "limit", "unit", "host", "do")},
        "acknowledged": row["acknowledged"] is not None,
        "state": row["state"],
    }


class _Values(dict[str, Any]):
    """The variables of a rule, and the figures behind them."""

    def __init__(self, variables: dict[str, Any], subject: Any) -> None:
        super().__init__(variables)
        self._subject = subject

    def __missing__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value(self._subject) if callable(value) else value


def _write(rule: AlertRule, subject: Any) -> str:
    """The message; if a figure cannot be written (a key that is not there), the template
    with what went wrong, never nothing."""
    try:
        return string.Formatter().vformat(rule.message, (), _Values(rule.variables, subject))
    except Exception as error:
        return f"{rule.message} ({type(error).__name__}: {error})"
