# SPDX-License-Identifier: Apache-2.0
"""Metric.observe_bins(): histograms that were made elsewhere."""

import pytest


def test_values_are_observed_as_often_as_said(place):
    run = place.script(
        """
        import lapse
        lapse.init(capture=False)
        m = lapse.metric("h", kind="histogram")
        # 600 observations: more than a record holds.
        m.observe_bins([1.5, -2.0, 4], (300, 0, 299), 7, lapse.now())
        m.observe_bins(iter([0.25]), [1])
        m.observe_bins([], [])
        print(lapse.stats()["accepted"])
        lapse.finish()
        """
    )
    import lapse

    with lapse.open_run("last", dir=place.runs) as reader:
        (series,) = reader.series("h")
        points = series.histograms()
    assert sum(p["count"] for p in points) == 600
    assert sum(p["sum"] for p in points) == 1.5 * 300 + 4 * 299 + 0.25
    assert min(p["min"] for p in points) == 0.25 and max(p["max"] for p in points) == 4
    # 256 observations are a record: three, and one.
    assert run.stdout.split() == ["4"]


def test_what_is_wrong_records_nothing(recording):
    m = recording.metric("bins/wrong", kind="histogram")
    before = recording.stats()["attempts"]
    with pytest.raises(ValueError, match="2 values, but 1 counts"):
        m.observe_bins([1.0, 2.0], [1])
    with pytest.raises(ValueError, match="at most 65536 together"):
        m.observe_bins([1.0, 2.0], [65536, 1])
    with pytest.raises(ValueError, match="0 or more"):
        m.observe_bins([1.0], [-1])
    for values, counts in ((1.0, [1]), ([1.0], 1), (["x"], [1]), ([1.0, "x"], [1, 1]),
                           ([1.0], [1.5])):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            m.observe_bins(values, counts)
    assert recording.stats()["attempts"] == before
    m.observe_bins([1.0], [65536])
    assert recording.stats()["attempts"] == before + 256


@pytest.mark.parametrize("kind", ["gauge", "counter"])
def test_only_histograms(recording, kind):
    with pytest.raises(TypeError, match="no histogram"):
        recording.metric(f"bins/{kind}", kind=kind).observe_bins([1.0], [1])
