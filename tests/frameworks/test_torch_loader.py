# SPDX-License-Identifier: Apache-2.0
"""watch_loader(): what a loop waits for, what batches took where they were made, with
0, 2 and 4 workers. Every sample says how long it really took, so that a slow machine is
measured as slow as it is."""

import contextlib
import copy
import functools
import pickle
import time
from types import SimpleNamespace

import pytest
from conftest import need, two_clocks

pytestmark = need("torch")

try:
    import torch
    from torch.utils.data import (
        BatchSampler,
        ConcatDataset,
        DataLoader,
        Dataset,
        IterableDataset,
        SequentialSampler,
        Subset,
        get_worker_info,
    )
except ImportError:  # the tests are skipped; their helpers still are defined
    Dataset = IterableDataset = object

SAMPLES, BATCH = 96, 4
LOAD, TRANSFORM = 0.003, 0.002


class Pause:
    """A transform that takes a time, and tells how long it was."""

    def __init__(self, seconds=TRANSFORM):
        self.seconds = seconds

    def __call__(self, sample):
        start = time.perf_counter()
        time.sleep(self.seconds)
        sample[2] += time.perf_counter() - start
        return sample


class Slow(Dataset):
    """A sample is [when it began, when it was done, time of its transform, its index]."""

    def __init__(self, transform=None, n=SAMPLES, load=LOAD):
        self.transform, self.n, self.load = transform, n, load

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        sample = [time.perf_counter(), 0.0, 0.0, float(i)]
        # Some take ten times as long, so that the quantiles differ.
        time.sleep(self.load * (10 if i % 24 == 0 else 1))
        if self.transform is not None:
            sample = self.transform(sample)
        sample[1] = time.perf_counter()
        return torch.tensor(sample, dtype=torch.float64)


class Stream(IterableDataset):
    def __init__(self, transform=None, n=SAMPLES):
        self.slow = Slow(transform, n)
        self.transform = transform

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return (self.slow[i] for i in range(first, self.slow.n, step))


def finish(samples):
    """Collates as by default, and says when it was done."""
    batch = torch.stack(samples)
    batch[-1, 1] = time.perf_counter()
    return batch


class Compose:
    """Like torchvision's."""

    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, sample):
        for transform in self.transforms:
            sample = transform(sample)
        return sample


def quantiles(values):
    from lapse.torch import Summary

    return [Summary(values).quantile(q) for q in (0.5, 0.95, 0.99)]


def measured(of):
    return [of.quantile(q) for q in (0.5, 0.95, 0.99)]


def run_epoch(loader, compute=0.0):
    """(batches, seconds of next()) as the loop sees them."""
    batches, waits = [], []
    iterator = iter(loader)
    while True:
        start = time.perf_counter()
        try:
            batches.append(next(iterator))
        except StopIteration:
            return batches, waits
        waits.append(time.perf_counter() - start)
        if compute:
            time.sleep(compute)


def real(batches):
    """(seconds to make each batch, seconds of its transforms)"""
    load = [float(b[:, 1].max() - b[:, 0].min()) for b in batches]
    return load, [float(b[:, 2].sum()) for b in batches]


def agrees(times, batches, waits):
    load, transform = real(batches)
    assert measured(times.load) == pytest.approx(quantiles(load), rel=0.05)
    assert times.load.mean == pytest.approx(sum(load) / len(load), rel=0.05)
    assert measured(times.transform) == pytest.approx(quantiles(transform), rel=0.05)
    assert measured(times.wait) == pytest.approx(quantiles(waits), rel=0.05, abs=2e-4)
    assert times.wait.sum == pytest.approx(sum(waits), rel=0.05)


@pytest.mark.parametrize("workers", [0, 2, 4])
@pytest.mark.parametrize("kind", ["map", "iterable"])
@two_clocks
def test_load_wait_and_transform_are_measured_right(workers, kind):
    from lapse.torch import watch_loader

    data = {"map": Slow, "iterable": Stream}[kind](Pause())
    loader = watch_loader(DataLoader(data, BATCH, num_workers=workers, collate_fn=finish))
    batches, waits = run_epoch(loader)
    times = loader.last
    assert times.complete and times.batches == len(batches) == SAMPLES // BATCH
    agrees(times, batches, waits)
    assert loader.reason == ""
    assert list(times.transforms) == ["Pause"]
    if kind == "map":
        assert times.samples == SAMPLES


@pytest.mark.parametrize("workers", [0, 2])
@two_clocks
def test_computing_is_not_loading(workers):
    """The original took the time of training on a batch for that of loading it (T-01)."""
    from lapse.torch import watch_loader

    data = Slow(n=24, load=0.001)
    loader = watch_loader(DataLoader(data, BATCH, num_workers=workers, collate_fn=finish))
    start = time.perf_counter()
    batches, waits = run_epoch(loader, compute=0.1)
    whole = time.perf_counter() - start
    load, _ = real(batches)
    assert loader.last.load.sum == pytest.approx(sum(load), rel=0.05)
    assert loader.last.waited < whole - 0.6  # six times 100 ms were not waiting
    assert loader.last.wait.sum == pytest.approx(sum(waits), rel=0.05, abs=2e-3)
    if workers:  # they are done before the loop asks, but for the first
        assert loader.last.wait.sum - loader.last.first < sum(load)


def contents(loader):
    return [batch[:, 3].tolist() for batch in loader]


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_the_loop_sees_what_it_would_have_seen(workers, persistent):
    from lapse.torch import watch_loader

    def make():
        generator = torch.Generator().manual_seed(4)
        return DataLoader(Slow(n=20, load=0), 3, shuffle=True, generator=generator,
                          num_workers=workers, persistent_workers=persistent)  # fmt: skip

    bare, other = make(), make()
    data, collate, init = other.dataset, other.collate_fn, other.worker_init_fn
    watched = watch_loader(other)
    assert isinstance(other, DataLoader) and len(watched) == len(bare) == 7
    for _ in range(3):
        assert contents(watched) == contents(bare)
    assert contents(other) == contents(bare)  # and not by the loader that was given back
    assert watched.total.batches == 28 and watched.total.samples == 80
    assert watched.total.load.count == 28
    assert watched.dataset is data and other.collate_fn is collate
    assert other.worker_init_fn is init
    iterator = iter(watched)
    assert next(iterator).shape == (3, 4) and type(next(iterator)) is torch.Tensor
    del iterator
    watched.close()
    assert type(other) is DataLoader and vars(other).keys() == vars(bare).keys()


@pytest.mark.timeout(300)
@two_clocks
def test_workers_that_are_spawned(tmp_path, monkeypatch, request):
    """They get the module of these tests by its name."""
    from lapse.torch import watch_loader

    monkeypatch.syspath_prepend(str(request.path.parent))
    data = Slow(Compose(Pause(), marked), n=8)
    options = {"num_workers": 1, "multiprocessing_context": "spawn", "collate_fn": finish}
    loader = watch_loader(DataLoader(data, 4, **options))
    batches, _ = run_epoch(loader)
    load, transform = real(batches)
    assert loader.last.load.sum == pytest.approx(sum(load), rel=0.05)
    assert loader.last.transform.sum == pytest.approx(sum(transform), rel=0.05)
    assert sorted(loader.last.transforms) == ["Pause", "marked", "transform"]


def marked_plain(sample):
    start = time.perf_counter()
    time.sleep(0.004)
    sample[2] += time.perf_counter() - start
    return sample


def _decorate():
    from lapse.torch import transform

    @functools.wraps(marked_plain)
    def marked(sample):
        return marked_plain(sample)

    marked.__name__ = marked.__qualname__ = "marked"
    return transform(marked)


with contextlib.suppress(ImportError):
    marked = _decorate()


class Own(Slow):
    """Transforms under names of its own: an object, a method, and one deeper."""

    def __init__(self):
        super().__init__(n=8, load=0)
        self.augment, self.tools = Pause(), SimpleNamespace(crop=Pause(0.004))

    def prepare(self, sample):
        return Pause(0.006)(sample)

    def __getitem__(self, i):
        return super().__getitem__(i) + torch.tensor(
            self.tools.crop(self.prepare(self.augment([0.0] * 4))), dtype=torch.float64
        )


@pytest.mark.parametrize("workers", [0, 1])
@two_clocks
def test_transforms_that_are_named(workers):
    from lapse.torch import watch_loader

    data = Own()
    crop = data.tools.crop
    loader = watch_loader(
        DataLoader(data, 4, num_workers=workers),
        transforms=["prepare", data.augment, "tools.crop"],
    )
    batches, _ = run_epoch(loader)
    _, transform = real(batches)
    assert loader.last.transform.sum == pytest.approx(sum(transform), rel=0.05)
    assert sorted(loader.last.transforms) == ["augment", "prepare", "tools.crop"]
    parts = [loader.last.transforms[n].sum for n in ("augment", "tools.crop", "prepare")]
    assert parts == sorted(parts)  # 2, 4 and 6 ms each
    loader.close()
    assert data.tools.crop is crop and type(crop) is Pause and "prepare" not in vars(data)
    for wrong in (["nothing"], [Pause()], ["load"]):
        with pytest.raises(ValueError, match=r"no attribute|nothing that can be called"):
            watch_loader(DataLoader(data), transforms=wrong)


@pytest.mark.parametrize("workers", [0, 1])
@two_clocks
def test_compose_counts_once_and_by_name(workers):
    from lapse.torch import watch_loader

    def plain(sample):
        return Pause(0.003)(sample)

    inner = Compose(Pause(), functools.partial(plain), lambda sample: sample)
    data = ConcatDataset([Subset(Slow(Compose(inner, marked), n=8, load=0.001), range(8))])
    loader = watch_loader(DataLoader(data, 4, num_workers=workers))
    batches, _ = run_epoch(loader)
    _, transform = real(batches)
    assert loader.last.transform.sum == pytest.approx(sum(transform), rel=0.05)
    names = loader.last.transforms
    assert sorted(names) == ["<lambda>", "Compose", "Pause", "marked", "plain", "transform"]
    assert names["transform"].sum == pytest.approx(loader.last.transform.sum, rel=1e-6)
    assert names["Compose"].sum < names["transform"].sum
    loader.close()
    assert type(inner) is Compose and [type(t).__name__ for t in inner.transforms] == [
        "Pause", "partial", "function",
    ]  # fmt: skip


def test_a_watched_data_set_stays_what_it_is():
    """Without workers the user's own objects are timed: for pickle, copy and isinstance()
    they are what they were."""
    from lapse.torch import watch_loader

    data = Slow(Compose(Pause(0.0)), n=8, load=0)
    other = DataLoader(data, 4)
    loader = watch_loader(other)
    run_epoch(loader)
    assert isinstance(data.transform, Compose) and repr(type(data.transform)) == repr(Compose)
    for twin in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data), copy.copy(data)):
        assert type(twin.transform.transforms[0]) is Pause or twin.transform is data.transform
        assert len(twin) == 8
    assert type(pickle.loads(pickle.dumps(data)).transform) is Compose
    twin = copy.copy(other)
    assert type(twin) is DataLoader and "_lapse_watch" not in vars(twin)
    assert type(other) is not DataLoader and "_lapse_watch" in vars(other)
    assert loader.last.transforms["Pause"].count == 2


def test_module_transforms():
    from lapse.torch import watch_loader

    class Scale(torch.nn.Module):
        def forward(self, x):
            time.sleep(0.002)
            return x

    class Data(Dataset):
        def __init__(self):
            self.transform = torch.nn.Sequential(Scale(), Scale())

        def __len__(self):
            return 8

        def __getitem__(self, i):
            return self.transform(torch.ones(2))

    data = Data()
    loader = watch_loader(DataLoader(data, 4))
    run_epoch(loader)
    assert loader.last.transform.count == 2 and loader.last.transform.min >= 0.016
    assert isinstance(data.transform, torch.nn.Sequential) and len(data.transform) == 2


def slow_collate(samples):
    start = time.perf_counter()
    time.sleep(0.01)
    return torch.stack(samples), torch.tensor(time.perf_counter() - start)


@pytest.mark.parametrize("workers", [0, 1])
@two_clocks
def test_collate_and_batch_samplers(workers):
    from lapse.torch import watch_loader

    data = Slow(n=10, load=0.001)
    sampler = BatchSampler(SequentialSampler(data), 4, drop_last=False)
    loader = watch_loader(
        DataLoader(data, batch_sampler=sampler, collate_fn=slow_collate, num_workers=workers)
    )
    batches, _ = run_epoch(loader)
    assert [len(b) for b, _ in batches] == [4, 4, 2] and loader.last.samples == 10
    took = [float(t) for _, t in batches]
    assert loader.last.collate.sum == pytest.approx(sum(took), rel=0.05)
    load, _ = real([b for b, _ in batches])
    assert loader.last.load.sum == pytest.approx(sum(load) + sum(took), rel=0.1)
    assert not loader.last.transform

    # Without batching there is one sample a "batch", and nobody knows how many it has.
    single = watch_loader(DataLoader(Slow(n=4, load=0.001), None, num_workers=workers), "single")
    assert [row.shape for row in single] == [(4,)] * 4
    assert single.last.load.count == 4 and single.last.samples is None


class Broken(Slow):
    def __getitem__(self, i):
        if i == 5:
            raise RuntimeError("sample 5 is broken")
        return super().__getitem__(i)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_is_the_loaders_own(workers):
    from lapse.torch import watch_loader

    loader = watch_loader(DataLoader(Broken(n=12, load=0.001), 4, num_workers=workers))
    iterator = iter(loader)
    assert next(iterator).shape == (4, 4)
    with pytest.raises(RuntimeError, match="sample 5 is broken"):
        next(iterator)
    assert loader.last.batches == 1 and not loader.last.complete
    assert loader.last.load.count == 1


def test_a_worker_init_function_is_called(tmp_path):
    from lapse.torch import watch_loader

    def init(worker):
        (tmp_path / str(worker)).write_text("")

    list(watch_loader(DataLoader(Slow(n=4, load=0), 2, num_workers=2, worker_init_fn=init)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]


def test_leaving_an_epoch_early():
    from lapse.torch import watch_loader

    loader = watch_loader(DataLoader(Slow(n=40, load=0.0), 4))
    for i, _ in enumerate(loader):
        if i == 2:
            break
    assert loader.now.batches == 3
    list(loader)
    assert (loader.last.batches, loader.last.complete) == (10, True)
    assert loader.total.batches == 13


class Batch:
    """Of a kind that pins itself."""

    def __init__(self, x, pinned=False):
        self.x, self.pinned = x, pinned

    def pin_memory(self):
        return Batch(self.x, True)


def test_a_batch_with_its_times_is_pinned_as_without():
    from lapse.torch import _worker

    made = _worker.Made(10, 4, 2, 8, {"a": 4})
    sent = _worker.Sent({"a": [Batch(1)], "b": "text"}, made).pin_memory()
    assert type(sent) is _worker.Sent and sent.data["a"][0].pinned and sent.data["b"] == "text"
    again = pickle.loads(pickle.dumps(sent)).made
    assert (again.load, again.transform, again.collate, again.samples) == (10, 4, 2, 8)
    assert again.names == {"a": 4} and again.pid == made.pid


@two_clocks
def test_any_iterable():
    from lapse.torch import watch_loader

    def batches():
        for _ in range(5):
            sample = [0.0] * 4
            time.sleep(0.002)
            yield torch.tensor([marked(sample)], dtype=torch.float64)

    loader = watch_loader(batches(), "valid")
    seen, waits = run_epoch(loader)
    assert loader.last.batches == 5 and loader.name == "valid"
    assert loader.last.wait.sum == pytest.approx(sum(waits), rel=0.05)
    assert loader.last.transform.sum == pytest.approx(sum(real(seen)[1]), rel=0.05)
    assert not loader.last.load
    assert list(watch_loader([1, 2, 3])) == [1, 2, 3] and len(watch_loader([1, 2])) == 2
    with pytest.raises(TypeError, match="cannot be iterated"):
        watch_loader(3)
    with pytest.raises(ValueError, match="name"):
        watch_loader([], "")


def test_watching_twice():
    from lapse.torch import watch_loader

    other = DataLoader(Slow(n=4, load=0), 2)
    one, two = watch_loader(other), watch_loader(watch_loader(other))
    list(two)
    assert one.total.batches == two.total.batches == 2
    with pytest.raises(ValueError, match="watched as 'train'"):
        watch_loader(other, "valid")


def test_copies_to_the_device():
    from lapse.torch import watch_loader

    loader = watch_loader([1])
    row = (torch.ones(2), {"b": [torch.ones(3), "text"]}, 5)
    moved = loader.to(row, "cpu")
    assert moved[0] is row[0] and moved[1]["b"][1] == "text" and moved[2] == 5
    with loader.copying():
        time.sleep(0.01)
    assert loader.total.copy.count == 2 and 0.01 <= loader.total.copy.max < 5
    with pytest.raises(ZeroDivisionError), loader.copying():
        raise ZeroDivisionError
    assert loader.total.copy.count == 2


@need("accelerate")
@pytest.mark.parametrize("workers", [0, 1])
@two_clocks
def test_a_loader_of_accelerate(workers):
    """It fetches one batch ahead of the loop, from a loader that it holds."""
    from accelerate import Accelerator

    from lapse.torch import watch_loader

    bare = DataLoader(Slow(Pause(), n=16), 4, num_workers=workers, collate_fn=finish)
    prepared = Accelerator(cpu=True).prepare_data_loader(bare)
    kind = type(prepared)
    loader = watch_loader(prepared)
    batches = [batch.clone() for batch in loader]
    load, transform = real(batches)
    assert loader.last.batches == 4 and loader.last.wait.count == 4
    assert loader.last.load.count == 4
    assert loader.last.load.sum == pytest.approx(sum(load), rel=0.05)
    assert loader.last.transform.sum == pytest.approx(sum(transform), rel=0.05)
    loader.close()
    assert type(prepared) is kind and type(prepared.base_dataloader) is DataLoader


def test_what_is_decorated():
    from lapse.torch import transform

    class Tools:
        @staticmethod
        @transform
        def a(x):
            return x + 1

        @transform("named")
        def b(self, x):
            "adds"
            return x + 2

    assert (Tools.a(1), Tools().b(1), Tools.b.__doc__) == (2, 3, "adds")
    with pytest.raises(TypeError, match="decorates functions"):
        transform(Tools)


def test_report_and_what_is_recorded(program):
    run = program("""
        import json, time
        import torch, lapse, lapse.torch
        from torch.utils.data import DataLoader, Dataset
        class Data(Dataset):
            def __init__(self): self.transform = self.slow
            def slow(self, x): time.sleep(0.002); return x
            def __len__(self): return 12
            def __getitem__(self, i): return self.transform(torch.ones(2))
        lapse.init(capture=False)
        for workers in (0, 2):
            loader = lapse.torch.watch_loader(DataLoader(Data(), 4, num_workers=workers),
                                              f"with {workers}")
            for epoch in range(2):
                for batch in loader:
                    with lapse.step(): pass
            print(loader.report())
        print("RESULT", json.dumps([loader.total.wait.count, loader.waited]))
    """)
    assert "loader with 0: 3 batches" in run.stdout and "p95" in run.stdout
    stored = run.stored
    for part in ("wait", "load", "transform", "collate"):
        series = [row for row in stored.names.values() if row["name"] == f"data/{part}"]
        labels = sorted(str(row["labels"]) for row in series)
        assert len(labels) == 2 and "with 0" in labels[0] and "with 2" in labels[1], part
        assert all(row["unit"] == "s" for row in series)
    assert len(stored.spans("loader/with 2")) >= 6
    assert run.said[0] == 6 and run.said[1] > 0
    assert len(stored.processes()) == 1  # workers record nothing by themselves
