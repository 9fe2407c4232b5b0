# SPDX-License-Identifier: Apache-2.0
"""What goes on where a DataLoader's batches are made: timing the fetcher, in a worker or
in the process itself, and sending the times along with the batch."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable

from . import _transform

_clock = time.perf_counter_ns


class Made:
    """How long a batch took to make, in ns, and where."""

    __slots__ = ("collate", "load", "names", "pid", "samples", "transform")

    def __init__(
        self,
        load: int,
        transform: int,
        collate: int,
        samples: int | None,
        names: dict[str, int],
    ) -> None:
        self.load, self.transform, self.collate = load, transform, collate
        self.samples, self.names, self.pid = samples, names, os.getpid()


class Sent:
    """A batch with its times, between a worker and the loop, which sees the batch only."""

    __slots__ = ("data", "made")

    def __init__(self, data: Any, made: Made) -> None:
        self.data, self.made = data, made

    def __reduce__(self) -> Any:
        made = self.made  # as plain values: quicker by half
        times = (made.load, made.transform, made.collate, made.samples, made.names, made.pid)
        return _sent, (self.data, times)

    def pin_memory(self, device: Any = None) -> Sent:
        """As the DataLoader's thread would have done it with the batch."""
        from torch.utils.data._utils import pin_memory

        pin: Any = pin_memory.pin_memory
        return Sent(pin(self.data), self.made)


def _sent(data: Any, times: tuple[int, int, int, int | None, dict[str, int], int]) -> Sent:
    made = Made(*times[:-1])
    made.pid = times[-1]
    return Sent(data, made)


class _Collate:
    """A collate function that is timed."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, samples: Any) -> Any:
        making = _transform.now.making
        if making is None:
            return self.function(samples)
        start, before = _clock(), making.transform
        try:
            return self.function(samples)
        finally:
            # Transforms that it calls are transforms.
            making.collate += _clock() - start - (making.transform - before)


def _fetch(fetcher: Any, fetch: Callable[[Any], Any], index: Any) -> tuple[Any, Made]:
    """Make a batch, and say how long that took."""
    if not isinstance(fetcher.collate_fn, _Collate):
        fetcher.collate_fn = _Collate(fetcher.collate_fn)
    making = _transform.Making()
    outer, _transform.now.making = _transform.now.making, making
    start = _clock()
    try:
        data = fetch(index)
    finally:
        _transform.now.making = outer
    load = _clock() - start
    samples = len(index) if fetcher.auto_collation and not _is_iterable(fetcher) else None
    return data, Made(load, making.transform, making.collate, samples, making.names)


def _is_iterable(fetcher: Any) -> bool:
    return hasattr(fetcher, "dataset_iter")  # the last batch may have fewer samples


class WorkerInit:
    """The loader's `worker_init_fn`, after which the worker is timed."""

    def __init__(self, function: Callable[[int], Any] | None, paths: list[str]) -> None:
        self.function, self.paths = function, paths

    def __call__(self, worker: int) -> None:
        if self.function is not None:
            self.function(worker)
        with contextlib.suppress(Exception):  # unknown insides: the loop waits, no more
            self._watch()

    def _watch(self) -> None:
        from torch.utils import data
        from torch.utils.data._utils import fetch

        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            if not hasattr(kind.fetch, "_lapse"):
                setattr(kind, "fetch", _sending(kind.fetch))  # noqa: B010
        info = data.get_worker_info()
        if info is not None:
            _transform.watch(info.dataset, self.paths, _transform.Undo())


def _sending(fetch: Callable[[Any, Any], Any]) -> Any:
    """In a worker, whose process has one loader only: the fetchers of all."""

    def timed(self: Any, index: Any) -> Sent:
        return Sent(*_fetch(self, lambda i: fetch(self, i), index))

    timed.__dict__["_lapse"] = True
    return timed


def watch_here(iterator: Any, arrived: Callable[[Made], None]) -> None:
    """An iterator without workers: its batches are made by the loop's own thread."""
    fetcher = iterator._dataset_fetcher
    fetch = fetcher.fetch

    def timed(index: Any) -> Any:
        data, made = _fetch(fetcher, fetch, index)
        arrived(made)
        return data

    fetcher.fetch = timed


def watch_there(iterator: Any, arrived: Callable[[Made], None]) -> None:
    """An iterator with workers: whoever takes the next batch gets it as it was made."""
    take = iterator._next_data

    def taken() -> Any:
        data = take()
        if isinstance(data, Sent):
            arrived(data.made)
            return data.data
        return data

    iterator._next_data = taken
