# SPDX-License-Identifier: Apache-2.0
"""Bytes that a data set holds, and those of caches that the program registers: of what
they hold, not the number of entries."""

from __future__ import annotations

import array
import mmap
import random
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._tell import tell_helper

if TYPE_CHECKING:
    from collections.abc import Iterable

_OBJECTS_MAX = 100_000  # looked at; more is estimated
_SAMPLE = 1000  # elements of a long list or dict that are looked at
_DEPTH = 32
_PLAIN = (int, float, complex, bool, str, bytes, bytearray, type(None), array.array)
_NOT_DATA = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.GeneratorType, types.CodeType, torch.nn.Module, torch.dtype, torch.device,
)  # fmt: skip


class _Walk:
    """Adds up what is reached from an object; everything once."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()
        self.kept: list[Any] = []  # an id stays taken while it is in `seen`
        self.mapped = 0  # bytes of files that are mapped, not read
        self.estimated = False
        self.objects = 0

    def size(self, thing: Any, depth: int = 0) -> float:
        """Bytes; 0 of what was seen before."""
        if isinstance(thing, _NOT_DATA):
            return 0
        if isinstance(thing, torch.Tensor):
            return self._tensor(thing)
        if id(thing) in self.seen:
            return 0
        self.objects += 1
        if self.objects > _OBJECTS_MAX or depth > _DEPTH:
            self.estimated = True
            return 0
        self.seen.add(id(thing))
        self.kept.append(thing)
        if isinstance(thing, _PLAIN):
            return sys.getsizeof(thing)
        for known in (self._array, self._mapping_of_file, self._table):
            n = known(thing)
            if n is not None:
                return n
        return self._object(thing, depth)

    def _tensor(self, tensor: torch.Tensor) -> float:
        """Its storage, once, also if many tensors look at it."""
        inner = getattr(tensor, "_values", None)
        if tensor.layout != torch.strided and callable(inner):
            parts = (tensor.coalesce().values(), tensor.coalesce().indices())
            return sum(self._tensor(part) for part in parts)
        looked: Any = tensor
        try:
            storage = looked.untyped_storage()
        except AttributeError:  # before 2.0
            storage = looked.storage()
        n = int(storage.nbytes())
        key = (str(tensor.device), storage.data_ptr())
        if tensor.device.type == "meta" or key in self.seen:
            return 0
        self.seen.add(key)
        self.kept.append(storage)
        return n

    def _array(self, thing: Any) -> float | None:
        """numpy's: the whole array that views look into, once."""
        if not hasattr(thing, "__array_interface__") or not hasattr(thing, "nbytes"):
            return None
        owner = thing
        base = getattr(thing, "base", None)
        while base is not None and hasattr(base, "nbytes") and not isinstance(base, memoryview):
            owner, base = base, getattr(base, "base", None)
        key = ("array", id(owner))
        if key in self.seen:
            return 0
        self.seen.add(key)
        self.kept.append(owner)
        if isinstance(base, mmap.mmap) or type(owner).__name__ == "memmap":
            self.mapped += int(owner.nbytes)
            return 0
        n = float(owner.nbytes)
        if getattr(getattr(thing, "dtype", None), "hasobject", False):
            return n + self._several(owner.reshape(-1), int(owner.size), 0)
        return n

    def _mapping_of_file(self, thing: Any) -> float | None:
        if not isinstance(thing, mmap.mmap):
            return None
        self.mapped += len(thing)
        return 0

    def _table(self, thing: Any) -> float | None:
        """Those that know their size: pandas, pyarrow, PIL, datasets."""
        kind = type(thing)
        module = kind.__module__.partition(".")[0]
        if module == "pandas" and hasattr(thing, "memory_usage"):
            usage = thing.memory_usage(deep=True)
            return float(usage if isinstance(usage, int) else usage.sum())
        if module in ("pyarrow", "polars"):
            n = thing.nbytes if hasattr(thing, "nbytes") else None
            n = thing.estimated_size() if n is None and hasattr(thing, "estimated_size") else n
            return None if n is None else float(n)
        if module == "PIL" and hasattr(thing, "getbands"):
            return float(thing.width * thing.height * len(thing.getbands()))
        if module == "datasets" and hasattr(thing, "cache_files"):
            files = bool(thing.cache_files)
            n = int(getattr(getattr(thing, "data", None), "nbytes", 0))
            self.mapped += n if files else 0
            return 0.0 if files else float(n)
        return None

    def _object(self, thing: Any, depth: int) -> float:
        n = float(sys.getsizeof(thing, 0))
        if isinstance(thing, dict):
            n += self._several(thing.keys(), len(thing), depth)
            return n + self._several(thing.values(), len(thing), depth)
        if isinstance(thing, (list, tuple, set, frozenset)):
            return n + self._several(thing, len(thing), depth)
        for value in self._attributes(thing):
            n += self.size(value, depth + 1)
        return n

    @staticmethod
    def _attributes(thing: Any) -> Iterable[Any]:
        yield from list(getattr(thing, "__dict__", {}).values())
        for kind in type(thing).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    yield getattr(thing, name, None)

    def _several(self, things: Iterable[Any], n: int, depth: int) -> float:
        """All elements; of many, some that are spread over them, for all of them."""
        if n <= _SAMPLE:
            return sum(self.size(x, depth + 1) for x in list(things))
        self.estimated = True
        # One of each stretch, drawn: what repeats with some period is not missed.
        draw, step = random.Random(0), n / _SAMPLE
        chosen = {min(n - 1, int((k + draw.random()) * step)) for k in range(_SAMPLE)}
        total = sum(self.size(x, depth + 1) for i, x in enumerate(things) if i in chosen)
        return total * n / len(chosen)


class _Size:
    __slots__ = ("bytes", "estimated", "mapped")

    def __init__(self, bytes: int, mapped: int, estimated: bool) -> None:
        self.bytes, self.mapped, self.estimated = bytes, mapped, estimated


def _size(thing: Any) -> _Size:
    walk = _Walk()
    n = walk.size(thing)
    return _Size(int(n), walk.mapped, walk.estimated)


class DatasetMemory:
    """Bytes of memory that a data set holds: tensors, arrays, tables, and what else is
    reached from its attributes, each once, also of data sets in it. Recorded as
    `data/memory/dataset` now; `update()` measures again.

    `bytes`; `mapped`: bytes of files that are mapped (memory only while they are in the
    page cache), not in `bytes`; `estimated`: a long list or dict was measured by 1,000 of
    its elements, or there was too much to look at; `reason`: why nothing was found. About
    1 us an object, some milliseconds at most for 100,000 of them. A worker process has
    its own copy of what is written to."""

    def __init__(self, dataset: Any, name: str = "train") -> None:
        self.dataset, self.name = dataset, name
        self.bytes = self.mapped = 0
        self.estimated = False
        self.reason = ""
        self._metric = _core.metric("data/memory/dataset", "By", "gauge",
                                    "bytes that a data set holds", {"dataset": name})  # fmt: skip
        self.update()

    def update(self) -> int:
        """Measure and record; the bytes."""
        try:
            size = _size(self.dataset)
        except Exception as error:
            self.reason = f"{type(error).__name__}: {error}"
            tell_helper(f"DatasetMemory({self.name!r})", self.reason)
            return self.bytes
        self.bytes, self.mapped, self.estimated = size.bytes, size.mapped, size.estimated
        self._metric.set(self.bytes)
        return self.bytes

    def __repr__(self) -> str:
        about = "about " if self.estimated else ""
        return f"<DatasetMemory {self.name!r}: {about}{self.bytes} bytes, {self.mapped} mapped>"


class CacheMemory:
    """Bytes in the caches that a program registers, their contents, not the number of
    entries:

        caches = lapse.torch.CacheMemory()
        caches.register("images", images)                 # a dict, a list, any object
        caches.register("files", lambda: store.nbytes)    # or a function that knows
        caches.update()                                   # each epoch, say

    `update()` measures all and records `data/memory/cache`, in total and with label
    `cache`; `bytes`: the total; `sizes`: by name; `estimated` as of DatasetMemory;
    `reason`: what cannot be measured and why."""

    def __init__(self) -> None:
        self.bytes = 0
        self.sizes: dict[str, int] = {}
        self.estimated = False
        self._caches: dict[str, Any] = {}
        self._why: dict[str, str] = {}

    def register(self, name: str, cache: Any) -> None:
        """A cache by name: an object whose contents are measured, or a function without
        arguments that returns bytes. TypeError: what functools.lru_cache makes hides its
        contents: give a function that knows."""
        if hasattr(cache, "cache_info") and hasattr(cache, "cache_clear"):
            raise TypeError(f"register({name!r}): functools.lru_cache hides what it holds; give "
                            "a function that returns its bytes")  # fmt: skip
        self._caches[name] = cache

    def unregister(self, name: str) -> None:
        """Forget one; KeyError: there is none of that name."""
        del self._caches[name]

    @property
    def reason(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in self._why.items())

    def update(self) -> int:
        """Measure and record; the bytes of all."""
        self.sizes, self._why, self.estimated = {}, {}, False
        walk = _Walk()  # of all: what two of them hold counts once
        for name, cache in list(self._caches.items()):
            try:
                n = int(cache()) if _is_function(cache) else int(walk.size(cache))
            except Exception as error:
                self._why[name] = f"{type(error).__name__}: {error}"
                tell_helper("CacheMemory", f"{name}: {self._why[name]}")
                continue
            self.sizes[name] = n
            self._record({"cache": name}, n)
        self.estimated = walk.estimated
        self.bytes = sum(self.sizes.values())
        self._record(None, self.bytes)
        return self.bytes

    @staticmethod
    def _record(labels: dict[str, str] | None, n: int) -> None:
        _core.metric("data/memory/cache", "By", "gauge", "bytes in registered caches",
                     labels).set(n)  # fmt: skip

    def __repr__(self) -> str:
        return f"<CacheMemory of {len(self._caches)}: {self.bytes} bytes>"


def _is_function(thing: Any) -> bool:
    return isinstance(thing, (types.FunctionType, types.MethodType, types.BuiltinFunctionType))
