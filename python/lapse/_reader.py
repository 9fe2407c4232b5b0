# SPDX-License-Identifier: Apache-2.0
"""Reading stored runs, also while they are being written.

    run = lapse.open_run("last")
    for series in run.series("loss*"):
        print(series.name, series.rank, series.last)

Each call reads what is stored at that moment, so asking again follows a live run.
"""
from __future__ import annotations

import fnmatch
import json
import os
import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypedDict, Union, cast

from lapse import _store

if TYPE_CHECKING:
    import numpy as np  # type: ignore[import-not-found,unused-ignore]
    import numpy.typing as npt  # type: ignore[import-not-found,unused-ignore]
    import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]

__all__ = ["Attr", "Event", "Histogram", "Process", "RunInfo", "RunReader", "Series", "open_run"]

#: (lowest, highest), both inclusive; None: no limit on that side.
Range = tuple[Optional[int], Optional[int]]
Point = tuple[int, Optional[int], float]

_SEVERITIES = ("debug", "info", "warning", "error")
_LABEL = re.compile(r'([^=,]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")


class RunInfo(TypedDict):
    """What is known of a run. None: unknown, or not yet."""

    id: str
    name: str
    project: str
    command: str  #: shell-quoted, secrets redacted
    cwd: str
    user: str
    tags: list[str]
    notes: str
    hosts: list[str]
    start_ns: Optional[int]  #: UTC, ns since 1970
    end_ns: Optional[int]
    outcome: str  #: "running", "exited", "signaled", "oom", "hung", "lost" or "detached"
    exit_code: Optional[int]
    signal: Optional[int]  #: its number
    core: bool  #: a core was dumped
    user_s: Optional[float]  #: CPU seconds of the command and its children
    system_s: Optional[float]
    max_rss: Optional[int]  #: bytes, largest process
    evidence: str  #: why the outcome is "oom"
    stderr_tail: str  #: the last of the command's stderr, with --tee-stderr


class Process(TypedDict):
    """A process of the run; (host, id) is unique. None: unknown, or not yet."""

    host: int  #: index into the run's hosts
    host_name: str
    id: int
    pid: int
    ppid: int
    rank: Optional[int]
    local_rank: Optional[int]
    world_size: Optional[int]
    start_ns: Optional[int]
    end_ns: Optional[int]
    role: str  #: "trainer", "worker", "command", "host" (figures of the machine), ...
    program: str
    stored: int  #: records stored; the four below were not
    overwritten: int
    broken: int
    dropped: int
    refused: int  #: definitions refused


class Event(TypedDict):
    """Something that happened."""

    host: int
    process: int  #: 0: the run
    seq: int  #: commit of the host's file that it came with
    time_ns: int
    step: Optional[int]
    severity: str  #: "debug", "info", "warning" or "error"
    kind: str
    text: str
    attrs: dict[str, Any]  #: what is no JSON object is under the key ""


class Histogram(TypedDict):
    """The observations of one point of a histogram."""

    time_ns: int
    step: Optional[int]
    count: int  #: without NaN
    nan: int
    sum: float
    min: Optional[float]  #: None: only NaN
    max: Optional[float]
    bins: list[tuple[float, float, int]]  #: (low edge, high edge, count), ascending


class Attr(NamedTuple):
    """Text about a process (0: the run), as set last."""

    host: int
    process: int
    key: str
    value: str


def _steps(column: _store.Column) -> list[Optional[int]]:
    steps = memoryview(column).tolist()
    if _store.STEP_NONE in steps:
        return [None if s == _store.STEP_NONE else s for s in steps]
    return list(steps)


def _labels(text: str) -> dict[str, str]:
    return {key: _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value)
            for key, value in _LABEL.findall(text)}


def _attrs(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"": text}
    return value if isinstance(value, dict) else {"": value}


class Series:
    """One series of a run: a metric or span of one process.

    A counter's values are the amounts added, a span's times are starts and its values
    durations in ns, a histogram's values are means (`histograms()` has the rest). Where a
    resumed attempt repeated steps, only the newest attempt's points are given, unless
    all_segments is true. Points are in the order in which they arrived."""

    name: str
    labels: dict[str, str]
    unit: str  #: "s", "By", "1", "nat", ...; "" if it has none
    kind: str  #: "gauge", "counter", "histogram" or "span"
    help: str
    source: str  #: "record", "probe" or "agent"
    rank: Optional[int]  #: of its process
    role: str  #: of its process
    process: int  #: its process's id
    host: int  #: index into the run's hosts
    host_name: str
    count: int  #: points stored when the series was listed, repeated steps included

    def __init__(self, reader: _store.Reader, row: dict[str, Any]) -> None:
        self._reader = reader
        self._id: int = row["id"]
        self.name = row["name"]
        self.labels = _labels(row["labels"])
        self.unit = row["unit"]
        self.kind = row["kind"]
        self.help = row["help"]
        self.source = row["source"]
        self.rank = row["rank"]
        self.role = row["role"]
        self.process = row["process"]
        self.host = row["host"]
        self.host_name = row["host_name"]
        self.count = row["count"]
        self._label_text: str = row["labels"]

    def points(self, steps: Optional[Range] = None, time: Optional[Range] = None, *,
               all_segments: bool = False) -> list[Point]:
        """(time_ns, step or None, value) of each point; steps and time (UTC ns) are
        (lowest, highest), both inclusive. Points without a step are in no range of steps."""
        t, s, v, _ = self._reader.points(self.host, self._id, time, steps,
                                         all_segments=all_segments)
        return list(zip(memoryview(t).tolist(), _steps(s), memoryview(v).tolist()))

    def histograms(self, steps: Optional[Range] = None, time: Optional[Range] = None, *,
                   all_segments: bool = False) -> list[Histogram]:
        """The points of a histogram with their bins; ValueError for other kinds."""
        if self.kind != "histogram":
            raise ValueError(f"{self.name} is a {self.kind}, not a histogram; use points()")
        t, s, _, hists = self._reader.points(self.host, self._id, time, steps,
                                             all_segments=all_segments)
        return [cast(Histogram, {"time_ns": time_ns, "step": step, **hist})
                for time_ns, step, hist in zip(memoryview(t).tolist(), _steps(s), hists)]

    def numpy(self, steps: Optional[Range] = None, time: Optional[Range] = None, *,
              all_segments: bool = False,
              ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Arrays of times (UTC ns), steps and values. A step of -2**63 is none. The arrays
        are over what was read, without a copy, and are yours to change."""
        try:
            import numpy
        except ImportError as e:
            raise ImportError("Series.numpy() needs the package numpy: pip install numpy; "
                              "Series.points() does without") from e
        t, s, v, _ = self._reader.points(self.host, self._id, time, steps,
                                         all_segments=all_segments)
        return (numpy.asarray(memoryview(t)), numpy.asarray(memoryview(s)),
                numpy.asarray(memoryview(v)))

    def pandas(self, steps: Optional[Range] = None, time: Optional[Range] = None, *,
               all_segments: bool = False) -> pd.DataFrame:
        """A frame with the columns time (UTC) and value and the step as index; if some point
        has no step, with step and value and the time as index."""
        try:
            import pandas
        except ImportError as e:
            raise ImportError("Series.pandas() needs the package pandas: pip install pandas; "
                              "Series.points() does without") from e
        t, s, v = self.numpy(steps, time, all_segments=all_segments)
        when = pandas.to_datetime(t, unit="ns", utc=True)
        none = s == _store.STEP_NONE
        if not none.any():
            return pandas.DataFrame({"time": when, "value": v}, index=pandas.Index(s, name="step"))
        step = pandas.array(s, dtype="Int64")
        step[none] = pandas.NA
        return pandas.DataFrame({"step": step, "value": v}, index=when.rename("time"))

    def _summary(self) -> dict[str, Any]:
        return self._reader.summary(self.host, self._id)

    @property
    def last(self) -> Optional[float]:
        """The value that arrived last; None: no point. Reads the series, as min and max do."""
        return cast(Optional[float], self._summary()["last"])

    @property
    def min(self) -> Optional[float]:
        """The smallest value that is not NaN (of a histogram: observation); None: none."""
        return cast(Optional[float], self._summary()["min"])

    @property
    def max(self) -> Optional[float]:
        """The largest value that is not NaN (of a histogram: observation); None: none."""
        return cast(Optional[float], self._summary()["max"])

    def __repr__(self) -> str:
        parts = [self.name + (f"{{{self._label_text}}}" if self._label_text else ""), self.kind]
        if self.unit:
            parts.append(f"in {self.unit}")
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        return f"<lapse.Series {' '.join(parts)}, {self.count} points>"


class RunReader:
    """A stored run, made by lapse.open_run(); a context manager that closes.

    Threads may share it and take turns. A forked child opens its own. What cannot be read
    raises OSError with a sentence; after close() everything raises ValueError."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        """path: the run's folder."""
        self._reader = _store.Reader(path)

    @property
    def path(self) -> str:
        """The run's folder."""
        return self._reader.path

    @property
    def info(self) -> RunInfo:
        """What was started, when, and how it ended, as of now."""
        info = self._reader.info()
        for key in ("tags", "hosts"):
            info[key] = [part for part in info[key].split(",") if part]
        return cast(RunInfo, info)

    @property
    def processes(self) -> list[Process]:
        """The processes of the run, as of now; one of role "host" stands for the machine."""
        return cast("list[Process]", self._reader.processes())

    @property
    def warning(self) -> str:
        """What could not be read: "", or sentences, one a line."""
        return self._reader.warning()

    def series(self, pattern: str = "*") -> list[Series]:
        """The series whose names match a shell pattern ("loss", "grad/*", "*"), which is
        case-sensitive; "*" also matches "/"."""
        return [Series(self._reader, row) for row in self._reader.series()
                if fnmatch.fnmatchcase(row["name"], pattern)]

    def events(self, kind: Optional[str] = None) -> list[Event]:
        """What happened, in the order in which it arrived; of one kind, if given."""
        events = []
        for row in self._reader.events():
            if kind is not None and row["kind"] != kind:
                continue
            severity = row["severity"]
            row["severity"] = (_SEVERITIES[severity] if 0 <= severity < len(_SEVERITIES)
                               else str(severity))
            row["attrs"] = _attrs(row["attrs"])
            events.append(cast(Event, row))
        return events

    def attrs(self) -> list[Attr]:
        """Text that was said about processes, by process and key."""
        return [Attr(*row) for row in self._reader.attrs()]

    def close(self) -> None:
        """Close the files. What was read before stays valid."""
        self._reader.close()

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, exc_type: Optional[type[BaseException]],
                 exc_value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lapse.RunReader {self.path}>"


def open_run(run: Union[str, os.PathLike[str]] = "last",
             dir: Union[str, os.PathLike[str], None] = None) -> RunReader:
    """Open a stored run for reading, also while it is being written.

    run: "last", an id, the beginning of an id, or the path of the run's folder (a path object,
    or text with a "/"). dir: the folder that holds the runs; None: $LAPSE_DIR, else
    ./lapse-runs. FileNotFoundError: there is none; FileExistsError: several ids begin like
    that; other OSErrors: it cannot be read (errno EUCLEAN: it is corrupt)."""
    if isinstance(run, os.PathLike):
        run = os.path.abspath(run)
    return RunReader(_store.find(run, dir))
