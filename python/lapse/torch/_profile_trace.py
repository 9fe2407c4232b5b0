# SPDX-License-Identifier: Apache-2.0
"""A trace that was recorded: where it goes, writing it in a thread of its own, and
having the program `lapse` analyse it in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _program

if TYPE_CHECKING:
    from collections.abc import Callable

_autograd: Any = torch.autograd
HAS_KINETO = bool(_autograd.kineto_available())
ANALYSE_S = 900.0  # a trace of some GB takes minutes; then it is given up
_COPY = 1 << 20
_NICE = ("-n", "10")


class Operator(NamedTuple):
    """An operator by its own time: on the device if the trace has one, else on the host."""

    name: str
    share: float  #: of the own time of all operators, 0 to 1
    time: float  #: seconds
    calls: int


@dataclass
class Trace:
    """A trace and what came out of it; `path` is "" if it could not be written, and
    `error` says why."""

    path: str = ""
    rank: int = 0
    epoch: int | None = None
    cycle: int = 0  #: windows of this process before it
    first_step: int = 0
    last_step: int = 0  #: inclusive
    steps: int = 0
    bytes: int = 0  #: of the file
    stop_seconds: float = 0.0  #: on the training thread, for ending the recording
    write_seconds: float = 0.0  #: in the other thread
    analyse_seconds: float = 0.0
    bound: str = ""  #: what the time goes into: "data loader", "compute", ...
    verdict: str = ""  #: one sentence about it
    shares: dict[str, float] = field(default_factory=dict)  #: by kind, 0 to 1
    findings: list[str] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)  #: slowest first
    analysis: str = ""  #: path of the whole analysis as JSON
    error: str = ""

    def top(self, k: int, prefix: str = "Profiler: ") -> str:
        """The k slowest operators, in lines."""
        rows = self.operators[:k]
        lines = [f"{prefix}Top {len(rows)} slowest operations:"]
        lines += [f"{i}. {row.name.rpartition('aten::')[2]} ({row.share:.1%} of time)"
                  for i, row in enumerate(rows, 1)]  # fmt: skip
        return "\n".join(lines)


def file_name(trace: Trace, layout: str, world: int, by_epoch: bool, gz: bool) -> str:
    """Of its place in the run: every trace of it, and of every rank, has its own."""
    end = ".json.gz" if gz else ".json"
    rank = f"_rank_{trace.rank}" if world > 1 else ""
    span = f"steps_{trace.first_step}-{trace.last_step}"
    if layout == "tensorboard":  # WORKER.NANOSECONDS.pt.trace.json, as its plugin reads it
        worker = f"{socket.gethostname()}_{os.getpid()}{rank}_cycle_{trace.cycle}_{span}"
        return f"{worker}.{time.time_ns()}.pt.trace{end}"
    if by_epoch:
        return f"chrome_trace_epoch_{trace.epoch}{rank}{end}"
    epoch = "" if trace.epoch is None else f"_epoch_{trace.epoch}"
    return f"chrome_trace{epoch}_cycle_{trace.cycle}_{span}{rank}{end}"


def _complete(path: str) -> None:
    """What a PyTorch that was built without Kineto writes has no categories: they are told
    by names and places, as far as they can be."""
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    if not isinstance(rows, list):
        return
    for row in rows:
        place = str(row.get("pid", ""))
        mark = str(row.get("name", "")).startswith("ProfilerStep#")
        device = place.startswith("CUDA")
        row["cat"] = "kernel" if device else "user_annotation" if mark else "cpu_op"
        row["pid"] = 0 if device else os.getpid()
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "traceEvents": rows}, file)


def write(recorded: Any, path: str, gz: bool) -> int:
    """Write what a profiler of PyTorch recorded, whole or not at all; bytes. OSError,
    RuntimeError. The interpreter is free for other threads while PyTorch writes."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = f"{path}.{os.getpid()}.part"
    try:
        recorded.export_chrome_trace(part)
        if not HAS_KINETO:
            _complete(part)
        if gz:
            packed = part + ".gz"
            with open(part, "rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
                shutil.copyfileobj(source, target, _COPY)
            os.replace(packed, part)
        size = os.path.getsize(part)
        os.replace(part, path)
        return size
    finally:
        for left in (part, part + ".gz"):
            if os.path.exists(left):
                os.unlink(left)


def _ask(program: str, *arguments: str) -> dict[str, Any]:
    """What a subcommand of `lapse trace` says, as JSON. RuntimeError if it cannot."""
    nice = shutil.which("nice")
    command = [*([nice, *_NICE] if nice else []), program, "trace", *arguments]
    env = {k: v for k, v in os.environ.items() if k != "LAPSE_RUN"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANALYSE_S, env=env,
                              stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        said: dict[str, Any] = json.loads(done.stdout)
        return said
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"lapse trace took more than {ANALYSE_S:.0f} s") from None
    except OSError as error:
        raise RuntimeError(f"{program}: {error.strerror}") from None
    except ValueError:
        said_why = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise RuntimeError(f"lapse trace: status {done.returncode}: {said_why}") from None


def _operators(rows: list[dict[str, Any]]) -> list[Operator]:
    rows = [row for row in rows if not row["annotation"]]
    key = "self_device_ns" if any(row["self_device_ns"] for row in rows) else "self_host_ns"
    total = sum(row[key] for row in rows) or 1
    rows = sorted((row for row in rows if row[key]), key=lambda row: -int(row[key]))
    return [Operator(row["name"], row[key] / total, row[key] / 1e9, row["calls"]) for row in rows]


def _take(trace: Trace, said: dict[str, Any]) -> None:
    sheets = said["sheets"]
    verdict = (sheets.get("verdict") or [{}])[0]
    rows = sorted(sheets.get("shares") or [], key=lambda row: -float(row["pct"]))
    trace.bound = verdict.get("bound") or ""
    trace.shares = {row["kind"]: row["pct"] / 100 for row in rows if row["pct"]}
    trace.findings = [
        f"{row['text']} {row['advice']}".strip() for row in sheets.get("findings", [])
    ]
    if trace.bound:
        largest = f": {rows[0]['title']} {rows[0]['pct']:.1f} % of the time" if rows else ""
        trace.verdict = f"Bound by {trace.bound}{largest}"


def analyse(trace: Trace, keep: bool = True) -> None:
    """Ask `lapse trace` about a written trace and put what it says into it. The whole of it
    is kept in the folder `analysis` beside the trace (in the same folder it would be taken
    for one)."""
    program = _program.find()
    if program is None:
        trace.error = "not analysed: the program lapse is not there (LAPSE_BIN, PATH)"
        return
    begin = time.perf_counter()
    try:
        said = _ask(program, "summary", "--json", "--quiet", trace.path)
        top = _ask(program, "top", "--json", "--quiet", "--sheet", "operators", trace.path)
        _take(trace, said)
        trace.operators = _operators(top["sheets"]["operators"])
    except (RuntimeError, KeyError, IndexError, TypeError) as error:
        trace.error = f"not analysed: {error}"
        return
    trace.analyse_seconds = time.perf_counter() - begin
    if not keep:
        return
    folder, name = os.path.split(trace.path)
    path = os.path.join(folder, "analysis", name.partition(".json")[0] + ".summary.json")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(said, file)
        trace.analysis = path
    except OSError as error:
        trace.error = f"the analysis is not kept: {path}: {error.strerror}"


def estimate(recorded: Any, folder: str) -> int:
    """Bytes of the trace that a profiler recorded, by writing it to a file that goes."""
    os.makedirs(folder or ".", exist_ok=True)
    path = os.path.join(folder, f".lapse-{os.getpid()}-{threading.get_ident()}.estimate")
    try:
        recorded.export_chrome_trace(path)
        return os.path.getsize(path)
    finally:
        if os.path.exists(path):
            os.unlink(path)


class Later:
    """Jobs in other threads, one after the other. They are no daemons: what has been
    recorded is written before the end of the program."""

    def __init__(self) -> None:
        self._last: threading.Thread | None = None

    def do(self, job: Callable[[], None], name: str) -> None:
        before = self._last

        def after_the_others() -> None:
            if before is not None:
                before.join()
            job()

        self._last = threading.Thread(target=after_the_others, name=name)
        self._last.start()

    def wait(self, end: float | None) -> bool:
        """Until all are done, or that time (monotonic) has come; are they done?"""
        last = self._last
        if last is None:
            return True
        last.join(None if end is None else max(0.0, end - time.monotonic()))
        return not last.is_alive()
