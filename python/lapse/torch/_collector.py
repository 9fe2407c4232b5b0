# SPDX-License-Identifier: Apache-2.0
"""Pauses of Python's garbage collector, and on request collections at fixed steps, so
that all ranks pause at once and none waits for another."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

from .. import _core
from ._helper import Helper, quiet


class GarbageCollector(Helper):
    """Measures each pause of the garbage collector, from when it is made.

        collector = lapse.torch.GarbageCollector()
        collector = lapse.torch.GarbageCollector(every=1000)    # and controls it

    every: switch the automatic collection off, and collect at each so many calls of step();
    None: leave it as it is. generation: which one is collected then (1: what is young; 2:
    everything). close() gives it back as it was; so does `with`. pauses: by generation,
    [count, seconds in total, longest]. About 1 us a collection."""

    def __init__(self, every: int | None = None, generation: int = 1) -> None:
        super().__init__(1 if every is None else every)
        if generation not in (0, 1, 2):
            raise ValueError(f"GarbageCollector: generation is 0, 1 or 2, not {generation!r}")
        self.generation, self.controls = generation, every is not None
        self.pauses: dict[int, list[float]] = {}
        self.collected = 0
        self._metrics = [
            _core.metric("python/gc/pause", "s", "histogram",
                         "pause of Python's garbage collector", {"generation": g})
            for g in (0, 1, 2)
        ]  # fmt: skip
        self._since = 0
        self._hook = _hook_of(self)
        gc.callbacks.append(self._hook)
        # Also of an object that is dropped, and at exit.
        self._close = weakref.finalize(
            self, _give_back, self._hook, self.controls and gc.isenabled()
        )
        if self.controls:
            gc.disable()
            gc.collect(generation)

    def _event(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._since = time.perf_counter_ns()
            return
        if not self._since:
            return  # made within a collection
        pause = (time.perf_counter_ns() - self._since) * 1e-9
        self._since = 0
        generation = int(info.get("generation", 2))
        self.collected += int(info.get("collected", 0))
        sums = self.pauses.setdefault(generation, [0, 0.0, 0.0])
        sums[0] += 1
        sums[1] += pause
        sums[2] = max(sums[2], pause)
        self._metrics[min(generation, 2)].observe(pause)

    @quiet
    def step(self) -> None:
        """Collect, if it controls and this step is due; the first is not."""
        if self._due() and self.controls and self._calls > 1:
            gc.collect(self.generation)

    def close(self) -> None:
        """Measure no more; the automatic collection is as it was."""
        self._close()
        self.controls = False

    def __enter__(self) -> GarbageCollector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self) -> str:
        """A line for each generation."""
        return "\n".join(
            f"generation {g}: {int(n)} pauses, {total * 1e3:.1f} ms in total, longest "
            f"{longest * 1e3:.1f} ms"
            for g, (n, total, longest) in sorted(self.pauses.items())
        )


def _hook_of(owner: GarbageCollector) -> Any:
    """Does not keep its owner alive."""
    reference = weakref.ref(owner)

    def hook(phase: str, info: dict[str, Any]) -> None:
        alive = reference()
        if alive is not None:
            alive._event(phase, info)

    return hook


def _give_back(hook: Any, enable: bool) -> None:
    if hook in gc.callbacks:
        gc.callbacks.remove(hook)
    if enable:
        gc.enable()
