# SPDX-License-Identifier: Apache-2.0
"""What a Profile does at which step: waits, warms up, records. By a cycle of steps as
torch.profiler.schedule() has it, by a list of epochs, or by a schedule of PyTorch's."""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import torch
from torch.profiler import ProfilerAction, ProfilerActivity

if TYPE_CHECKING:
    from collections.abc import Iterable

WAIT, WARMUP, RECORD, LAST = range(4)  # LAST: recorded, and the window ends with it

_OF_TORCH: dict[ProfilerAction, int] = {
    ProfilerAction.NONE: WAIT,
    ProfilerAction.WARMUP: WARMUP,
    ProfilerAction.RECORD: RECORD,
    ProfilerAction.RECORD_AND_SAVE: LAST,
}
ACTIVITIES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "privateuse1")


class Plan(NamedTuple):
    """action(n, epoch): what to do at step n, counted from 0: of the training, or, if
    by_epoch, of the epoch. active: steps of a window, None if the plan does not say."""

    action: Callable[[int, int], int]
    by_epoch: bool
    active: int | None


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"Profile(): {name} must be a whole number from {least} on, "
                         f"not {value!r}")  # fmt: skip
    number: int = value
    return number


def cycle(skip_first: int, wait: int, warmup: int, active: int, repeat: int) -> Plan:
    """As torch.profiler.schedule(); repeat=0: without end."""
    for name, value, least in (("skip_first", skip_first, 0), ("wait", wait, 0),
                               ("warmup", warmup, 0), ("active", active, 1),
                               ("repeat", repeat, 0)):  # fmt: skip
        _count(name, value, least)
    length = wait + warmup + active

    def action(n: int, _epoch: int) -> int:
        done, at = divmod(n - skip_first, length)
        if n < skip_first or (repeat and done >= repeat) or at < wait:
            return WAIT
        if at < wait + warmup:
            return WARMUP
        return LAST if at == length - 1 else RECORD

    return Plan(action, False, active)


def epochs(which: Iterable[int], wait: int, warmup: int, active: int) -> Plan:
    """One window in each of these epochs: wait, warm up, record, or to the epoch's end."""
    chosen = frozenset(_count("an epoch", epoch, 0) for epoch in which)
    one = cycle(0, wait, warmup, active, 1)

    def action(n: int, epoch: int) -> int:
        return one.action(n, epoch) if epoch in chosen else WAIT

    return Plan(action, True, active)


def custom(schedule: Callable[[int], Any]) -> Plan:
    """A schedule of torch.profiler: step number to ProfilerAction."""
    if not callable(schedule):
        raise TypeError("Profile(): schedule must be callable, as torch.profiler.schedule(...) "
                        f"is, not {type(schedule).__name__}")  # fmt: skip

    def action(n: int, _epoch: int) -> int:
        of: int = _OF_TORCH[schedule(n)]
        return of

    return Plan(action, False, None)


def _absent(name: str) -> str:
    """Why nothing of this kind can be recorded; "" if it can."""
    if name == "mps":
        return ("PyTorch's profiler records nothing on MPS; torch.mps.profiler shows it in "
                "Instruments")  # fmt: skip
    if not hasattr(ProfilerActivity, "PrivateUse1" if name == "privateuse1" else name.upper()):
        return f"PyTorch {torch.__version__} does not know it"
    if name in ("cuda", "xpu", "hpu", "mtia"):
        module = getattr(torch, name, None)
        if module is None or not module.is_available():
            return f"torch.{name}.is_available() is False"
    return ""


def activities(names: Iterable[str] | str | None) -> set[ProfilerActivity]:
    """The activities of PyTorch by these names. What is absent is left out with a
    warning; None: all that there are. ValueError for a name that does not exist."""
    given = ACTIVITIES[:3] if names is None else [names] if isinstance(names, str) else names
    found = set()
    for one in given:
        name = str(getattr(one, "name", one)).lower()
        if name not in ACTIVITIES:
            near = difflib.get_close_matches(name, ACTIVITIES, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ACTIVITIES)}"
            raise ValueError(f"Profile(): no activity {one!r}; {hint}")
        why = _absent(name)
        if not why:
            attribute = "PrivateUse1" if name == "privateuse1" else name.upper()
            found.add(getattr(ProfilerActivity, attribute))
        elif names is not None:
            warnings.warn(f"Profile: activity {name!r} is left out: {why}", RuntimeWarning,
                          stacklevel=3)  # fmt: skip
    return found or {ProfilerActivity.CPU}
