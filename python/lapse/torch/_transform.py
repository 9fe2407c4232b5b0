# SPDX-License-Identifier: Apache-2.0
"""Which functions of a data set are transforms, and how long they take: while a batch is
made, in the process that makes it. Nothing is measured, and next to nothing is spent, when
no batch is made."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast, overload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_F = TypeVar("_F", bound=Callable[..., Any])
_clock = time.perf_counter_ns
NAMED = ("transform", "transforms", "target_transform")  # attributes of a data set
_DEPTH = 8  # of data sets in data sets, and of Compose in Compose


class Making:
    """A batch that is being made by this thread: what its parts took, in ns."""

    __slots__ = ("collate", "depth", "names", "transform")

    def __init__(self) -> None:
        self.transform = self.collate = self.depth = 0
        self.names: dict[str, int] = {}


class _Now(threading.local):
    making: Making | None = None


now = _Now()


def timed_call(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call it; while a batch is made its time counts, in total only once when a transform
    calls others."""
    making = now.making
    if making is None:
        return function(*args, **kwargs)
    making.depth += 1
    start = _clock()
    try:
        return function(*args, **kwargs)
    finally:
        took = _clock() - start
        making.depth -= 1
        making.names[name] = making.names.get(name, 0) + took
        if not making.depth:
            making.transform += took


class _Call:
    """A function, or anything callable, that is timed; otherwise what it was."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.__dict__.update(_lapse_function=function, _lapse_name=name)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return timed_call(self._lapse_name, self._lapse_function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_lapse")):
            raise AttributeError(name)
        return getattr(self._lapse_function, name)

    def __reduce__(self) -> Any:
        return _Call, (self._lapse_function, self._lapse_name)

    def __repr__(self) -> str:
        return repr(self._lapse_function)


def set_class(thing: Any, kind: type) -> None:
    """`thing.__class__ = kind`, also where the class says that it is another (Accelerate).
    TypeError: its objects are laid out in another way, in C."""
    descriptor: Any = object.__dict__["__class__"]
    descriptor.__set__(thing, kind)


def reduced_as(thing: Any, kind: type, protocol: Any) -> Any:
    """What pickle and copy make of an object of a subclass of ours, as one of `kind`."""
    mine = type(thing)
    set_class(thing, kind)
    try:
        make, args, *rest = thing.__reduce_ex__(protocol)
    finally:
        set_class(thing, mine)
    if getattr(make, "__name__", "") == "__newobj__":  # which pickle wants of its own class
        make = kind.__new__
    return (make, args, *rest)


def _subclass(kind: type, name: str) -> type:
    """A class like `kind` whose objects are timed when they are called. Pickled and copied
    they are of their own class again."""
    call = kind.__call__

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return timed_call(name, functools.partial(call, self), args, kwargs)

    def reduce(self: Any, protocol: Any) -> Any:
        return reduced_as(self, kind, protocol)

    body = {
        "__call__": timed,
        "__reduce_ex__": reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__slots__": (),
        "_lapse_kind": kind,
    }
    return type(kind)(kind.__name__, (kind,), body)


def is_timed(thing: Any) -> bool:
    """Is it timed already: by the decorator, by a watched loader?"""
    return (
        isinstance(thing, _Call)
        or hasattr(type(thing), "_lapse_kind")
        or hasattr(thing, "_lapse_transform")
    )


class Undo(list[Callable[[], None]]):
    """What puts back what was changed, last first."""

    def __call__(self) -> None:
        while self:
            self.pop()()


def _in_place(thing: Any, name: str, undo: Undo) -> bool:
    """Time the object itself where its class allows: it stays what it is for isinstance()
    and for those that hold it."""
    kind = type(thing)
    if inspect.isroutine(thing) or isinstance(thing, functools.partial):
        return False
    try:
        set_class(thing, _subclass(kind, name))
    except TypeError:  # a class with a layout of its own, in C
        return False
    undo.append(lambda: set_class(thing, kind))
    return True


def _replace(owner: Any, attribute: str, call: _Call, undo: Undo) -> None:
    had = attribute in getattr(owner, "__dict__", {})
    setattr(owner, attribute, call)

    def back() -> None:
        if getattr(owner, attribute, None) is not call:
            return
        if had:
            setattr(owner, attribute, call._lapse_function)
        else:  # a method: the class has it
            delattr(owner, attribute)

    undo.append(back)


def _inner(thing: Any, undo: Undo, depth: int) -> None:
    """Each part of what is like torchvision's Compose: it has a sequence `transforms`."""
    parts: Any = getattr(thing, "transforms", None)
    if isinstance(parts, (str, dict)) or not hasattr(parts, "__len__") or depth >= _DEPTH:
        return
    for i, part in enumerate(parts):
        if not callable(part) or is_timed(part):
            continue
        _inner(part, undo, depth + 1)
        if not _in_place(part, name_of(part), undo) and isinstance(parts, list):
            _replace_item(parts, i, _Call(part, name_of(part)), undo)


def _replace_item(parts: list[Any], i: int, call: _Call, undo: Undo) -> None:
    parts[i] = call

    def back() -> None:
        if i < len(parts) and parts[i] is call:
            parts[i] = call._lapse_function

    undo.append(back)


def name_of(thing: Any) -> str:
    """What to call a transform: the name of a function, or of the class of an object."""
    if isinstance(thing, functools.partial):
        return name_of(thing.func)
    name = getattr(thing, "__name__", None)
    return name if isinstance(name, str) else type(thing).__name__


def data_sets(dataset: Any, depth: int = 0) -> Iterator[Any]:
    """A data set, and those that it stands on (Subset, ConcatDataset and their like)."""
    yield dataset
    if depth >= _DEPTH:
        return
    inner = [_get(dataset, "dataset")]
    several = _get(dataset, "datasets")
    if isinstance(several, (list, tuple)):
        inner.extend(several)
    for one in inner:
        if one is not None and one is not dataset and not isinstance(one, (str, bytes)):
            yield from data_sets(one, depth + 1)


def watch(dataset: Any, paths: Sequence[str], undo: Undo) -> list[str]:
    """Time the transforms of a data set: those under the usual names, and attributes at
    `paths` ("augment", "tokenizer.encode"). Names of those that cannot be."""
    seen: set[int] = set()
    failed: list[str] = []
    for one in data_sets(dataset):
        if id(one) in seen:
            continue
        seen.add(id(one))
        for attribute in NAMED:
            thing = _get(one, attribute)
            if callable(thing) and not is_timed(thing):
                _try(one, attribute, thing, _name(attribute, thing), undo, failed)
    for path in paths:
        owner, attribute, thing = resolve(dataset, path)
        if thing is not None and not is_timed(thing):
            _try(owner, attribute, thing, path, undo, failed)
    return failed


def _get(owner: Any, attribute: str) -> Any:
    try:
        return getattr(owner, attribute, None)
    except Exception:  # a property that fails
        return None


def _name(attribute: str, thing: Any) -> str:
    """`transform` of a class or function with a name says less than that name."""
    name = name_of(thing)
    return attribute if name in ("<lambda>", "Compose", "StandardTransform") else name


def _try(owner: Any, attribute: str, thing: Any, name: str, undo: Undo, failed: list[str]) -> None:
    try:
        _inner(thing, undo, 0)
        if not _in_place(thing, name, undo):
            _replace(owner, attribute, _Call(thing, name), undo)
    except Exception as error:  # __slots__, a frozen dataclass, a property
        failed.append(f"{name}: {error}")


def resolve(dataset: Any, path: str) -> tuple[Any, str, Any]:
    """(owner, attribute, thing) of a path in a data set or those it stands on; the thing is
    None if there is none that can be called."""
    *parents, attribute = path.split(".")
    for one in data_sets(dataset):
        owner = one
        for parent in parents:
            owner = _get(owner, parent)
        thing = _get(owner, attribute)
        if callable(thing):
            return owner, attribute, thing
    return None, attribute, None


def path_of(dataset: Any, thing: Any) -> str | None:
    """Where in a data set an object is, one or two attributes deep."""
    if inspect.ismethod(thing) and any(thing.__self__ is one for one in data_sets(dataset)):
        return thing.__name__
    for one in data_sets(dataset):
        for name, value in list(getattr(one, "__dict__", {}).items()):
            if value is thing:
                return str(name)
            for inner, deeper in list(getattr(value, "__dict__", {}).items()):
                if deeper is thing:
                    return f"{name}.{inner}"
    return None


@overload
def transform(function: _F) -> _F: ...
@overload
def transform(function: str) -> Callable[[_F], _F]: ...
def transform(function: Any) -> Any:
    """Decorate a function or method that transforms samples, so that its time counts as
    `data/transform` of the loader that makes the batch:

        @lapse.torch.transform              # or @lapse.torch.transform("augment")
        def augment(image): ...

    Works in worker processes however they are started. About 0.3 us a call while no
    watched loader makes a batch, 1 us while one does."""
    if isinstance(function, str):
        return functools.partial(_decorate, name=function)
    return _decorate(function, name_of(function))


def _decorate(function: _F, name: str) -> _F:
    if isinstance(function, (staticmethod, classmethod)):
        return cast("_F", type(function)(_decorate(function.__func__, name)))
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"transform() decorates functions, not {type(function).__name__}")

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return timed_call(name, function, args, kwargs)

    wrapper.__dict__["_lapse_transform"] = name
    return cast("_F", wrapper)
