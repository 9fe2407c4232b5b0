# SPDX-License-Identifier: Apache-2.0
"""LapseTracker for Accelerate: Accelerator(log_with=LapseTracker()). Importing this module
also makes log_with="lapse" known where Accelerate has a table for that."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from ._callback import begin_run, is_number, log
from ._run import current, finish
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._run import Run

    _F = TypeVar("_F", bound=Callable[..., Any])

    class GeneralTracker:
        main_process_only: bool

        def __init__(self, _blank: bool = False) -> None: ...

else:
    from accelerate.tracking import GeneralTracker

__all__ = ["LapseTracker"]


def _where() -> tuple[int, int, int]:
    """(rank, local rank, world size) as Accelerate has them."""
    from importlib import import_module

    state = import_module("accelerate.state").PartialState()
    return int(state.process_index), int(state.local_process_index), int(state.num_processes)


def _chosen(function: _F) -> _F:
    """Only on the ranks that record; what fails is said once and not raised."""

    @functools.wraps(function)
    def method(self: LapseTracker, *args: Any, **kwargs: Any) -> Any:
        try:
            if not self.main_process_only or _where()[0] == 0:
                return function(self, *args, **kwargs)
        except Exception as error:
            tell_once("accelerate", f"{function.__name__}: {type(error).__name__}: {error}")
        return None

    return method  # type: ignore[return-value]


class LapseTracker(GeneralTracker):
    """Records what accelerator.log() is given. Tensors on a device are not waited for,
    nested dicts become outer/inner, text becomes an attribute.

    ranks: "zero": the main process alone, as other trackers; "all": each. The run is the
    program's own (lapse.init()) if it has one; else it begins at start() and ends with
    accelerator.end_training(). project: None: the name that init_trackers() is given, where
    Accelerate makes the tracker; it gives none to one that the program made."""

    name = "lapse"
    requires_logging_directory = False

    def __init__(
        self, project: str | None = None, run_name: str | None = None, ranks: str = "zero"
    ) -> None:
        if ranks not in ("zero", "all"):
            raise ValueError(f"ranks must be 'zero' or 'all', not {ranks!r}")
        super().__init__()
        self.project, self.run_name = project, run_name
        self.main_process_only = ranks == "zero"
        self._began = False

    @property
    def tracker(self) -> Run | None:
        """The run; None before start() and on ranks that do not record."""
        return current()

    @_chosen
    def start(self) -> None:
        rank, local, world = _where()
        where = (rank, local, world) if world > 1 else None
        self._began = begin_run(self.project, self.run_name, None, where)

    @_chosen
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        begin_run(None, None, dict(values))

    @_chosen
    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        from ._events import attr

        flat: dict[str, Any] = {}
        _flatten(values, "", flat)
        for name, value in flat.items():
            if isinstance(value, str):
                attr(name, value)
        log({name: value for name, value in flat.items() if is_number(value)}, step)

    @_chosen
    def finish(self) -> None:
        import sys

        if "lapse.torch" in sys.modules:
            sys.modules["lapse.torch"].flush(wait=True)
        if self._began:
            finish()
            self._began = False


def _flatten(values: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            _flatten(value, f"{prefix}{name}/", flat)
        else:
            flat[f"{prefix}{name}"] = value


def _register() -> None:
    """log_with="lapse", with the name of init_trackers() as the project."""
    from importlib import import_module

    register = getattr(import_module("accelerate.tracking"), "register_tracker_class", None)
    if register is not None:
        try:
            register(LapseTracker)
        except Exception as error:
            tell_once("accelerate", f'log_with="lapse" is not known: {error}', warning=False)


_register()
