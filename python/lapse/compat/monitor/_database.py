# SPDX-License-Identifier: Apache-2.0
"""metrics.db: the guide's SQLite tables, written in batches by a thread; and its files."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import threading
from collections import deque
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..._callback import is_number
from ..._tell import tell_once
from ._metrics import ModelPerformanceMetrics, SystemMetrics, TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROWS_MAX = 100_000  # that wait for a database which cannot be written; then they are counted
# What SQLite says of a row, not of the file.
_OF_A_ROW = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError,
             sqlite3.ProgrammingError, OverflowError, TypeError, ValueError)  # fmt: skip
_WHOLE = ("epoch", "step", "global_step", "batch_size", "sequence_length")
_TEXT = ("phase", "custom_metrics", "gpus", "metadata")


def _columns(kind: type) -> dict[str, str]:
    found = {"timestamp": "REAL NOT NULL"}
    for one in fields(kind):
        if one.name not in found:
            found[one.name] = ("INTEGER" if one.name in _WHOLE
                               else "TEXT" if one.name in _TEXT else "REAL")  # fmt: skip
    found["data_compressed"] = "INTEGER DEFAULT 0"
    return found


TABLES: dict[str, dict[str, str]] = {
    "training_metrics": _columns(TrainingMetrics),
    "system_metrics": _columns(SystemMetrics),
    "model_performance_metrics": _columns(ModelPerformanceMetrics),
    "alerts": {
        "timestamp": "REAL NOT NULL",
        "alert_type": "TEXT NOT NULL",
        "severity": "TEXT NOT NULL",
        "message": "TEXT NOT NULL",
        "metadata": "TEXT",
        "acknowledged": "INTEGER DEFAULT 0",
    },
}
_INDEXED = ("timestamp", "global_step", "severity")
_NAMES = {table: [name for name in columns if name != "data_compressed"]
          for table, columns in TABLES.items()}  # fmt: skip
_INSERT = {table: f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
           for table, names in _NAMES.items()}  # fmt: skip
TYPES = {"training": "training_metrics", "system": "system_metrics",
         "model_performance": "model_performance_metrics", "alerts": "alerts"}  # fmt: skip


class MetricsDatabase:
    """Rows wait in memory until the next flush, all of one commit; none is dropped. What
    cannot be written is said once and tried again. A file that is there is added to."""

    def __init__(self, path: str, flush_interval: float = 10.0) -> None:
        self.path, self.flush_interval = path, flush_interval
        self.lost = 0  #: rows that could not be kept
        self.flushes = 0
        self.counts = dict.fromkeys(TABLES, 0)
        self.reason = ""  #: why the file cannot be written, the last time
        self._waiting: deque[tuple[str, list[Any]]] = deque()
        self._lock = threading.Lock()
        self._file: sqlite3.Connection | None = None
        self._first: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lapse-metrics-db", daemon=True)
        self._thread.start()
        self._pid = os.getpid()

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Any thread; about 10 us. As it is now: what is changed later is not seen."""
        self.counts[table] += 1
        self._waiting.append((table, [_cell(row.get(name)) for name in _NAMES[table]]))

    def _run(self) -> None:
        while not self._stop.wait(self.flush_interval):
            self.flush()

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            file = sqlite3.connect(self.path, check_same_thread=False, timeout=10)
            for table, columns in TABLES.items():
                inside = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                file.execute(f"CREATE TABLE IF NOT EXISTS {table} "
                             f"(id INTEGER PRIMARY KEY AUTOINCREMENT, {inside})")  # fmt: skip
                for name in _INDEXED:
                    if name in columns:
                        file.execute(f"CREATE INDEX IF NOT EXISTS idx_{table}_{name} "
                                     f"ON {table}({name})")  # fmt: skip
                top = file.execute(f"SELECT max(id) FROM {table}").fetchone()[0]
                self._first[table] = (top or 0) + 1
            file.commit()
            self._file = file
        return self._file

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                file = self._open()
                with file:
                    refused = [error for row in rows if (error := self._insert(file, *row))]
                self.flushes += 1
                self.reason = ""
            except Exception as error:  # the thread goes on
                self.reason = f"{self.path}: {error}"
                self.lost += max(0, len(rows) - ROWS_MAX)
                self._waiting.extendleft(reversed(rows[-ROWS_MAX:]))
                tell_once("monitor", f"metrics.db cannot be written, it is tried again: "
                          f"{self.reason}; the run has everything")  # fmt: skip
                return
        self.lost += len(refused)
        if refused:
            tell_once("monitor", f"metrics.db: a row is left out: {refused[0]}")

    @staticmethod
    def _insert(file: sqlite3.Connection, table: str, cells: list[Any]) -> Exception | None:
        """What SQLite has against this row: it would have it again the next time."""
        try:
            file.execute(_INSERT[table], cells)
        except _OF_A_ROW as error:
            return error
        return None

    def rows(
        self, table: str, since: float | None = None, until: float | None = None, all: bool = False
    ) -> Iterator[dict[str, Any]]:
        """In the order of time, of this session (all: of every one in the file)."""
        self.flush()
        try:
            with closing(sqlite3.connect(f"file:{quote(self.path)}?mode=ro", uri=True)) as file:
                answer = file.execute(
                    f"SELECT * FROM {table} WHERE id >= ? AND timestamp >= ? AND timestamp <= ? "
                    "ORDER BY timestamp, id",
                    (0 if all else self._first.get(table, 0), since or 0.0,
                     9e18 if until is None else until),
                )  # fmt: skip
                names = [column[0] for column in answer.description]
                for cells in answer:
                    yield _row(table, dict(zip(names, cells)))
        except (OSError, sqlite3.Error) as error:
            tell_once("monitor", f"{self.path}: {error}")

    def close(self) -> None:
        """The last flush."""
        self._stop.set()
        if self._pid != os.getpid():
            return
        self._thread.join(10)
        self.flush()
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _row(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """As its to_dict() was."""
    row.pop("data_compressed", None)
    if table == "alerts":
        row["acknowledged"] = bool(row["acknowledged"])
    else:
        row.pop("id")
    for name in ("custom_metrics", "metadata", "gpus"):
        if name in row:
            row[name] = json.loads(row[name]) if row[name] else {}
    custom = row.pop("custom_metrics", {})
    row.update(custom if isinstance(custom, dict) else {"custom_metrics": custom})
    return row


def _cell(value: Any) -> Any:
    """What SQLite and CSV know, whatever the program gave. SQLite makes NULL of NaN."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # half a surrogate pair is none
    if isinstance(value, (dict, list, tuple)):
        try:
            return json.dumps(value, default=_plain)
        except (TypeError, ValueError, RecursionError):  # its keys, or it is in itself
            return json.dumps(_plain(value))
    return _cell(_plain(value))


def _plain(value: Any) -> Any:
    """A number of NumPy or a tensor as a number, anything else as text."""
    try:
        if isinstance(value, (set, frozenset)):
            return sorted(map(str, value))
        return float(value) if is_number(value) else str(value)
    except Exception:
        return f"a {type(value).__name__}"


def write_json(path: str, rows: Iterable[dict[str, Any]]) -> None:
    """A list, whole or not at all. Its folder is made. OSError."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write("[")
        for i, row in enumerate(rows):
            file.write(("," if i else "") + "\n  " + json.dumps(_finite(row)))
        file.write("\n]\n")
    os.replace(path + ".part", path)


def write_csv(path: str, rows: Iterable[dict[str, Any]]) -> None:
    """With a column for each name that some row has. OSError."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    kept = list(rows)
    names = list(dict.fromkeys(name for row in kept for name in row))
    with open(path + ".part", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in kept)
    os.replace(path + ".part", path)


def _finite(value: Any) -> Any:
    """JSON has no infinities: as text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return value
