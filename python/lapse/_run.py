# SPDX-License-Identifier: Apache-2.0
"""init() and finish(): one run at a time, which is the process's."""
from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _core, _ends, _settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType, TracebackType


class Run:
    """The run that this process records into, made by lapse.init().

    As a context manager it calls finish() at the end of the block; an exception
    that passes through is recorded first."""

    __slots__ = ("_finished", "_id", "config", "error")

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.error = ""
        self._id = ""
        self._finished = False

    @property
    def id(self) -> str:
        """YYYYMMDD-HHMMSS-xxxx; "" if nothing was ever recorded."""
        return self._id

    @property
    def recording(self) -> bool:
        """Are records taken? If not, `error` says why."""
        return not self._finished and bool(_core.is_open())

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self is not _current:
            return
        hooks = _hooks()
        if error is not None and hooks:
            hooks.exception(error)
        finish()

    def __repr__(self) -> str:
        state = "recording" if self.recording else self.error or "finished"
        return f"<lapse.Run {self._id or '(none)'}, {state}>"


_current: Run | None = None
_lock = threading.RLock()
_before: set[str] = set()  # ids of runs that this process has finished


def _after_fork() -> None:
    """Another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _hooks() -> ModuleType | None:
    """The module with the hooks. A subinterpreter has none: it cannot load
    faulthandler, and the hooks are the process's."""
    try:
        from . import _evidence
    except ImportError:
        return None
    return _evidence


def _new_id() -> str:
    import secrets

    now = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return now + "-" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(4))


@contextmanager
def _environment_with(changes: Mapping[str, str | None]) -> Iterator[None]:
    """The record library reads the environment; nothing of it stays there."""
    old = {name: os.environ.get(name) for name in changes}
    try:
        os.environ.update({k: v for k, v in changes.items() if v is not None})
        yield
    finally:
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _role() -> str:
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return "worker"
    return "trainer"


def _default_name() -> str:
    """As `lapse run` names a run: the script's file name."""
    main = sys.modules.get("__main__")
    path: str | None = getattr(main, "__file__", None)
    if path:
        return os.path.basename(path)
    return "notebook" if "ipykernel" in sys.modules else "python"


def _open(values: Mapping[str, Any], ranks: Mapping[str, int | None]) -> str:
    """Open the ring: "", or why nothing is recorded."""
    from . import _program

    joined = os.environ.get("LAPSE_RUN")
    changes: dict[str, str | None] = {"LAPSE_BIN": _program.find()}
    if not joined and _before:
        changes["LAPSE_RUN"] = _new_id()  # or it would go on with the finished one
    ring = values["ring_kib"]
    with _environment_with(changes):
        why = _core.open(
            name=values["name"] or (None if joined else _default_name()),
            project=values["project"],
            role=values["role"] or _role(),
            dir=values["dir"],
            ring_bytes=ring << 10 if ring else None,
            lanes=values["lanes"],
            start_agent=values["start_agent"] and not joined,
            **ranks,
        )
    return why or ""


def _launched() -> bool:
    """Is this inside `lapse run`, which has taken the environment and the file?"""
    run, folder = os.environ.get("LAPSE_RUN"), os.environ.get("LAPSE_RENDEZVOUS")
    return bool(run and folder) and os.path.exists(f"{folder}/runs/{run}.run")


def _say(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """What the run is called; as attributes it reaches a run of `lapse run` too. That
    knows what is not from this program, and its own arguments go before it."""
    known = ("environment", "file") if _launched() else ()
    for name in ("name", "project", "tags", "notes"):
        if values[name] and sources[name] not in known:
            _core.attr("run." + name, values[name])


def _take_config(run: Run, config: Any) -> None:
    from . import _config, _redact

    mapping = _config.as_mapping(config)
    if mapping is None:
        raise TypeError(
            "lapse.init(): config must be a dict, dataclass or argparse.Namespace, "
            f"not {type(config).__name__}"
        )
    run.config.update((key, value) for key, value, failed in _config.items(mapping) if not failed)
    secrets = _redact.secrets()
    for path, value in _config.leaves(mapping):
        _core.attr(_settings.text(path), _settings.text(_redact.value(path, value, secrets)))


def _begin(values: Mapping[str, Any], ranks: Mapping[str, int | None]) -> Run:
    run = Run()
    run.error = _open(values, ranks)
    if run.error:
        return run
    run._id = _core.run_id()
    hooks = _hooks()
    if hooks:
        hooks.install(run, values["capture"])
    if "environment" in values["capture"] or "git" in values["capture"]:
        from . import _environment

        _environment.record(values["capture"])
    return run


def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    dir: str | os.PathLike[str] | None = None,
    tags: str | Iterable[str] | None = None,
    notes: str | None = None,
    rank: int | None = None,
    local_rank: int | None = None,
    world_size: int | None = None,
    settings: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    capture: bool | Iterable[str] | None = None,
) -> Run:
    """Open the process's ring and return the run.

    Inside `lapse run` it joins that run, else it begins one and starts an agent if
    none runs. A second call returns the same run after taking over what was given;
    after finish() it begins a new one. It never raises because lapse cannot record:
    then run.recording is False and run.error says why. TypeError and ValueError
    mean a bad argument. About 2 ms.

    config is a dict (a dataclass, an argparse.Namespace): each leaf becomes the
    attribute config/PATH, secrets are replaced. dir is where a run without `lapse
    run` is stored (./lapse-runs). capture: True, or some of "environment", "git",
    "exceptions", "warnings", "faulthandler", "exit".

    settings may hold project, name, dir, tags, notes, role, capture, ring_kib (size
    of the ring), lanes (threads that record at the same time), start_agent; or it is
    the path of a YAML file (docs/config.md), which LAPSE_CONFIG can name too. An
    argument goes before the environment variable (LAPSE_PROJECT, LAPSE_RING_KIB,
    and so on), that before the dict, that before the file."""
    global _current
    arguments = {
        "project": project, "name": name, "dir": dir, "tags": tags, "notes": notes,
        "capture": capture,
    }  # fmt: skip
    ranks = {"rank": rank, "local_rank": local_rank, "world_size": world_size}
    mapping = _settings.as_mapping(settings)
    with _lock:
        begins = _current is None or _current._finished or not _current.recording
        file = _settings.read_file(settings, begins)
        values, sources = _settings.merge(arguments, mapping, file)
        if _current is None or begins:
            _current = _begin(values, ranks)
        elif rank is not None:
            _core.rank(rank, local_rank, world_size)
        if _current.recording:
            _say(values, sources)
        if file and file.config:
            _take_config(_current, file.config)
        if config is not None:
            _take_config(_current, config)
        return _current


def finish(exit_code: int | None = None) -> None:
    """Close the run: what was recorded is complete, later records are dropped and
    counted. exit_code is the status the process is going to end with, if known.
    Values that a device has not made yet are waited for, 2 s if it makes none, and not
    while an exception is handled. Called at exit by itself; a second call does nothing."""
    with _lock:
        run = _current
        if run is None or run._finished:
            return
        if exit_code is not None:
            _core.exit_status(exit_code)
        _ends.finish()
        hooks = _hooks()
        if hooks:
            hooks.uninstall()
        _core.close()
        run._finished = True
        _before.add(run.id)


def current() -> Run | None:
    """The run of init(), also when it is finished."""
    return _current
