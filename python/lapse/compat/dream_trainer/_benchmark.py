# SPDX-License-Identifier: Apache-2.0
"""BenchmarkCallback: how long forward, backward and the optimizer take on the device, and
how often one of them is much longer than it need be."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import Any

from ...torch import flush
from ...torch._phase import device_pair
from ...torch._summary import Summary
from ._base import Printing, hook
from ._measure import whole

BUBBLE_MS = 100.0
_PARTS = ("forward", "backward", "optimizer", "total_step")
_TITLES = {"forward": "Forward", "backward": "Backward", "optimizer": "Optimizer",
           "total_step": "Total Step"}  # fmt: skip


class Window:
    """The last times of a part, in ms; `bubbles`: how many were, when they came, 100 ms or
    more above the shortest of their window."""

    def __init__(self, size: int) -> None:
        self._last: deque[float] = deque(maxlen=size)
        self.bubbles = self.count = 0

    def add(self, value: float) -> None:
        self._last.append(value)
        self.count += 1
        self.bubbles += value - min(self._last) >= BUBBLE_MS

    def stats(self) -> dict[str, float]:
        """mean, std (of a sample), min, max, last in ms; {} of none."""
        of = Summary(self._last)
        if not of:
            return {}
        n = of.count
        std = of.std * (n / (n - 1)) ** 0.5 if n > 1 else 0.0
        return {"mean": of.mean, "std": std, "min": of.min, "max": of.max, "last": self._last[-1]}

    def line(self, title: str) -> str:
        of = self.stats()
        if not of:
            return f"{title:<12}: N/A"
        return (f"{title:<12}: {of['mean']:8.2f} ± {of['std']:8.2f} ms [min: {of['min']:8.2f}, "
                f"max: {of['max']:8.2f}, last: {of['last']:8.2f}] "
                f"bubbles: {self.bubbles:>4d}/{self.count}")  # fmt: skip


class _Clock:
    """A time that has begun: on the device once that is in use, else on the host."""

    def __init__(self) -> None:
        self._pair = device_pair()
        self._began = time.perf_counter_ns()

    def end(self, then: Any) -> None:
        """then(seconds), now or when it has arrived."""
        if self._pair is None:
            then((time.perf_counter_ns() - self._began) * 1e-9)
        else:
            self._pair.end(lambda seconds, step, time_ns: then(seconds))


class BenchmarkCallback(Printing):
    """Times of forward, backward, optimizer and the whole step (from hook to hook), after
    `skip` steps: mean, deviation, least, most and last of the last `window_size` steps, and
    bubbles. Printed each `print_every` steps (0: only after the fit). By events that arrive
    later, on the CPU by the host's clock; nothing waits for a device before the end of the fit.

    Forward and backward are told apart where the trainer has a `backward()`, which is wrapped
    during the fit. Steps in which `trainer.is_accumulating_gradients` do not count."""

    def __init__(
        self,
        skip: int = 5,
        print_every: int = 10,
        window_size: int = 100,
        console_style: str | None = None,
    ) -> None:
        super().__init__(console_style)
        self.skip = whole("BenchmarkCallback: skip", skip, 0)
        self.print_every = whole("BenchmarkCallback: print_every", print_every, 0)
        self.window_size = whole("BenchmarkCallback: window_size", window_size, 1)
        self.windows = {part: Window(window_size) for part in _PARTS}
        self._skip = skip
        self._seen = self._counted = 0
        self._open: dict[str, _Clock] = {}
        self._backward: Any = None

    def warm_up(self, steps: int) -> None:
        self._skip = max(self.skip, steps)

    # ---- the trainer's hooks ------------------------------------------------------------

    @hook
    def pre_fit(self) -> None:
        own = getattr(self.trainer, "backward", None)
        if self._backward is None and callable(own):
            self._backward = own
            self.trainer.backward = partial(self._timed, own)

    def _timed(self, own: Any, *args: Any, **kwargs: Any) -> Any:
        self._end("forward")
        self._begin("backward")
        try:
            return own(*args, **kwargs)
        finally:
            self._end("backward")

    @hook
    def pre_train_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        self._seen += 1
        self._open.clear()
        if self._seen <= self._skip or getattr(self.trainer, "is_accumulating_gradients", False):
            return
        self._begin("total_step")
        if self._backward is not None:
            self._begin("forward")

    @hook
    def pre_optimizer_step(self, model: Any, optimizer: Any) -> None:
        if "total_step" in self._open and "optimizer" not in self._open:
            self._begin("optimizer")

    @hook
    def post_optimizer_step(self, model: Any, optimizer: Any) -> None:
        if "optimizer" in self._open:
            self._end("optimizer")

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        if "total_step" not in self._open:
            return
        self._end("total_step")
        self._counted += 1
        if self.print_every and self._counted % self.print_every == 0:
            flush()
            self._print(f"=== Benchmark (n={self._counted}) ===")

    @hook
    def post_fit(self) -> None:
        if self._backward is not None:
            self.trainer.backward = self._backward
            self._backward = None
        flush(wait=True)
        self._print("=== Final Benchmark Results ===")

    # ---- inside -------------------------------------------------------------------------

    def _begin(self, part: str) -> None:
        if part == "total_step" or "total_step" in self._open:
            self._open[part] = _Clock()

    def _end(self, part: str) -> None:
        clock = self._open.pop(part, None)
        if clock is not None:
            clock.end(partial(self._arrived, part))

    def _arrived(self, part: str, seconds: float) -> None:
        self.windows[part].add(seconds * 1e3)

    def _print(self, head: str) -> None:
        self.say("\n".join([head, self.report()]))

    def report(self) -> str:
        """A line for each part, and what each takes of the step."""
        if not self.windows["total_step"].count:
            return "Benchmark: No data collected yet"
        lines = [self.windows[part].line(_TITLES[part]) for part in _PARTS]
        means = {part: self.windows[part].stats().get("mean", 0.0) for part in _PARTS}
        whole_step = means.pop("total_step")
        if whole_step > 0:
            shares = {part: 100 * mean / whole_step for part, mean in means.items()}
            texts = [f"{_TITLES[part]} {share:.1f}%" for part, share in shares.items()]
            texts.append(f"Other {100 - sum(shares.values()):.1f}%")
            lines.append("Breakdown: " + " | ".join(texts))
        return "\n".join(lines)

    def get_stats(self) -> dict[str, dict[str, float]]:
        """{"forward", "backward", "optimizer", "total_step": {"mean", "std", "min", "max",
        "last", "bubbles"}} in ms; 0 of what was not measured."""
        none = dict.fromkeys(("mean", "std", "min", "max", "last"), 0.0)
        return {part: {**none, **one.stats(), "bubbles": one.bubbles}
                for part, one in self.windows.items()}  # fmt: skip
