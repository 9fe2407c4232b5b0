# SPDX-License-Identifier: Apache-2.0
"""PerformanceAnalyzer: the trend of the loss, statistics of resources, and outliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIGNIFICANT = 0.05
OUTLIER = 2.0  # standard deviations
_TINY = 1e-300


class Line(NamedTuple):
    """A straight line by least squares; p: of the slope being 0, two-sided."""

    slope: float
    intercept: float
    r: float
    p: float


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 1000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised, of x from 0 to 1."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def regression(xs: Sequence[float], ys: Sequence[float]) -> Line | None:
    """None: fewer than two points, or all at the same x. Of two points p is 1: they lie on a
    line whatever they are."""
    n = len(xs)
    if n < 2:
        return None
    x_mean, y_mean = math.fsum(xs) / n, math.fsum(ys) / n
    sxx = math.fsum((x - x_mean) ** 2 for x in xs)
    syy = math.fsum((y - y_mean) ** 2 for y in ys)
    sxy = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys))
    if sxx <= 0:
        return None
    slope = sxy / sxx
    r = 0.0 if syy <= 0 else max(-1.0, min(1.0, sxy / math.sqrt(sxx * syy)))
    freedom = n - 2
    # Of Student's t = r sqrt(freedom / (1 - r^2)), whose x below is 1 - r^2.
    p = 1.0 if freedom == 0 else incomplete_beta(freedom / 2, 0.5, (1 - r) * (1 + r))
    return Line(slope, y_mean - slope * x_mean, r, p)


def _stats(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return {"mean": mean, "std": math.sqrt(variance), "max": max(values), "min": min(values)}


def _number(value: Any) -> float | None:
    """A finite number; of a dict of GPUs the sum of what is allocated or used, in MiB."""
    if isinstance(value, dict):
        parts = [_number(one.get("memory_allocated", one.get("memory_used"))
                         if isinstance(one, dict) else one) for one in value.values()]  # fmt: skip
        known = [part for part in parts if part is not None]
        return math.fsum(known) if known else None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


class PerformanceAnalyzer:
    """Analyses a list of {"loss", "timestamp", "cpu_percent", "gpu_memory"}; gpu_memory is a
    number, or {gpu: {"memory_allocated": MiB}}. What is missing in an entry, or no finite
    number, is left out. Statistics of nothing are {} and []."""

    def __init__(self, metrics_history: Sequence[Mapping[str, Any]]) -> None:
        self.metrics_history = metrics_history

    def _column(self, name: str) -> list[float]:
        values = (_number(entry.get(name)) for entry in self.metrics_history)
        return [value for value in values if value is not None]

    def analyze_loss_trend(self) -> dict[str, Any]:
        """slope (a second), r_squared, p_value, trend ("decreasing", "increasing") and
        significance ("significant" for p below 0.05, "not_significant")."""
        pairs = [(_number(entry.get("timestamp")), _number(entry.get("loss")))
                 for entry in self.metrics_history]  # fmt: skip
        known = [(x, y) for x, y in pairs if x is not None and y is not None]
        line = regression([x for x, _ in known], [y for _, y in known])
        if line is None:
            return {}
        return {
            "slope": line.slope,
            "r_squared": line.r**2,
            "p_value": line.p,
            "trend": "decreasing" if line.slope < 0 else "increasing",
            "significance": "significant" if line.p < SIGNIFICANT else "not_significant",
        }

    def analyze_resource_usage(self) -> dict[str, dict[str, float]]:
        """cpu_stats and gpu_stats: mean, std (of the population), max, min."""
        found = {
            "cpu_stats": _stats(self._column("cpu_percent")),
            "gpu_stats": _stats(self._column("gpu_memory")),
        }
        return found if any(found.values()) else {}

    def detect_anomalies(self) -> list[dict[str, Any]]:
        """Losses more than two standard deviations from the mean: index, timestamp, loss,
        z_score. One that is NaN or infinite is one too, with z_score None."""
        stats = _stats(self._column("loss"))
        anomalies = []
        for index, entry in enumerate(self.metrics_history):
            if "loss" not in entry:
                continue
            value, z = _number(entry["loss"]), None
            if value is not None:
                if not stats["std"]:
                    continue
                z = (value - stats["mean"]) / stats["std"]
                if abs(z) <= OUTLIER:
                    continue
            elif entry["loss"] is None:
                continue
            anomalies.append({"index": index, "timestamp": entry.get("timestamp"),
                              "loss": entry["loss"], "z_score": z})  # fmt: skip
        return anomalies
