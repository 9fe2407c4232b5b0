# SPDX-License-Identifier: Apache-2.0
"""The guide's containers of figures. A figure that is not known is UNKNOWN: a NaN, so that
no comparison with it holds, and None in to_dict()."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Any

UNKNOWN = float("nan")  # this object: a loss that is NaN is another one


def known(value: Any) -> bool:
    """Is it a figure (NaN may be one), and not UNKNOWN or None?"""
    return value is not UNKNOWN and value is not None


class _Figures:
    def to_dict(self) -> dict[str, Any]:
        """By name; None where a figure is not known."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {name: value if known(value) else None for name, value in values.items()}


@dataclass
class TrainingMetrics(_Figures):
    """A step of training (phase "train") or a validation ("val"). Seconds; `_mb` are MiB."""

    epoch: int = 0
    step: int = 0
    global_step: int = 0
    phase: str = "train"
    loss: float = UNKNOWN
    accuracy: float = UNKNOWN
    learning_rate: float = UNKNOWN
    momentum: float = UNKNOWN
    grad_norm: float = UNKNOWN
    grad_norm_clipped: float = UNKNOWN
    param_norm: float = UNKNOWN
    batch_time: float = UNKNOWN
    data_load_time: float = UNKNOWN
    forward_pass_time: float = UNKNOWN
    backward_pass_time: float = UNKNOWN
    optimization_time: float = UNKNOWN
    cpu_memory_mb: float = UNKNOWN
    gpu_memory_mb: float = UNKNOWN
    gpu_memory_utilization: float = UNKNOWN
    custom_metrics: dict[str, float] = field(default_factory=dict)
    timestamp: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """Custom metrics stand among the others."""
        found = super().to_dict()
        found.update(found.pop("custom_metrics"))
        return found


@dataclass
class SystemMetrics(_Figures):
    """The machine. Of several GPUs: utilisation is the mean, memory_utilization and
    temperature the highest, power and memory the sum; `gpus` has each for itself, by
    nvidia-smi's number."""

    cpu_usage_percent: float = UNKNOWN
    cpu_temperature: float = UNKNOWN
    cpu_freq: float = UNKNOWN
    memory_usage_percent: float = UNKNOWN
    memory_available_gb: float = UNKNOWN
    swap_usage_percent: float = UNKNOWN
    gpu_utilization: float = UNKNOWN
    gpu_memory_utilization: float = UNKNOWN
    gpu_temperature: float = UNKNOWN
    gpu_power_watts: float = UNKNOWN
    gpu_memory_mb: float = UNKNOWN
    disk_read_mb_s: float = UNKNOWN
    disk_write_mb_s: float = UNKNOWN
    disk_usage_percent: float = UNKNOWN
    network_sent_mb_s: float = UNKNOWN
    network_recv_mb_s: float = UNKNOWN
    process_cpu_percent: float = UNKNOWN
    process_memory_mb: float = UNKNOWN
    gpus: dict[str, dict[str, float]] = field(default_factory=dict)
    timestamp: float = field(default_factory=time.time)


@dataclass
class ModelPerformanceMetrics(_Figures):
    """A model at inference: what lapse.torch.benchmark() and compare_outputs() found."""

    avg_latency_ms: float = UNKNOWN
    median_latency_ms: float = UNKNOWN
    p95_latency_ms: float = UNKNOWN
    p99_latency_ms: float = UNKNOWN
    min_latency_ms: float = UNKNOWN
    max_latency_ms: float = UNKNOWN
    latency_std_ms: float = UNKNOWN
    samples_per_second: float = UNKNOWN
    tokens_per_second: float = UNKNOWN
    model_memory_mb: float = UNKNOWN
    peak_memory_mb: float = UNKNOWN
    model_size_mb: float = UNKNOWN
    quantization_ratio: float = UNKNOWN
    compression_ratio: float = UNKNOWN
    inference_quality_score: float = UNKNOWN
    consistency_score: float = UNKNOWN
    batch_size: int | None = None
    sequence_length: int | None = None
    timestamp: float = field(default_factory=time.time)


def names_of(kind: type) -> frozenset[str]:
    """Names of the figures of one of them."""
    return frozenset(one.name for one in fields(kind))
