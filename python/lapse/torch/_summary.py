# SPDX-License-Identifier: Apache-2.0
"""Count, mean, deviation and quantiles of many numbers in little memory: exact up to
10,000 of them, then a sketch whose quantiles are off by at most 0.5 % of their value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXACT_MAX = 10_000
ERROR = 0.005  # of a quantile, relative, once there are more
_GAMMA = (1 + ERROR) / (1 - ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_FOLD = 1024  # numbers that a sketch takes at once


class _Moments:
    """Count, mean and squared deviation of finite numbers, mergeable."""

    __slots__ = ("count", "max", "mean", "min", "squares")

    def __init__(self, values: Sequence[float] = ()) -> None:
        self.count = len(values)
        self.mean = math.fsum(values) / self.count if values else math.nan
        self.squares = math.fsum((x - self.mean) ** 2 for x in values)
        self.min = min(values) if values else math.inf
        self.max = max(values) if values else -math.inf

    def merge(self, other: _Moments) -> None:
        if not other.count:
            return
        if not self.count:
            self.mean = 0.0
        total = self.count + other.count
        delta = other.mean - self.mean
        self.squares += other.squares + delta * delta * self.count * other.count / total
        self.mean += delta * other.count / total
        self.count = total
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)


class Summary:
    """Numbers, summarised. Up to 10,000 are kept as they are, and every figure is exact
    (quantiles as numpy's default: linear between the two nearest). With more, `count`,
    `sum`, `mean`, `std`, `min` and `max` stay exact, and a quantile differs from an exact
    one by at most 0.5 % of it. NaN and infinities are counted in `bad` and otherwise left
    out. Not for two threads at once."""

    __slots__ = ("_kept", "_moments", "_negative", "_positive", "_sorted", "_zeros", "bad")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._kept: list[float] = []
        self._sorted = True
        self._moments: _Moments | None = None  # of what is in the sketch
        self._positive: dict[int, int] = {}
        self._negative: dict[int, int] = {}
        self._zeros = 0
        self.bad = 0
        for value in values:
            self.add(value)

    def add(self, value: float) -> None:
        """Take one more."""
        if value - value != 0:  # NaN, or infinite
            self.bad += 1
            return
        self._kept.append(value)
        self._sorted = False
        if len(self._kept) > (EXACT_MAX if self._moments is None else _FOLD):
            self._fold()

    def merge(self, other: Summary) -> None:
        """Take all that another has."""
        self.bad += other.bad
        if other._moments is not None:
            self._fold()
            assert self._moments is not None
            self._moments.merge(other._moments)
            for mine, its in (
                (self._positive, other._positive),
                (self._negative, other._negative),
            ):
                for key, n in its.items():
                    mine[key] = mine.get(key, 0) + n
            self._zeros += other._zeros
        for value in list(other._kept):
            self.add(value)

    def _fold(self) -> None:
        """Everything kept goes into the sketch: buckets whose bounds grow by GAMMA."""
        if self._moments is None:
            self._moments = _Moments()
        self._moments.merge(_Moments(self._kept))
        for value in self._kept:
            if value == 0:
                self._zeros += 1
                continue
            buckets = self._positive if value > 0 else self._negative
            key = math.ceil(math.log(abs(value)) / _LOG_GAMMA)
            buckets[key] = buckets.get(key, 0) + 1
        self._kept, self._sorted = [], True

    def _all(self) -> _Moments:
        kept = _Moments(self._kept)
        if self._moments is None:
            return kept
        kept.merge(self._moments)
        return kept

    @property
    def exact(self) -> bool:
        """Are the quantiles exact?"""
        return self._moments is None

    @property
    def count(self) -> int:
        return len(self._kept) + (self._moments.count if self._moments else 0)

    @property
    def sum(self) -> float:
        everything = self._all()
        return everything.mean * everything.count if everything.count else 0.0

    @property
    def mean(self) -> float:
        """NaN of none, like the other figures."""
        return self._all().mean

    @property
    def std(self) -> float:
        """Of a population: divided by the count."""
        everything = self._all()
        return math.sqrt(everything.squares / everything.count) if everything.count else math.nan

    @property
    def min(self) -> float:
        everything = self._all()
        return everything.min if everything.count else math.nan

    @property
    def max(self) -> float:
        everything = self._all()
        return everything.max if everything.count else math.nan

    def quantile(self, q: float) -> float:
        """The value below which the share q, 0 to 1, of the numbers lies; NaN of none."""
        if not 0 <= q <= 1:
            raise ValueError(f"quantile(): q must be from 0 to 1, not {q!r}")
        if self._moments is not None:
            return self._estimate(q)
        if not self._kept:
            return math.nan
        if not self._sorted:
            self._kept.sort()
            self._sorted = True
        at = q * (len(self._kept) - 1)
        low = math.floor(at)
        high = min(low + 1, len(self._kept) - 1)
        a, b = self._kept[low], self._kept[high]
        return a + (b - a) * (at - low)

    def _estimate(self, q: float) -> float:
        if self._kept:
            self._fold()
        assert self._moments is not None
        left = q * (self._moments.count - 1)
        for value, n in self._buckets():
            if left < n:
                return min(max(value, self._moments.min), self._moments.max)
            left -= n
        return self._moments.max

    def _buckets(self) -> Iterable[tuple[float, int]]:
        middle = 2 / (1 + _GAMMA)
        for key in sorted(self._negative, reverse=True):
            yield -(_GAMMA**key) * middle, self._negative[key]
        if self._zeros:
            yield 0.0, self._zeros
        for key in sorted(self._positive):
            yield _GAMMA**key * middle, self._positive[key]

    def as_dict(self) -> dict[str, float]:
        """count, mean, std, min, max, p50, p95, p99."""
        everything = {"count": float(self.count), "mean": self.mean, "std": self.std}
        everything.update(min=self.min, max=self.max)
        for q in (50, 95, 99):
            everything[f"p{q}"] = self.quantile(q / 100)
        return everything

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __repr__(self) -> str:
        if not self:
            return "<Summary of nothing>"
        return (
            f"<Summary of {self.count}: mean {self.mean:.6g}, p50 {self.quantile(0.5):.6g}, "
            f"p95 {self.quantile(0.95):.6g}, p99 {self.quantile(0.99):.6g}, max {self.max:.6g}>"
        )
