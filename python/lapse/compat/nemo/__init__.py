# SPDX-License-Identifier: Apache-2.0
"""The classes of NeMo RL's guide to performance monitoring, and the logger and timer that
its programs really use, over lapse.

    from lapse.compat.nemo import TensorBoardMonitor, TrainingMonitor, monitor_resources

    monitor = TrainingMonitor()
    monitor.record_metrics(step, loss, learning_rate, batch_size)

A class that records opens the run if the program has not. Nothing waits for a device, and
nothing raises in training. docs/callbacks.md."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._alerting import PerformanceAlerting, RealTimeMonitor
    from ._analysis import PerformanceAnalyzer
    from ._dashboard import MonitoringDashboard
    from ._logger import LoggerInterface, Timer, performance_metrics
    from ._metrics import TrainingMonitor, monitor_ray_cluster, monitor_resources
    from ._prometheus import PrometheusMonitor
    from ._tensorboard import TensorBoardMonitor

# Each is loaded when it is first used: alerts, say, need no torch.
_MODULES = {
    "_alerting": ("PerformanceAlerting", "RealTimeMonitor"),
    "_analysis": ("PerformanceAnalyzer",),
    "_dashboard": ("MonitoringDashboard",),
    "_logger": ("LoggerInterface", "Timer", "performance_metrics"),
    "_metrics": ("TrainingMonitor", "monitor_ray_cluster", "monitor_resources"),
    "_prometheus": ("PrometheusMonitor",),
    "_tensorboard": ("TensorBoardMonitor",),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LoggerInterface",
    "MonitoringDashboard",
    "PerformanceAlerting",
    "PerformanceAnalyzer",
    "PrometheusMonitor",
    "RealTimeMonitor",
    "TensorBoardMonitor",
    "Timer",
    "TrainingMonitor",
    "monitor_ray_cluster",
    "monitor_resources",
    "performance_metrics",
]

if not TYPE_CHECKING:  # or every name would be one

    def __getattr__(name: str) -> Any:
        module = _NAMES.get(name)
        if module is None:
            raise AttributeError(f"module 'lapse.compat.nemo' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
