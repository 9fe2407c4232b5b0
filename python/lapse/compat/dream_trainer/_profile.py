# SPDX-License-Identifier: Apache-2.0
"""ProfileCallback steps a profiler of PyTorch's and has each trace that it writes analysed
in another process; AutoAnalyzer says what a trace is bound by; trace_handler writes the
files that Dream Trainer's own handler writes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from typing import Any

import torch

from ... import _events, _program
from ..._ranks import rank_and_world
from ..._tell import tell_once
from ...torch import _profile_trace as traces
from ._base import Callback, Printing, hook, of_rank
from ._measure import whole

CLOSE_S = 120.0  # post_fit() waits so long for the analysis
SLOW = 10  # operations that find_slow_operations() gives
SNAPSHOT = "memory_snapshot.pickle"
_SAID = {
    "communication": ("Training is communication bound",
                      "Consider: larger batch size, gradient accumulation"),
    "memory": ("Training is memory bound", "Consider: activation checkpointing, CPU offload"),
}  # fmt: skip


class ProfileCallback(Callback[Any]):
    """Steps `profiler`, a torch.profiler.profile with its schedule, after each
    `trainer.training_step()` (or, of a trainer without one, after each step of training). It
    is started at pre_fit() if the program has not, and stopped at post_fit(), so a window
    that is open then is not lost.

    Each trace that is written with export_chrome_trace(), by whichever handler, is read by
    the program `lapse` in another process: `traces` has path, bound, verdict, findings and
    operators of each, event "profile" the same.

    memory_snapshot_enabled: record the history of the CUDA allocator during the fit, and
    write memory_snapshot.pickle into memory_snapshot_output_dir (None: here) after it."""

    def __init__(
        self,
        profiler: Any,
        *,
        memory_snapshot_enabled: bool = False,
        memory_snapshot_max_entries: int = 100_000,
        memory_snapshot_output_dir: str | None = None,
    ) -> None:
        if not callable(getattr(profiler, "step", None)):
            raise TypeError("ProfileCallback: profiler must be a torch.profiler.profile, not "
                            f"{type(profiler).__name__}")  # fmt: skip
        self.profiler = profiler
        self.traces: list[traces.Trace] = []
        self._snapshots = bool(memory_snapshot_enabled)
        self._entries = whole("ProfileCallback: memory_snapshot_max_entries",
                              memory_snapshot_max_entries, 1)  # fmt: skip
        self._snapshot_dir = memory_snapshot_output_dir or "."
        self._step_of: Any = None  # the trainer's own training_step
        self._by_hook = self._running = False
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @hook
    def pre_fit(self) -> None:
        if self._running:
            return
        self._running = True
        self._watch_exports()
        self._wrap()
        if self._snapshots:
            self._record_memory(True)
        # A profiler that the program has started has begun its first step.
        if getattr(self.profiler, "step_rec_fn", None) is None:
            self.profiler.start()

    def _wrap(self) -> None:
        own = getattr(self.trainer, "training_step", None)
        if own is None or not callable(own):
            self._by_hook = True
            return
        self._step_of = own
        wrapped: Any = own

        def training_step(*args: Any, **kwargs: Any) -> Any:
            out = wrapped(*args, **kwargs)
            self._step()
            return out

        self.trainer.training_step = training_step

    def _watch_exports(self) -> None:
        """The object's own export_chrome_trace() tells where a trace is."""
        own = self.profiler.export_chrome_trace

        def export_chrome_trace(path: str, *args: Any, **kwargs: Any) -> Any:
            done = own(path, *args, **kwargs)
            self._take(path)
            return done

        self.profiler.export_chrome_trace = export_chrome_trace

    @hook
    def _step(self) -> None:
        self.profiler.step()

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        if self._by_hook and self._running:
            self.profiler.step()

    @hook
    def post_fit(self) -> None:
        if not self._running:
            return
        self._running = False
        if self._step_of is not None:
            self.trainer.training_step = self._step_of
            self._step_of = None
        try:
            self.profiler.stop()
        finally:
            vars(self.profiler).pop("export_chrome_trace", None)
            if self._snapshots:
                self._record_memory(False)
            if not self._wait(CLOSE_S):
                tell_once("dream_trainer", f"the analysis takes longer than {CLOSE_S:.0f} s")

    @hook
    def _take(self, path: str) -> None:
        trace = traces.Trace(path=os.path.abspath(path), rank=rank_and_world()[0])
        trace.bytes = os.path.getsize(path)
        # No daemon: at the end of the program it is finished first.
        thread = threading.Thread(target=self._analyse, args=(trace,), name="lapse-dream-profile")
        self._threads.append(thread)
        thread.start()

    def _wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return not self._threads

    def _analyse(self, trace: traces.Trace) -> None:
        with self._lock:
            traces.analyse(trace)
            self.traces.append(trace)
        _events.artifact(trace.path, "trace")
        text = trace.verdict or trace.error or "recorded"
        _events.event("profile", text, "warning" if trace.error else "info", path=trace.path,
                      rank=trace.rank, bound=trace.bound, shares=trace.shares,
                      findings=[line[:400] for line in trace.findings[:5]])  # fmt: skip

    def _record_memory(self, begin: bool) -> None:
        if not torch.cuda.is_available():
            tell_once("dream_trainer", "no memory snapshot: CUDA is not available", False)
            return
        memory: Any = torch.cuda.memory
        if begin:
            memory._record_memory_history(max_entries=self._entries)
            return
        path = of_rank(os.path.join(self._snapshot_dir, SNAPSHOT))
        os.makedirs(self._snapshot_dir, exist_ok=True)
        memory._dump_snapshot(path)
        memory._record_memory_history(enabled=None)
        _events.artifact(path, "memory-snapshot")


def _sort_key(metric: str) -> str:
    """PyTorch calls it device_... since 2.5, cuda_... before."""
    modern = hasattr(torch.autograd.profiler_util.FunctionEvent, "device_time_total")
    return metric.replace("cuda", "device") if modern else metric


def trace_handler(
    prof: Any,
    output_dir: str,
    export_stacks: bool = True,
    export_memory_timeline: bool = True,
    memory_timeline_device: str = "cuda:0",
    dump_memory_snapshot: bool = False,
    memory_snapshot_path: str | None = None,
    stop_memory_recording: bool = False,
) -> None:
    """A handler for `on_trace_ready=partial(trace_handler, output_dir=...)` that writes
    trace.json, stacks.txt, memory_timeline.html, time_averages.txt, memory_averages.txt and
    memory_snapshot.pickle. What the version of PyTorch or the machine cannot is said and left
    out; training goes on (the original ends the program)."""
    os.makedirs(output_dir, exist_ok=True)
    cuda = torch.cuda.is_available()
    unit = "self_cuda_time_total" if cuda else "self_cpu_time_total"
    memory = "self_cuda_memory_usage" if cuda else "self_cpu_memory_usage"

    def at(name: str) -> str:
        return of_rank(os.path.join(output_dir, name))

    def averages(name: str, key: str) -> None:
        table = prof.key_averages(group_by_stack_n=5)
        with open(at(name), "w", encoding="utf-8") as file:
            file.write(table.table(sort_by=_sort_key(key), row_limit=1000))

    def snapshot() -> None:
        path = memory_snapshot_path or at(SNAPSHOT)
        history: Any = torch.cuda.memory
        history._dump_snapshot(path)
        if stop_memory_recording:
            history._record_memory_history(enabled=None)

    jobs: list[tuple[bool, str, Any]] = [
        (True, "trace.json", lambda: prof.export_chrome_trace(at("trace.json"))),
        (export_stacks, "stacks.txt", lambda: prof.export_stacks(at("stacks.txt"), unit)),
        (export_memory_timeline, "memory_timeline.html", lambda: prof.export_memory_timeline(
            at("memory_timeline.html"), device=memory_timeline_device if cuda else "cpu")),
        (True, "time_averages.txt", lambda: averages("time_averages.txt", unit)),
        (True, "memory_averages.txt", lambda: averages("memory_averages.txt", memory)),
        (dump_memory_snapshot and cuda, SNAPSHOT, snapshot),
    ]  # fmt: skip
    for wanted, name, job in jobs:
        if not wanted:
            continue
        try:
            job()
        except Exception as error:
            tell_once("dream_trainer", f"{name} is not written: {type(error).__name__}: {error}")


class AutoAnalyzer(Printing):
    """Says what a profile is bound by, with lapse's trace analysis.

    A profile is the path of a trace (or of a folder of them), a torch.profiler.profile that
    has recorded, or a trace of ProfileCallback.traces. RuntimeError: it cannot be read, or
    there is no program `lapse`; analyze_profile() says so instead."""

    def __init__(self, console_style: str | None = None) -> None:
        super().__init__(console_style)
        self.findings: list[dict[str, Any]] = []  #: of the last analyze_profile()
        self._last: tuple[Any, dict[str, Any], list[traces.Operator]] | None = None

    def analyze_profile(self, profile_data: Any) -> dict[str, Any]:
        """Print what binds it, and give {"slow_operations": [...], "communication_bound":
        bool, "memory_bound": bool, "findings": [...]}; {} if it cannot be analysed."""
        self._last = None  # it may have been written anew
        try:
            found: dict[str, Any] = {
                "slow_operations": self.find_slow_operations(profile_data),
                "communication_bound": self.is_communication_bound(profile_data),
                "memory_bound": self.is_memory_bound(profile_data),
            }
            self.findings = self._ask(profile_data)[0]["sheets"].get("findings") or []
        except (RuntimeError, OSError, KeyError) as error:
            tell_once("dream_trainer", f"not analysed: {error}")
            self.say(f"AutoAnalyzer: not analysed: {error}")
            return {}
        for kind, (text, advice) in _SAID.items():
            if found[f"{kind}_bound"]:
                evidence = [f["text"] for f in self.findings if f.get("document") == text]
                self.say(f"{text}\n{advice}", "\n".join([text, *evidence, advice]))
        found["findings"] = [f"{f['text']} {f['advice']}".strip() for f in self.findings]
        return found

    def find_slow_operations(self, profile_data: Any) -> list[traces.Operator]:
        """The ten operators with the most time of their own: name, share (0 to 1), time in
        seconds, calls; on the device if the trace has one."""
        return self._ask(profile_data)[1][:SLOW]

    def is_communication_bound(self, profile_data: Any) -> bool:
        """Is more time than 10 % in communication that nothing hides, or is that the most?"""
        return self._is("communication", profile_data)

    def is_memory_bound(self, profile_data: Any) -> bool:
        """Is the peak of allocated memory above 90 % of the device's?"""
        return self._is("memory", profile_data)

    def _is(self, kind: str, profile_data: Any) -> bool:
        findings = self._ask(profile_data)[0]["sheets"].get("findings") or []
        return any(one.get("document") == _SAID[kind][0] for one in findings)

    def _ask(self, of: Any) -> tuple[dict[str, Any], list[traces.Operator]]:
        if self._last is not None and self._last[0] is of:
            return self._last[1:]
        program = _program.find()
        if program is None:
            raise RuntimeError("the program lapse is not there (LAPSE_BIN, PATH)")
        if hasattr(of, "export_chrome_trace"):
            with tempfile.TemporaryDirectory(prefix="lapse-profile-") as folder:
                path = os.path.join(folder, "trace.json")
                of.export_chrome_trace(path)
                said, operators = self._read(program, path)
        else:
            said, operators = self._read(program, os.fspath(getattr(of, "path", of)))
        self._last = (of, said, operators)
        return said, operators

    @staticmethod
    def _read(program: str, path: str) -> tuple[dict[str, Any], list[traces.Operator]]:
        if not os.path.exists(path):
            raise RuntimeError(f"{path}: no such file")
        said = traces._ask(program, "summary", "--json", "--quiet", path)
        broken = [one["error"] for one in said["files"] if one.get("error")]
        if broken and len(broken) == len(said["files"]):
            raise RuntimeError(f"{path}: {broken[0]}")
        top = traces._ask(program, "top", "--json", "--quiet", "--sheet", "operators", path)
        return said, traces._operators(top["sheets"]["operators"])
