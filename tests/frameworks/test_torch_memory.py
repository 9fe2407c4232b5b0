# SPDX-License-Identifier: Apache-2.0
"""Bytes of data sets and caches: of what they hold, once, and said when estimated."""

import functools
import mmap
import sys

import pytest
from conftest import need

pytestmark = need("torch", "numpy")

try:
    import numpy as np
    import torch
except ImportError:
    torch = np = None


class Data:
    def __init__(self, **what):
        self.__dict__.update(what)


def size(**what):
    from lapse.torch import DatasetMemory

    return DatasetMemory(Data(**what))


EMPTY = 2000  # the objects around what they hold


def test_tensors_and_arrays_count_once():
    images = torch.zeros(1000, 100)
    memory = size(images=images, views=[images[i] for i in range(500)], labels=np.zeros(10_000))
    want = 1000 * 100 * 4 + 10_000 * 8
    # 500 views are objects of nearly nothing, of one storage.
    assert want <= memory.bytes < want + 500 * 8 + EMPTY
    assert not memory.estimated and memory.mapped == 0 and memory.reason == ""
    array = np.zeros(50_000)
    memory = size(a=array, b=array[::2], c=array.reshape(-1, 2))
    assert 400_000 <= memory.bytes < 400_000 + EMPTY
    whole = torch.zeros(10_000)
    assert 40_000 <= size(part=whole[:10]).bytes < 40_000 + EMPTY  # it holds all of it


def test_an_array_that_is_a_tensor_too():
    array = np.zeros(50_000)
    try:
        tensor = torch.from_numpy(array)
    except RuntimeError as error:  # it was built for another numpy
        pytest.skip(f"PyTorch {torch.__version__}: {error}")
    # torch's view of numpy's memory is a storage of its own to it.
    assert 400_000 <= size(a=array, same=tensor).bytes < 800_000 + EMPTY


def test_containers_and_data_sets_in_it():
    text = "x" * 10_000
    memory = size(rows=[{"text": text}, {"text": text}], inner=Data(x=torch.zeros(2000)))
    assert 18_000 <= memory.bytes < 18_000 + EMPTY
    loop = []
    loop.append(loop)
    assert size(loop=loop).bytes < EMPTY
    assert size(model=torch.nn.Linear(1000, 1000), function=size).bytes < EMPTY
    sparse = torch.sparse_coo_tensor([[0, 1], [5, 6]], [1.0, 2.0], (1000, 1000))
    assert size(sparse=sparse).bytes < EMPTY
    objects = np.array(["y" * 5000, "z" * 5000], dtype=object)
    assert 10_000 <= size(objects=objects).bytes < 10_000 + EMPTY


def test_long_lists_are_estimated_and_said_so():
    rows = [bytes(1000 if i % 2 else 3000) for i in range(20_000)]
    memory = size(rows=rows)
    want = sys.getsizeof(rows) + sum(map(sys.getsizeof, rows))
    assert memory.estimated and "about" in repr(memory)
    assert memory.bytes == pytest.approx(want, rel=0.1)


def test_mapped_files_are_told_apart(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(80_000))
    array = np.memmap(path, dtype=np.float64)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        memory = size(array=array, part=array[10:20], whole=whole)
        assert memory.mapped == 160_000 and memory.bytes < EMPTY


def test_a_data_set_that_fails_is_said():
    from lapse.torch import DatasetMemory

    class Odd(torch.Tensor):
        def untyped_storage(self):
            raise ValueError("no storage")

    memory = DatasetMemory([torch.ones(2).as_subclass(Odd)])
    if not hasattr(torch.Tensor, "untyped_storage"):
        pytest.skip("PyTorch before 2.0 has no untyped_storage()")
    assert memory.bytes == 0 and "no storage" in memory.reason


def test_caches_count_bytes_not_entries():
    """The original took the number of entries for megabytes (T-05)."""
    from lapse.torch import CacheMemory

    images = {i: torch.zeros(1000) for i in range(10)}
    caches = CacheMemory()
    caches.register("images", images)
    caches.register("files", lambda: 12_345)
    assert caches.update() == caches.bytes
    assert 40_000 <= caches.sizes["images"] < 40_000 + EMPTY
    assert caches.sizes["files"] == 12_345
    assert caches.bytes == sum(caches.sizes.values())
    images[10] = torch.zeros(100_000)
    assert caches.update() > 400_000
    caches.unregister("images")
    assert caches.update() == 12_345

    def broken():
        raise RuntimeError("gone")

    caches.register("broken", broken)
    assert caches.update() == 12_345 and caches.reason == "broken: RuntimeError: gone"
    with pytest.raises(TypeError, match="lru_cache hides"):
        caches.register("lru", functools.lru_cache(len))


def test_what_two_caches_hold_counts_once():
    from lapse.torch import CacheMemory

    shared = torch.zeros(10_000)
    caches = CacheMemory()
    caches.register("a", {"x": shared})
    caches.register("b", {"y": shared})
    assert 40_000 <= caches.update() < 40_000 + EMPTY
