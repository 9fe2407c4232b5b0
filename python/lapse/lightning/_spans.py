# SPDX-License-Identifier: Apache-2.0
"""LapseProfiler: every action of Lightning's as a span."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from .. import _core
from .._tell import tell_once
from ..torch import Summary
from ._phases import Phases, kind_of

_SETTINGS = re.compile(r"\{.*\}")


class LapseProfiler:
    """A profiler of Lightning's that records what it is told as spans of lapse:

        Trainer(profiler=lapse.lightning.LapseProfiler())

    Each action is a span `lightning/ACTION`; `train_dataloader_next` is the wait for data.
    Hooks (`on_...` of callbacks and modules) are spans with hooks=True only. The phases
    `data`, `forward`, `backward`, `optimizer` and `checkpoint` are those of LapseCallback,
    recorded once if both are there. At the end Lightning prints, or writes to
    dirpath/filename with the rank, a table of actions and hooks by their time."""

    _lapse_spans = True
    filename: str | None

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        *,
        phases: bool = True,
        hooks: bool = False,
    ) -> None:
        super().__init__(dirpath=dirpath, filename=filename)  # type: ignore[call-arg]
        self.durations: dict[str, Summary] = {}  #: seconds by action
        self._open: dict[str, list[tuple[Any, bytes, int]]] = {}
        self._names: dict[str, str] = {}
        self._phases = Phases() if phases else None
        self._hooks = hooks
        self._began = time.perf_counter_ns()

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        super().setup(stage, local_rank, log_dir)  # type: ignore[misc]
        if not _core.is_open():
            from .. import _callback

            try:
                _callback.begin_run(None, None, None)
            except Exception as error:
                tell_once("lightning", f"{type(error).__name__}: {error}")

    def _span_name(self, action: str) -> str:
        """Without the settings of callbacks that are part of their names; "" of a hook."""
        name = self._names.get(action)
        if name is None:
            hook = action.startswith("[") and kind_of(action).startswith("on_")
            name = f"lightning/{_SETTINGS.sub('', action)}" if self._hooks or not hook else ""
            self._names[action] = name
        return name

    def start(self, action_name: str) -> None:
        name = self._span_name(action_name)
        span = _core.span(name) if name else None
        token = b"" if span is None else span.begin()
        self._open.setdefault(action_name, []).append((span, token, time.perf_counter_ns()))
        if self._phases is not None:
            self._phases.start(action_name)

    def stop(self, action_name: str) -> None:
        """ValueError, as of Lightning's profilers: it was not started."""
        opened = self._open.get(action_name)
        if not opened:
            raise ValueError(f"LapseProfiler.stop(): {action_name!r} was not started")
        if self._phases is not None:
            self._phases.stop(action_name)
        span, token, began = opened.pop()
        seconds = (time.perf_counter_ns() - began) / 1e9
        if span is not None:
            span.end(token)
        self.durations.setdefault(action_name, Summary()).add(seconds)

    def summary(self) -> str:
        """Actions with their mean, calls, total and share, longest first."""
        if not self.durations:
            return ""
        total = (time.perf_counter_ns() - self._began) / 1e9
        width = max(len(name) for name in self.durations)
        head = f"{'Action':<{width}}  {'Mean s':>10}  {'Calls':>8}  {'Total s':>10}  {'Of all':>8}"
        lines = ["Profiler Report", head]
        for name, times in sorted(self.durations.items(), key=lambda item: -item[1].sum):
            lines.append(f"{name:<{width}}  {times.mean:>10.5f}  {times.count:>8}  "
                         f"{times.sum:>10.4f}  {times.sum / total:>8.1%}")  # fmt: skip
        return os.linesep + os.linesep.join(lines)

    def describe(self) -> None:
        """The table; on the console if its file cannot be written."""
        try:
            super().describe()  # type: ignore[misc]
        except OSError as error:
            tell_once("lightning", f"LapseProfiler: its table is on the console: {error}")
            name, self.filename = self.filename, None
            try:
                super().describe()  # type: ignore[misc]
            finally:
                self.filename = name

    def teardown(self, stage: str | None) -> None:
        if self._phases is not None:
            self._phases.close()
        super().teardown(stage)  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_open"], state["_phases"] = {}, Phases() if self._phases is not None else None
        return state
