# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.Histograms: bins against a search by hand."""

import math
from bisect import bisect_right

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.torch import Histograms  # noqa: E402
from lapse.torch._histograms import shares, stride_for  # noqa: E402


def one_tensor(values, dtype=torch.float32):
    p = torch.nn.Parameter(torch.zeros(len(values), dtype=dtype))
    p.grad = torch.tensor(values, dtype=dtype)
    return [("p", p)]


def counted(values, **options):
    dtype = options.pop("dtype", torch.float32)
    h = Histograms(one_tensor(values, dtype), every=1, **options)
    h.step()
    assert h.reason == ""
    return h.last["gradients/p"]


def octave_of(value, parts):
    """(octave, part of it) of a magnitude."""
    mantissa, exponent = math.frexp(value)  # 0.5 <= mantissa < 1
    return exponent - 1, int((mantissa * 2 - 1) * parts)


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_log_bins(parts, dtype):
    torch.manual_seed(0)
    scale = torch.tensor(2.0) ** torch.randint(-10, 4, (4000,))
    values = (torch.randn(4000) * scale).to(dtype)
    got = counted(values.tolist(), per_octave=parts, dtype=dtype)
    expected = {}
    for v in values.float().tolist():
        if v:
            key = (v < 0, *octave_of(abs(v), parts))
            expected[key] = expected.get(key, 0) + 1
    found = {}
    for low, high, count in zip(got.edges, got.edges[1:], got.counts):
        if count and low * high > 0:
            near = min(abs(low), abs(high))
            assert max(abs(low), abs(high)) == pytest.approx(
                near + 2.0 ** octave_of(near, parts)[0] / parts
            )
            found[(low < 0, *octave_of(near, parts))] = count
    assert found == expected
    assert got.elements == 4000 and got.nan == got.inf == 0


def test_what_does_not_fit():
    values = [0.0, -0.0, 1e-30, -1e-30, 1e9, -1e9, math.nan, -math.nan, math.inf, -math.inf, 1.0]
    got = counted(values)
    middle = len(got.counts) // 2
    assert got.counts[middle] == 4 and got.edges[middle] == -(2.0**-32)
    assert got.counts[0] == got.counts[-1] == 1
    assert (got.nan, got.inf) == (2, 2)
    assert got.elements == 7


def test_uniform_bins():
    values = [-1.0, -0.5, -0.25, 0.0, 0.3, 0.99, 1.0, 1.5, -2.0, math.nan, math.inf]
    got = counted(values, bins=4, limits=(-1.0, 1.0))
    expected = [0, 0, 0, 0]
    for v in values:
        if -1.0 <= v <= 1.0:
            expected[min(bisect_right([-1.0, -0.5, 0.0, 0.5, 1.0], v) - 1, 3)] += 1
    assert got.counts == expected == [1, 2, 2, 2]
    assert (got.nan, got.inf, got.outside) == (1, 1, 2)


def test_many_of_one_value():
    """More than a float counts one by one."""
    n = (1 << 24) + 5
    p = torch.nn.Parameter(torch.zeros(n))
    h = Histograms([("p", p)], every=1, elements=None)
    h.step()
    assert h.last["parameters/p"].elements == h.last["parameters/p"].size == n


@pytest.mark.parametrize("shape", [(64, 48), (48, 64), (1000,), (4, 6, 8, 16), (7, 11, 40)])
def test_a_sample_of_many_elements(shape):
    """At most so many, in each row and column alike; the ends of all."""
    n = math.prod(shape)
    values = torch.arange(n, dtype=torch.float32).reshape(shape) % shape[-1] + 1
    values.view(-1)[1] = -3e9
    values.view(-1)[n - 2] = 3e9
    h = Histograms([("p", torch.nn.Parameter(values))], every=1, elements=200, gradients=False)
    h.step()
    got = h.last["parameters/p"]
    assert (got.min, got.max, got.size) == (-3e9, 3e9, n)
    assert 100 < got.elements + got.nan <= 200
    if len(shape) > 1:  # each column of the last dimension is met: half of them at least
        seen = {octave_of(v, 4) for v in range(1, shape[-1] + 1)}
        found = sum(1 for c in got.counts[len(got.counts) // 2 + 1 : -1] if c)
        assert found == len(seen)


def test_the_sample_of_a_tensor_that_lies_otherwise_is_no_copy():
    from lapse.torch._histograms import _flat

    images = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for values in (torch.rand(30, 40).t(), images):
        flat = _flat(values)
        assert flat.data_ptr() == values.data_ptr()
        assert torch.equal(flat.sort().values, values.reshape(-1).sort().values)


def test_a_stride_meets_all_columns():
    for n, most in ((50304 * 768, 1 << 20), (1 << 30, 1000), (30030 * 4, 7), (9, 4), (5, 5)):
        stride = stride_for(n, most)
        assert len(range(0, n, stride)) <= most and math.gcd(stride, n) == 1


def test_ends_of_no_numbers_and_of_half():
    got = counted([1.0, math.nan, 3.0])
    assert math.isnan(got.min) and math.isnan(got.max) and got.size == 3
    got = counted([1.5, -2.0], dtype=torch.float16)
    assert (got.min, got.max) == (-2.0, 1.5)


def test_spread_over_the_steps():
    """Each tensor once in 10 steps, 6 of them at 6 different steps."""
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2, bias=False) for _ in range(6)))
    h = Histograms(model, every=10, gradients=False)
    seen = []
    for _ in range(20):
        before = set(h.last)
        h.step()
        seen.append(len(set(h.last) - before))
        if len(h.last) == 6:
            h.last.clear()
    assert sum(seen) == 12 and max(seen) == 1


def test_all_at_once():
    model = torch.nn.Linear(2, 2)
    model.weight.grad = torch.ones(2, 2)
    h = Histograms(model, every=1)
    h.step()
    assert set(h.last) == {"parameters/weight", "parameters/bias", "gradients/weight"}


def test_names():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    h = Histograms(model, every=1, names="*.bias", gradients=False)
    h.step()
    assert set(h.last) == {"parameters/0.bias", "parameters/1.bias"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"per_octave": 3}, "per_octave"),
        ({"bins": 4}, "limits"),
        ({"limits": (0, 1)}, "bins"),
        ({"bins": 4, "limits": (1, 1)}, "limits"),
        ({"points": 0}, "points"),
        ({"names": "nothing"}, "no parameter"),
        ({"every": 1.5}, "every"),
        ({"elements": 0}, "elements"),
    ],
)
def test_wrong_arguments_raise_at_once(options, error):
    with pytest.raises(ValueError, match=error):
        Histograms(torch.nn.Linear(2, 2), **options)


def test_shares():
    assert shares([3, 0, 5], 10) == [3, 0, 5]
    assert shares([1, 1_000_000, 0 + 1], 100) == [1, 100, 1]
    assert sum(shares([250, 500, 250], 100)) == 100


def test_document_form():
    h = Histograms(one_tensor([1.0, 1.1, -3.0]), every=1, per_octave=1)
    h.step()
    assert h.document("gradients/p") == {
        "bucket_limits": [-2.0, 2.0],
        "bucket_counts": [1, 2],
        "num": 3,
    }
