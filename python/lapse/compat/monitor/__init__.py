# SPDX-License-Identifier: Apache-2.0
"""The classes of the performance monitoring guide, over lapse.torch and the run.

    from lapse.compat.monitor import TrainingMetrics, TrainingMonitor

    monitor = TrainingMonitor("monitoring_config.yaml")     # or a dict, or nothing
    monitor.start_monitoring()
    for step in range(num_steps):
        ...
        monitor.log_training_step(model=model, optimizer=optimizer, loss=loss)
    monitor.stop_monitoring()

Everything goes into lapse's run; the guide's files are written beside it.
docs/callbacks.md."""

from __future__ import annotations

from ._advice import Recommendation
from ._alerts import PRESETS, AlertRule, AlertSystem
from ._metrics import ModelPerformanceMetrics, SystemMetrics, TrainingMetrics
from ._monitor import TrainingMonitor
from ._system import SystemMonitor

__all__ = [
    "PRESETS",
    "AlertRule",
    "AlertSystem",
    "ModelPerformanceMetrics",
    "Recommendation",
    "SystemMetrics",
    "SystemMonitor",
    "TrainingMetrics",
    "TrainingMonitor",
]
