# SPDX-License-Identifier: Apache-2.0
"""Traces of chosen steps or epochs: PyTorch's profiler, switched on by a plan, its
traces written and analysed beside the training."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.profiler

from .. import _events
from .._ranks import rank_and_world
from .._tell import tell_helper
from . import _profile_plan as plans
from . import _profile_trace as traces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import TracebackType

    from ._profile_trace import Trace

LAYOUTS = ("chrome", "tensorboard")
CLOSE_S = 120.0  # close() waits so long for writing and analysis
# Memory at the end of a recording over the size of the file, as measured on the CPU.
MEMORY_FACTOR = 6 if tuple(map(int, torch.__version__.split(".")[:1])) >= (2,) else 16
_MB = 1e6
_profiler: Any = torch.profiler


class _Window:
    """One stretch of steps that is recorded: warm-up first, then one trace."""

    def __init__(self, profile: Profile, cycle: int, probe: bool = False) -> None:
        self.cycle, self.probe = cycle, probe
        self.recording = False
        self.first = self.last = self._number = 0
        self.steps = 0  # that ended
        self._mark: Any = None
        self.kineto = _profiler._KinetoProfile(activities=profile._activities, **profile._options)
        self.kineto.prepare_trace()

    def record(self, profile: Profile) -> None:
        self.kineto.start_trace()
        self.recording = True
        self.first = profile.step_number
        if not traces.HAS_KINETO:  # it would say so on stderr for each
            return
        where = {"rank": profile.rank, "cycle": self.cycle, "first_step": self.first}
        if profile.epoch is not None:
            where["epoch"] = profile.epoch
        for key, value in where.items():
            self.kineto.add_metadata(f"lapse_{key}", str(value))

    def begin_step(self, number: int) -> None:
        if self._mark is None:
            self._number = number
            self._mark = _profiler.record_function(f"ProfilerStep#{number}")
            self._mark.__enter__()

    def end_step(self, whole: bool = True) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)
            if whole:
                self.last = self._number
                self.steps += 1

    def stop(self) -> float:
        """End the recording; seconds that it took."""
        self.end_step(whole=False)
        begin = time.perf_counter()
        if not self.recording:  # a profiler that was prepared wants to be stopped too
            self.kineto.start_trace()
        self.kineto.stop_trace()
        return time.perf_counter() - begin


class Profile:
    """Records traces of chosen steps with PyTorch's profiler.

        with lapse.torch.Profile(wait=10, warmup=2, active=3) as profile:
            for batch in loader:
                ...
                profile.step()

    Which steps: wait, warmup, active, repeat (0: without end) and skip_first count calls of
    step(), as torch.profiler.schedule() does; with `epochs` (0-based) they hold in each of
    these epochs, where epoch_begin() and epoch_end() are called; `schedule` is a schedule of
    torch.profiler instead. A window that its epoch or the training ends is written as far
    as it came; no step is recorded that the training does not make.

    ranks: global ranks that record, None: all. activities: "cpu", "cuda", "xpu", ...; what
    is absent is left out with a warning; None: all that there are. record_shapes,
    with_stack, profile_memory, with_flops as in torch.profiler.

    Traces go into output_dir: layout "chrome" names them
    chrome_trace_cycle_0_steps_12-14.json, or chrome_trace_epoch_1.json with `epochs`;
    "tensorboard" as tensorboard_trace_handler() does. With more than one rank the name has
    the rank. gz=True: packed. Each is written by another thread and, unless analyse=False,
    read by the program `lapse` in another process. What comes out is in `traces`, is
    recorded (event "profile", artifacts), and is given to on_trace(trace), which step(),
    epoch_end() and close() call on the training thread. export=False: only the analysis
    stays, not the trace.

    estimate=True records one step before the first window to tell how large it gets: more
    than warn_mb is a warning.

    Nothing raises in training: if `reason` is not "", it says why nothing is recorded."""

    def __init__(
        self,
        schedule: Callable[[int], Any] | None = None,
        *,
        skip_first: int = 0,
        wait: int = 5,
        warmup: int = 2,
        active: int = 3,
        repeat: int = 1,
        epochs: Iterable[int] | None = None,
        ranks: Collection[int] | None = (0,),
        activities: Iterable[str] | str | None = None,
        record_shapes: bool = True,
        with_stack: bool = False,
        profile_memory: bool = False,
        with_flops: bool = False,
        output_dir: str | os.PathLike[str] = "profiler_traces",
        layout: str = "chrome",
        gz: bool = False,
        export: bool = True,
        analyse: bool = True,
        estimate: bool = True,
        warn_mb: float = 500.0,
        on_trace: Callable[[Trace], None] | None = None,
    ) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"Profile(): layout must be one of {', '.join(LAYOUTS)}, "
                             f"not {layout!r}")  # fmt: skip
        if schedule is not None:
            self._plan = plans.custom(schedule)
        elif epochs is not None:
            self._plan = plans.epochs(epochs, wait, warmup, active)
        else:
            self._plan = plans.cycle(skip_first, wait, warmup, active, repeat)
        self._ranks = None if ranks is None else frozenset(ranks)
        self._activities = plans.activities(activities)
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes, "with_stack": with_stack,
            "profile_memory": profile_memory, "with_flops": with_flops,
        }  # fmt: skip
        self._dir = os.fspath(output_dir)
        self._layout, self._gz, self._export = layout, gz, export
        self._analyse, self._warn_mb, self._on_trace = analyse, warn_mb, on_trace
        self._probe_due = estimate
        self.traces: list[Trace] = []  #: finished ones, in the order in which they were
        self.reason = ""
        self.rank, self.world = 0, 1
        self.epoch: int | None = None
        self.step_number = 0  #: of the step that runs now
        self.estimated_bytes: int | None = None  #: of a window's trace
        self.estimated_memory: int | None = None  #: that recording a window takes
        self._n = 0  # steps of the plan's own counting
        self._action = plans.WAIT
        self._window: _Window | None = None
        self._cycles = 0
        self._running = False
        self._writing, self._analysing = traces.Later(), traces.Later()
        self._done: deque[Trace] = deque()
        self._said: deque[str] = deque()

    # ---- what the training calls ----------------------------------------------------------

    def start(self, step: int = 0) -> None:
        """The training begins; step: the number of its first step."""
        if self._running or self.reason:
            return
        self.rank, self.world = rank_and_world()
        if self._ranks is not None and self.rank not in self._ranks:
            self.reason = f"rank {self.rank} is not among the ranks that record"
            return
        self._running, self._n, self.step_number = True, 0, step
        if not self._plan.by_epoch:
            self._go(self._next())

    def step(self, number: int | None = None, last: bool = False) -> None:
        """A step has ended. number: that of the next one, if it is not one more. last: none
        follows in this epoch, so the time until epoch_begin() belongs to no step."""
        if not self._running:
            return
        if self._done or self._said:
            self._tell()
        window = self._window
        if window is not None:
            window.end_step()
        self._n += 1
        self.step_number = self.step_number + 1 if number is None else number
        ended = self._action == plans.LAST
        if self._plan.by_epoch and self.epoch is None:
            return
        action = self._next()
        if window is None and action == plans.WAIT and not self._probe_due:
            self._action = action
            return
        self._go(action, ended, last)

    def epoch_begin(self, epoch: int) -> None:
        """Epoch `epoch` (0-based) begins."""
        if not self._running:
            return
        self.epoch = epoch
        if self._plan.by_epoch:
            self._n = 0
            self._go(self._next())
        elif self._window is not None and self._window.recording:
            self._window.begin_step(self.step_number)

    def epoch_end(self) -> None:
        """The epoch has ended: so has a window of `epochs`."""
        if not self._running:
            return
        if self._plan.by_epoch:
            self._go(plans.WAIT, True)
            self.epoch = None
        self._tell()

    def close(self, timeout: float | None = CLOSE_S) -> None:
        """The training has ended: end the window, wait until what was recorded is written
        and analysed, at most so many seconds (None: without limit)."""
        if self._running:
            self._go(plans.WAIT, True)
            self._running = False
        end = None if timeout is None else time.monotonic() + timeout
        if not (self._writing.wait(end) and self._analysing.wait(end)):
            tell_helper("Profile", f"writing and analysing traces takes more than {timeout:.0f} s; "
                      "it goes on to the end of the program")  # fmt: skip
        self._tell()

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ---- windows --------------------------------------------------------------------------

    def _next(self) -> int:
        try:
            return self._plan.action(self._n, self.epoch or 0)
        except Exception as error:  # a schedule of the program's
            self._fail(f"the schedule failed at step {self._n}: {type(error).__name__}: {error}")
            return plans.WAIT

    def _go(self, action: int, ended: bool = False, between: bool = False) -> None:
        """Into what the next step is: the one place where the profiler is switched.
        between: no step begins with it."""
        self._action = action
        try:
            window = self._window
            if window is not None and (ended or window.probe or action == plans.WAIT):
                self._end(window)
                window = None
            if action == plans.WAIT:
                if self._probe_due and not self.reason and self._before_window():
                    self._probe()
                return
            if self.reason:
                return
            if window is None:
                self._probe_due = False
                window = self._window = _Window(self, self._cycles)
                self._cycles += 1
            if action != plans.WARMUP:
                if not window.recording:
                    window.record(self)
                if not between:
                    window.begin_step(self.step_number)
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def _before_window(self) -> bool:
        """Is this a step after the first, and the last before the first window (with
        `epochs`: any)? Then it tells how large the window gets."""
        if not self._running or self._n < 1:
            return False
        if self._plan.by_epoch:
            return self.epoch is not None
        return self._plan.action(self._n + 1, 0) != plans.WAIT

    def _probe(self) -> None:
        self._probe_due = False
        self._window = _Window(self, 0, probe=True)
        self._window.record(self)

    def _end(self, window: _Window) -> None:
        self._window = None
        seconds = window.stop()
        if window.probe:
            self._writing.do(lambda: self._estimate(window), "lapse-profile-estimate")
            return
        if not window.steps:
            tell_helper("Profile", "a window ended in its warm-up: no step of it was recorded")
            return
        trace = traces.Trace(
            rank=self.rank, epoch=self.epoch, cycle=window.cycle, first_step=window.first,
            last_step=window.last, steps=window.steps, stop_seconds=seconds,
        )  # fmt: skip
        self._writing.do(lambda: self._write(window, trace), "lapse-profile-write")

    def _fail(self, why: str) -> None:
        """Something of the profiler's went wrong: nothing is recorded from now on."""
        self.reason, window, self._window = why, self._window, None
        tell_helper("Profile", why)
        warnings.warn(f"Profile: {why}; nothing is recorded from now on", RuntimeWarning,
                      stacklevel=4)  # fmt: skip
        try:
            if window is not None:
                window.stop()
        except Exception:
            pass

    # ---- in the other threads -------------------------------------------------------------

    def _estimate(self, window: _Window) -> None:
        try:
            one = traces.estimate(window.kineto, self._dir)
        except (OSError, RuntimeError) as error:
            tell_helper("Profile", f"the size of a trace is not estimated: {error}")
            return
        size = one * (self._plan.active or 1)
        self.estimated_bytes, self.estimated_memory = size, size * MEMORY_FACTOR
        text = (f"a window's trace is estimated at {size / _MB:.3g} MB, recording it at "
                f"{size * MEMORY_FACTOR / _MB:.3g} MB of memory")  # fmt: skip
        advice = ""
        if size > self._warn_mb * _MB:
            advice = (f"more than warn_mb ({self._warn_mb:g}): fewer active steps, no stacks, "
                      "no shapes make it smaller")  # fmt: skip
        try:
            free = shutil.disk_usage(self._dir).free
            if size > free:
                advice = f"{self._dir} has only {free / _MB:.0f} MB left"
        except OSError:
            pass
        severity = "warning" if advice else "info"
        _events.event("profile-estimate", f"{text}; {advice}" if advice else text, severity,
                      bytes=size, memory=size * MEMORY_FACTOR, of_one_step=one)  # fmt: skip
        if advice:
            self._said.append(f"Profile: {text}; {advice}")

    def _write(self, window: _Window, trace: Trace) -> None:
        try:
            name = traces.file_name(trace, self._layout, self.world, self._plan.by_epoch,
                                    self._gz)  # fmt: skip
            path = os.path.join(self._dir, name)
            begin = time.perf_counter()
            trace.bytes = traces.write(window.kineto, path, self._gz)
            trace.write_seconds = time.perf_counter() - begin
            trace.path = path
            if self._export:
                _events.artifact(path, "trace")
        except Exception as error:
            trace.error = f"not written: {type(error).__name__}: {error}"
            tell_helper("Profile", f"a trace was {trace.error}")
        self._analysing.do(lambda: self._finish(trace), "lapse-profile-analyse")

    def _finish(self, trace: Trace) -> None:
        if trace.path and self._analyse:
            traces.analyse(trace)
        if trace.analysis:
            _events.artifact(trace.analysis, "trace-summary")
        if trace.path and not self._export:
            os.unlink(trace.path)
            trace.path = ""
        self._record(trace)
        self._done.append(trace)

    def _record(self, trace: Trace) -> None:
        text = trace.verdict or trace.error or "recorded"
        where = f"steps {trace.first_step} to {trace.last_step}"
        if trace.epoch is not None:
            where = f"epoch {trace.epoch}, {where}"
        attrs = {
            name: getattr(trace, name)
            for name in ("path", "rank", "epoch", "cycle", "first_step", "last_step", "bytes",
                         "stop_seconds", "write_seconds", "analyse_seconds", "bound", "shares",
                         "error")
        }  # fmt: skip
        attrs["findings"] = [text[:400] for text in trace.findings[:5]]
        attrs["operators"] = [[op.name[:100], round(op.share, 4)] for op in trace.operators[:5]]
        _events.event("profile", f"{where}: {text}", "warning" if trace.error else "info", **attrs)

    def _tell(self) -> None:
        """On the training thread: what the others have found."""
        while self._said:
            warnings.warn(self._said.popleft(), RuntimeWarning, stacklevel=3)
        while self._done:
            trace = self._done.popleft()
            self.traces.append(trace)
            if self._on_trace is None:
                continue
            try:
                self._on_trace(trace)
            except Exception as error:
                tell_helper("Profile", f"on_trace: {type(error).__name__}: {error}")
