# SPDX-License-Identifier: Apache-2.0
"""max_events_per_second: of steps beyond so many in a second the least, mean, most and
number of each value are recorded, once a second; nothing is left out silently."""

from __future__ import annotations

import math

from ... import _core

SECOND_NS = 1_000_000_000


class _Sum:
    __slots__ = ("count", "least", "most", "total")

    def __init__(self) -> None:
        self.count, self.total, self.least, self.most = 0, 0.0, math.inf, -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)


class Cap:
    """limit: steps a second that are recorded one by one; None: all."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.folded = 0  #: steps that are in the sums alone
        self._second = -1
        self._taken = 0
        self._sums: dict[str, _Sum] = {}
        self._last = (0, 0)

    def takes(self, frame: dict[str, float], step: int, time_ns: int) -> bool:
        """Is this step recorded by itself? If not it is added to the sums."""
        if self.limit is None:
            return True
        second = time_ns // SECOND_NS
        if second != self._second:
            self.flush()
            self._second, self._taken = second, 0
        if self._taken < self.limit:
            self._taken += 1
            return True
        self.folded += 1
        self._last = (step, time_ns)
        for name, value in frame.items():
            self._sums.setdefault(name, _Sum()).add(value)
        return False

    def flush(self) -> None:
        """Record the sums of the second that is over, at its last step."""
        sums, self._sums = self._sums, {}
        if not sums:
            return
        found = {}
        for name, one in sums.items():
            found[f"{name}/min"], found[f"{name}/max"] = one.least, one.most
            found[f"{name}/mean"], found[f"{name}/count"] = one.total / one.count, one.count
        _core.log(found, *self._last)
