# SPDX-License-Identifier: Apache-2.0
"""Phases: spans, ranges of PyTorch's profiler, and events of a device. A device with a
clock of its own stands in for CUDA."""

import asyncio
import random
import threading
from types import SimpleNamespace

import pytest
from conftest import need

pytestmark = need("torch")

STORED = """
    import json, asyncio, threading, time
    import torch, lapse, lapse.torch
    from lapse.torch import phase
    torch.set_num_threads(1)
    lapse.init(capture=False)

    @phase("decorated")
    def add(a, b=1):
        "adds"
        return a + b

    @phase("items")
    def items():
        for i in range(3):
            time.sleep(0.01)
            yield i

    @phase("waits")
    async def waits():
        await asyncio.sleep(0.01)
        return 5

    class Model:
        @staticmethod
        @phase("static")
        def a(): return 1
        @phase("method")
        def b(self): return 2

    said = {"values": [add(1, b=2), list(items()), asyncio.run(waits()), Model().a(), Model().b(),
                       add.__doc__]}
    for i in range(2):
        with lapse.step(i):
            with phase("outer"), phase("inner"):
                time.sleep(0.01)
    try:
        with phase("raises"):
            1 / 0
    except ZeroDivisionError:
        said["passed"] = True
    one = phase("shared")
    def work():
        with one, one: time.sleep(0.01)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with phase("seen"):
            torch.ones(2) + 1
    said["ranges"] = [e.key for e in profiler.key_averages()]
    said["device"] = list(lapse.torch.phase_times())
    print("RESULT", json.dumps(said))
"""


@pytest.fixture(scope="module")
def stored(program):
    return program(STORED)


def test_a_phase_is_a_span(stored):
    spans = stored.stored.spans
    for outer, inner in zip(spans("outer"), spans("inner")):
        assert outer["step"] == inner["step"]
        assert outer["time_ns"] <= inner["time_ns"]
        assert outer["duration_ns"] >= inner["duration_ns"] >= 10_000_000
    assert [row["step"] for row in spans("outer")] == [0, 1]
    assert len(spans("shared")) == 8
    assert all(row["duration_ns"] >= 10_000_000 for row in spans("shared"))


def test_an_exception_passes_and_ends_it(stored):
    assert stored.said["passed"] and len(stored.stored.spans("raises")) == 1


def test_decorated(stored):
    assert stored.said["values"] == [3, [0, 1, 2], 5, 1, 2, "adds"]
    spans = stored.stored.spans
    assert [len(spans(name)) for name in ("decorated", "static", "method")] == [1, 1, 1]
    assert len(spans("waits")) == 1 and spans("waits")[0]["duration_ns"] >= 10_000_000
    made = [row for row in spans("items") if row["duration_ns"] >= 10_000_000]
    assert len(made) == 3


def test_the_profiler_sees_a_range(stored):
    assert "seen" in stored.said["ranges"]
    assert stored.said["device"] == []  # no device, no times


# ---- a device -----------------------------------------------------------------------------


class Gpu:
    """A stream and a clock of its own; the host's clock goes on as the test says."""

    def __init__(self, drift=0.0, offset=12345.0):
        self.host = 1_000_000_000  # ns
        self.free_at = 0.0  # host time at which the stream has done everything
        self.drift, self.offset = drift, offset
        self.capturing = False
        self.events = 0
        self.stream = SimpleNamespace(device="gpu")

    def work(self, ns):
        """Enqueue a kernel of this length."""
        self.free_at = max(self.free_at, self.host + 4000) + ns

    def Event(self, enable_timing=False):  # noqa: N802
        assert enable_timing
        gpu = self
        self.events += 1

        class Event:
            ran = None

            def record(self, stream):
                assert stream is gpu.stream
                self.ran = max(gpu.free_at, gpu.host + 3000)
                gpu.free_at = self.ran

            def query(self):
                return self.ran <= gpu.host

            def elapsed_time(self, other):
                import torch

                assert self.ran <= gpu.host and other.ran <= gpu.host
                ms = (other.ran - self.ran) * (1 + gpu.drift) / 1e6
                return torch.tensor(ms, dtype=torch.float32).item()

        return Event()


@pytest.fixture
def gpu(monkeypatch):
    from lapse import _ends
    from lapse.torch import _later, _phase

    gpu = Gpu()
    observed = []

    class Metric:
        def __init__(self, name):
            self.name = name

        def observe_at(self, value, step, time_ns):
            observed.append((self.name, value, step, time_ns))

    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=lambda: gpu.stream,
        capturing=lambda: gpu.capturing,
        used=True,
        Event=gpu.Event,
    )
    gpu.step = 0
    core = SimpleNamespace(
        now=lambda: gpu.host, metric=lambda name, *a: Metric(name), span=_phase._core.span
    )
    monkeypatch.setattr(_phase, "_cuda", cuda)
    monkeypatch.setattr(_later, "capturing_now", lambda: gpu.capturing)
    monkeypatch.setattr(_phase, "_core", core)
    monkeypatch.setattr(_phase, "step_now", lambda: gpu.step)
    monkeypatch.setattr(_phase, "_resolver", _phase._Resolver())
    monkeypatch.setattr(_later, "queue", _later.Queue())

    def pause(seconds):
        gpu.host += 2000

    clock = SimpleNamespace(monotonic=lambda: gpu.host / 1e9, sleep=pause)
    monkeypatch.setattr(_ends, "time", clock)
    gpu.observed, gpu.cuda = observed, cuda
    gpu.flush = _later.flush
    return gpu


def test_a_phase_on_the_device(gpu):
    from lapse.torch import phase, phase_times

    ends = []
    for step in range(5):
        gpu.step = step
        with phase("forward"):
            gpu.work(2_000_000)
            with phase("inner"):
                gpu.work(500_000)
        ends.append(gpu.free_at)
        gpu.host += 100_000  # the host is ahead of the device
    assert gpu.observed == []
    gpu.flush(wait=True)
    forward = [o for o in gpu.observed if o[0] == "device/forward"]
    inner = [o for o in gpu.observed if o[0] == "device/inner"]
    assert [o[2] for o in forward] == [o[2] for o in inner] == list(range(5))
    for _, seconds, _, time_ns in forward:
        assert seconds == pytest.approx(2.5e-3, rel=0.01)
        assert min(abs(time_ns - end) for end in ends) < 20_000
    assert [o[1] for o in inner] == pytest.approx([5e-4] * 5, rel=0.02)
    times = phase_times()
    assert times["forward"].count == 5 and times["inner"].mean == pytest.approx(5e-4, rel=0.02)


def test_events_are_used_again_and_nothing_waits(gpu, monkeypatch):
    from lapse.torch import _later, phase

    monkeypatch.setattr(_later, "SLICE_NS", 10**9)

    for step in range(1000):
        gpu.step = step
        with phase("a"):
            gpu.work(100_000)
        gpu.host += 150_000
    assert gpu.events < 20
    for _ in range(1000):  # all in one step
        with phase("a"):
            gpu.work(100_000)
        gpu.host += 150_000
    assert gpu.events < 8 * _later.BATCH_MAX
    gpu.flush()
    assert len(gpu.observed) >= 1990


def test_a_step_has_one_event_that_is_asked_for(gpu, monkeypatch):
    """Not one for each phase; and what has arrived is handed on once a step."""
    from lapse.torch import _later, phase

    monkeypatch.setattr(_later, "SLICE_NS", 10**9)
    asked, kind = [], gpu.Event

    def event(enable_timing=False):
        one = kind(enable_timing)
        query = one.query
        one.query = lambda: asked.append(gpu.step) or query()
        return one

    gpu.cuda.Event = event
    for step in range(6):
        gpu.step = step
        for name in ("a", "b", "c", "d"):
            with phase(name):
                gpu.work(100_000)
        assert len(gpu.observed) == 4 * step  # at the step's begin
        gpu.host += 5_000_000
    assert len([step for step in asked if step == 5]) <= 2


def test_a_raising_phase_and_a_captured_graph(gpu):
    from lapse.torch import phase

    with pytest.raises(ZeroDivisionError), phase("raises"):
        gpu.work(1_000_000)
        raise ZeroDivisionError
    gpu.capturing = True
    with phase("captured"):
        pass
    gpu.capturing = False
    gpu.flush(wait=True)
    assert [o[0] for o in gpu.observed] == ["device/raises"]
    assert gpu.observed[0][1] == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("drift", [0.0, 10e-6, -10e-6])
def test_device_times_are_placed_on_the_hosts_clock(gpu, drift):
    """Half an hour of steps on a device whose clock drifts: each end is where it was, but
    for 0.1 ms, 20 us a second since the device was last idle, and the drift in that time."""
    from lapse.torch import phase

    gpu.drift = drift
    draw = random.Random(3)
    ends, idle = {}, gpu.host
    for step in range(4000):
        gpu.step = step
        if gpu.free_at <= gpu.host:
            idle = gpu.host
        with phase("a"):
            gpu.work(draw.uniform(1e6, 9e8))
        ends[step] = gpu.free_at, idle
        # Now ahead of the device, now behind it.
        gpu.host = int(max(gpu.host + 1e5, gpu.free_at - draw.uniform(-2e6, 2e7)))
    gpu.flush(wait=True)
    assert len(gpu.observed) == 4000
    for _, _, step, time_ns in gpu.observed:
        end, idle = ends[step]
        assert abs(time_ns - end) < 100_000 + 30e-6 * (end - idle), step


def test_a_clock_that_was_never_idle_is_bounded_by_what_was_seen():
    from lapse.torch import _phase

    class Event:
        def __init__(self, ns):
            self.ns = ns

        def elapsed_time(self, other):
            return (other.ns - self.ns) / 1e6

    clock = _phase._Clock(Event(0), 5_000)  # recorded at 5 us, ran at some later time
    # The device says 1 ms later; it was recorded at 500 us and seen at 1.5 ms.
    assert clock.place(Event(1_000_000), 500_000, 1_500_000) == 1_005_000
    # 2 ms on the device: recorded at 2.4 ms, so the offset is 400 us at least.
    assert clock.place(Event(2_000_000), 2_400_000, 3_000_000) == 2_400_000
    # Seen at 2.45 ms, though it is 2.1 ms on the device: 350 us at most.
    assert clock.place(Event(2_100_000), 2_000_000, 2_450_000) == 2_450_000


def test_wrong_arguments_raise():
    from lapse.torch import phase

    with pytest.raises(TypeError, match="name"):
        phase("")
    with pytest.raises(TypeError, match="decorates functions"):
        phase("x")(int)


def test_one_phase_in_threads_and_tasks():
    from lapse.torch import phase

    one = phase("x")
    opened = []

    def nested():
        with one, one:
            opened.append(len(one._opened.stack))

    threads = [threading.Thread(target=nested) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [2, 2, 2, 2]

    @phase("task")
    async def task(n):
        await asyncio.sleep(0.01 / n)
        return n

    async def both():
        return await asyncio.gather(task(1), task(2))

    assert asyncio.run(both()) == [1, 2]
