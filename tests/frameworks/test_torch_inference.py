# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.benchmark() and compare_outputs(): a model that sleeps, and real dynamic
int8 quantisation."""

import io
import math
import statistics
import time
import warnings

import pytest
from conftest import two_clocks

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.torch import benchmark, compare_outputs  # noqa: E402
from lapse.torch._benchmark import Times, quantile  # noqa: E402


class Sleeper(torch.nn.Module):
    """Sleeps, and keeps how long it really took."""

    def __init__(self, seconds=0.004):
        super().__init__()
        self.seconds, self.slept = seconds, []
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x, scale=1.0):
        start = time.perf_counter()
        time.sleep(self.seconds)
        y = x.float().sum() * self.weight * scale
        self.slept.append(time.perf_counter() - start)
        return y


@two_clocks
def test_times_of_known_waits():
    model = Sleeper()
    result = benchmark(model, torch.zeros(8, 16, dtype=torch.long), warmup=3, runs=20)
    assert len(model.slept) == 23 and result.runs == 20 and result.warmup == 3
    slept = model.slept[3:]
    # Each run has its sleep in it; what is around it takes less than 5 ms on any machine
    # most of the time, so the median is compared.
    assert all(a >= b for a, b in zip(result.latencies, slept))
    median = statistics.median(slept)
    assert median <= result.latency.median < median + 0.005
    assert result.latency.mean == pytest.approx(sum(result.latencies) / 20)
    assert result.samples_per_second == pytest.approx(8 / result.latency.mean)
    assert result.tokens_per_second == pytest.approx(8 * 16 / result.latency.mean)
    assert result.device_time is None
    assert result.host.mean <= result.latency.mean


def test_defaults_are_the_documents():
    model = Sleeper(0)
    result = benchmark(model, torch.zeros(2, 3))
    assert len(model.slept) == 110
    assert set(result.metrics()) == {
        "avg_latency_ms", "median_latency_ms", "p95_latency_ms", "p99_latency_ms",
        "min_latency_ms", "max_latency_ms", "latency_std_ms", "samples_per_second",
        "tokens_per_second", "model_size_mb", "model_memory_mb", "peak_memory_mb",
        "batch_size", "sequence_length",
    }  # fmt: skip
    assert result.metrics()["batch_size"] == 2 and result.tokens_per_second is None
    assert result.metrics()["avg_latency_ms"] == result.latency.mean * 1000


def test_statistics():
    """Of 1 to 10 by hand."""
    times = Times.of([float(x) for x in range(10, 0, -1)])
    assert (times.mean, times.median, times.min, times.max) == (5.5, 5.5, 1.0, 10.0)
    assert times.std == pytest.approx(math.sqrt(8.25))
    assert times.p95 == pytest.approx(9.55) and times.p99 == pytest.approx(9.91)
    assert quantile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(
    "inputs",
    [torch.ones(2), (torch.ones(2), 3.0), [torch.ones(2)], {"x": torch.ones(2), "scale": 2.0}],
)
def test_inputs(inputs):
    assert benchmark(Sleeper(0), inputs, warmup=0, runs=1).batch_size == 2


class Modes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.frozen = torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(2)
        self.seen = []

    def forward(self, x):
        self.seen.append((self.training, self.drop.training, torch.is_grad_enabled(),
                          torch.is_inference_mode_enabled()))  # fmt: skip
        return self.frozen(self.drop(x))


@pytest.mark.parametrize(
    ("grad", "enabled", "inference"),
    [("inference", False, True), ("no_grad", False, False), ("enabled", True, False)],
)
def test_modes_are_as_before(grad, enabled, inference):
    model = Modes()
    model.train()
    model.frozen.eval()
    benchmark(model, torch.ones(3, 2), warmup=0, runs=2, grad=grad)
    assert set(model.seen) == {(False, False, enabled, inference)}
    assert (model.training, model.drop.training, model.frozen.training) == (True, True, False)
    assert torch.is_grad_enabled()


def test_modes_are_as_before_after_an_error():
    model = Modes()
    with pytest.raises(Exception, match=r".+"):
        benchmark(model, torch.ones(3, 5), warmup=1, runs=1)
    assert model.training and model.drop.training


def test_wrong_arguments():
    for options in ({"runs": 0}, {"warmup": -1}, {"grad": "some"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            benchmark(Sleeper(0), torch.ones(1), **options)


# ---- size ------------------------------------------------------------------------------


def saved(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return len(file.getvalue())


def test_size_by_type():
    """Halves are halves, buffers count, what is shared counts once."""
    model = torch.nn.Module()
    model.a = torch.nn.Linear(100, 50).half()
    model.b = torch.nn.Linear(100, 50)
    model.b.weight = torch.nn.Parameter(torch.zeros(50, 100))
    model.c = torch.nn.Linear(100, 50, bias=False)
    model.c.weight = model.b.weight
    model.register_buffer("steps", torch.zeros(10, dtype=torch.int64), persistent=False)
    model.forward = lambda x: x
    result = benchmark(model, torch.ones(1), warmup=0, runs=1)
    assert result.size == {
        "float32": (5000 + 50) * 4,
        "float16": (5000 + 50) * 2,
        "int64": 80,
    }
    assert result.size_bytes == 5050 * 6 + 80
    assert result.metrics()["model_size_mb"] == (5050 * 6 + 80) / 2**20


def quantised(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(
            model, {torch.nn.Linear}, dtype=torch.qint8
        )


needs_int8 = pytest.mark.skipif(
    not hasattr(torch, "ao")
    or not hasattr(torch.ao.quantization, "quantize_dynamic")
    or not [e for e in torch.backends.quantized.supported_engines if e != "none"],
    reason="this PyTorch has no dynamic quantisation",
)


@needs_int8
def test_dynamic_int8():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)
    )
    small = quantised(model)
    x = torch.randn(4, 256)
    base = benchmark(model, x, warmup=1, runs=5)
    int8 = benchmark(small, x, warmup=1, runs=5)
    weights, biases = 256 * 512 + 512 * 64, 512 + 64
    assert base.size == {"float32": 4 * (weights + biases)}
    assert int8.size["qint8"] == weights and int8.size["float32"] >= 4 * biases
    for result, of in ((base, model), (int8, small)):
        assert result.serialised == saved(of)
        # What is written is the bytes and some kilobytes of names.
        assert result.size_bytes <= result.serialised <= result.size_bytes + 8192
    against = int8.against(base)
    assert against["size_ratio"] == pytest.approx(base.size_bytes / int8.size_bytes)
    assert 3.9 < against["size_ratio"] <= 4
    assert against["quantization_ratio"] == pytest.approx(100 - 100 / against["size_ratio"])
    assert against["compression_ratio"] == pytest.approx(saved(model) / saved(small))
    assert against["latency_ratio"] == pytest.approx(base.latency.mean / int8.latency.mean)
    assert against["throughput_ratio"] == pytest.approx(against["latency_ratio"])
    difference = compare_outputs(model, small, x)
    with torch.no_grad():
        a, b = model(x).double().flatten(), small(x).double().flatten()
    assert difference.max_abs == pytest.approx(float((a - b).abs().max()))
    assert 0 < difference.max_abs < 0.1
    assert difference.cosine == pytest.approx(float(a @ b / (a.norm() * b.norm())))
    assert difference.cosine > 0.999
    assert difference.consistency_score == 1.0 and difference.repeat_max_abs == 0


# ---- outputs ---------------------------------------------------------------------------


class Fixed(torch.nn.Module):
    def __init__(self, *outputs):
        super().__init__()
        self.outputs, self.calls = outputs, 0

    def forward(self, x):
        self.calls += 1
        return self.outputs[(self.calls - 1) % len(self.outputs)]


def test_difference_by_hand():
    a = {"y": torch.tensor([1.0, 2.0]), "z": [torch.tensor([[0.0, 4.0]])]}
    b = {"y": torch.tensor([1.0, 2.5]), "z": [torch.tensor([[0.0, 3.0]])]}
    got = compare_outputs(Fixed(a), Fixed(b), torch.ones(1))
    assert got.max_abs == 1.0
    assert got.max_relative == pytest.approx(1 / 4)
    assert got.mean_abs == pytest.approx(1.5 / 4)
    assert got.cosine == pytest.approx(6 / math.sqrt(5 * 7.25))
    assert got.metrics() == {
        "inference_quality_score": got.cosine,
        "consistency_score": 1.0,
        "max_abs_difference": 1.0,
        "max_relative_difference": pytest.approx(0.25),
    }


def test_consistency():
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])
    got = compare_outputs(Fixed(one), Fixed(one, other, one), torch.ones(1), repeats=3)
    assert got.consistency_score == pytest.approx(math.sqrt(0.5))
    assert got.repeat_max_abs == 1.0 and got.max_abs == 0.0 and got.cosine == 1.0


def test_dropout_is_off():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5))
    got = compare_outputs(model, model, torch.ones(100), repeats=4)
    assert got.max_abs == 0 and got.consistency_score == 1 and model.training


def test_outputs_that_cannot_be_compared():
    with pytest.raises(ValueError, match="shapes"):
        compare_outputs(Fixed(torch.ones(2)), Fixed(torch.ones(3)), torch.ones(1))
    with pytest.raises(TypeError, match="no tensors"):
        compare_outputs(Fixed(1), Fixed(1), torch.ones(1))
    nan = Fixed(torch.tensor([math.nan]))
    assert math.isnan(compare_outputs(nan, Fixed(torch.ones(1)), torch.ones(1)).max_abs)
