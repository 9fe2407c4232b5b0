# SPDX-License-Identifier: Apache-2.0
"""Events, attributes, artifacts, epochs, rank: what is recorded now and then."""
from __future__ import annotations

import json
import operator
import os
import warnings
from typing import TYPE_CHECKING, Any

from . import _core
from ._settings import text as clean

if TYPE_CHECKING:
    from types import TracebackType

SEVERITIES = {"debug": 0, "info": 1, "warning": 2, "error": 3}
ATTRS_MAX = 8192  # bytes of JSON; the record library takes no more
DEPTH_MAX = 16  # levels of attributes that are no plain JSON


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers of numpy and torch as numbers, else as text."""
    kind = type(value).__name__
    if kind.startswith(("complex", "clong")) or not hasattr(value, "__float__"):
        return _text(value)
    try:
        return bool(value) if kind.startswith("bool") else operator.index(value)
    except Exception:
        pass
    try:
        return float(value)
    except Exception:
        return _text(value)


def _simple(value: Any, above: tuple[int, ...] = ()) -> Any:
    """What JSON can hold: NaN, infinities and keys as text, no cycles, DEPTH_MAX levels."""
    if not isinstance(value, (str, int, float, dict, list, tuple, type(None))):
        value = _plain(value)
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        if id(value) in above or len(above) == DEPTH_MAX:
            return "..."
        above = (*above, id(value))
        if isinstance(value, dict):
            return {_text(k): _simple(v, above) for k, v in value.items()}
        return [_simple(v, above) for v in value]
    return value


def _dumped(attrs: dict[str, Any]) -> str:
    try:
        return json.dumps(attrs, default=_plain, allow_nan=False)
    except Exception:  # there are many ways; a second pass is slower and knows them
        return json.dumps(_simple(attrs), default=_text)


def _json(attrs: dict[str, Any], kind: str) -> str | None:
    if not attrs:
        return None
    try:
        dumped = _dumped(attrs)
    except Exception as error:
        dumped = json.dumps({"lapse.error": f"{type(error).__name__}: {_text(error)}"[:1000]})
    if len(dumped) > ATTRS_MAX:
        warnings.warn(
            f"lapse.event: the attributes of {kind!r} are {len(dumped)} bytes as JSON, more "
            f"than {ATTRS_MAX}; they are left out",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return dumped


def event(kind: str, text: str = "", severity: str = "info", **attrs: Any) -> None:
    """Record something that happened, at the current step.

    kind is a short word ("checkpoint", "eval"), text a sentence (at most 16 KiB),
    severity "debug", "info", "warning" or "error"; attrs become a JSON object (at
    most 8 KiB). ValueError for another severity or an empty kind. About 2 us."""
    level = SEVERITIES.get(severity)
    if level is None:
        raise ValueError(f"event(): severity must be one of {', '.join(SEVERITIES)}, "
                         f"not {severity!r}")  # fmt: skip
    if not kind:
        raise ValueError("event(): the kind is empty")
    _core.event(level, clean(kind), clean(text), _json(attrs, kind))


def attr(key: str, value: object) -> None:
    """Say something about this process that is text, lapse.attr("optimizer",
    "adamw"); the last value of a key wins. At most 16 KiB. About 1 us."""
    if not key:
        raise ValueError("attr(): the key is empty")
    _core.attr(clean(key), clean(value))


def artifact(path: str | os.PathLike[str], kind: str = "file", name: str | None = None) -> None:
    """Note a file or folder that belongs to the run: event "artifact" with its path,
    size in bytes and time of change in ns. It stays where it is. What is not there
    is noted as a warning."""
    full = os.path.abspath(os.fspath(path))
    attrs: dict[str, Any] = {
        "path": clean(full),
        "kind": kind,
        "name": name or os.path.basename(full),
    }
    severity, said = "info", full
    try:
        stat = os.stat(full)
        attrs.update(bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)
    except OSError as error:
        severity, said = "warning", f"{full}: {error.strerror}"
    _core.event(SEVERITIES[severity], "artifact", clean(said), _json(attrs, "artifact"))


def rank(rank: int, local_rank: int | None = None, world_size: int | None = None) -> None:
    """Say which rank this process is, 0-based; may come late, the last call wins.
    Without it: RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK."""
    _core.rank(rank, local_rank, world_size)


class Epoch:
    """An epoch, made by lapse.epoch(): a context manager."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Epoch:
        _core.epoch_begin(self.number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            _core.epoch_end()


def epoch(n: int) -> Epoch:
    """An epoch, 0-based, from enter to exit; begins an epoch when one is open: the
    open one ends. If the block raises it does not count as ended."""
    return Epoch(n)
