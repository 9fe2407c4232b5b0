# SPDX-License-Identifier: Apache-2.0
"""What the machine does right now, for callbacks: the figures that the agent stores of
this run, read back by a thread. Nothing is sampled here, and the training never waits."""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _core
from ._aliases import SETS, Alias, series_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTERVAL_S = 1.0  # the agent's own pace
WINDOW_S = 300.0  # readings that are kept
STALE_S = 15.0  # older ones are no longer what is: the slow groups come each 10 s

_Gpu = Optional[str]


def _of_run(name: str) -> str:
    """What the launcher says of this process's run on this host; "": nothing."""
    evidence = _core.evidence_path()
    if evidence:
        rendezvous = os.path.dirname(os.path.dirname(evidence))
        path = os.path.join(rendezvous, "runs", f"{_core.run_id()}.run")
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.startswith(f"{name}="):
                        return line[len(name) + 1 :].rstrip("\n")
        except OSError:
            pass
    return ""


def run_folder() -> str | None:
    """Where this process's run is stored; None: it has none."""
    run = _core.run_id()
    if not run or not _core.is_open():
        return None
    return _of_run("dir") or os.path.join(_core.store_dir() or "lapse-runs", run)


def host_name() -> str:
    """This host's, as the store writes it: it is a file's name there."""
    name = _of_run("host") or os.uname().nodename or "host"
    text = os.fsencode(name)[:200].decode(errors="replace")
    text = "".join("_" if c == "/" or c < " " or c == "\x7f" else c for c in text)
    return "_" + text[1:] if text.startswith(".") else text


class _Key(NamedTuple):
    name: str
    of: str  #: "machine", "process", "tree" or "gpu"
    instance: str  #: GPU, CPU, disk, interface; "" if there is one only


class Machine:
    """Latest and windowed figures of machine, GPUs, run and this process.

        machine = Machine()
        machine.start()
        machine.row("ocr")          # {"cpu_percent": 41.0, "gpu_0_util": None, ...}

    Values are in the units of the column (docs/callbacks.md); None: not known, which
    absent() explains. A value older than 15 s counts as not known. `version` grows with
    each reading, `gpus` has the GPUs seen so far, `times` when readings came (monotonic).
    Any thread may ask."""

    def __init__(self, interval: float = INTERVAL_S, window: float = WINDOW_S) -> None:
        if interval <= 0 or window <= 0:
            raise ValueError("Machine(): interval and window are seconds above 0")
        self.interval, self.window = interval, window
        self.version = 0
        self.reason = "not started"
        self.gpus: list[str] = []
        self.gpu_uuid: dict[str, str] = {}
        self._points: dict[_Key, deque[tuple[int, float]]] = {}
        self._newest: dict[tuple[int, int], int] = {}  # by host and series id
        self._names = series_names()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader: Any = None
        self._slot: str | None = None
        self._host: int | None = None

    # ---- reading --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow the run of this process; a second call does nothing."""
        if self._thread is not None and self._thread.is_alive():
            return
        folder = run_folder()
        if folder is None:
            self.reason = "nothing is recorded: lapse.init() was not called or could not record"
            return
        self.reason = "no reading yet"
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._follow, args=(folder,), name="lapse-machine", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop; what was read stays."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5)

    def _follow(self, folder: str) -> None:
        while not self._stop.wait(self.interval if self.version else min(self.interval, 0.25)):
            try:
                if self._reader is None:
                    store = importlib.import_module("lapse._store")
                    self._reader = store.Reader(folder)
                self.poll()
            except (OSError, ValueError, ImportError) as error:
                self.reason = f"{folder}: {error}"
                self._drop_reader()
        self._drop_reader()

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def poll(self) -> None:
        """Take what has been stored since; the thread does it."""
        reader = self._reader
        self._find_me(reader)
        if self._host is None:
            return  # whose figures they are is not known yet
        rows = [row for row in reader.series() if row["name"] in self._names]
        fresh = False
        for row in rows:
            key = self._key(row)
            if key is None:
                continue
            where = (row["host"], row["id"])
            since = self._newest.get(where)
            if since is None:  # not the whole past of a long run
                since = time.time_ns() - int(self.window * 1e9)
            times, _, values, _ = reader.points(row["host"], row["id"], (since + 1, None), None)
            pairs = list(zip(memoryview(times).tolist(), memoryview(values).tolist()))
            if not pairs:
                continue
            self._newest[where] = max(pair[0] for pair in pairs)
            self._add(key, pairs)
            fresh = True
        if fresh:
            self.reason = ""
            self.version += 1

    def _find_me(self, reader: Any) -> None:
        """Which slot of which role this process has, and on which host it is."""
        if self._slot is not None:
            return
        me, here = os.getpid(), host_name()  # of another host's processes one may have my pid
        mine = [row for row in reader.processes() if row["pid"] == me and row["host_name"] == here]
        if not mine:
            return
        row = mine[-1]
        self._host = row["host"]
        role = row["role"] or "trainer"
        rank = row["local_rank"] if row["local_rank"] is not None else row["rank"]
        slots = self._slots_of(reader, role)
        if rank is not None and str(rank) in slots:
            self._slot = f"{role}/{rank}"
        elif len(slots) == 1:
            self._slot = f"{role}/{slots.pop()}"
        for attr in reader.attrs():
            parts = attr[2].split("/")
            if attr[0] == self._host and parts[::2] == ["gpu", "uuid"]:
                self.gpu_uuid[parts[1]] = attr[3]

    def _slots_of(self, reader: Any, role: str) -> set[str]:
        return {
            _label(one["labels"], "slot")
            for one in reader.series()
            if one["name"] == "process/rss" and one["host"] == self._host
            and _label(one["labels"], "role") == role
        }  # fmt: skip

    def _key(self, row: dict[str, Any]) -> _Key | None:
        """None: of another process or host."""
        name, labels = row["name"], row["labels"]
        if row["host"] != self._host:
            return None
        if name.startswith("process/"):
            slot = f"{_label(labels, 'role')}/{_label(labels, 'slot')}"
            return _Key(name, "process", "") if slot == self._slot else None
        if name.startswith("gpu/"):
            if _label(labels, "mig"):
                return None
            gpu = _label(labels, "gpu")
            with self._lock:
                if gpu not in self.gpus:
                    self.gpus = sorted([*self.gpus, gpu], key=_natural)
            return _Key(name, "gpu", gpu)
        if name.startswith("disk/") and _label(labels, "device").startswith(("dm-", "md")):
            return None  # made of disks that count themselves
        of = "tree" if name.startswith(("tree/", "cgroup/")) else "machine"
        return _Key(name, of, labels)

    def _add(self, key: _Key, pairs: Iterable[tuple[int, float]]) -> None:
        with self._lock:
            line = self._points.setdefault(key, deque())
            line.extend(pairs)
            oldest = line[-1][0] - int(self.window * 1e9)
            while line[0][0] < oldest:
                line.popleft()

    # ---- asking ---------------------------------------------------------------------------

    def _lines(self, names: tuple[str, ...], of: str, gpu: _Gpu) -> list[list[tuple[int, float]]]:
        """The readings of the first of these series that has some, by instance."""
        for name in names:
            with self._lock:
                found = [
                    list(line)
                    for key, line in self._points.items()
                    if key.name == name and (gpu is None or key.instance == gpu)
                ]
            found = [line for line in found if self._fresh(line)]
            if found:
                return found
        return []

    @staticmethod
    def _fresh(line: list[tuple[int, float]]) -> bool:
        return bool(line) and time.time_ns() - line[-1][0] < STALE_S * 1e9

    def value(self, alias: Alias, gpu: _Gpu = None, seconds: float | None = None) -> float | None:
        """A column's value; means and rates over so many seconds, None: the last reading."""
        lines = self._lines(alias.series, alias.of, gpu)
        if not lines:
            return None
        total = 0.0
        for line in lines:
            one = _figure(line, alias.how, seconds)
            if one is None:
                return None
            total += one
        if alias.over:
            below = self._lines(alias.over, alias.of, gpu)
            whole = sum(line[-1][1] for line in below)
            if whole <= 0:
                return None
            total /= whole
        return total * alias.scale

    def row(
        self,
        columns: str = "ocr",
        seconds: float | None = None,
        gpus: Iterable[str] | None = None,
    ) -> dict[str, float | None]:
        """All columns of a set ("ocr", "nemo", "monitor", "extra"), GPUs first. gpus: those
        to have columns, None: all that were seen."""
        each, machine = SETS[columns]
        row: dict[str, float | None] = {}
        for gpu in self.gpus if gpus is None else gpus:
            for alias in each:
                row[alias.name.format(i=gpu)] = self.value(alias, gpu, seconds)
        for alias in machine:
            row[alias.name] = self.value(alias, None, seconds)
        return row

    def get(self, name: str, seconds: float | None = None) -> float | None:
        """One column by its name in any set ("gpu_0_util", "cpu_usage_percent"). KeyError."""
        for alias, gpu in self._columns():
            if alias.name.format(i=gpu) == name:
                return self.value(alias, gpu, seconds)
        if re.match(r"gpu_\w+?_", name):
            return None  # a GPU that was not seen
        raise KeyError(name)

    def _columns(self) -> Iterator[tuple[Alias, _Gpu]]:
        for each, machine in SETS.values():
            for alias in machine:
                yield alias, None
            for gpu in self.gpus:
                for alias in each:
                    yield alias, gpu

    def cores(self) -> dict[str, float]:
        """Percent of each CPU that was busy at the last reading, by its number."""
        with self._lock:
            lines = {
                _label(key.instance, "cpu"): list(line)
                for key, line in self._points.items()
                if key.name == "cpu/core/busy"
            }
        return {cpu: 100 * line[-1][1] for cpu, line in sorted(lines.items(), key=_by_number)
                if self._fresh(line)}  # fmt: skip

    def out_of_memory_in(self, seconds: float = 60.0) -> float | None:
        """Seconds until the available memory is gone if it shrinks as over the last so
        many seconds (a straight line through the readings); None: it does not shrink, or
        so slowly that it lasts more than a day."""
        lines = self._lines(("memory/available",), "machine", None)
        if not lines:
            return None
        line = [pair for pair in lines[0] if pair[0] >= lines[0][-1][0] - seconds * 1e9]
        if len(line) < 5:
            return None
        slope = _slope(line)
        if slope >= 0:
            return None
        left = line[-1][1] / -slope
        return left if left < 86400 else None

    def absent(self, columns: str = "ocr") -> dict[str, str]:
        """{column: why it has no value}, of those without one now."""
        row = self.row(columns)
        reasons = {name: self._why(name) for name, value in row.items() if value is None}
        if SETS[columns][0] and not self.gpus:
            reasons["gpu"] = self.reason or "no GPU is seen by the agent: lapse doctor says why"
        return reasons

    def _why(self, name: str) -> str:
        if self.reason:
            return self.reason
        return f"the agent stores nothing for {name}: lapse doctor --metrics says why"


def _label(labels: str, name: str) -> str:
    found = re.search(rf'(?:^|,){name}="([^"]*)"', labels)
    return found[1] if found else ""


def _natural(text: str) -> tuple[str, int]:
    digits = re.search(r"\d+$", text)
    number = int(digits[0]) if digits else -1
    return text[: digits.start()] if digits else text, number


def _by_number(item: tuple[str, Any]) -> tuple[str, int]:
    return _natural(item[0])


def _figure(line: list[tuple[int, float]], how: str, seconds: float | None) -> float | None:
    if how == "last":
        return line[-1][1]
    if seconds is not None:
        since = line[-1][0] - int(seconds * 1e9)
        chosen = [pair for pair in line if pair[0] > since]
    else:
        chosen = line[-1:]
    if how == "mean":
        return sum(pair[1] for pair in chosen) / len(chosen)
    # A counter's value is what was added since the reading before it.
    before = len(line) - len(chosen) - 1
    if before < 0:
        chosen, before = chosen[1:], 0
    if not chosen:
        return None
    span = (chosen[-1][0] - line[before][0]) / 1e9
    return sum(pair[1] for pair in chosen) / span if span > 0 else None


def _slope(line: list[tuple[int, float]]) -> float:
    """Of a straight line by least squares: units a second."""
    start = line[0][0]
    xs = [(pair[0] - start) / 1e9 for pair in line]
    x_mean = sum(xs) / len(xs)
    y_mean = sum(pair[1] for pair in line) / len(line)
    spread = sum((x - x_mean) ** 2 for x in xs)
    if spread == 0:
        return 0.0
    return sum((x - x_mean) * (pair[1] - y_mean) for x, pair in zip(xs, line)) / spread


_shared: Machine | None = None
_users = 0
_shared_lock = threading.Lock()


def share() -> Machine:
    """The process's own Machine, started: all callbacks use one. For give_back()."""
    global _shared, _users
    with _shared_lock:
        if _shared is None:
            _shared = Machine()
        _users += 1
        _shared.start()
        return _shared


def give_back() -> None:
    """A user of share() needs it no more; after the last one its thread ends."""
    global _shared, _users
    with _shared_lock:
        _users = max(0, _users - 1)
        machine = _shared if not _users else None
        if machine is not None:
            _shared = None
    if machine is not None:
        machine.close()


def _after_fork() -> None:
    """The thread is the parent's; so is its run's reader."""
    global _shared, _users, _shared_lock
    _shared, _users, _shared_lock = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
