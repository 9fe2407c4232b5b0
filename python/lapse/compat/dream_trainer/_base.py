# SPDX-License-Identifier: Apache-2.0
"""What a callback is: hooks that do nothing; a collection that calls them; and warm-up,
which no statistic of the collection counts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from ... import _callback, _core, _events
from ..._console import style_of
from ..._ranks import rank_and_world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")
hook = _callback.guard("dream_trainer")
GIB = float(1 << 30)


class Callback(Generic[T]):
    """Base of callbacks: `class Mine(Callback[BaseTrainer])`, with `self.trainer`. It fits
    into Dream Trainer's own collection too."""

    _dependency: Any = object  # any trainer
    trainer: T = None  # type: ignore[assignment]  # until a collection or a trainer sets it
    collection: Any = ()  #: what calls it, if that is known

    def pre_launch(self) -> None: ...
    def pre_configure(self) -> None: ...
    def post_configure(self) -> None: ...
    def pre_setup(self) -> None: ...
    def post_setup(self) -> None: ...
    def pre_fit(self) -> None: ...
    def post_fit(self) -> None: ...
    def pre_epoch(self) -> None: ...
    def post_epoch(self) -> None: ...
    def pre_train_epoch(self) -> None: ...
    def post_train_epoch(self, result: dict[str, Any]) -> None: ...
    def pre_train_step(self, batch: dict[str, Any], batch_idx: int) -> None: ...
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None: ...
    def pre_optimizer_step(self, model: Any, optimizer: Any) -> None: ...
    def post_optimizer_step(self, model: Any, optimizer: Any) -> None: ...
    def pre_optimizer_zero_grad(self, model: Any, optimizer: Any) -> None: ...
    def post_optimizer_zero_grad(self, model: Any, optimizer: Any) -> None: ...
    def pre_validation_epoch(self) -> None: ...
    def post_validation_epoch(self, result: dict[str, Any]) -> None: ...
    def pre_validation_step(self, batch: dict[str, Any], batch_idx: int) -> None: ...
    def post_validation_step(self, result: dict[str, Any], batch_idx: int) -> None: ...
    def on_interrupt(self) -> None: ...

    def train_context(self) -> AbstractContextManager[None] | None:
        return None

    def validation_context(self) -> AbstractContextManager[None] | None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...

    def pop_self(self) -> None:
        """Leave the collection that it is in."""
        for name, callback in list(getattr(self.collection, "items", dict)()):
            if callback is self:
                self.collection.pop(name)


class RankZeroCallback(Callback[T]):
    """A callback whose hooks are called on the global rank 0 only."""


def of_rank(path: str) -> str:
    """With several ranks each has a file of its own: memory_profile_rank_1.json."""
    rank, world = rank_and_world()
    stem, end = os.path.splitext(path)
    return f"{stem}_rank_{rank}{end}" if world > 1 else path


class Printing(Callback[Any]):
    """A callback that prints. console_style: "classic": the document's lines; "lapse": our
    own; "none"; None: LAPSE_CONSOLE_STYLE, else "classic". rank 0 alone prints."""

    def __init__(self, console_style: str | None = None) -> None:
        if console_style is None and not os.environ.get("LAPSE_CONSOLE_STYLE"):
            console_style = "classic"
        self.console_style = style_of(console_style)

    @property
    def classic(self) -> bool:
        return self.console_style == "classic"

    def say(self, classic: str, ours: str | None = None) -> None:
        if self.console_style == "none" or rank_and_world()[0] != 0:
            return
        print(classic if self.classic or ours is None else ours, flush=True)


_NO_HOOKS = ("collection", "load_state_dict", "pop_self", "state_dict")
_HOOKS = frozenset(
    name for name in vars(Callback) if not name.startswith("_") and name not in _NO_HOOKS
)


class CallbackCollection(dict[str, Any]):
    """Callbacks, called in their order: `callbacks.pre_fit()` calls each one's pre_fit() and
    gives a list of what they returned. Made of callbacks, of (name, callback) pairs or of a
    dict; iterating gives callbacks. A second one of a class is called CLASS_2.

    What a callback that is not ours raises is raised."""

    def __init__(self, callbacks: Iterable[Any] | dict[str, Any] = ()) -> None:
        super().__init__()
        self.trainer: Any = None
        pairs = callbacks.items() if isinstance(callbacks, dict) else callbacks
        for one in pairs:
            if isinstance(one, tuple):
                self[one[0]] = one[1]
            else:
                self.append(one)

    def initialize(self, trainer: Any) -> None:
        """Give each callback its trainer."""
        self.trainer = trainer
        for callback in self.values():
            callback.trainer = trainer

    def append(self, callback: Any) -> None:
        """Add one more, under its class's name."""
        name = kind = type(callback).__name__
        n = 1
        while name in self:
            n += 1
            name = f"{kind}_{n}"
        self[name] = callback

    def __setitem__(self, name: str, callback: Any) -> None:
        super().__setitem__(name, callback)
        callback.collection = self
        if self.trainer is not None:
            callback.trainer = self.trainer

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def state_dict(self) -> dict[str, Any]:
        return {name: one.state_dict() for name, one in self.items() if hasattr(one, "state_dict")}

    def load_state_dict(self, state_dicts: dict[str, Any]) -> None:
        for name, state in state_dicts.items():
            if name in self:
                self[name].load_state_dict(state)

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        if name not in _HOOKS:
            raise AttributeError(f"CallbackCollection has no attribute {name!r}")

        def call(*args: Any, **kwargs: Any) -> list[Any]:
            # Only what a callback has of its own; one may leave the collection meanwhile.
            answers = [
                getattr(one, name)(*args, **kwargs)
                for one in list(self.values())
                if getattr(type(one), name, None) not in (None, getattr(Callback, name))
                and not (isinstance(one, RankZeroCallback) and rank_and_world()[0])
            ]
            return [answer for answer in answers if answer is not None]

        return call

    def __repr__(self) -> str:
        return f"CallbackCollection({list(self.keys())})"


class WarmupCallback(Callback[Any]):
    """The first `steps` steps of training are warm-up: the other callbacks of the collection
    count them in no statistic. A profiler's own schedule stays as it is. `active` says
    whether warm-up lasts; its end is event `warmup`."""

    def __init__(self, steps: int = 100) -> None:
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise ValueError(f"WarmupCallback: steps is a whole number from 0 on, not {steps!r}")
        self.steps = steps
        self.active = steps > 0
        self._done = 0

    @hook
    def pre_fit(self) -> None:
        self._done, self.active = 0, self.steps > 0
        siblings = self.collection or getattr(self.trainer, "callbacks", None) or ()
        for one in siblings.values() if isinstance(siblings, dict) else siblings:
            if hasattr(one, "warm_up"):
                one.warm_up(self.steps)
        if _core.is_open():
            _events.attr("warmup_steps", self.steps)

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        if not self.active:
            return
        self._done += 1
        if self._done >= self.steps:
            self.active = False
            _events.event("warmup", f"{self.steps} steps of warm-up are over", steps=self.steps)
