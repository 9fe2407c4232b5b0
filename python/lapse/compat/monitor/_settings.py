# SPDX-License-Identifier: Apache-2.0
"""What the guide's configuration (a dict, a YAML file, nothing) asks a TrainingMonitor for.
Files are read by the same parser as all of lapse's; a dict may have further flat keys."""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import _configure, _file, _run
from ._alerts import PRESETS

SAVE_DIR = "./monitoring_logs"
# Flat keys of a dict that the parser does not know, and whether they are on.
_SWITCHES = {
    "enable_metrics_collector": True,
    "enable_visualizations": False,
    "monitor_system": True,
}
_OTHERS = ("alert_thresholds", "buffer_size", "custom_alert_rules", "flush_interval")
_SHORT = {
    "cpu_usage": "cpu_usage_percent",
    "memory_usage": "memory_usage_percent",
    "gpu_memory_usage": "gpu_memory_usage_percent",
    "temperature": "gpu_temperature_celsius",
    "disk_usage": "disk_usage_percent",
    "learning_rate_zero": "learning_rate_too_low",
}
# Keys that the parser has no use for and this module has.
_OURS = re.compile(
    r"^(tensorboard_dir|enable_\w+|visualization_dir|dashboard[_.]\w+|visualization\.dashboard|"
    r"alert_system\.[\w.]+|performance_tuning\.(max_events_per_second|flush_interval)|"
    r"metrics_collection\.flush_interval): "
)
_SERVE = {
    "dashboard.refresh_interval": "--refresh",
    "dashboard.title": "--title",
    "dashboard.allowed_ips": "--allow-ip",
    "dashboard.allowed_hosts": "--allow-host",
    "dashboard.token_file": "--token-file",
    "dashboard.tls_cert": "--tls-cert",
    "dashboard.tls_key": "--tls-key",
    "dashboard.max_clients": "--max-clients",
}
_PLACE = re.compile(r"^.*?:\d+:\d+: ")

PICTURES = (
    "pictures and HTML pages are not in this version; `lapse query` draws charts in a "
    "terminal, and export_data() writes CSV and JSON"
)


@dataclass
class Settings:
    """`missing`: what was asked for and is not there, by name, with the reason."""

    plan: _configure.Plan
    save_dir: str = SAVE_DIR
    tensorboard_dir: str | None = None
    dashboard: bool = False
    dashboard_host: str | None = None
    dashboard_port: int | None = None
    dashboard_options: list[str] = field(default_factory=list)  # further ones of lapse serve
    alerts: bool = True
    performance: bool = True
    files: bool = True
    system: bool = True
    gradients: bool = True
    alone: bool = False  # distributed_monitoring: false
    thresholds: dict[str, float] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    flush_interval: float = 10.0
    max_events: int | None = None
    run: dict[str, Any] = field(default_factory=dict)
    config: Any = None
    missing: dict[str, str] = field(default_factory=dict)


def _near(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _own_keys(config: Any) -> tuple[Any, dict[str, Any]]:
    """The dict without the keys that are ours alone, and these."""
    if not isinstance(config, Mapping):
        return config, {}
    rest, own = dict(config), {}
    for key in (*_SWITCHES, *_OTHERS):
        if key in rest:
            own[key] = rest.pop(key)
    for key in _SWITCHES:
        if not isinstance(own.get(key, True), bool):
            raise ValueError(f"TrainingMonitor: {key} is true or false, not {own[key]!r}")
    return rest, own


def _thresholds(preset: str, own: Any, values: Mapping[str, Any], given: Any) -> dict[str, float]:
    if preset not in PRESETS:
        raise ValueError(f"TrainingMonitor: thresholds: no {preset!r}; {_near(preset, PRESETS)}")
    found = dict(PRESETS[preset])
    for name in found:
        key = f"alert_system.thresholds.{name}"
        if given(key):
            found[name] = float(values[key])
    for word, value in dict(own or {}).items():
        name = _SHORT.get(str(word), str(word))
        if name not in found:
            raise ValueError(f"TrainingMonitor: alert_thresholds: no {word!r}; "
                             f"{_near(word, [*_SHORT, *found])}")  # fmt: skip
        found[name] = float(value)
    return found


def _seconds(value: Any) -> float:
    try:
        if float(value) > 0:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"TrainingMonitor: flush_interval is a time above 0 seconds, not {value!r}")


def _read(config: Any) -> tuple[dict[str, Any], dict[str, str], list[str], dict[str, Any]]:
    """As _configure._read(), but LAPSE_DIR does not hide the file's save_dir."""
    with _run._environment_with({"LAPSE_DIR": ""}):  # as if not set
        try:
            return _configure._checked(config)
        except (ValueError, _file.UnreadableError) as error:
            if config is not None:
                raise ValueError(f"TrainingMonitor: {error}") from None
            return {}, {}, [], {}


def _dashboard(config: Any, values: Mapping[str, Any], given: Any) -> list[str]:
    """What the server is told of the block `dashboard`: the file, or options."""
    if config is not None and not isinstance(config, Mapping):
        return ["--config", os.path.abspath(config)]
    found = []
    for key, option in _SERVE.items():
        if given(key):
            texts = values[key] if isinstance(values[key], list) else [values[key]]
            if option.startswith(("--tls", "--token")):
                texts = [os.path.abspath(text) for text in texts]
            found += [word for text in texts for word in (option, str(text))]
    return found


def _missing(pictures: Any, notes: list[str]) -> dict[str, str]:
    """What is asked for and is not there, or has no effect."""
    found = {}
    if pictures:
        found["visualizations"] = PICTURES
    for note in notes:
        text = _PLACE.sub("", note)
        if not _OURS.match(text):
            found[text.partition(":")[0]] = text
    return found


def settings(
    config: Mapping[str, Any] | str | os.PathLike[str] | None, preset: str = "monitor"
) -> Settings:
    """ValueError for an unknown key or a wrong value, with the nearest name."""
    rest, own = _own_keys(config)
    values, sources, notes, run = _read(rest)

    def given(key: str) -> bool:
        return sources.get(key, "default") != "default" and values.get(key) is not None

    def of(*keys: str, usual: Any = None) -> Any:
        return next((values[key] for key in keys if given(key)), usual)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what has no effect is said below, without ours
        plan = _configure.configure(rest)
    on = values.get("monitoring.enabled") is not False
    run.pop("ring_kib", None)  # the guide's buffer is a least; the ring holds more
    found = Settings(
        plan=plan,
        save_dir=os.fspath(run.get("dir") or SAVE_DIR),
        tensorboard_dir=of("tensorboard_dir"),
        dashboard=on and of("dashboard.enabled", usual=False),
        dashboard_host=of("dashboard.host"),
        dashboard_port=of("dashboard.port"),
        dashboard_options=_dashboard(config, values, given),
        alerts=on and of("alert.enabled", usual=True),
        performance=on and of("enable_performance_monitor", usual=True),
        files=own.get("enable_metrics_collector", True),
        system=on and own.get("monitor_system", True),
        gradients=on and of("track_gradients", usual=True)
        and of("enable_performance_monitor", usual=True),
        alone=of("distributed_monitoring", usual=True) is False,
        thresholds=_thresholds(preset, own.get("alert_thresholds"), values, given),
        rules=list(own.get("custom_alert_rules") or ()),
        flush_interval=_seconds(own.get("flush_interval") or of(
            "performance_tuning.flush_interval", "metrics_collection.flush_interval", usual=10.0)),
        max_events=of("performance_tuning.max_events_per_second"),
        run=run,
        config=of("python.config"),
    )  # fmt: skip
    found.missing = _missing(
        own.get("enable_visualizations") or given("visualization_dir"),
        notes,
    )
    return found
