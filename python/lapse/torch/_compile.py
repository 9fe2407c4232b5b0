# SPDX-License-Identifier: Apache-2.0
"""What torch.compile does: how long it really compiles, what again and why, and where
graphs break. PyTorch tells it; the program runs as it would."""

from __future__ import annotations

import dis
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import torch

from .. import _core, _events
from ._helper import Helper, quiet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

KEPT = 1000  # compilations that are remembered
_DYNAMO = "torch._dynamo"
_CALLBACK = "torch._dynamo.callback"


class Compilation(NamedTuple):
    """One compilation of one frame."""

    name: str  # of the function, or the class whose forward() it is
    file: str
    line: int
    id: str  # PyTorch's: "0/1" is the second time for frame 0
    seconds: float
    again: bool
    reason: str  # why again: the guard that failed
    trigger: str  # "dynamo", "lazy_backward", ...


class Break(NamedTuple):
    """Where a graph ends before its function does; "" and 0: PyTorch does not say."""

    reason: str
    file: str
    line: int


class _WhenLoaded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls `then` once a module has been imported, which nothing else may be changed by."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then
        self.loader: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        self.remove()  # others find it
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then()

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _plain(text: Any) -> str:
    return " ".join(str(text).split())


def _is_again(identity: str) -> bool:
    """ "3/2" is frame 3 compiled for the third time; "!1/3/2", "-" and others likewise."""
    last = identity.rpartition("/")[2].split("_")[0]
    return last.isdigit() and int(last) > 0


class CompileMonitor(Helper):
    """Watches torch.compile from when it is made, whether PyTorch's compiler is loaded
    already or not.

        monitor = lapse.torch.CompileMonitor()
        model = torch.compile(model)            # returns at once
        model(x)                                # compiles: this is what is timed
        print(monitor.report())

    models: modules whose classes' forward() get the name of the class. compilations: what
    was compiled; breaks: {reason: how often}, and places: where. close() ends it.
    Times are of the outermost compilation of a thread: what one frame makes another compile
    counts once. PyTorch 2.3 and newer."""

    def __init__(self, models: torch.nn.Module | Sequence[torch.nn.Module] = ()) -> None:
        super().__init__()
        self.compilations: list[Compilation] = []
        self.breaks: dict[str, int] = {}
        self.places: list[Break] = []
        self.seconds = {"first": 0.0, "again": 0.0}
        self.graphs = 0
        self._names: dict[str, list[tuple[int, int, str]]] = {}  # file: first, last line
        for model in [models] if isinstance(models, torch.nn.Module) else models:
            self._learn(model)
        self._since: dict[int, int] = {}  # by thread
        self._open: list[tuple[str, str, float]] = []  # ended; what of is told later
        self._lock = threading.RLock()
        self._seen: dict[str, int] = {}  # of PyTorch's counters
        self._breaks_seen = 0  # of its list
        self._last: Any = None  # of PyTorch's notes, the last that was looked at
        self._waiting: _WhenLoaded | None = None
        self._callbacks: list[Any] = []
        self._define()
        if not hasattr(torch, "compile"):
            self._cannot(f"PyTorch {torch.__version__} has no torch.compile", False)
        elif _DYNAMO in sys.modules:
            self._attach()
        else:
            self._waiting = _WhenLoaded(_CALLBACK, self._attach)
            sys.meta_path.insert(0, self._waiting)

    def _define(self) -> None:
        help = "time that torch.compile compiled"
        self._time = {
            kind: _core.metric("compile/time", "s", "counter", help, {"kind": kind})
            for kind in ("first", "again")
        }
        self._counters = {
            name: _core.metric(f"compile/{name}", "1", "counter", help)
            for name, help in (
                ("graphs", "graphs that were compiled"),
                ("again", "frames that were compiled again"),
                ("breaks", "graph breaks"),
            )
        }

    def _learn(self, model: torch.nn.Module) -> None:
        for module in model.modules():
            code = getattr(type(module).forward, "__code__", None)
            if code is not None:
                last = max((line for _, line in dis.findlinestarts(code) if line), default=0)
                lines = (code.co_firstlineno, last, type(module).__name__)
                of = self._names.setdefault(code.co_filename, [])
                if lines not in of:
                    of.append(lines)

    def _name_of(self, file: str, line: int, function: str) -> str:
        """A frame that goes on behind a graph break is of the same class."""
        for first, last, name in self._names.get(file, ()):
            if first <= line <= last:
                return name if function == "forward" else f"{name} ({function})"
        return function

    # ---- PyTorch's side ----------------------------------------------------------

    @quiet
    def _attach(self) -> None:
        try:
            callback = importlib.import_module(_CALLBACK)
            callback.on_compile_start, callback.on_compile_end  # noqa: B018
        except (ImportError, AttributeError):
            self._cannot(f"PyTorch {torch.__version__} does not say when it compiles", False)
            return
        self._waiting = None
        self._callbacks = [_bound(self, "_start"), _bound(self, "_end")]
        callback.on_compile_start(self._callbacks[0])
        callback.on_compile_end(self._callbacks[1])
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is not None:  # what was before is not ours
            self._new_metrics(utils)
            self._seen = _counted(utils)
            self._new_breaks(utils)

    @quiet
    def _start(self, *args: Any) -> None:
        self._settle()
        self._since[threading.get_ident()] = time.perf_counter_ns()

    @quiet
    def _end(self, *args: Any) -> None:
        since = self._since.pop(threading.get_ident(), None)
        if since is None:
            return
        seconds = (time.perf_counter_ns() - since) * 1e-9
        told = args[0] if args else None
        identity = str(getattr(told, "compile_id", "") or "")
        trigger = getattr(getattr(told, "callback_trigger", None), "name", "DYNAMO").lower()
        with self._lock:
            self._open.append((identity, trigger, seconds))

    def _settle(self) -> None:
        """PyTorch notes what a compilation was of after it has said that it ended."""
        utils = sys.modules.get("torch._dynamo.utils")
        with self._lock:
            ended, self._open = self._open, []
            if utils is None or not ended:
                return
            new = self._new_metrics(utils)
            for identity, trigger, seconds in ended:
                found = next((m for m in new if _id_of(m) == identity), None)
                if found is None and not identity and new:
                    found = new[0]
                if found is not None:
                    new.remove(found)
                self._take(found, identity or _id_of(found), trigger, seconds, utils)
            self._take_counters(utils)

    def _new_metrics(self, utils: Any) -> list[Any]:
        """PyTorch's notes since the last call; it keeps a number of them only."""
        notes = _metrics(utils)
        begin = next((i + 1 for i, m in enumerate(notes) if m is self._last), 0)
        self._last = notes[-1] if notes else None
        return notes[begin:]

    def _take(self, of: Any, identity: str, trigger: str, seconds: float, utils: Any) -> None:
        file, line = getattr(of, "co_filename", "") or "", getattr(of, "co_firstlineno", 0) or 0
        function = getattr(of, "co_name", "") or identity or "?"
        name = self._name_of(file, line, function)
        again = _is_again(identity) and trigger == "dynamo"
        reason = ""
        if again:
            reason = getattr(of, "recompile_reason", None) or _failed_guard(utils, file, line)
        kind = "again" if again else "first"
        one = Compilation(name, file, line, identity, seconds, again, _plain(reason), trigger)
        self.compilations.append(one)
        del self.compilations[:-KEPT]
        self.seconds[kind] += seconds
        self._time[kind].add(seconds)
        if again:
            self._counters["again"].add(1)
        text = f"Compiled {name} in {seconds:.2f}s"
        if again:
            text += f" again: {one.reason[:500] or 'PyTorch does not say why'}"
        _events.event(
            "compile",
            text,
            "warning" if again else "info",
            file=file,
            line=line,
            id=identity,
            seconds=seconds,
            again=again,
            reason=one.reason[:2000],
            trigger=trigger,
        )

    def _take_counters(self, utils: Any) -> None:
        now = _counted(utils)
        graphs = _more(self._seen, now).get("graphs", 0)
        if graphs:
            self.graphs += graphs
            self._counters["graphs"].add(graphs)
        places, counted = self._new_breaks(utils), _more(self._seen, now)
        # Most are in the list that knows the place; of those that are not there is a count.
        for reason, count in counted.items():
            if reason != "graphs":
                listed = sum(place.reason == reason for place in places)
                places += [Break(reason, "", 0)] * (count - listed)
        for place in places:
            self._take_break(place)
        self._seen = now

    def _new_breaks(self, utils: Any) -> list[Break]:
        reasons = getattr(utils, "graph_break_reasons", [])
        begin = self._breaks_seen if self._breaks_seen <= len(reasons) else 0
        self._breaks_seen = len(reasons)
        out = []
        for one in reasons[begin:]:
            at = one.user_stack[-1] if getattr(one, "user_stack", None) else None
            file, line = (at.filename, at.lineno or 0) if at is not None else ("", 0)
            out.append(Break(str(one.reason), file, line))
        return out

    def _take_break(self, place: Break) -> None:
        if place.reason not in self.breaks or place not in self.places:
            where = f"{place.file}:{place.line}: " if place.file else ""
            _events.event(
                "graph-break",
                where + _plain(place.reason)[:2000],
                "warning",
                file=place.file,
                line=place.line,
            )
        if place not in self.places and len(self.places) < KEPT:
            self.places.append(place)
        self.breaks[place.reason] = self.breaks.get(place.reason, 0) + 1
        self._counters["breaks"].add(1)

    # ---- for the program -------------------------------------------------------------

    @quiet
    def step(self) -> None:
        """Record what has been compiled since; without it that is done at the next
        compilation, report() or close(). Nothing if there was none."""
        if self._open:
            self._settle()

    @property
    def compile_times(self) -> dict[str, float]:
        """Seconds by name, all compilations of a name together."""
        self.step()
        out: dict[str, float] = {}
        for one in self.compilations:
            out[one.name] = out.get(one.name, 0.0) + one.seconds
        return out

    def report(self, classic: bool = False) -> str:
        """What was compiled, what again and why, and graph breaks. classic: only the
        summary, in the words of one of the source documents."""
        times = self.compile_times
        lines = ["Compilation Summary:", f"Total time: {sum(times.values()):.2f}s"]
        lines += [f"- {name}: {seconds:.2f}s" for name, seconds in times.items()]
        if classic:
            return "\n".join(lines)
        again = [one for one in self.compilations if one.again]
        if again:
            lines.append(f"Compiled again: {len(again)} times, {self.seconds['again']:.2f}s")
            lines += [f"- {one.name} ({one.file}:{one.line}): {one.reason}" for one in again]
        if self.breaks:
            lines.append(f"Graph breaks: {sum(self.breaks.values())}")
            for reason, n in self.breaks.items():
                at = [f"{p.file}:{p.line}" for p in self.places if p.reason == reason and p.file]
                lines.append(f"- {n} x {_plain(reason)}" + (f" ({', '.join(at)})" if at else ""))
        if self.reason:
            lines.append(self.reason)
        return "\n".join(lines)

    def close(self) -> None:
        """Record what is left, and watch no more."""
        self.step()
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        callback = sys.modules.get(_CALLBACK)
        if callback is not None and self._callbacks:
            handler = callback.callback_handler
            for at, mine in zip((handler.start_callbacks, handler.end_callbacks), self._callbacks):
                if mine in at:
                    at.remove(mine)
        self._callbacks = []

    def __enter__(self) -> CompileMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(owner: CompileMonitor, method: str) -> Any:
    """PyTorch keeps it for ever; it does not keep its owner alive."""
    reference = weakref.ref(owner)

    def call(*args: Any) -> None:
        alive = reference()
        if alive is not None:
            getattr(alive, method)(*args)

    return call


def _metrics(utils: Any) -> list[Any]:
    """PyTorch's notes on the last compilations; [] of versions that keep none."""
    get = getattr(utils, "get_compilation_metrics", None)
    return list(get()) if get else []


def _id_of(metrics: Any) -> str:
    return str(getattr(metrics, "compile_id", "") or "")


def _counted(utils: Any) -> dict[str, int]:
    """PyTorch's counters that are of interest: "graphs", and breaks by reason. Looking
    changes nothing."""
    counters = getattr(utils, "counters", {})
    out = {}
    if "graph_break" in counters:
        out.update({str(reason): int(n) for reason, n in counters["graph_break"].items()})
    if "stats" in counters:
        out["graphs"] = int(counters["stats"].get("unique_graphs", 0))
    return out


def _more(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """What was added to each counter; one that is smaller was set to 0 in between."""
    out = {}
    for key, value in now.items():
        was = before.get(key, 0)
        if value != was:
            out[key] = value - was if value > was else value
    return out


def _failed_guard(utils: Any, file: str, line: int) -> str:
    """Why a frame did not fit any more, from versions that keep it beside."""
    for code, failures in getattr(utils, "guard_failures", {}).items():
        if (code.co_filename, code.co_firstlineno) == (file, line) and failures:
            return str(getattr(failures[-1], "reason", failures[-1]))
    return ""
