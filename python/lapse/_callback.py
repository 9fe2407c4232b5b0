# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of all frameworks do alike: open the run, say the rank, record
steps, epochs, spans and values, and never harm the training that they watch."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _core
from ._distributed import Ranks
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._core import Span

    _F = TypeVar("_F", bound=Callable[..., Any])

_warned: set[str] = set()
FOLDERS = ("train", "eval", "val", "test", "predict")


def guard(who: str) -> Callable[[_F], _F]:
    """Decorator of a hook: what it raises is said once (event lapse.WHO), not raised, and
    what it returns is dropped: a hook of ours changes nothing."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def hook(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            except Exception as error:
                tell_once(who, f"{function.__name__}: {type(error).__name__}: {error}")

        return hook  # type: ignore[return-value]

    return decorate


def folders(name: str) -> str:
    """`eval_loss` is `eval/loss`; `loss` stays."""
    before, _, after = name.partition("_")
    return f"{before}/{after}" if before in FOLDERS and after else name


def is_number(value: Any) -> bool:
    """A number, or one element of an array or tensor."""
    if isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str) or not hasattr(value, "__float__"):
        return False
    size = getattr(value, "numel", None) or getattr(value, "size", 1)
    return bool((size() if callable(size) else size) == 1)


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """lapse.log(), or lapse.torch.log() if a tensor is among the values: it is not waited
    for. What is no number is left out."""
    numbers = {name: value for name, value in values.items() if is_number(value)}
    if not numbers:
        return
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in numbers.values()):
        for name, value in numbers.items():
            if getattr(value, "requires_grad", False):  # PyTorch warns of numbers of these
                numbers[name] = value.detach()
        importlib.import_module("lapse.torch").log(numbers, step)
    else:
        _core.log(numbers, step)


def begin_run(
    project: str | None,
    name: str | None,
    config: Any,
    ranks: tuple[int, int, int] | None = None,
) -> bool:
    """Open the run if the program has not; True if it was opened here. The configuration
    and the rank are taken over in either case."""
    from . import _run

    current = _run.current()
    began = current is None or not current.recording
    rank, local, world = ranks if ranks else (None, None, None)
    run = _run.init(
        project=project,
        name=name if began else None,
        config=config,
        rank=rank,
        local_rank=local,
        world_size=world,
    )
    if run.error and "LAPSE_DISABLE" not in run.error:
        _warn(f"nothing is recorded: {run.error.strip()}")
    return began


def _warn(text: str) -> None:
    """Once: there is no run that could tell it. Where warnings are errors it is none."""
    if text not in _warned:
        _warned.add(text)
        with contextlib.suppress(Warning):
            warnings.warn(f"lapse: {text}", RuntimeWarning, stacklevel=3)


class Recorder:
    """Steps, epochs and spans of one training loop, by whoever calls its hooks.

    ranks: as Ranks(mode). With "zero" and "aggregate" only the global rank 0 records;
    with "aggregate" it also records, of each `every` steps, step/time and step/gap (from
    the end of a step to the beginning of the next) over all ranks."""

    def __init__(self, ranks: str = "all", every: int = 50) -> None:
        self.ranks = Ranks(ranks, every)
        self._open: dict[str, tuple[Span, bytes]] = {}
        self._step: int | None = None
        self._began_ns = self._ended_ns = 0
        self._in_epoch = False

    @property
    def records(self) -> bool:
        return self.ranks.records

    def renew(self) -> None:
        """A training begins: the process group may have come since."""
        self.ranks = Ranks(self.ranks.mode, self.ranks.every, self.ranks.names)
        self._open.clear()
        self._step, self._ended_ns = None, 0

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        if self.records:
            log(values, step)

    def step_begin(self, step: int) -> None:
        self._step, self._began_ns = step, time.perf_counter_ns()
        if self.records:
            _core.step_begin(step)

    def step_end(self, samples: float | None = None, tokens: float | None = None) -> None:
        """A second end of a step, and one without a begin, do nothing."""
        if self._step is None:
            return
        step, self._step = self._step, None
        if self.records:
            _core.step_end(samples, tokens)
        if self.ranks.mode == "aggregate":
            now = time.perf_counter_ns()
            values = {"step/time": (now - self._began_ns) / 1e9}
            if self._ended_ns:
                values["step/gap"] = (self._began_ns - self._ended_ns) / 1e9
            self._ended_ns = now
            self.ranks.log(values, step)

    def begin(self, name: str) -> None:
        """Begin a span; one of that name that is open is left as it is."""
        if self.records and name not in self._open:
            span = _core.span(name)
            self._open[name] = (span, span.begin())

    def end(self, name: str) -> None:
        """End it, if it is open."""
        span, token = self._open.pop(name, (None, b""))
        if span is not None:
            span.end(token)

    def epoch_begin(self, epoch: int) -> None:
        if self.records:
            _core.epoch_begin(epoch)
            self._in_epoch = True

    def epoch_end(self) -> None:
        if self._in_epoch:
            _core.epoch_end()
            self._in_epoch = False

    def close(self) -> None:
        """The training has ended; the run goes on."""
        for name in list(self._open):
            self.end(name)
        self.ranks.close()
        if "lapse.torch" in sys.modules:
            sys.modules["lapse.torch"].flush(wait=True)
