# SPDX-License-Identifier: Apache-2.0
"""What several callbacks of one Trainer need to see, seen once: the actions that it tells
its profiler, and its training loaders before their workers start."""

from __future__ import annotations

import weakref
from typing import Any, Callable

from .._tell import tell_once
from ..torch import watch_loader

_taps: weakref.WeakKeyDictionary[Any, Tap] = weakref.WeakKeyDictionary()


class Tap:
    """Of one Trainer. Its profiler and data connector keep their classes: methods are put
    before theirs on the instances, and taken away again when the last user has gone."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = weakref.ref(trainer)
        self._users: dict[int, tuple[Callable[[str], None], Callable[[str], None]]] = {}
        self._watchers: set[int] = set()
        self.loaders: list[Any] = []  #: watched training loaders
        self._profiler: Any = None
        self._connector: Any = None

    # ---- actions --------------------------------------------------------------------------

    def listen(
        self, user: Any, start: Callable[[str], None], stop: Callable[[str], None]
    ) -> None:
        """Call start(action) and stop(action) for each action; once for each user."""
        self._users[id(user)] = (start, stop)
        trainer = self._trainer()
        if self._profiler is None and trainer is not None:
            self._profiler = trainer.profiler
            self._put_before(self._profiler, "start", 0)
            self._put_before(self._profiler, "stop", 1)

    def _put_before(self, profiler: Any, name: str, which: int) -> None:
        theirs, users = getattr(profiler, name), self._users

        def method(action_name: str) -> None:
            if which:
                theirs(action_name)
            for user in users.values():
                try:
                    user[which](action_name)
                except Exception as error:
                    tell_once("lightning", f"{type(error).__name__}: {error}")
            if not which:
                theirs(action_name)

        setattr(profiler, name, method)

    # ---- loaders --------------------------------------------------------------------------

    def watch(self, user: Any) -> None:
        """Measure the training loaders, from when Lightning prepares them."""
        self._watchers.add(id(user))
        trainer = self._trainer()
        connector = getattr(trainer, "_data_connector", None)
        if self._connector is not None or connector is None:
            return
        prepare = getattr(connector, "_prepare_dataloader", None)
        if prepare is None:
            tell_once("lightning", "this version of Lightning prepares its loaders elsewhere: "
                      "loading and transforms are not measured")  # fmt: skip
            return
        self._connector = connector

        def prepared(dataloader: Any, *args: Any, **kwargs: Any) -> Any:
            loader = prepare(dataloader, *args, **kwargs)
            mode = kwargs.get("mode", args[1] if len(args) > 1 else None)
            if getattr(mode, "value", mode) == "train":
                self._watch(loader)
            return loader

        connector._prepare_dataloader = prepared

    def _watch(self, loader: Any) -> None:
        """In place, so Lightning iterates what it knows."""
        if not hasattr(loader, "num_workers"):
            return  # no DataLoader: the wait is seen in the actions
        name = "train" if not self.loaders else f"train/{len(self.loaders)}"
        try:
            watched = watch_loader(loader, name)
        except (TypeError, ValueError) as error:
            tell_once("lightning", f"a training loader is not measured: {error}")
            return
        if all(watched.loader is not known.loader for known in self.loaders):
            self.loaders.append(watched)

    # ---- end ------------------------------------------------------------------------------

    def leave(self, user: Any) -> None:
        """A user has gone."""
        self._users.pop(id(user), None)
        self._watchers.discard(id(user))
        if not self._users and self._profiler is not None:
            for name in ("start", "stop"):
                self._profiler.__dict__.pop(name, None)
            self._profiler = None
        if not self._watchers and self._connector is not None:
            self._connector.__dict__.pop("_prepare_dataloader", None)
            self._connector = None
            self.loaders = []


def tap_of(trainer: Any) -> Tap:
    """The one of this Trainer."""
    tap = _taps.get(trainer)
    if tap is None:
        tap = _taps[trainer] = Tap(trainer)
    return tap
