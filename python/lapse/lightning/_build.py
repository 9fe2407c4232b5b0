# SPDX-License-Identifier: Apache-2.0
"""The classes for one package: what is written once, on that package's base classes."""

from __future__ import annotations

import importlib
from typing import Any

from . import _logger, _profiler, _record, _resources, _spans, _throughput

_CLASSES: dict[str, tuple[type, str, str]] = {
    "LapseCallback": (_record.LapseCallback, "callbacks", "Callback"),
    "LapseLogger": (_logger.LapseLogger, "loggers", "Logger"),
    "LapseProfiler": (_spans.LapseProfiler, "profilers", "Profiler"),
    "ProfilerCallback": (_profiler.ProfilerCallback, "callbacks", "Callback"),
    "ResourceMonitorCallback": (_resources.ResourceMonitorCallback, "callbacks", "Callback"),
    "ThroughputMonitorCallback": (_throughput.ThroughputMonitorCallback, "callbacks", "Callback"),
}


def build(package: str, module: str) -> dict[str, Any]:
    """{name: class}; module: ours, where pickle finds them again."""
    classes = {}
    for name, (ours, folder, base) in _CLASSES.items():
        theirs = getattr(importlib.import_module(f"{package}.{folder}"), base)
        body = {"__module__": module, "__doc__": ours.__doc__, "__qualname__": name}
        classes[name] = type(theirs)(name, (ours, theirs), body)
    return classes
