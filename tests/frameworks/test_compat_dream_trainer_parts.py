# SPDX-License-Identifier: Apache-2.0
"""lapse.compat.dream_trainer without a fit: memory, benchmark, reports and hooks, against known
times and made-up allocators."""

import gc
import json
import statistics
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.compat import dream_trainer as dream  # noqa: E402
from lapse.compat.dream_trainer import _benchmark  # noqa: E402
from lapse.torch import _allocator  # noqa: E402

GIB = 1 << 30
pytestmark = pytest.mark.timeout(300)


# ---- memory ------------------------------------------------------------------------------------


class Device:
    """A device whose allocator says what it is told to."""

    now = None

    def is_initialized(self):
        return True

    def current_device(self):
        return 0

    def get_device_properties(self, index):
        return SimpleNamespace(total_memory=80 * GIB)


def stats(allocated, reserved, peak=0):
    def of(now, most):
        return {"all": {"current": now, "peak": most or now}}

    return {"allocated_bytes": of(allocated, peak), "reserved_bytes": of(reserved, 0),
            "num_alloc_retries": 0, "num_ooms": 0}  # fmt: skip


@pytest.fixture
def device(monkeypatch, tmp_path):
    one = Device()
    monkeypatch.setattr(_allocator, "_kind", lambda: "cuda")
    monkeypatch.setattr(_allocator, "_cuda_reader", lambda: lambda index: one.now)
    monkeypatch.setattr(_allocator.Allocator, "_module", lambda self: one)
    monkeypatch.chdir(tmp_path)
    return one


def test_memory_profile(device, capsys, tmp_path):
    """Each `profile_every` steps from the first on, in GiB, and into the file of the document."""
    profiler = dream.MemoryProfiler(profile_every=2)
    readings = [stats(13 * GIB // 2, 10 * GIB, 8 * GIB), None, stats(9 * GIB, 10 * GIB), None,
                stats(0, 0), None]  # fmt: skip
    for i, device.now in enumerate(readings):
        profiler.post_train_step({}, i % 3)  # the batch's number begins again in an epoch
    profiler.post_fit()
    text = (tmp_path / "memory_profile.json").read_text()
    assert text.startswith('[\n  {\n    "step": 0,')
    assert json.loads(text) == profiler.memory_stats == [
        {"step": 0, "allocated_gb": 6.5, "reserved_gb": 10.0, "peak_allocated_gb": 8.0,
         "peak_reserved_gb": 10.0, "fragmentation": 0.35},
        {"step": 2, "allocated_gb": 9.0, "reserved_gb": 10.0, "peak_allocated_gb": 9.0,
         "peak_reserved_gb": 10.0, "fragmentation": 0.1},
        {"step": 4, "allocated_gb": 0.0, "reserved_gb": 0.0, "peak_allocated_gb": 0.0,
         "peak_reserved_gb": 0.0, "fragmentation": None},
    ]  # fmt: skip
    assert capsys.readouterr().out == "⚠️ High memory fragmentation: 35.0%\n"
    assert dream.MemoryProfiler().profile_every == 100
    profiler.write(tmp_path / "a" / "b.json")
    assert (tmp_path / "a" / "b.json").read_text() == text


def test_each_rank_has_its_files(device, monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dream.MemoryProfiler().post_fit()
    assert [path.name for path in tmp_path.iterdir()] == ["memory_profile_rank_1.json"]


# ---- benchmark ---------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0

    def perf_counter_ns(self):
        return self.now

    def pass_ms(self, ms):
        self.now += int(ms * 1e6)


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(_benchmark, "time", one)
    monkeypatch.setattr(_benchmark, "device_pair", lambda: None)
    return one


class Loop:
    """A trainer that takes the times it is told."""

    is_accumulating_gradients = False

    def __init__(self, clock, callback):
        self.clock, self.callback = clock, callback
        callback.trainer = self

    def backward(self, loss):
        self.clock.pass_ms(self.times[1])
        return loss

    def step(self, i, forward, backward, optimizer, rest=0.0):
        self.times = (forward, backward)
        self.callback.pre_train_step({}, i)
        self.clock.pass_ms(forward)
        assert self.backward("loss") == "loss"
        if not self.is_accumulating_gradients:
            self.callback.pre_optimizer_step(None, None)
            self.clock.pass_ms(optimizer)
            self.callback.post_optimizer_step(None, None)
        self.clock.pass_ms(rest)
        self.callback.post_train_step({}, i)


def test_benchmark_by_hand(clock, capsys):
    callback = dream.BenchmarkCallback(skip=2, print_every=2, window_size=3)
    loop = Loop(clock, callback)
    own = loop.backward
    callback.pre_fit()
    rows = [(900, 900, 900, 900), (1, 1, 1, 1), (10, 20, 5, 5), (12, 22, 6, 0), (11, 121, 4, 4),
            (10, 20, 5, 5)]  # fmt: skip
    for i, row in enumerate(rows):
        loop.step(i, *row)
        if i == 4:  # not counted: no optimizer follows
            loop.is_accumulating_gradients = True
            loop.step(i, 500, 500, 0)
            loop.is_accumulating_gradients = False
    found = callback.get_stats()
    last = rows[3:]
    for part, at in (("forward", 0), ("backward", 1), ("optimizer", 2)):
        values = [row[at] for row in last]
        assert found[part] == pytest.approx({
            "mean": statistics.mean(values), "std": statistics.stdev(values), "min": min(values),
            "max": max(values), "last": values[-1], "bubbles": 1 if part == "backward" else 0,
        })  # fmt: skip
    totals = [sum(row) for row in last]
    assert found["total_step"]["mean"] == pytest.approx(statistics.mean(totals))
    assert found["total_step"]["bubbles"] == 1
    printed = capsys.readouterr().out
    assert printed.count("=== Benchmark (n=") == 2 and "(n=4)" in printed
    callback.post_fit()
    assert loop.backward == own
    final = capsys.readouterr().out.splitlines()
    assert final[0] == "=== Final Benchmark Results ==="
    assert final[2].startswith("Backward    :    54.33 ±    57.74 ms [min:    20.00, max:   121.00")
    assert final[2].endswith("bubbles:    1/4")
    shares = [100 * statistics.mean(row[k] for row in last) / statistics.mean(totals)
              for k in range(3)]  # fmt: skip
    assert final[5] == (f"Breakdown: Forward {shares[0]:.1f}% | Backward {shares[1]:.1f}% | "
                        f"Optimizer {shares[2]:.1f}% | Other {100 - sum(shares):.1f}%")  # fmt: skip


def test_benchmark_of_nothing(clock, capsys):
    callback = dream.BenchmarkCallback()
    assert (callback.skip, callback.print_every, callback.window_size) == (5, 10, 100)
    callback.trainer = SimpleNamespace()
    callback.pre_fit()
    callback.post_fit()
    assert "No data collected yet" in capsys.readouterr().out
    assert callback.get_stats()["forward"]["mean"] == 0


# ---- report ------------------------------------------------------------------------------------


REPORT = """
Performance Report
==================

Training Summary:
- Total time: 12.50s
- Average throughput: 200.00 samples/s
- Peak memory: 3.50 GB
- Compilation time: 2.00s

GPU Utilization:
- Average: 40.0%
- Min: 20.0%
- Max: 60.0%

Recommendations:
"""


def test_report_in_the_documents_form():
    reporter = dream.PerformanceReporter()
    assert reporter.metrics == {"throughput": [], "gpu_util": [], "memory": [], "compile_time": 0}
    reporter.metrics.update(throughput=[100.0, 300.0], gpu_util=[20.0, 60.0], memory=[3.5, 1.0],
                            compile_time=2.0)  # fmt: skip
    reporter.total_time = 12.5
    text = reporter.report()
    assert text.startswith(REPORT)
    advice = text[len(REPORT) :].splitlines()
    assert [line.split(":")[0] for line in advice] == [
        "- GPUs work 40.0% of the time",
        "- Compiling took 16.0% of the time",
    ]


def test_reporter_records_no_rates_beside_the_monitors(monkeypatch):
    recorded = []
    reporter, monitor = dream.PerformanceReporter(), dream.ThroughputMonitor()

    def record(rates):
        recorded.append(rates)

    monkeypatch.setattr(type(reporter.rates), "_record", record)
    for rates in (reporter.rates, monitor.rates):
        rates.begin()
        for _ in range(20):
            rates.step(samples=4)
    assert reporter.rates.total.samples == 80
    assert set(map(id, recorded)) == {id(monitor.rates)}


def test_recommendations_of_ones_own():
    class Mine(dream.PerformanceReporter):
        def get_recommendations(self):
            return "- buy more"

    assert Mine().report().endswith("Recommendations:\n- buy more\n")


def test_report_of_what_is_not_known():
    text = dream.PerformanceReporter().report()
    assert "- Average throughput: n/a\n" in text and "- Peak memory: n/a\n" in text
    assert text.endswith("- None: no figure is beyond its limit\n")


# ---- hooks and collection ----------------------------------------------------------------------


def test_collection_calls_in_order():
    seen = []

    class First(dream.Callback["Trainer"]):
        def pre_fit(self):
            seen.append(("first", self.trainer))
            return "first"

    class Second(First):
        def pre_fit(self):
            seen.append(("second", self.trainer))

        def on_interrupt(self):
            raise KeyError("mine")

    callbacks = dream.CallbackCollection([First(), ("named", Second()), First()])
    callbacks.initialize("trainer")
    assert callbacks.pre_fit() == ["first", "first"]
    assert seen == [("first", "trainer"), ("second", "trainer"), ("first", "trainer")]
    assert repr(callbacks) == "CallbackCollection(['First', 'named', 'First_2'])"
    assert callbacks.post_fit() == []
    with pytest.raises(KeyError, match="mine"):
        callbacks.on_interrupt()
    with pytest.raises(AttributeError):
        callbacks.on_nothing()
    callbacks["named"].pop_self()
    assert [type(one) for one in callbacks] == [First, First]
    assert callbacks.state_dict() == {"First": {}, "First_2": {}}


def test_rank_zero_callback(monkeypatch):
    class Once(dream.RankZeroCallback["Trainer"]):
        def pre_fit(self):
            return 1

    callbacks = dream.CallbackCollection({"once": Once()})
    assert callbacks.pre_fit() == [1]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert callbacks.pre_fit() == []


def test_real_collection_would_take_them():
    """What Dream Trainer's own collection asks of a callback."""
    for name in dream.__all__:
        kind = getattr(dream, name)
        if isinstance(kind, type) and issubclass(kind, dream.Callback):
            assert kind._dependency is object
    base = dream.ThroughputMonitor()
    assert type(base).pre_epoch.__qualname__.startswith("Callback.")
    assert not type(base).pre_train_step.__qualname__.startswith("Callback.")


def test_warm_up_reaches_the_others():
    steps = dream.WarmupCallback()
    assert steps.steps == 100
    throughput, bench = dream.ThroughputMonitor(), dream.BenchmarkCallback()
    callbacks = dream.CallbackCollection([dream.WarmupCallback(3), throughput, bench])
    callbacks.initialize(SimpleNamespace())
    callbacks.pre_fit()
    assert throughput.rates.warmup == 10 and bench._skip == 5  # the larger one holds
    callbacks = dream.CallbackCollection([steps, throughput, bench])
    callbacks.initialize(SimpleNamespace())
    callbacks.pre_fit()
    assert throughput.rates.warmup == 100 and bench._skip == 100 and steps.active
    for i in range(100):
        assert steps.active
        steps.post_train_step({}, i)
    assert not steps.active


def test_garbage_is_collected_at_fixed_steps():
    assert gc.isenabled()
    callback = dream.GarbageCollectionCallback(gc_every_n_steps=2)
    assert dream.GarbageCollectionCallback().gc_every_n_steps == 1000
    callback.pre_launch()
    callback.pre_fit()
    assert not gc.isenabled()
    before = callback.collector.pauses.get(1, [0])[0]
    for i in range(5):
        callback.pre_train_step({}, i)
    assert callback.collector.pauses[1][0] - before == 2
    callback.post_fit()
    assert gc.isenabled()


@pytest.mark.parametrize("make", [
    lambda: dream.ThroughputMonitor(warmup_steps=-1), lambda: dream.MemoryProfiler(0),
    lambda: dream.WarmupCallback(1.5), lambda: dream.BenchmarkCallback(window_size=0),
    lambda: dream.GarbageCollectionCallback(0), lambda: dream.MemoryProfiler(console_style="x"),
])  # fmt: skip
def test_wrong_arguments(make):
    with pytest.raises(ValueError):
        make()


def test_what_is_missing_is_absent():
    """Names that a document has exist only where they work."""
    for name in ("OptimizeFSDP", "Fp8Quantization", "FaultToleranceCallback",
                 "FindGraphBreaksCallback"):  # fmt: skip
        assert not hasattr(dream, name)
    assert "dream_trainer" not in sys.modules
