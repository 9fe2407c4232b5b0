# SPDX-License-Identifier: Apache-2.0
"""watch_loader(): how long a loop waits for its data, and what the data took where they
were made. The loop sees the batches that it would have seen."""

from __future__ import annotations

import collections.abc
import functools
import time
from typing import TYPE_CHECKING, Any, Callable

from torch.utils.data import DataLoader

from .. import _core
from .._tell import tell_helper
from . import _transform, _worker
from ._phase import device_pair
from ._step import step_now
from ._summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

_clock = time.perf_counter_ns
_PARTS = {
    "wait": "time in the loader's next(), as the loop waits",
    "load": "time to make a batch, in the process that makes it",
    "transform": "time of a batch's transforms, part of data/load",
    "collate": "time of a batch's collation, part of data/load",
    "copy": "time of copying a batch to the device",
}


class Times:
    """What the batches of an epoch, or of all epochs, took: each a Summary of seconds.

    `wait` in next(), as the loop waits; `load` to make a batch, in the process that makes
    it; of that, `transform` and `collate`; `copy` to the device. `transforms` has a Summary
    for each transform by name. `start`: seconds that iter() took, starting workers
    among it. `samples`: None when nobody knows how many a batch has. `complete`: did the
    loader come to its end?"""

    def __init__(self) -> None:
        self.wait, self.load, self.transform = Summary(), Summary(), Summary()
        self.collate, self.copy = Summary(), Summary()
        self.transforms: dict[str, Summary] = {}
        self.batches = 0
        self.samples: int | None = None
        self.start = 0.0
        self.first = 0.0  # wait for the first batch, seconds
        self.complete = False

    @property
    def waited(self) -> float:
        """Seconds of waiting: all of next(), and iter()."""
        return self.wait.sum + self.start

    def as_dict(self) -> dict[str, dict[str, float]]:
        """{"wait": {"count": ..., "mean": ..., "p95": ...}, ...} of what was measured."""
        return {part: getattr(self, part).as_dict() for part in _PARTS if getattr(self, part)}

    def report(self) -> str:
        """Lines for people, in milliseconds."""
        lines = [f"{self.batches} batches, waited {self.waited:.3f} s"]
        for part in _PARTS:
            of: Summary = getattr(self, part)
            if of:
                lines.append(_line(part, of))
        lines.extend(_line(f"  {name}", of) for name, of in sorted(self.transforms.items()))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Times of {self.batches} batches: waited {self.waited:.6g} s>"


def _line(name: str, of: Summary) -> str:
    ms = [1e3 * x for x in (of.mean, of.quantile(0.5), of.quantile(0.95), of.quantile(0.99))]
    return f"{name:<12} avg {ms[0]:.3f}  p50 {ms[1]:.3f}  p95 {ms[2]:.3f}  p99 {ms[3]:.3f} ms"


class _Watch:
    """What is known of one watched loader."""

    def __init__(self, name: str, paths: list[str]) -> None:
        self.name, self.paths = name, paths
        self.undo = _transform.Undo()
        self.here = False  # are the transforms in this process timed?
        self.now, self.last, self.total = Times(), Times(), Times()
        self.more: list[Times] = []  # of who asks for other ones
        self.waited_ns = 0
        self.began_wait = 0
        self.span = _core.span(f"loader/{name}")
        labels = {"loader": name}
        self.metrics = {
            part: _core.metric(f"data/{part}", "s", "histogram", help, labels)
            for part, help in _PARTS.items()
        }
        self.reasons: list[str] = []

    @property
    def counted(self) -> tuple[Times, ...]:
        """All that a batch counts in."""
        return (self.now, self.total, *self.more)

    def observe(self, part: str, ns: int) -> None:
        seconds = ns / 1e9
        self.metrics[part].observe(seconds)
        for times in self.counted:
            getattr(times, part).add(seconds)

    def made(self, made: _worker.Made) -> None:
        """A batch has come, with its times."""
        self.observe("load", made.load)
        self.observe("collate", made.collate)
        if made.names:
            self.observe("transform", made.transform)
            for name, ns in made.names.items():
                for times in self.counted:
                    times.transforms.setdefault(name, Summary()).add(ns / 1e9)
        if made.samples is not None:
            for times in self.counted:
                times.samples = (times.samples or 0) + made.samples

    def waited(self, ns: int) -> None:
        """The loop has a batch after this wait."""
        self.waited_ns += ns
        self.observe("wait", ns)
        if not self.now.batches:
            self.now.first = ns / 1e9
        for times in self.counted:
            times.batches += 1

    def begin(self, ns: int) -> None:
        """An epoch begins: iter() took so long."""
        if self.now.batches:
            self.end(False)
        self.waited_ns += ns
        self.now.start = ns / 1e9
        self.total.start += ns / 1e9

    def end(self, complete: bool) -> None:
        """An epoch ends."""
        self.now.complete = complete
        self.last, self.now = self.now, Times()

    def copied(self, seconds: float, step: int | None, time_ns: int) -> None:
        self.metrics["copy"].observe_at(seconds, step, time_ns)
        for times in self.counted:
            times.copy.add(seconds)

    def cannot(self, why: str) -> None:
        if why not in self.reasons:
            self.reasons.append(why)
            tell_helper(f"watch_loader({self.name!r})", why)


class _Iterator:
    """Of a watched loader: what next() of the loader's own gives, and how long it took.
    Everything else is the loader's own iterator's."""

    __slots__ = ("__weakref__", "_ended", "_iterator", "_watch")

    def __init__(self, iterator: Iterator[Any], watch: _Watch) -> None:
        self._iterator, self._watch, self._ended = iterator, watch, False

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        watch = self._watch
        start = _clock()
        with watch.span:
            try:
                batch = next(self._iterator)
            except BaseException as error:
                self._end(isinstance(error, StopIteration))
                raise
        watch.waited(_clock() - start)
        return batch

    def _end(self, complete: bool) -> None:
        if not self._ended:
            self._ended = True
            self._watch.end(complete)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __len__(self) -> int:
        return len(self._iterator)  # type: ignore[arg-type]


def _iterate(make: Callable[[], Iterator[Any]], watch: _Watch) -> _Iterator:
    start = _clock()
    iterator = make()
    watch.begin(_clock() - start)
    return _Iterator(iterator, watch)


# ---- a DataLoader: watched in place, so that it stays one ---------------------------


def _get_iterator(loader: Any, get: Callable[[Any], Any]) -> Any:
    """The loader's own iterator, timed inside."""
    watch: _Watch | None = loader.__dict__.get("_lapse_watch")
    if watch is None:  # a loader that was made anew from a watched one
        return get(loader)
    if loader.num_workers == 0:
        return _iterator_here(loader, get, watch)
    init = loader.worker_init_fn
    loader.worker_init_fn = _worker.WorkerInit(init, watch.paths)
    try:
        iterator = get(loader)
    finally:
        loader.worker_init_fn = init
    try:
        _worker.watch_there(iterator, watch.made)
    except AttributeError as error:
        watch.cannot(f"this DataLoader's workers cannot be timed: {error}")
    return iterator


def _iterator_here(loader: Any, get: Callable[[Any], Any], watch: _Watch) -> Any:
    if not watch.here:
        watch.here = True
        for name in _transform.watch(loader.dataset, watch.paths, watch.undo):
            watch.cannot(f"this transform cannot be timed: {name}")
    iterator = get(loader)
    try:
        _worker.watch_here(iterator, watch.made)
    except AttributeError as error:
        watch.cannot(f"this DataLoader's batches cannot be timed: {error}")
    return iterator


@functools.cache
def _watched_class(kind: Any) -> Any:
    """A class like a DataLoader's whose iteration is timed; pickled, it is the other."""
    own: Any = kind

    def iterate(self: Any) -> Any:
        watch = self.__dict__.get("_lapse_watch")
        if watch is None or self.__dict__.get("_lapse_inner"):
            return own.__iter__(self)
        return _iterate(lambda: iter(own.__iter__(self)), watch)

    def _get(self: Any) -> Any:
        return _get_iterator(self, own._get_iterator)

    def reduce(self: Any, protocol: Any) -> Any:
        make, args, state, *rest = _transform.reduced_as(self, kind, protocol)
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if not k.startswith("_lapse")}
        return (make, args, state, *rest)

    body = {
        "__iter__": iterate,
        "__reduce_ex__": reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_lapse_kind": kind,
    }
    if hasattr(own, "_get_iterator"):
        body["_get_iterator"] = _get
    return type(kind)(kind.__name__, (kind,), body)


def _watch_in_place(loader: Any, watch: _Watch) -> bool:
    kind: Any = type(loader)
    # Accelerate's loaders hold the one that makes the batches; the wait is the outer's.
    inner = loader.__dict__.get("base_dataloader")
    if not hasattr(kind, "_get_iterator") and not hasattr(inner, "_get_iterator"):
        return False
    iterator = getattr(loader, "_iterator", None)
    _transform.set_class(loader, _watched_class(kind))
    loader.__dict__["_lapse_watch"] = watch
    if inner is not None and _watch_of(inner) is None:
        _watch_in_place(inner, watch)
        inner.__dict__["_lapse_inner"] = True
    if iterator is not None:
        watch.cannot("the DataLoader's persistent workers run already: how long they take "
                     "cannot be seen; watch it before its first use")  # fmt: skip
    return True


def _paths(loader: Any, transforms: Iterable[Any]) -> list[str]:
    """Names of the attributes at which transforms that were given are."""
    paths = []
    dataset = getattr(loader, "dataset", None)
    for one in transforms:
        path = one if isinstance(one, str) else _transform.path_of(dataset, one)
        if isinstance(one, str) and _transform.resolve(dataset, one)[2] is None:
            raise ValueError(f"watch_loader(): the data set has nothing that can be called "
                             f"at {one!r}")  # fmt: skip
        if path is None and not _transform.is_timed(one):
            raise ValueError(
                f"watch_loader(): {one!r} is no attribute of the data set; give its path "
                'there ("augment", "tokenizer.encode"), or decorate it with '
                "@lapse.torch.transform"
            )
        if path is not None:
            paths.append(path)
    return paths


# ---- what is given back --------------------------------------------------------------


class _Copying:
    """A context manager around copies of a batch to the device."""

    __slots__ = ("_pair", "_start", "_step", "_watch")

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch

    def __enter__(self) -> _Copying:
        self._step = step_now()
        self._pair = device_pair()
        self._start = _clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            return
        if self._pair is None:
            seconds = (_clock() - self._start) / 1e9
            self._watch.copied(seconds, self._step, _core.now())
        else:
            self._pair.end(self._watch.copied)


class Loader(collections.abc.Iterable[Any]):
    """A watched loader, made by watch_loader(): iterates as the loader does, and has its
    attributes (`dataset`, `batch_size`, `sampler`).

    `now`, `last`, `total`: Times of the epoch that goes on, of the last one that ended, and
    of all. `waited`: seconds that loops have waited so far. `reason`: why something cannot
    be measured, or ""."""

    def __init__(self, loader: Any, watch: _Watch) -> None:
        self.__dict__.update(loader=loader, _watch=watch)

    if TYPE_CHECKING:
        loader: Any
        _watch: _Watch

    def __iter__(self) -> Iterator[Any]:
        watch = self._watch
        if _watch_of(self.loader) is watch:
            return iter(self.loader)
        return _Plain(self.loader, watch).iterate()

    def __len__(self) -> int:
        return len(self.loader)

    def __bool__(self) -> bool:
        return bool(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name in ("loader", "_watch"):  # not made by __init__()
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.loader, name, value)

    @property
    def name(self) -> str:
        return self._watch.name

    @property
    def now(self) -> Times:
        return self._watch.now

    @property
    def last(self) -> Times:
        return self._watch.last

    @property
    def total(self) -> Times:
        return self._watch.total

    @property
    def waited(self) -> float:
        return self._watch.waited_ns / 1e9

    @property
    def reason(self) -> str:
        return "; ".join(self._watch.reasons)

    def copying(self) -> _Copying:
        """A context manager around the copies of a batch to the device, `data/copy`: by
        events on the current stream where CUDA is in use, else by the host's clock."""
        return _Copying(self._watch)

    def to(self, batch: Any, device: Any, non_blocking: bool = True) -> Any:
        """Copy the tensors of a batch (in dicts, lists, tuples, or with a method `to`) to a
        device, as copying() measures it."""
        with self.copying():
            return _to(batch, device, non_blocking)

    def report(self) -> str:
        """What the last epoch took (the current one before the first has ended)."""
        times = self.last if self.last.batches else self.now
        return f"loader {self.name}: {times.report()}"

    def close(self) -> None:
        """Stop measuring: the loader and the data set are what they were. Workers that go
        on stay timed, for nobody."""
        self._watch.undo()
        self._watch.here = False
        for loader in (self.loader, getattr(self.loader, "base_dataloader", None)):
            if _watch_of(loader) is not self._watch:
                continue
            for key in ("_lapse_watch", "_lapse_inner"):
                loader.__dict__.pop(key, None)
            kind: Any = type(loader)
            _transform.set_class(loader, kind._lapse_kind)

    def __repr__(self) -> str:
        return f"<lapse.torch.Loader {self.name!r} of {self.loader!r}>"


class _Plain:
    """Any other iterable: made by next() itself, so that decorated transforms are seen."""

    def __init__(self, loader: Iterable[Any], watch: _Watch) -> None:
        self.loader, self.watch = loader, watch

    def iterate(self) -> Iterator[Any]:
        return _iterate(lambda: self._made(iter(self.loader)), self.watch)

    def _made(self, iterator: Iterator[Any]) -> Iterator[Any]:
        now = _transform.now
        while True:
            making = _transform.Making()
            outer, now.making = now.making, making
            try:
                batch = next(iterator)
            except StopIteration:
                return
            finally:
                now.making = outer
            if making.names:
                self.watch.observe("transform", making.transform)
                for name, ns in making.names.items():
                    for times in self.watch.counted:
                        times.transforms.setdefault(name, Summary()).add(ns / 1e9)
            yield batch


def _to(batch: Any, device: Any, non_blocking: bool) -> Any:
    if hasattr(batch, "to"):
        try:
            return batch.to(device, non_blocking=non_blocking)
        except TypeError:
            return batch.to(device)
    if isinstance(batch, collections.abc.Mapping):
        moved = {k: _to(v, device, non_blocking) for k, v in batch.items()}
        return moved if type(batch) is dict else type(batch)(moved)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_to(v, device, non_blocking) for v in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_to(v, device, non_blocking) for v in batch)
    return batch


def _watch_of(loader: Any) -> _Watch | None:
    watch: _Watch | None = getattr(loader, "__dict__", {}).get("_lapse_watch")
    return watch


def watch_loader(
    loader: Iterable[Any], name: str = "train", transforms: Sequence[Any] = ()
) -> Loader:
    """Measure a DataLoader, or any iterable, and give it back to be iterated:

        loader = lapse.torch.watch_loader(DataLoader(data, num_workers=4), "train")
        for batch in loader: ...
        print(loader.report())

    Series `data/wait`, `data/load`, `data/transform`, `data/collate` (seconds a batch,
    histograms, label `loader`), and for the program `now`, `last`, `total` with mean, p50,
    p95, p99 of each. A DataLoader is watched in place: it stays what it is, and is
    measured also when a framework iterates it instead of what is given back. What a
    worker measured comes with its batch; the loop sees the batch only.

    Transforms are the data set's attributes `transform`, `transforms` and
    `target_transform` (and what is in them, like torchvision's Compose), also of data sets
    in it (Subset, ConcatDataset); attributes that `transforms` names ("augment",
    "tokenizer.encode", or the objects themselves); and functions that are decorated with
    `lapse.torch.transform`. Of another iterable only `data/wait` and decorated functions
    that next() calls can be seen.

    About 15 us a batch. TypeError: it cannot be iterated;
    ValueError: a transform is not there, or the loader is watched already by another
    name."""
    if isinstance(loader, Loader):
        loader = loader.loader
    if not isinstance(loader, collections.abc.Iterable) and not hasattr(loader, "__getitem__"):
        raise TypeError(f"watch_loader(): {type(loader).__name__} cannot be iterated")
    if not isinstance(name, str) or not name:
        raise ValueError("watch_loader(): the name must be a str that is not empty")
    known = _watch_of(loader)
    if known is not None:
        if known.name != name:
            raise ValueError(f"watch_loader(): this loader is watched as {known.name!r}")
        return Loader(loader, known)
    watch = _Watch(name, _paths(loader, transforms))
    if isinstance(loader, DataLoader) and not _watch_in_place(loader, watch):
        watch.cannot(f"{type(loader).__name__} is a DataLoader of another kind: only the "
                     "wait can be measured")  # fmt: skip
    return Loader(loader, watch)
