# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.Allocator (over the numbers that an allocator gives), GarbageCollector,
TraceMalloc; and what these and the other helpers of a model record."""

import gc
import json
import tracemalloc

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.torch import Allocator, GarbageCollector, TraceMalloc, _allocator  # noqa: E402

GIB = 1 << 30


def stats(allocated, reserved, split=0, retries=0, ooms=0, peak=None):
    """As torch._C._cuda_memoryStats() gives them, the part that is looked at."""

    def of(current, peak):
        return {
            "all": {"current": current, "peak": peak, "allocated": 0, "freed": 0},
            "large_pool": {"current": -1, "peak": -1, "allocated": 0, "freed": 0},
        }

    return {
        "allocated_bytes": of(allocated, peak or allocated),
        "reserved_bytes": of(reserved, reserved),
        "inactive_split_bytes": of(split, split),
        "num_alloc_retries": retries,
        "num_ooms": ooms,
    }


class Device:
    """A device of `total` bytes whose allocator says what it is told to."""

    def __init__(self, total=80 * GIB, count=1):
        self.now, self.total, self.count, self.used = {}, total, count, True

    def is_initialized(self):
        return self.used

    def current_device(self):
        return 0

    def device_count(self):
        return self.count

    def get_device_properties(self, index):
        return type("Properties", (), {"total_memory": self.total})


@pytest.fixture
def device(monkeypatch):
    one = Device()
    monkeypatch.setattr(_allocator, "_kind", lambda: "cuda")
    monkeypatch.setattr(_allocator, "_cuda_reader", lambda: lambda index: one.now[index])
    monkeypatch.setattr(Allocator, "_module", lambda self: one)
    return one


@pytest.fixture
def said(monkeypatch):
    from lapse import _events

    out = []
    monkeypatch.setattr(
        _events, "event", lambda kind, text="", severity="info", **a: out.append((kind, text, a))
    )
    return out


def test_numbers(device):
    device.now = {0: stats(6 * GIB, 8 * GIB, split=GIB, peak=7 * GIB)}
    memory = Allocator(every=1)
    memory.step()
    assert memory.reason == ""
    assert memory.last[0] == {
        "allocated": 6 * GIB,
        "reserved": 8 * GIB,
        "allocated/peak": 7 * GIB,
        "reserved/peak": 8 * GIB,
        "inactive_split": GIB,
        "retries": 0,
        "ooms": 0,
        "fragmentation": 0.25,
        "share": 0.1,  # of the device, not of what the allocator has taken from it
    }
    assert memory.document(7) == {
        "step": 7,
        "allocated_gb": 6.0,
        "reserved_gb": 8.0,
        "peak_allocated_gb": 7.0,
        "peak_reserved_gb": 8.0,
        "fragmentation": 0.25,
    }
    assert memory.report() == (
        "GPU 0: allocated 6.00 GiB, reserved 8.00 GiB, peak 7.00 GiB, 10.0% of the device "
        "reserved, fragmentation 25.0%"
    )


def test_nothing_reserved(device):
    device.now = {0: stats(0, 0)}
    memory = Allocator(every=1)
    memory.step()
    assert memory.reason == "" and "fragmentation" not in memory.last[0]
    assert memory.document(1)["fragmentation"] is None


def test_fragmentation_is_told_when_it_begins(device, said):
    memory = Allocator(every=1)
    for free in (20, 35, 40, 30, 10, 50):
        device.now = {0: stats((100 - free) * GIB, 100 * GIB)}
        memory.step()
    assert [(kind, text) for kind, text, _ in said] == [
        ("memory-fragmentation", "⚠️ High memory fragmentation: 35.0%"),
        ("memory-fragmentation", "⚠️ High memory fragmentation: 50.0%"),
    ]
    assert said[0][2]["threshold"] == 0.3


def test_retries_and_failures_are_counted_from_now_on(device, said):
    added = []

    class Metric:
        def __init__(self, name):
            self.name = name

        def add(self, value):
            added.append((self.name, value))

    memory = Allocator(every=1)
    for retries, ooms in ((5, 1), (5, 1), (7, 1), (7, 2), (1, 0)):
        device.now = {0: stats(GIB, GIB, retries=retries, ooms=ooms)}
        memory.step()
        assert memory.reason == ""
        memory._devices[0].metrics.update(retries=Metric("retries"), ooms=Metric("ooms"))
    assert added == [("retries", 2), ("ooms", 1), ("retries", 1)]
    assert [attrs for _, _, attrs in said] == [
        {"gpu": 0, "retries": 2}, {"gpu": 0, "ooms": 1}, {"gpu": 0, "retries": 1},
    ]  # fmt: skip


def test_every_and_all_devices(device):
    device.count = 2
    device.now = {0: stats(GIB, GIB), 1: stats(2 * GIB, 2 * GIB)}
    memory = Allocator(every=10, devices="all")
    seen = []
    for _ in range(11):
        memory.step()
        seen.append({index: last["allocated"] for index, last in memory.last.items()})
        device.now = {0: stats(3 * GIB, 3 * GIB), 1: stats(4 * GIB, 4 * GIB)}
    assert memory.reason == ""
    assert seen == [{0: GIB, 1: 2 * GIB}] * 10 + [{0: 3 * GIB, 1: 4 * GIB}]
    assert memory.document(0, 1)["allocated_gb"] == 4.0


def test_device_is_not_touched_before_the_program_does(device):
    device.used = False
    memory = Allocator(every=1)
    memory.step()
    assert memory.last == {} and memory.reason == ""


def test_other_allocators():
    flat = {"allocated_bytes.all.current": 5, "reserved_bytes.all.current": 6, "num_ooms": 1}
    assert _allocator.read(_allocator._flat(flat)) == {"allocated": 5, "reserved": 6, "ooms": 1}
    assert _allocator.read({}) == {}


def test_the_fast_call_is_there():
    """What the numbers are read from; its form is tested on a device."""
    if torch.version.cuda is None:
        pytest.skip("this PyTorch is built without CUDA")
    assert _allocator._cuda_reader() is torch._C._cuda_memoryStats


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_device():
    memory = Allocator(every=1)
    memory.step()
    assert memory.reason == "there is no accelerator with a caching allocator"
    assert memory.report() == memory.reason and memory.last == {}


@pytest.mark.parametrize("options", [{"devices": "some"}, {"every": 0}, {"every": True}])
def test_wrong_arguments_raise_at_once(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Allocator(**options)


# ---- garbage collector -------------------------------------------------------------


def test_pauses_are_measured():
    with GarbageCollector() as collector:
        before = {g: n for g, (n, _, _) in collector.pauses.items()}
        a = []
        a.append(a)
        del a
        gc.collect(0)
        gc.collect(2)
        gc.collect(2)
        counts = {g: n for g, (n, _, _) in collector.pauses.items()}
    assert counts[0] - before.get(0, 0) >= 1
    assert counts[2] - before.get(2, 0) >= 2
    count, total, longest = collector.pauses[2]
    assert 0 < longest <= total <= count * longest
    assert collector.collected >= 1
    gc.collect(2)
    assert collector.pauses[2][0] == count, "it is closed"
    assert "generation 2: " in collector.report()


def test_collection_at_fixed_steps():
    was = gc.isenabled()
    collector = GarbageCollector(every=1000, generation=1)
    try:
        assert not gc.isenabled()
        counts = []
        for _ in range(2001):
            collector.step()
            counts.append(collector.pauses[1][0])
        assert counts[0] == counts[999] == 1
        assert counts[1000] == counts[1999] == 2
        assert counts[2000] == 3
    finally:
        collector.close()
    assert gc.isenabled() == was


def test_a_dropped_collector_leaves_nothing():
    hooks, was = len(gc.callbacks), gc.isenabled()
    collector = GarbageCollector(every=10)
    assert len(gc.callbacks) == hooks + 1
    del collector
    gc.collect()
    assert len(gc.callbacks) == hooks and gc.isenabled() == was


# ---- tracemalloc -----------------------------------------------------------------------


def test_traced_memory_and_growth():
    assert not tracemalloc.is_tracing()
    traced = TraceMalloc(every=2, top=3)
    try:
        traced.step()
        kept = [bytearray(1000) for _ in range(1000)]  # grows here
        traced.step()
        assert traced.growth == []
        traced.step()
        current, peak = traced.current, traced.peak
        assert current >= 1_000_000 and peak >= current
        first = traced.growth[0]
        assert first.file == __file__ and 1_000_000 <= first.bytes < 1_200_000
        assert 1000 <= first.blocks <= 2100
        assert 1 <= len(traced.growth) <= 3
        assert traced.overhead["bytes"] > 0 and traced.overhead["snapshot_seconds"] > 0
        assert traced.overhead["allocation_ratio"] > 0
        text = traced.report(classic=True).splitlines()
        assert text[:2] == ["Current memory: 0.00GB", "Peak memory: 0.00GB"]
        assert " GiB" in traced.report() and "tracing:" in traced.report()
        del kept
    finally:
        traced.stop()
    assert not tracemalloc.is_tracing()
    traced.step()
    assert traced.reason == "stopped"


def test_tracing_of_the_program_goes_on():
    tracemalloc.start()
    try:
        traced = TraceMalloc(top=0)
        traced.step()
        assert traced.reason == "" and traced.current > 0 and traced.growth == []
        traced.stop()
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_stopped_by_the_program():
    traced = TraceMalloc(every=1, top=0)
    tracemalloc.stop()
    traced.step()
    assert traced.reason == "tracemalloc was stopped"


# ---- what is recorded --------------------------------------------------------------------

RECORDED = """
import gc, json
import lapse, torch
lapse.init(capture=False)
torch.manual_seed(0)
torch.set_num_threads(1)
from lapse.torch import *
from lapse.torch import _allocator

GIB = 1 << 30
_allocator._kind = lambda: "pretended"
torch.pretended = type("pretended", (), {})
sizes = iter([(1, 2), (3, 4)])
_allocator._accelerator_reader = lambda kind: lambda i: dict(zip(
    ("allocated_bytes", "reserved_bytes"),
    ({"all": {"current": n * GIB}} for n in next(sizes))))

model = torch.nn.Sequential(torch.nn.Linear(4, 3, bias=False), torch.nn.Linear(3, 2, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
gradients = Gradients(model, every=1, layers=1)
histograms = Histograms(model, every=1, points=100)
state, memory = OptimizerState(optimizer), Allocator(every=1)
collector, traced = GarbageCollector(), TraceMalloc(every=1, top=1)
kept = []
for step in range(2):
    with lapse.step(step):
        for p in model.parameters():
            p.grad = torch.full_like(p, 2.0 * (step + 1))
        model[0].weight.grad[0, 0] *= 1 if step == 0 else float("nan")
        for helper in (gradients, histograms, state, memory):
            helper.step()
            assert not helper.reason, helper.reason
        gc.collect(2)
        kept.append(bytearray(50000))
        traced.step()
        optimizer.param_groups[0]["lr"] /= 5
flat = torch.nn.Parameter(torch.ones(100000))
flat.data[:10] = -2.0
Histograms([("big", flat)], every=1, points=100).step()
result = benchmark(model, torch.ones(5, 4), warmup=1, runs=7, name="tiny")
compare_outputs(model, model, torch.ones(5, 4))
said = {"metrics": result.metrics(), "pauses": collector.pauses[2][0]}
collector.close()
lapse.finish()
print("RESULT " + json.dumps(said))
"""


@pytest.fixture(scope="module")
def run(program):
    return program(RECORDED)


def values(run, name, label=""):
    """[(step, value)] of the series of that name and that text of labels."""
    series = {
        row["series"]
        for row in run.stored.names.values()
        if row["name"] == name and label == row["labels"]
    }
    assert len(series) == 1, (name, label)
    return [
        (row["step"], row["value"]) for row in run.stored.of("sample", name)
        if row["series"] in series
    ]  # fmt: skip


def test_gradients_are_recorded(run):
    (_, first), (_, second) = values(run, "gradients/norm")
    assert first == pytest.approx((18 * 4) ** 0.5) and second == "NaN"
    layer = values(run, "gradients/norm", 'layer="1"')
    assert layer == [(0, pytest.approx(24**0.5)), (1, pytest.approx((6 * 16) ** 0.5))]
    assert values(run, "gradients/bad") == [(1, 1)]
    assert values(run, "gradients/bad", 'layer="0"') == [(1, 1)]
    assert values(run, "gradients/nan", 'layer="0"') == [(1, 1)]
    (event,) = run.stored.events("gradient-bad")
    assert event["step"] == 1 and "in 0 (nan)" in event["text"]


def test_optimizer_is_recorded(run):
    assert values(run, "optimizer/lr", 'group="0"') == [(0, 0.5), (1, 0.1)]
    assert values(run, "optimizer/momentum", 'group="0"') == [(0, 0.9), (1, 0.9)]


def test_allocator_is_recorded(run):
    assert values(run, "torch/memory/allocated", 'gpu="0"') == [(0, GIB), (1, 3 * GIB)]
    assert values(run, "torch/memory/fragmentation", 'gpu="0"') == [(0, 0.5), (1, 0.25)]
    (event,) = run.stored.events("memory-fragmentation")
    assert event["text"] == "⚠️ High memory fragmentation: 50.0%"


def histogram(run, name):
    import lapse

    assert run.stored.info["outcome"] != "running"
    with lapse.open_run("last", dir=run.place.runs) as reader:
        return [h for series in reader.series(name) for h in series.histograms()]


def test_histograms_are_recorded(run):
    points = histogram(run, "gradients/1.weight")
    assert sum(h["count"] for h in points) == 2 * 6
    # Each element is 2, then 4: observed in the middle of 2 to 2.5 and 4 to 5.
    assert sum(h["sum"] for h in points) == 6 * 2.25 + 6 * 4.5
    (big,) = histogram(run, "parameters/big")
    assert big["count"] == 101, "100 for what there is most of, 1 for ten of 100,000"
    assert big["min"] == -2.25 and big["max"] == 1.125


def test_pauses_and_traced_memory_are_recorded(run):
    pauses = histogram(run, "python/gc/pause")
    assert sum(h["count"] for h in pauses) >= run.said["pauses"] >= 2
    (_, first), (_, second) = values(run, "python/memory/traced")
    assert second - first >= 50000
    assert run.stored.events("memory-growth")[0]["step"] == 1


def test_benchmark_is_recorded(run):
    assert sum(h["count"] for h in histogram(run, "inference/latency")) == 7
    ((_, rate),) = values(run, "inference/samples", 'model="tiny"')
    assert rate == pytest.approx(run.said["metrics"]["samples_per_second"])
    (event,) = run.stored.events("inference")
    assert event["text"].startswith("tiny on cpu: 7 runs after 1 to warm up")
    kept = json.loads(run.place.attrs()["inference/tiny"])
    assert kept["avg_latency_ms"] == pytest.approx(run.said["metrics"]["avg_latency_ms"])
    assert run.stored.events("inference-difference")
