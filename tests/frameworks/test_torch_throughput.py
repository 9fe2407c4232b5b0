# SPDX-License-Identifier: Apache-2.0
"""Rates, efficiency, MFU: of loops whose waits are known, and of a clock that the test
sets; FLOPs against counts by hand."""

import importlib.util
import math
import time

import pytest
from conftest import need, two_clocks

pytestmark = need("torch")

try:
    import torch
except ImportError:
    torch = None


@pytest.fixture
def clock(monkeypatch):
    """The clock of Throughput and of loaders, in ms as the test says."""
    from lapse.torch import _throughput

    class Clock:
        ns = 0

        def __call__(self):
            return self.ns

        def go(self, ms):
            self.ns += int(ms * 1e6)

    clock = Clock()
    monkeypatch.setattr(_throughput, "_clock", clock)
    return clock


def make(**options):
    from lapse.torch import Throughput

    options.setdefault("warmup", 0)
    return Throughput(**options)


def test_by_hand(clock):
    rates = make(window=4)
    rates.begin()
    for ms in (100, 100, 300, 300, 100, 100):
        clock.go(ms)
        rates.step(samples=8, tokens=100, padded_tokens=128)
    # The last four: 32 samples in 800 ms.
    assert rates.rate("samples") == pytest.approx(40)
    assert rates.rate("batches") == pytest.approx(5)
    assert rates.rate("tokens") == pytest.approx(500)
    assert rates.rate("padded") == pytest.approx(640)
    assert rates.total.samples == 48 and rates.total.seconds == pytest.approx(1.0)
    assert rates.total.samples_per_second() == pytest.approx(48)
    assert rates.total.tokens_per_second() == pytest.approx(600)
    assert rates.total.tokens_per_second(padding=True) == pytest.approx(768)
    assert rates.efficiency("best") == 1.0  # every full window took 800 ms
    clock.go(100)
    rates.step(samples=8)
    assert rates.rate("samples") == pytest.approx(32 / 0.6)
    clock.go(500)
    rates.step(samples=8)
    # 32 in 800 ms again, after 32 in 600 ms.
    assert rates.efficiency("best") == pytest.approx(0.75)


def test_nothing_is_known_before_a_step(clock):
    rates = make()
    assert rates.report() == "no rate yet"
    assert rates.rate() is None and rates.efficiency() is None and rates.mfu() is None
    assert rates.total.samples_per_second() is None
    rates.step(samples=8)  # from when? it counts nowhere
    assert rates.total.batches == 0 and rates.rate() is None
    clock.go(100)
    rates.step(samples=8)
    assert rates.rate() == pytest.approx(80)
    assert rates.efficiency("best") is None  # no window is full


def test_warm_up_counts_nowhere(clock):
    rates = make(warmup=3, window=2)
    rates.begin()
    for ms in (1, 1, 5000, 100, 100, 100):
        clock.go(ms)
        rates.step(samples=10)
    assert rates.total.batches == 3 and rates.total.seconds == pytest.approx(0.3)
    assert rates.total.samples_per_second() == pytest.approx(100)
    assert rates.best_samples == pytest.approx(100)  # not the 10,000 of the first


def test_validation_is_not_training(clock):
    rates = make(window=10)
    rates.begin()
    for step in range(10):
        clock.go(100)
        if step == 4:
            with rates.validation():
                clock.go(1000)
        rates.step(samples=10)
    assert rates.rate() == pytest.approx(100)
    assert rates.total.samples_per_second() == pytest.approx(100)
    assert rates.total.samples_per_second(validation=True) == pytest.approx(50)
    assert rates.total.validation == pytest.approx(1)
    mark = rates.mark()
    with rates.validation():
        clock.go(500)
    clock.go(10_000)  # between two epochs
    rates.begin()
    clock.go(50)
    rates.step(samples=10)
    epoch = rates.total - mark
    assert (epoch.batches, epoch.samples) == (1, 10)
    assert epoch.samples_per_second() == pytest.approx(200)
    assert epoch.validation == pytest.approx(0.5)


def test_efficiency_without_waiting_for_data(clock):
    rates = make(window=10, ideal=200)
    rates.begin()
    for _ in range(10):
        with rates.waiting():
            clock.go(40)
        clock.go(60)
        rates.step(samples=10)
    assert rates.efficiency("data") == pytest.approx(0.6)
    assert rates.total.data_efficiency == pytest.approx(0.6)
    assert rates.efficiency("ideal") == pytest.approx(0.5)
    assert rates.total.waited == pytest.approx(0.4)
    report = rates.report()
    assert "60.0%: of the rate without waiting for data" in report
    assert "50.0%: of the given rate" in report


@two_clocks
def test_a_loop_with_known_waits():
    """Within 2 %, by what the loop itself sees of its sleeps."""
    from lapse.torch import watch_loader

    waits = []

    def batches():
        for _ in range(25):
            start = time.perf_counter()
            time.sleep(0.012)
            waits.append(time.perf_counter() - start)
            yield [0] * 16

    loader = watch_loader(batches())
    rates = make(warmup=5, window=10, loader=loader)
    ends = []
    for batch in loader:
        time.sleep(0.02)
        if len(ends) == 15:
            with rates.validation():
                time.sleep(0.1)
            excluded = time.perf_counter() - ends[-1]
        rates.step(samples=len(batch))
        ends.append(time.perf_counter())
    # The first five are the warm-up; the sixteenth had validation.
    counted = ends[-1] - ends[4]
    waited = sum(waits[5:])
    total = rates.total
    assert total.batches == 20 and total.samples == 320
    assert total.seconds + total.validation == pytest.approx(counted, rel=0.02)
    assert 0.1 <= total.validation < excluded
    assert total.samples_per_second(validation=True) == pytest.approx(320 / counted, rel=0.02)
    assert total.samples_per_second() == pytest.approx(320 / (counted - total.validation), rel=0.02)
    assert total.waited == pytest.approx(waited, rel=0.02)
    share = 1 - waited / (counted - total.validation)
    assert total.data_efficiency == pytest.approx(share, rel=0.02)
    window = 1 - sum(waits[-10:]) / (ends[-1] - ends[14] - total.validation)
    assert rates.efficiency("data") == pytest.approx(window, rel=0.02)
    assert rates.rate("samples") == pytest.approx(
        160 / (ends[-1] - ends[14] - total.validation), rel=0.02
    )


def test_tokens_of_the_device_arrive_later(clock, monkeypatch):
    from lapse.torch import _later

    waiting = []
    monkeypatch.setattr(_later, "later", lambda tensors, then: waiting.append((tensors, then)))
    rates = make(window=10)
    rates.begin()
    for n in (10, 20, 30, 40):
        clock.go(100)
        rates.step(samples=1, tokens=torch.tensor(n), padded_tokens=64)
    assert rates.rate("tokens") is None
    for tensors, then in waiting[:3]:
        then([float(tensors[0])], 0, 0)
    # 60 in the 300 ms that are known: nothing is lost by the one on its way.
    assert rates.rate("tokens") == pytest.approx(200)
    assert rates.rate("padded") == pytest.approx(640)
    assert rates.total.tokens == 60


def test_devices_of_all_ranks(clock, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    rates = make()
    rates.begin()
    clock.go(500)
    rates.step(samples=4)
    assert rates.world_size == 8
    assert rates.rate() == pytest.approx(8) and rates.rate(scope="global") == pytest.approx(64)
    assert rates.rate("batches", scope="global") == pytest.approx(2)
    assert "8.00 samples/s a device, 64.00 on 8" in rates.report()


# ---- FLOPs ---------------------------------------------------------------------------------


def test_mfu_by_hand(clock):
    from lapse.torch import transformer_flops

    flops = transformer_flops(
        parameters=1_000_000, layers=2, heads=4, head_dim=16, sequence=128, recompute=1.0
    )
    per_token = 6 * 1_000_000 + 12 * 2 * 4 * 16 * 128
    assert flops.model == per_token and flops.hardware == pytest.approx(per_token * 4 / 3)
    causal = transformer_flops(1_000_000, 2, 4, 16, 128, attention="causal")
    assert causal.model == 6 * 1_000_000 + 6 * 2 * 4 * 16 * 128
    assert causal.hardware == causal.model
    assert "12 L H Q T" in flops.formula and "causal" in causal.formula

    rates = make(flops=flops, peak_flops=312e12, dtype="bf16")
    rates.begin()
    clock.go(1000)
    rates.step(tokens=10_000)
    assert rates.flops_per_second() == pytest.approx(per_token * 10_000)
    assert rates.mfu() == pytest.approx(per_token * 10_000 / 312e12)
    assert rates.hfu() == pytest.approx(per_token * 10_000 * 4 / 3 / 312e12)
    report = rates.report()
    assert "12 L H Q T" in report and "peak 312 TFLOP/s" in report and "HFU" in report


def test_flops_of_samples_and_batches(clock):
    from lapse.torch import Flops

    for flops, want in ((2e9, 2e9 * 32), (Flops(5e9, "batch"), 5e9 * 2)):
        rates = make(flops=flops, peak_flops=1e12)
        rates.begin()
        for _ in range(2):
            clock.go(500)
            rates.step(samples=16)
        assert rates.flops_per_second() == pytest.approx(want)
        assert rates.mfu() == pytest.approx(want / 1e12)


def test_peaks_by_name():
    from lapse.torch._peaks import PEAKS, peak_of

    known = {
        ("NVIDIA H100 80GB HBM3", "bf16"): 989.5,
        ("NVIDIA H100 PCIe", "bf16"): 756.5,
        ("NVIDIA H100 NVL", "bf16"): 835.5,
        ("NVIDIA H200", "fp8"): 1979,
        ("NVIDIA A100-SXM4-80GB", "fp16"): 312,
        ("NVIDIA RTX A6000", "bf16"): 154.85,
        ("Tesla V100-SXM2-16GB", "fp16"): 125,
        ("Tesla T4", "fp16"): 65,
        ("NVIDIA L4", "bf16"): 121,
        ("NVIDIA L40S", "bf16"): 362,
        ("NVIDIA H20", "bf16"): 148,
        ("NVIDIA GB200", "bf16"): 2500,
        ("NVIDIA B200", "bf16"): 2250,
        ("AMD Instinct MI300X", "bf16"): 1300,
    }
    for (device, dtype), tera in known.items():
        assert peak_of(device, dtype) == pytest.approx(tera * 1e12), device
    assert peak_of("Tesla V100-SXM2-16GB", "bf16") is None
    assert peak_of("NVIDIA GeForce GTX 1050", "fp16") is None
    for _, peaks in PEAKS:  # what each next format gains, on each device that has it
        if {"fp8", "bf16"} <= set(peaks):
            assert peaks["fp8"] == pytest.approx(2 * peaks["bf16"], rel=0.02)
        if {"tf32", "fp32"} <= set(peaks):
            assert peaks["tf32"] >= peaks["fp32"]


def test_the_peak_of_the_device(clock):
    rates = make(flops=1e9, device="NVIDIA A100-SXM4-80GB")
    rates.begin()
    clock.go(1000)
    rates.step(samples=1000)
    assert rates.peak_flops == 312e12 and rates.mfu() == pytest.approx(1e12 / 312e12)
    assert "(NVIDIA A100-SXM4-80GB, bf16, assumed)" in rates.report()

    rates = make(flops=1e9, device="Abacus", dtype="fp16")
    rates.begin()
    clock.go(1000)
    rates.step(samples=1000)
    assert rates.mfu() is None and "Abacus and fp16" in rates.reason
    assert rates.flops_per_second() == pytest.approx(1e12)
    assert f"no MFU: {rates.reason}" in rates.report()


def test_no_mfu_for_a_quantised_model(clock):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
    for options in ({"model": quantised}, {"quantised": True}):
        rates = make(flops=1e9, peak_flops=1e12, **options)
        rates.begin()
        clock.go(1000)
        rates.step(samples=10)
        assert rates.mfu() is None and rates.hfu() is None and "quantised" in rates.reason
    rates = make(flops=1e9, peak_flops=1e12, model=quantised, dtype="fp8")
    assert rates.peak_flops == 1e12
    rates = make(flops=1e9, peak_flops=1e12, model=model)
    assert rates.peak_flops == 1e12 and rates.reason == ""


def test_flops_are_counted_without_data():
    from lapse.torch import measure_flops

    if importlib.util.find_spec("torch.utils.flop_counter") is None:
        with pytest.raises(RuntimeError, match=r"PyTorch 2\.1"):
            measure_flops(torch.nn.Linear(2, 2), torch.ones(1, 2))
        return
    called = []
    m, n, k, batch = 64, 32, 16, 8
    model = torch.nn.Sequential(torch.nn.Linear(m, n), torch.nn.ReLU(), torch.nn.Linear(n, k))
    model.register_forward_hook(lambda *a: called.append(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flops = measure_flops(model, torch.ones(batch, m), batch=batch)
    # Forward: both products; backward: the weights of both, and the input of the second.
    assert flops.model == 2 * (m * n + n * k) + 2 * (m * n + 2 * n * k)
    assert flops.per == "sample"
    whole = measure_flops(model, torch.ones(batch, m))
    assert (whole.model, whole.per) == (flops.model * batch, "batch")
    assert called == [] and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with pytest.raises(RuntimeError, match="without data"):
        measure_flops(_NeedsData(), torch.ones(3))


if torch is not None:

    class _NeedsData(torch.nn.Module):
        def forward(self, x):
            return x * x.sum().item()


def test_wrong_arguments_raise():
    from lapse.torch import Flops, Throughput, transformer_flops

    for options in ({"warmup": -1}, {"window": 0}, {"every": 0}, {"dtype": "int3"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Throughput(**options)
    with pytest.raises(TypeError, match="watch_loader"):
        Throughput(loader=[1])
    for flops in ((0, "sample"), (1, "epoch"), (math.nan, "token")):
        with pytest.raises(ValueError, match="Flops"):
            Flops(*flops)
    with pytest.raises(ValueError, match="attention"):
        transformer_flops(1, 1, 1, 1, 1, "half")
    with pytest.raises(ValueError, match="recompute"):
        transformer_flops(1, 1, 1, 1, 1, recompute=2)


def test_what_is_recorded(program):
    run = program("""
        import time, torch, lapse, lapse.torch
        lapse.init(capture=False)
        rates = lapse.torch.Throughput(warmup=2, window=3, flops=1e6, peak_flops=1e12, ideal=1e5,
                                       every=2)
        rates.begin()
        for i in range(9):
            with lapse.step(i):
                with rates.waiting(): time.sleep(0.002)
                rates.step(samples=4, tokens=10, padded_tokens=16)
        caches = lapse.torch.CacheMemory()
        caches.register("a", bytearray(100_000))
        caches.update()
        lapse.torch.DatasetMemory([torch.ones(1000)])
    """)
    stored = run.stored
    units = {
        "throughput/samples": "1/s", "throughput/batches": "1/s", "throughput/tokens": "1/s",
        "throughput/efficiency/best": "1", "throughput/efficiency/data": "1",
        "throughput/efficiency/ideal": "1", "throughput/flops": "1/s", "throughput/mfu": "1",
        "throughput/hfu": "1", "data/memory/cache": "By", "data/memory/dataset": "By",
    }  # fmt: skip
    for name, unit in units.items():
        found = [row for row in stored.names.values() if row["name"] == name]
        assert found and {row["unit"] for row in found} == {unit}, name
    recorded = stored.recorded()
    assert [step for step, _ in recorded["throughput/samples"]] == [3, 5, 7]
    assert all(0 < value < 2000 for _, value in recorded["throughput/samples"])
    assert len(recorded["throughput/tokens"]) == 6  # with and without padding
    assert len(recorded["data/memory/cache"]) == 2
    assert all(value > 100_000 for _, value in recorded["data/memory/cache"])
