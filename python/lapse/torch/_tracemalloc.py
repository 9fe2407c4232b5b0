# SPDX-License-Identifier: Apache-2.0
"""Python's own memory, as tracemalloc sees it: current, peak, what grew, and what the
tracing itself costs."""

from __future__ import annotations

import time
import tracemalloc
from typing import NamedTuple

from .. import _core, _events
from ._helper import Helper, quiet

GIB = 1 << 30
_HIDDEN = (
    tracemalloc.Filter(False, tracemalloc.__file__),
    tracemalloc.Filter(False, "<frozen importlib._bootstrap>"),
    tracemalloc.Filter(False, "<frozen importlib._bootstrap_external>"),
    tracemalloc.Filter(False, __file__),
)


class Growth(NamedTuple):
    """A place in the program that holds more (or less) memory than before."""

    file: str
    line: int
    bytes: int  # more than at the snapshot before
    blocks: int  # likewise
    total: int  # bytes now


def _allocations() -> float:
    """Seconds that 20,000 small allocations take: the fastest of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        _ = [bytearray(64) for _ in range(20000)]
        best = min(best, time.perf_counter() - start)
    return best


class TraceMalloc(Helper):
    """Memory that Python's allocators hold.

        traced = lapse.torch.TraceMalloc()
        for batch in loader:
            ...
            traced.step()
        print(traced.report())

    Tracing begins when it is made, unless it is on already, and costs much: `overhead` says
    how much. every: at each so many steps the current and peak size are recorded, and a
    snapshot is compared with the one before: the `top` places that grew most are event
    `memory-growth` and `growth`. top=0: no snapshots, which may stop training for a second.
    frames: how many callers are kept for each block. stop() ends the tracing, if it began
    here."""

    def __init__(self, every: int = 100, top: int = 10, frames: int = 1) -> None:
        super().__init__(every)
        if top < 0 or frames < 1:
            raise ValueError(f"TraceMalloc: top={top!r}, frames={frames!r}")
        self.top = top
        self.current = self.peak = 0
        self.growth: list[Growth] = []
        self.overhead: dict[str, float] = {"snapshot_seconds": 0.0, "bytes": 0}
        self._before: tracemalloc.Snapshot | None = None
        self._began = not tracemalloc.is_tracing()
        if self._began:
            without = _allocations()
            tracemalloc.start(frames)
            self.overhead["allocation_ratio"] = _allocations() / without
            tracemalloc.clear_traces()
        names = {
            "python/memory/traced": "memory that Python's allocators hold",
            "python/memory/traced/peak": "most of it since tracing began",
            "python/memory/traced/overhead": "memory that the tracing itself takes",
        }
        self._metrics = [_core.metric(n, "By", "gauge", help) for n, help in names.items()]
        self._seconds = _core.metric("python/memory/traced/time", "s", "counter",
                                     "time that snapshots took")  # fmt: skip

    @quiet
    def step(self) -> None:
        """Record, and compare snapshots, if this step is due."""
        if self._due():
            self.measure()

    def measure(self) -> None:
        """The same, now."""
        if not tracemalloc.is_tracing():
            self._cannot("tracemalloc was stopped")
            return
        self.current, self.peak = tracemalloc.get_traced_memory()
        self.overhead["bytes"] = tracemalloc.get_tracemalloc_memory()
        values = (self.current, self.peak, self.overhead["bytes"])
        for metric, value in zip(self._metrics, values):
            metric.set(value)
        if self.top:
            self._snapshot()

    def _snapshot(self) -> None:
        start = time.perf_counter()
        now = tracemalloc.take_snapshot().filter_traces(_HIDDEN)
        before, self._before = self._before, now
        if before is not None:
            differences = sorted(now.compare_to(before, "lineno"), key=lambda d: -d.size_diff)
            self.growth = [
                Growth(d.traceback[0].filename, d.traceback[0].lineno, d.size_diff, d.count_diff,
                       d.size)
                for d in differences[: self.top]
                if d.size_diff > 0
            ]  # fmt: skip
        took = time.perf_counter() - start
        self.overhead["snapshot_seconds"] += took
        self._seconds.add(took)
        if self.growth and before is not None:
            first = self.growth[0]
            _events.event(
                "memory-growth",
                f"{first.file}:{first.line} holds {first.bytes / 1024:.1f} KiB more than "
                f"{self.every} steps ago",
                places=[[g.file[-120:], g.line, g.bytes, g.blocks, g.total] for g in self.growth],
                current=self.current,
                peak=self.peak,
            )

    def report(self, classic: bool = False) -> str:
        """Current and peak memory, what grew, and what tracing costs. classic: write GB, as
        one of the source documents does, for what are GiB."""
        if tracemalloc.is_tracing():
            self.current, self.peak = tracemalloc.get_traced_memory()
        unit = "GB" if classic else " GiB"
        lines = [
            f"Current memory: {self.current / GIB:.2f}{unit}",
            f"Peak memory: {self.peak / GIB:.2f}{unit}",
        ]
        for g in self.growth:
            lines.append(f"{g.bytes / 1024:+12.1f} KiB  {g.blocks:+8d}  {g.file}:{g.line}")
        cost = f"tracing: {self.overhead['bytes'] / (1 << 20):.1f} MiB"
        cost += f", {self.overhead['snapshot_seconds']:.2f} s of snapshots"
        if "allocation_ratio" in self.overhead:
            cost += f", an allocation takes {self.overhead['allocation_ratio']:.1f} times as long"
        return "\n".join([*lines, cost])

    def stop(self) -> None:
        """End the tracing, if it began here."""
        if self._began and tracemalloc.is_tracing():
            self.current, self.peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        self.reason = "stopped"
        self._before = None
