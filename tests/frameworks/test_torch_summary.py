# SPDX-License-Identifier: Apache-2.0
"""Summaries: exact up to 10,000 numbers, then a sketch with a stated error."""

import math
import pickle
import random

import pytest
from conftest import need

pytestmark = need("torch")


@pytest.fixture(scope="module")
def summary():
    from lapse.torch import Summary

    return Summary


def rank_of(values, q):
    """Exact, linear between the two nearest: the definition, apart from any library."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def test_by_hand(summary):
    s = summary([4, 1, 3, 2])
    assert (s.count, s.sum, s.mean, s.min, s.max, s.exact) == (4, 10, 2.5, 1, 4, True)
    assert s.std == pytest.approx(math.sqrt(1.25), rel=1e-15)
    assert [s.quantile(q) for q in (0, 0.25, 0.5, 1)] == [1, 1.75, 2.5, 4]
    s.add(100)
    assert s.quantile(0.5) == 3 and s.max == 100
    assert s.as_dict()["p95"] == pytest.approx(80.8)


def test_of_nothing(summary):
    s = summary()
    assert not s and len(s) == 0 and s.count == 0 and s.sum == 0
    assert all(math.isnan(x) for x in (s.mean, s.std, s.min, s.max, s.quantile(0.5)))
    with pytest.raises(ValueError, match="from 0 to 1"):
        s.quantile(95)


def test_what_is_not_finite_is_counted_apart(summary):
    s = summary([1.0, math.nan, math.inf, -math.inf, 3.0])
    assert (s.count, s.bad, s.mean, s.max) == (2, 3, 2.0, 3.0)


@pytest.mark.parametrize("n", [9_999, 10_000, 10_001, 60_000])
def test_the_error_is_as_stated(summary, n):
    draw = random.Random(n)
    values = [draw.lognormvariate(-3, 2) * draw.choice((1, 1, 1, -1, 0)) for _ in range(n)]
    s = summary(values)
    assert s.exact == (n <= 10_000)
    assert s.count == n and (s.min, s.max) == (min(values), max(values))
    assert s.mean == pytest.approx(math.fsum(values) / n, rel=1e-9)
    mean = math.fsum(values) / n
    assert s.std == pytest.approx(math.sqrt(math.fsum((x - mean) ** 2 for x in values) / n))
    ordered = sorted(values)
    for q in (0, 0.001, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1):
        if s.exact:
            assert s.quantile(q) == pytest.approx(rank_of(values, q), rel=1e-12, abs=1e-300)
            continue
        # The value of the rank below; 0.5 % of it.
        want = ordered[int(q * (n - 1))]
        assert s.quantile(q) == pytest.approx(want, rel=0.00501, abs=1e-300), q


def test_merged_is_as_if_added(summary):
    draw = random.Random(1)
    parts = [[draw.expovariate(1) for _ in range(n)] for n in (0, 5, 9_000, 4_000, 30_000)]
    whole, one = summary(), summary()
    for part in parts:
        whole.merge(summary(part))
        for value in part:
            one.add(value)
    assert whole.count == one.count == 43_005
    assert whole.mean == pytest.approx(one.mean) and whole.std == pytest.approx(one.std)
    for q in (0.01, 0.5, 0.99):
        assert whole.quantile(q) == pytest.approx(one.quantile(q), rel=1e-9)
    again = pickle.loads(pickle.dumps(whole))
    assert again.quantile(0.5) == whole.quantile(0.5)
