# SPDX-License-Identifier: Apache-2.0
"""StepLoop and MetricWriter with jax on the CPU."""

import threading
import time
from types import SimpleNamespace

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


# ---- loops that end before their last step ---------------------------------------------------

BROKEN = LOOP[: LOOP.index("    writer = ")] + """
    writer = lapse.jax.MetricWriter()
    loop = lapse.jax.StepLoop(12)
    for number in loop:
        w, total = step(w)
        loop.log({"total": total})
        writer.write_scalars(number, {"mean": total / 4})
        if number == 2:
            break
    lapse.finish()

    lapse.init(project="k")     # a second run, which the exit closes
    loop = lapse.jax.StepLoop(12)
    for number in loop:
        w, total = step(w)
        loop.log({"again": total})
        if number == 1:
            break
"""


def test_the_last_values_before_a_break_are_recorded(program):
    done = program(BROKEN, env={"JAX_PLATFORMS": "cpu"})
    first, second = (done.place.stored(run).recorded() for run in done.place.ids())
    if "again" in first:
        first, second = second, first
    assert [step for step, _ in first["total"]] == [0, 1, 2] == [step for step, _ in first["mean"]]
    assert [step for step, _ in second["again"]] == [0, 1]


class Array:
    """A value of a device that is ready when the test says so."""

    def __init__(self, value, ready=False):
        self.value, self.ready = value, ready

    def is_ready(self):
        if self.ready is None:
            raise RuntimeError("Array has been deleted")
        return self.ready

    def __float__(self):
        return float(self.value)


@pytest.fixture
def module(monkeypatch):
    """lapse.jax; `.logged` is what was recorded, `.said` what was told."""
    import jax  # noqa: F401 - takes long, which is not to count

    import lapse.jax as module

    logged, said = [], []
    core = SimpleNamespace(
        now=lambda: 1, step_begin=lambda step: None, step_end=lambda *_: None,
        log=lambda values, step, _: logged.append((step, *map(float, values.values()))),
    )  # fmt: skip
    monkeypatch.setattr(module, "_core", core)
    monkeypatch.setattr(module, "attr", lambda *_: None)
    monkeypatch.setattr(module, "current", lambda: SimpleNamespace(recording=True))
    monkeypatch.setattr(module, "tell_once", lambda who, text, warning=True: said.append(text))
    monkeypatch.setattr(module, "_on_their_way", set())
    module.logged, module.said = logged, said
    return module


def test_an_exception_in_the_loop_waits_for_nothing(module, monkeypatch):
    monkeypatch.setattr(module._ends, "QUIET_S", 100)
    arrays = [Array(1, ready=True), Array(2), Array(3)]
    begun = time.monotonic()
    with pytest.raises(ValueError):
        loop = module.StepLoop(3)
        for step in loop:
            loop.log({"x": arrays[step]})
            if step == 2:
                arrays[1].ready = True
                raise ValueError
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        loop.flush()
        module._ends.finish()
    assert time.monotonic() - begun < 50
    assert module.logged == [(0, 1.0), (1, 2.0)]
    assert len(module.said) == 1 and "1 calls" in module.said[0] and "lost" in module.said[0]
    arrays[2].ready = True
    module._settle(True)
    assert len(module.logged) == 2, "they belong to a run that is over"


def test_the_end_of_the_run_waits_for_a_while(module, monkeypatch):
    array, never = Array(1), Array(2)
    writer, other = module.MetricWriter(), module.MetricWriter()
    writer.write_scalars(5, {"x": array})
    other.write_scalars(6, {"x": never})
    timer = threading.Timer(0.1, setattr, (array, "ready", True))
    timer.start()
    monkeypatch.setattr(module._ends, "QUIET_S", 2)
    module._ends.finish()
    timer.join()
    assert module.logged == [(5, 1.0)] and len(module.said) == 1
    begun = time.monotonic()
    monkeypatch.setattr(module._ends, "QUIET_S", 0.3)
    writer.write_scalars(7, {"x": never})
    writer.close()
    assert time.monotonic() - begun < 50
    writer._late.lose()


def test_an_array_that_is_gone_harms_nothing(module):
    writer = module.MetricWriter()
    writer.write_scalars(1, {"x": Array(1, ready=None)})
    writer.write_scalars(2, {"x": Array(2, ready=True)})
    assert module.logged == [(2, 2.0)] and "deleted" in module.said[0]
