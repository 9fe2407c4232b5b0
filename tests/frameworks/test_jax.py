# SPDX-License-Identifier: Apache-2.0
"""StepLoop and MetricWriter with jax on the CPU."""

import pytest
from conftest import need

pytestmark = [need("jax"), pytest.mark.timeout(300)]

LOOP = """
    import json, time, warnings
    import jax, jax.numpy as jnp, numpy as np
    import lapse, lapse.jax

    warnings.simplefilter("always")
    SLEEP = 0.03

    def slow(x):  # the device's work: dispatched at once, done later
        time.sleep(SLEEP)
        return x

    @jax.jit
    def step(w):
        w = jax.pure_callback(slow, jax.ShapeDtypeStruct(w.shape, w.dtype), w * 0.5)
        return w, w.sum()

    jax.block_until_ready(step(jnp.ones(4)))
    w = jnp.ones(4)
    lapse.init(project="j")
    writer = lapse.jax.MetricWriter()
    loop = lapse.jax.StepLoop(12, first=2, samples=16)
    begin = time.monotonic()
    for number in loop:
        w, total = step(w)
        loop.ready(total)
        loop.log({"total": total})
        writer.write_scalars(number, {"train/mean": total / 4})
    took = time.monotonic() - begin
    writer.write_texts(11, {"sample": "hello"})
    writer.write_hparams({"width": 4, "nested": {"lr": 0.5}})
    writer.write_histograms(11, {"weights": jnp.arange(8.0)}, {"weights": 10})
    writer.write_images(11, {"i": jnp.zeros((1, 2, 2, 3))})
    writer.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in lapse.jax.StepLoop(40, first=12):
            pass
    print("RESULT " + json.dumps({"took": took, "length": len(loop),
                                  "warned": [str(w.message) for w in caught]}))
"""


@pytest.fixture
def loop(program):
    return program(LOOP, env={"JAX_PLATFORMS": "cpu"})


def test_steps(loop):
    assert loop.said["length"] == 10
    steps = [row["step"] for row in loop.stored.spans("step")]
    assert steps == list(range(2, 40))
    assert loop.stored.values("lapse/step/samples") == [16] * 10
    assert loop.place.attrs()["total_steps"] == "40"


def test_the_loop_does_not_run_ahead(loop):
    """Ten steps of at least 30 ms each on the device: however fast they are dispatched, at
    most `lag` of them are on their way, so the steps together last as long as the device."""
    ends = [row["time_ns"] + row["duration_ns"] for row in loop.stored.spans("step")[:10]]
    assert loop.said["took"] >= 10 * 0.03
    assert (ends[-1] - ends[0]) / 1e9 >= 7 * 0.03


def test_values_arrive_with_their_step(loop):
    recorded = loop.stored.recorded()
    expected = {n: 4 * 0.5 ** (n - 1) for n in range(2, 12)}
    assert dict(recorded["total"]) == expected
    assert dict(recorded["train/mean"]) == {n: value / 4 for n, value in expected.items()}


def test_reminder(loop):
    """Once, of the loop that never said what its steps compute."""
    (text,) = loop.said["warned"]
    assert "block_until_ready" in text
    assert len(loop.stored.events("lapse.jax")) == 2  # that, and that images are not kept


def test_metric_writer(loop):
    (event,) = loop.stored.events("text")
    assert event["text"] == "hello" and event["attrs"] == {"name": "sample", "step": 11}
    attrs = loop.place.attrs()
    assert attrs["config/width"] == "4" and attrs["config/nested/lr"] == "0.5"
    rows = loop.stored.of("histogram", "weights")
    assert sum(row["count"] for row in rows) == 8
    assert any("keeps no images" in e["text"] for e in loop.stored.events("lapse.jax"))


def test_wrong_arguments():
    import lapse.jax

    for arguments in ({"total": -1}, {"total": 1, "lag": -1}):
        with pytest.raises(ValueError, match="at least 0"):
            lapse.jax.StepLoop(**arguments)
    with pytest.raises(ValueError, match="at least 1"):
        lapse.jax.MetricWriter(histogram_max=0)
