# SPDX-License-Identifier: Apache-2.0
"""What the figures of a training speak for: the guide's rules, each with what was seen, what
to try and how. None promises a gain: the next run shows it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ._metrics import SystemMetrics, TrainingMetrics, known

if TYPE_CHECKING:
    from collections.abc import Sequence

_ORDER = {"high": 0, "medium": 1, "low": 2}


@dataclass
class Recommendation:
    """category: training, system or resource. priority: high, medium or low. rationale: what
    was seen. impact_estimate: what it should change. implementation_effort: low, medium or
    high."""

    category: str
    priority: str
    title: str
    description: str
    rationale: str
    impact_estimate: str
    implementation_effort: str
    code_examples: list[str] = field(default_factory=list)
    config_changes: dict[str, str] = field(default_factory=dict)
    metrics_affected: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _r(title: str, category: str, priority: str, effort: str, description: str, impact: str,
       code: str, config: dict[str, str], metrics: str) -> Recommendation:  # fmt: skip
    return Recommendation(category, priority, title, description, "", impact, effort,
                          [code] if code else [], config, metrics.split())  # fmt: skip


_CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
_WORKERS = "DataLoader(data, num_workers=8, pin_memory=True, prefetch_factor=4)"
_KNOWN = {
    "cpu low": _r(
        "CPU utilization is low", "system", "low", "low",
        "Consider a larger batch or more data loading workers, if the GPU waits too.",
        "less waiting for data", _WORKERS, {"num_workers": "4 to 8", "batch_size": "larger"},
        "cpu_usage_percent batch_time"),
    "memory high": _r(
        "High memory usage", "system", "high", "medium",
        "Consider a smaller batch, gradient accumulation or activation checkpointing.",
        "no end by lack of memory", "loss = loss / accumulation_steps",
        {"batch_size": "smaller", "gradient_accumulation_steps": "4 to 8"},
        "memory_usage_percent"),
    "gpu high": _r(
        "High GPU utilization", "system", "low", "low",
        "The GPU is busy nearly all the time: training is well fed. A profile tells whether "
        "its kernels are good.", "none by itself", "", {}, "gpu_utilization"),
    "gpu low": _r(
        "Low GPU utilization", "system", "medium", "low",
        "Consider a larger batch or a faster data loading pipeline.",
        "more samples a second, if memory allows", _WORKERS,
        {"batch_size": "larger", "num_workers": "4 to 8"}, "gpu_utilization batch_time"),
    "grad high": _r(
        "High gradient norms", "training", "high", "low",
        "Consider gradient clipping, a smaller learning rate, or look at the initialization.",
        "a steadier loss", _CLIP, {"gradient_clipping": "max_norm=1.0"}, "grad_norm loss"),
    "grad low": _r(
        "Very low gradient norms", "training", "medium", "medium",
        "Consider a larger learning rate; look for layers that do not learn (track_layers).",
        "faster learning", "monitor.gradients.report()", {"learning_rate": "larger"},
        "grad_norm"),
    "slow": _r(
        "Slow training", "training", "medium", "medium",
        "Consider a faster data loading pipeline, mixed precision or torch.compile.",
        "shorter steps", "with torch.autocast('cuda', dtype=torch.bfloat16): ...",
        {"mixed_precision": "bf16"}, "batch_time"),
    "unstable": _r(
        "Training instability", "training", "high", "low",
        "The loss varies much. Consider a smaller learning rate or gradient clipping.",
        "a steadier loss", _CLIP, {"learning_rate": "half"}, "loss grad_norm"),
    "loading": _r(
        "Data loading bottleneck", "system", "high", "medium",
        "Most of a step is waiting for data: more workers, cheaper transforms, a cache.",
        "shorter steps, at most by the time that is waited", _WORKERS,
        {"num_workers": "8 to 16", "prefetch_factor": "4 to 8"}, "data_load_time batch_time"),
    "oscillates": _r(
        "High learning rate", "training", "medium", "low",
        "The loss goes up and down: consider a smaller learning rate or a schedule.",
        "a steadier loss", "for group in optimizer.param_groups: group['lr'] *= 0.5",
        {"learning_rate": "half", "lr_scheduler": "ReduceLROnPlateau"}, "loss learning_rate"),
    "leak": _r(
        "Potential memory leak", "resource", "high", "medium",
        "The machine's memory fills steadily: tensors kept with their graph (log "
        "loss.detach()), growing lists, caches.", "no end by lack of memory",
        "lapse.torch.TraceMalloc(every=100)", {}, "memory_usage_percent"),
}  # fmt: skip


class Running:
    """Count, mean and spread of many numbers, in three of them."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0
        self.least, self.most = math.inf, -math.inf

    def add(self, value: float) -> None:
        if value - value != 0:
            return
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)
        self.least, self.most = min(self.least, value), max(self.most, value)

    @property
    def value(self) -> float | None:
        return self.mean if self.count else None


class Seen:
    """What the advice looks at: sums over all, and the last figures."""

    def __init__(self) -> None:
        names = ("cpu_usage_percent", "memory_usage_percent", "gpu_utilization", "grad_norm",
                 "batch_time", "data_load_time")  # fmt: skip
        self.of = {name: Running() for name in names}
        self.losses: deque[float] = deque(maxlen=100)
        self.memory: deque[float] = deque(maxlen=50)

    def training(self, metrics: TrainingMetrics) -> None:
        if metrics.phase != "train":
            return
        for name in ("grad_norm", "batch_time", "data_load_time"):
            value = getattr(metrics, name)
            if known(value):
                self.of[name].add(value)
        if known(metrics.loss) and metrics.loss - metrics.loss == 0:
            self.losses.append(metrics.loss)

    def system(self, metrics: SystemMetrics) -> None:
        for name in ("cpu_usage_percent", "memory_usage_percent", "gpu_utilization"):
            value = getattr(metrics, name)
            if known(value):
                self.of[name].add(value)
        if known(metrics.memory_usage_percent):
            self.memory.append(metrics.memory_usage_percent)


def slope(values: Sequence[float]) -> float:
    """Of a straight line by least squares, for each value."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    return sum((i - middle) * (v - mean) for i, v in enumerate(values)) / spread if spread else 0.0


def oscillation(values: Sequence[float]) -> float:
    """Share of the changes that go against the one before."""
    changes = [b - a for a, b in zip(values, values[1:])]
    turns = sum(a * b < 0 for a, b in zip(changes, changes[1:]))
    return turns / len(changes) if changes else 0.0


def recommend(seen: Seen) -> list[Recommendation]:
    """Those of the guide's rules that hold, the most urgent first."""
    found: list[tuple[str, str]] = []
    mean = {name: one.value for name, one in seen.of.items()}

    def where(name: str, key: str, holds: Any, text: str) -> None:
        value = mean[name]
        if value is not None and holds(value):
            found.append((key, text.format(value)))

    where("cpu_usage_percent", "cpu low", lambda v: v < 50, "CPUs are busy {:.1f} % (limit: 50)")
    where("memory_usage_percent", "memory high", lambda v: v > 80,
          "memory is {:.1f} % full on average (limit: 80)")  # fmt: skip
    where("gpu_utilization", "gpu high", lambda v: v > 90, "GPUs are busy {:.1f} % (limit: 90)")
    where("gpu_utilization", "gpu low", lambda v: v < 50, "GPUs are busy {:.1f} % (limit: 50)")
    where("grad_norm", "grad high", lambda v: v > 5, "mean gradient norm {:.3g} (limit: 5)")
    where("grad_norm", "grad low", lambda v: v < 0.001, "mean gradient norm {:.3g} (limit: 0.001)")
    where("batch_time", "slow", lambda v: v > 5, "a step takes {:.1f} s (limit: 5)")
    steps, loads = mean["batch_time"], mean["data_load_time"]
    if steps and loads is not None and loads > 0.5 * steps:
        found.append(("loading", f"waiting for data takes {loads / steps:.0%} of a step "
                      "(limit: 50 %)"))  # fmt: skip
    losses = list(seen.losses)
    if len(losses) > 10:
        average = sum(losses) / len(losses)
        variance = sum((loss - average) ** 2 for loss in losses) / len(losses)
        if variance > 0.5 * abs(average):
            found.append(("unstable", f"variance of the last {len(losses)} losses {variance:.3g}, "
                          f"mean {average:.3g} (limit: half of it)"))  # fmt: skip
    if len(losses) >= 20:
        share = oscillation(losses[-20:])
        if share > 0.3:
            found.append(("oscillates", f"of the last 20 losses {share:.0%} turn around "
                          "(limit: 30 %)"))  # fmt: skip
    if len(seen.memory) >= 20:
        grows = slope(list(seen.memory))
        if grows > 0.1:
            found.append(("leak", f"memory grows by {grows:.2f} % a reading (limit: 0.1)"))
    made = []
    for key, text in found:
        made.append(Recommendation(**{**_KNOWN[key].to_dict(), "rationale": text}))
    return sorted(made, key=lambda one: _ORDER[one.priority])
