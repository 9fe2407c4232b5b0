# SPDX-License-Identifier: Apache-2.0
"""performance_report_TIME.json and the guide's block on the console."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ._advice import Running, Seen, recommend
from ._database import _finite
from ._metrics import SystemMetrics, TrainingMetrics, known

if TYPE_CHECKING:
    from collections.abc import Mapping


class Session:
    """What the report is of: sums, the first and the last."""

    def __init__(self) -> None:
        self.began = time.time()
        self.seen = Seen()
        self.steps = self.validations = self.readings = self.benchmarks = 0
        self.first: TrainingMetrics | None = None
        self.training: TrainingMetrics | None = None  # the last one
        self.validation: TrainingMetrics | None = None
        self.system: SystemMetrics | None = None
        self.loss = Running()
        self.accuracy: float | None = None

    def add_training(self, metrics: TrainingMetrics) -> None:
        self.seen.training(metrics)
        if metrics.phase != "train":
            self.validations += 1
            self.validation = metrics
            return
        self.steps += 1
        self.first = self.first or metrics
        self.training = metrics
        if known(metrics.loss):
            self.loss.add(metrics.loss)
        if known(metrics.accuracy):
            self.accuracy = metrics.accuracy

    def add_system(self, metrics: SystemMetrics) -> None:
        self.seen.system(metrics)
        self.readings += 1
        self.system = metrics

    def document(self, total_steps: int, alerts: Mapping[str, Any]) -> dict[str, Any]:
        """The report: the guide's four parts, and what is ours (`advice`, `alerts`)."""
        now = time.time()
        found: dict[str, Any] = {
            "monitoring_session": {
                "start_time": datetime.fromtimestamp(self.began).isoformat(),
                "end_time": datetime.fromtimestamp(now).isoformat(),
                "duration_hours": (now - self.began) / 3600,
                "total_steps": total_steps,
            },
            "training_summary": self._training(),
            "system_summary": self._system(),
        }
        advice = recommend(self.seen)
        found["recommendations"] = [f"{one.title}: {one.description}" for one in advice]
        found["advice"] = [one.to_dict() for one in advice]
        found["alerts"] = dict(alerts)
        return found

    def _training(self) -> dict[str, Any]:
        first, last = self.first, self.training
        if first is None or last is None:
            return {}
        before, after = _or_none(first.loss), _or_none(last.loss)
        better = None
        if before is not None and after is not None and before > 0:
            better = (before - after) / before * 100
        validation = self.validation
        return {
            "initial_loss": before,
            "final_loss": after,
            "loss_improvement_percent": better,
            "lowest_loss": self.loss.least if self.loss.count else None,
            "final_accuracy": self.accuracy,
            "total_training_steps": self.steps,
            "average_gradient_norm": self.seen.of["grad_norm"].value,
            "average_batch_time": self.seen.of["batch_time"].value,
            "validation_steps": self.validations,
            "final_validation_loss": _or_none(validation.loss) if validation else None,
            "final_validation_accuracy": _or_none(validation.accuracy) if validation else None,
        }

    def _system(self) -> dict[str, Any]:
        if not self.readings:
            return {}
        of = self.seen.of
        gpu = of["gpu_utilization"]
        return {
            "average_cpu_usage": of["cpu_usage_percent"].value,
            "average_memory_usage": of["memory_usage_percent"].value,
            "average_gpu_utilization": gpu.value,
            "peak_gpu_utilization": gpu.most if gpu.count else None,
            "total_system_samples": self.readings,
        }


def _or_none(value: float) -> float | None:
    return value if known(value) else None


def block(document: Mapping[str, Any]) -> str:
    """The guide's block. A figure that is not known has no line."""
    session, training = document["monitoring_session"], document["training_summary"]
    system, rule = document["system_summary"], "=" * 60
    lines = ["", rule, "TRAINING PERFORMANCE SUMMARY", rule]
    lines.append(f"Session Duration: {session['duration_hours']:.2f} hours")
    lines.append(f"Total Steps: {session['total_steps']}")
    for of, key, text in (
        (training, "loss_improvement_percent", "Loss Improvement: {:.1f}%"),
        (training, "final_accuracy", "Final Accuracy: {:.3f}"),
        (system, "average_cpu_usage", "Average CPU Usage: {:.1f}%"),
        (system, "average_memory_usage", "Average Memory Usage: {:.1f}%"),
        (system, "peak_gpu_utilization", "Peak GPU Utilization: {:.1f}%"),
    ):
        if of.get(key) is not None:
            lines.append(text.format(of[key]))
    if document["recommendations"]:
        lines += ["", "RECOMMENDATIONS:"]
        lines += [f"{i}. {text}" for i, text in enumerate(document["recommendations"], 1)]
    return "\n".join([*lines, rule])


def write(folder: str, document: Mapping[str, Any]) -> str:
    """Its path. OSError."""
    os.makedirs(folder, exist_ok=True)
    path = free(os.path.join(folder, f"performance_report_{int(time.time())}"), ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({key: _deep(value) for key, value in document.items()}, file, indent=2)
    return path


def _deep(value: Any) -> Any:
    return [_finite(one) for one in value] if isinstance(value, list) else _finite(value)


def free(stem: str, end: str) -> str:
    """stem + end, or with _2, _3 between if there is such a file already."""
    path, n = stem + end, 1
    while os.path.exists(path):
        n += 1
        path = f"{stem}_{n}{end}"
    return path
