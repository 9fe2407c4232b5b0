# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a distributed program record, and figures over all of them: smallest,
mean, largest, and which rank had them. Ranks exchange their numbers by gloo in the
background; the training thread never waits for another rank."""

from __future__ import annotations

import importlib
import math
import sys
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _core
from ._ranks import rank_and_world
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODES = ("all", "zero", "aggregate")
_HEAD = 2  # checksum of the names, number of calls
_NO_STEP = -(2**63)


def _group() -> Any:
    """torch.distributed, if it is loaded and its process group is there."""
    if "torch" not in sys.modules:
        return None
    distributed = importlib.import_module("torch.distributed")
    return distributed if distributed.is_available() and distributed.is_initialized() else None


def _step_now() -> int:
    """The current step, which what is recorded later belongs to."""
    step = _core.step_now()
    return _NO_STEP if step is None else step


class _Window:
    """What this rank measured since the last exchange: means by name."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.calls = 0

    def add(self, values: Mapping[str, Any]) -> None:
        self.calls += 1
        for name, value in values.items():
            device = getattr(value, "device", None)
            if getattr(device, "type", "cpu") != "cpu":
                tell_once("ranks", f"{name} is on a device, where reading it would wait: "
                          "left out of the figures over ranks")  # fmt: skip
                continue
            number = float(value)
            self.sums[name] = self.sums.get(name, 0.0) + number
            self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        return {name: total / self.counts[name] for name, total in sorted(self.sums.items())}


def over_ranks(rows: Iterable[float]) -> dict[str, float]:
    """{"min", "mean", "max", "min/rank", "max/rank"} of one value of each rank. The mean
    is NaN if one is; the smallest and largest are of those that are none."""
    values = list(rows)
    found = {"mean": math.fsum(values) / len(values) if all(map(math.isfinite, values))
             else sum(values) / len(values)}  # fmt: skip
    numbers = [(value, rank) for rank, value in enumerate(values) if not math.isnan(value)]
    if numbers:
        low = min(numbers)
        high = max(numbers, key=lambda pair: (pair[0], -pair[1]))
        found.update({"min": low[0], "min/rank": low[1], "max": high[0], "max/rank": high[1]})
    return found


class Ranks:
    """Who records what in a distributed program.

    mode "all": each rank records its own values. "zero": the global rank 0 alone.
    "aggregate": rank 0 records, of the means of `every` calls on each rank, NAME/min,
    NAME/mean, NAME/max, NAME/min/rank and NAME/max/rank. Every rank must then make the
    same calls of log(), with the same names (at most `names` of them): they exchange
    their numbers in a gloo group of their own, which the first exchange makes. The
    exchange goes on in the background and is recorded by a later call, with the step and
    time that it belongs to. Without torch.distributed there is one rank.

    ValueError for another mode, or numbers below 1."""

    def __init__(self, mode: str = "all", every: int = 50, names: int = 64) -> None:
        if mode not in MODES:
            raise ValueError(f"ranks must be one of {', '.join(MODES)}, not {mode!r}")
        if every < 1 or names < 1:
            raise ValueError("Ranks(): every and names are at least 1")
        self.mode, self.every, self.names = mode, every, names
        self.rank, self.world = rank_and_world()
        self.last: dict[str, float] = {}  # of the last exchange, on rank 0
        self.reason = ""  # why there are no figures over ranks
        self._window = _Window()
        self._gloo: Any = None
        self._flying: deque[tuple[Any, Any, list[str], int, int]] = deque()

    @property
    def records(self) -> bool:
        """Does this rank record for itself?"""
        return self.mode == "all" or self.rank == 0

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record values of this rank as the mode says. Host numbers; never waits."""
        if self.mode != "aggregate":
            if self.records:
                _core.log(values, step)
            return
        if self.reason:
            return
        try:
            self._poll()
            self._window.add(values)
            if self._window.calls >= self.every:
                self._exchange(step)
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def close(self, timeout: float = 5.0) -> None:
        """Record what is still on its way; at most `timeout` seconds of waiting for it."""
        end = time.monotonic() + timeout
        try:
            while self._flying and not self.reason:
                if not self._poll() and time.monotonic() > end:
                    self._give_up(f"{len(self._flying)} exchanges did not end in {timeout:g} s")
                    return
                time.sleep(0.001)
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self.reason = why
        self._flying.clear()
        tell_once("ranks", f"no figures over ranks any more: {why}")

    def _exchange(self, step: int | None) -> None:
        window, self._window = self._window, _Window()
        means = window.means()
        if len(means) > self.names:
            tell_once("ranks", f"{len(means)} names, more than {self.names}: the last are left out")
            means = dict(list(means.items())[: self.names])
        names = list(means)
        now = _core.now()
        if step is None:
            step = _step_now()
        if self.world == 1:
            self._record(names, [list(means.values())], step, now)
            return
        distributed, torch = _group(), importlib.import_module("torch")
        if distributed is None:
            raise RuntimeError("torch.distributed is not initialised")
        if self._gloo is None:  # all ranks come here at the same call
            self._gloo = distributed.new_group(backend="gloo")
        mine = torch.zeros(_HEAD + self.names, dtype=torch.float64)
        mine[0], mine[1] = zlib.crc32("\0".join(names).encode()), window.calls
        if names:
            mine[_HEAD : _HEAD + len(names)] = torch.tensor(
                list(means.values()), dtype=torch.float64
            )
        theirs = [torch.zeros_like(mine) for _ in range(self.world)] if self.rank == 0 else None
        work = distributed.gather(mine, theirs, dst=0, group=self._gloo, async_op=True)
        self._flying.append((work, (mine, theirs), names, step, now))

    def _poll(self) -> int:
        """Record the exchanges that have ended, in order; how many."""
        done = 0
        while self._flying and self._flying[0][0].is_completed():
            work, (_, theirs), names, step, now = self._flying.popleft()
            work.wait()  # it has ended: raises if it failed
            done += 1
            if theirs is None:
                continue
            rows = [row.tolist() for row in theirs]
            if len({row[0] for row in rows}) > 1:
                tell_once("ranks", f"ranks have not measured the same things: {names} here; no "
                          "figures over them for these steps")  # fmt: skip
                continue
            self._record(names, [row[_HEAD : _HEAD + len(names)] for row in rows], step, now)
        return done

    def _record(self, names: list[str], rows: list[list[float]], step: int, now: int) -> None:
        found = {
            f"{name}/{what}": value
            for i, name in enumerate(names)
            for what, value in over_ranks(row[i] for row in rows).items()
        }
        self.last = found
        if self.rank == 0 and found:
            _core.log(found, step, now)
