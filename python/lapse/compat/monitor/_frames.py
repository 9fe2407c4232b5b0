# SPDX-License-Identifier: Apache-2.0
"""A step's figures, as they are logged, recorded, stored and shown in TensorBoard."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ._metrics import SystemMetrics, TrainingMetrics, known

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_CUSTOM = ("epoch", "step", "global_step", "phase", "custom_metrics", "timestamp")
_FIGURES = tuple(one.name for one in fields(TrainingMetrics) if one.name not in _NOT_CUSTOM)


def take(metrics: TrainingMetrics, name: str, value: float) -> None:
    """A value that a step logs: a figure, or a custom metric."""
    if name in _FIGURES:
        setattr(metrics, name, value)
    else:
        metrics.custom_metrics[name] = value


def frame_of(metrics: TrainingMetrics) -> dict[str, float]:
    """What is recorded: the figures that are known, and the custom metrics; of a validation
    below val/."""
    found = {name: getattr(metrics, name) for name in _FIGURES if known(getattr(metrics, name))}
    found.update(metrics.custom_metrics)
    if metrics.phase != "train":
        found = {f"{metrics.phase}/{name}": value for name, value in found.items()}
    return found


def row_of(metrics: TrainingMetrics) -> dict[str, Any]:
    """Of the table."""
    found = {one.name: getattr(metrics, one.name) for one in fields(metrics)}
    return {name: value if known(value) else None for name, value in found.items()}


def tags_of(metrics: TrainingMetrics, system: SystemMetrics | None) -> dict[str, float]:
    """The guide's tags in TensorBoard."""
    pairs = [
        ("Loss/train", metrics.loss, 1.0),
        ("Accuracy/train", metrics.accuracy, 1.0),
        ("Learning_Rate", metrics.learning_rate, 1.0),
        ("Gradient_Norm/total", metrics.grad_norm, 1.0),
        ("Timing/Batch_Time", metrics.batch_time, 1e3),
    ]
    if system is not None:
        pairs += [
            ("System/CPU_Usage", system.cpu_usage_percent, 1.0),
            ("System/Memory_Usage", system.memory_usage_percent, 1.0),
            ("System/GPU_Memory_Usage", system.gpu_memory_utilization, 1.0),
        ]
    return {tag: value * scale for tag, value, scale in pairs if known(value)}


def samples_of(custom: Mapping[str, Any], batch_data: Any) -> float | None:
    size = custom.get("batch_size")
    if isinstance(size, (int, float)):
        return float(size)
    shape = getattr(batch_data, "shape", None)
    return float(shape[0]) if shape is not None and len(shape) else None
