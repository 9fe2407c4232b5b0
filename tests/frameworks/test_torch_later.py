# SPDX-License-Identifier: Apache-2.0
"""Values on a device, recorded when they arrive, with their own step and time. There is
no device here: one that is as late as the test says stands in for it."""

import contextlib
import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import need

pytestmark = need("torch")

STORED = """
    import contextlib, json, os, time
    import torch, lapse, lapse.torch
    from lapse.torch import _later
    from lapse.torch._step import step_now

    said = {"steps": [step_now()]}
    lapse.init(capture=False)
    said["steps"].append(step_now())
    lapse.torch.log({"before": torch.tensor(9.0)})       # no step yet

    # ---- values of the CPU are recorded at once
    for i in range(2):
        with lapse.step(i):
            lapse.torch.log({"cpu": torch.tensor(i + 0.5), "opt": {"lr": 0.1}, "n": 3})
    lapse.torch.log({"given": torch.tensor(7.0)}, step=1)
    lapse.torch.log({"many": torch.ones(3), "one": torch.ones(1),
                     "nan": torch.tensor(float("nan"))})

    # ---- a child has steps of its own
    read, write = os.pipe()
    if os.fork() == 0:
        lapse.log({"x": 1}); first = step_now()
        lapse.step_begin(8)
        end = time.monotonic() + 30
        while step_now() is None and time.monotonic() < end: time.sleep(0.05)
        os.write(write, json.dumps([first, step_now()]).encode()); os._exit(0)
    os.wait()
    said["child"] = json.loads(os.read(read, 100))

    # ---- a device with a stream whose events have run when we say so
    class Event:
        made = []
        end = float("inf")
        def __init__(self): self.done = False; Event.made.append(self)
        def record(self, stream): self.done = False
        def query(self): return self.done or time.monotonic() > Event.end
    class Device:
        Event = Event
        device = staticmethod(lambda device: contextlib.nullcontext())
        current_stream = staticmethod(lambda device: None)
    _later._ASYNC = ("cpu",)
    _later._module = lambda device: Device
    _later._pinned = lambda size, n, dtype: [torch.empty(size, dtype=dtype) for _ in range(n)]
    for i in range(10, 14):
        with lapse.step(i):
            lapse.event("asked")
            lapse.torch.log({"a": {"loss": torch.tensor(i * 1.5)}, "host": i,
                             "half": torch.tensor(i, dtype=torch.float16)})
            lapse.event("gone on")
        if i == 12:
            for event in Event.made: event.done = True
    said["steps"].append(step_now())
    # The others arrive at the end, by themselves: it waits for them.
    Event.end = time.monotonic() + 0.3
    print("RESULT", json.dumps(said))
"""


@pytest.fixture(scope="module")
def stored(program):
    return program(STORED)


def test_log_on_the_cpu_is_recorded_at_once(stored):
    recorded = stored.stored.recorded()
    assert recorded["cpu"] == [(0, 0.5), (1, 1.5)]
    assert recorded["opt/lr"] == [(0, 0.1), (1, 0.1)]
    assert recorded["n"] == [(0, 3.0), (1, 3.0)]
    assert recorded["given"] == [(1, 7.0)]
    assert recorded["before"] == [(None, 9.0)]


def test_a_tensor_with_several_elements_is_left_out_with_a_warning(stored):
    recorded = stored.stored.recorded()
    assert "many" not in recorded and "many" in stored.stderr
    assert recorded["one"] == [(1, 1.0)]
    [(_, nan)] = recorded["nan"]
    assert nan in (None, "NaN") or math.isnan(float(nan))


def test_late_values_keep_step_and_time(stored):
    recorded = stored.stored.recorded()
    assert recorded["a/loss"] == [(i, i * 1.5) for i in range(10, 14)]
    assert recorded["half"] == recorded["host"] == [(i, i) for i in range(10, 14)]
    rows = stored.stored.of("sample", "a/loss")
    assert len(rows) == 4
    # Of the call: each arrived some steps after it, or at the end.
    asked, after = stored.stored.events("asked"), stored.stored.events("gone on")
    assert len(asked) == len(after) == 4
    for row, early, late in zip(rows, asked, after):
        assert early["time_ns"] <= row["time_ns"] <= late["time_ns"]


def test_the_current_step(stored):
    assert stored.said["steps"] == [None, None, 13]
    assert stored.said["child"] == [None, 8]


# ---- in this process ---------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch):
    """The CPU as a device with a stream; `run()` lets all its events run."""
    import torch

    from lapse import _tell
    from lapse.torch import _later

    made = []

    class Event:
        broken = False

        def __init__(self):
            self.done = False
            made.append(self)

        def record(self, stream):
            self.done = False

        def query(self):
            if Event.broken:
                raise RuntimeError("device-side assert")
            return self.done

    def run():
        for event in made:
            event.done = True

    module = SimpleNamespace(
        Event=Event,
        device=lambda device: contextlib.nullcontext(),
        current_stream=lambda device: stream,
    )
    stream = SimpleNamespace(query=lambda: stream.idle, idle=False)
    allocated = []

    def pinned(size, n, dtype):
        allocated.append(size * n)
        return list(torch.split(torch.empty(size * n, dtype=dtype), size))

    said = []
    monkeypatch.setattr(_later, "_ASYNC", ("cpu",))
    monkeypatch.setattr(_later, "_module", lambda device: module)
    monkeypatch.setattr(_later, "_pinned", pinned)
    monkeypatch.setattr(_later, "queue", _later.Queue())
    # Another test may have left this process in a step.
    monkeypatch.setattr(_later, "step_now", lambda: None)
    monkeypatch.setattr(_tell, "_said", set())
    event = SimpleNamespace(event=lambda level, kind, text: said.append(text))
    monkeypatch.setattr(_tell, "_core", event)
    return SimpleNamespace(
        run=run, Event=Event, made=made, stream=stream, allocated=allocated, said=said,
        module=_later, later=_later.later,
    )  # fmt: skip


def test_what_fails_is_said_once_and_training_goes_on(device):
    import torch

    def bad(values, step, time_ns):
        raise RuntimeError("bad callback")

    for _ in range(3):
        device.later([torch.tensor(1.0)], bad)
        device.run()
    device.module.flush()
    device.Event.broken = True
    device.later([torch.tensor(1.0)], bad)
    device.module.flush()
    device.module.log({"x": torch.tensor(3.0)})
    device.module.flush(wait=True)
    device.later([torch.empty((), device="meta")], bad)
    for words in ("bad callback", "device-side assert", "without data"):
        assert len([text for text in device.said if words in text]) == 1, words


def test_a_queue_that_nobody_empties_is_bounded(device, monkeypatch):
    import torch

    monkeypatch.setattr(device.module, "PENDING_MAX", 10)
    got = []
    for i in range(15):
        device.later([torch.tensor(float(i))], lambda values, *_: got.extend(values))
    assert got == []
    assert (device.module.queue.count, device.module.queue.dropped) == (10, 5)
    device.run()
    device.module.flush()
    device.later([torch.tensor(99.0)], lambda values, *_: got.extend(values))
    device.run()
    device.module.flush(wait=True)
    assert got == [*range(10), 99.0] and device.module.queue.count == 0
    assert len(device.said) == 1


def test_buffers_and_events_are_used_again(device):
    import torch

    got = []
    for i in range(500):
        device.later([torch.arange(3) + i, torch.tensor(i)], lambda v, *_: got.append(v))
        device.run()
    device.module.flush(wait=True)
    assert len(device.allocated) == 1 and len(device.made) < 10
    assert len(got) == 500
    assert got[0] == [0, 1, 2, 0] and got[-1] == [499, 500, 501, 499]


def test_values_of_one_step_have_one_event(device, monkeypatch):
    """Each is copied at once, so that it may be changed; they arrive together."""
    import torch

    now, got = [0], []
    monkeypatch.setattr(device.module, "step_now", lambda: now[0])
    monkeypatch.setattr(device.module, "_clock", lambda: 0)  # a slow machine stops earlier
    for step in range(4):
        now[0] = step
        value = torch.zeros(())
        for i in range(3):
            value += 1
            device.later([value], lambda v, at, _: got.append((at, v[0])), step=10 * step + i)
        value.zero_()
        device.run()
    assert len(device.made) <= 2, "an event for each step, used again"
    assert got == [(10 * s + i, i + 1.0) for s in range(2) for i in range(3)]
    device.module.flush()
    device.run()
    device.module.flush()
    assert got == [(10 * s + i, i + 1.0) for s in range(4) for i in range(3)]
    assert device.module.queue.count == 0 and device.said == []


def test_what_is_logged_has_its_event_before_the_next_step(device, monkeypatch):
    """Of a device that hangs in the next step the last loss is there."""
    import torch

    monkeypatch.setattr(device.module, "step_now", lambda: 7)
    logged = []
    core = SimpleNamespace(
        log=lambda values, step, time_ns: logged.append((values, step)), now=lambda: 1
    )
    monkeypatch.setattr(device.module, "_core", core)
    device.module.later([torch.tensor(1.0)], lambda *_: None)
    assert device.made == []
    device.module.log({"loss": torch.tensor(2.0), "accuracy": torch.tensor(0.5)})
    assert len(device.made) == 1 and not device.module.queue.open
    device.run()
    device.module.settle(wait=False)
    assert logged == [({"loss": 2.0, "accuracy": 0.5}, 7)]


def test_handing_on_stops_after_a_while(device, monkeypatch):
    """What takes long is spread over the steps, and nothing is lost."""
    import torch

    now, got = [0], []
    clock = [0]
    monkeypatch.setattr(device.module, "step_now", lambda: now[0])
    monkeypatch.setattr(device.module, "_clock", lambda: clock[0])

    def slow(values, step, time_ns):
        clock[0] += device.module.SLICE_NS + 1
        got.append(values[0])

    for i in range(6):
        device.later([torch.tensor(float(i))], slow)
    device.run()
    seen = []
    for step in range(1, 9):
        now[0] = step
        device.module.log({"x": 1.0})
        device.run()
        seen.append(len(got))
    assert seen == [0, 1, 2, 3, 4, 5, 6, 6] and got == [0, 1, 2, 3, 4, 5]


def test_a_cpu_tensor_with_a_gradient_is_no_warning(device, monkeypatch):
    import warnings

    import torch

    logged = []
    monkeypatch.setattr(device.module, "_ASYNC", ())
    monkeypatch.setattr(device.module, "_core", SimpleNamespace(
        log=lambda values, step, time_ns: logged.append({k: float(v) for k, v in values.items()}),
        now=lambda: 1))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.module.log({"loss": torch.ones((), requires_grad=True) * 2})
    assert logged == [{"loss": 2.0}]


def test_buffers_made_in_inference_are_for_training_too(device):
    import torch

    got = []
    with torch.inference_mode():
        device.later([torch.tensor(1.0)], lambda values, *_: got.extend(values))
    device.later([torch.tensor(2.0)], lambda values, *_: got.extend(values))
    device.run()
    with torch.inference_mode():
        device.module.flush(wait=True)
    assert got == [1.0, 2.0] and device.said == []


def test_order_is_kept_when_later_ones_have_run(device):
    import torch

    got = []
    for i in range(3):
        device.later([torch.tensor(i)], lambda values, *_: got.extend(values))
    device.made[2].done = True
    device.module.flush()
    assert got == []
    device.made[0].done = True
    device.module.flush()
    assert got == [0]


# ---- a device that makes nothing any more -------------------------------------------------


def put(device, *values):
    """Values on their way; where they will arrive."""
    import torch

    got = []
    for value in values:
        device.later([torch.tensor(float(value))], lambda arrived, *_: got.extend(arrived))
    return got


def test_a_stuck_device_is_waited_for_a_short_time_and_once(device, monkeypatch):
    from lapse import _ends

    monkeypatch.setattr(_ends, "QUIET_S", 0.3)
    got = put(device, 1, 2)
    device.made[0].done = True
    begun = time.monotonic()
    device.module.flush(wait=True)
    assert 0.3 <= time.monotonic() - begun < 20
    assert got == [1.0] and len(device.said) == 1 and "1 values" in device.said[0]
    monkeypatch.setattr(_ends, "QUIET_S", 60)
    begun = time.monotonic()
    device.module.flush(wait=True)
    assert time.monotonic() - begun < 20, "it had its time"
    device.run()
    device.module.flush(wait=True)
    assert got == [1.0, 2.0] and len(device.said) == 1


def test_a_slow_device_is_waited_for(device):
    """Each value comes in time, all of them together take longer."""
    got = put(device, *range(5))

    def run():
        for event in list(device.made):
            time.sleep(0.5)
            event.done = True

    thread = threading.Thread(target=run)
    thread.start()
    device.module.flush(wait=True)
    thread.join()
    assert got == list(range(5)) and device.said == []


def test_waiting_has_an_end(device, monkeypatch):
    from lapse import _ends

    monkeypatch.setattr(_ends, "WAIT_S", 0.3)
    monkeypatch.setattr(_ends, "QUIET_S", 60)
    put(device, 1)
    begun = time.monotonic()
    device.module.flush(wait=True)
    assert time.monotonic() - begun < 20


def test_no_waiting_while_an_exception_is_handled(device, monkeypatch):
    """What has arrived is taken, also of a step that is not over; nothing is put on the
    stream, which may be full."""
    from lapse import _callback, _ends

    monkeypatch.setattr(_ends, "QUIET_S", 60)
    monkeypatch.setattr(device.module, "step_now", lambda: 1)
    put(device, 0)
    device.run()
    got = put(device, 1, 2)
    events = len(device.made)
    begun = time.monotonic()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        _callback.Recorder().close()
        assert got == []
        device.stream.idle = True
        device.module.flush(wait=True)
    assert time.monotonic() - begun < 20
    assert got == [1.0, 2.0] and len(device.made) == events and device.said == []


@pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), SystemExit(0)])
def test_a_loop_that_ends_by_an_exception_is_waited_for(device, error):
    got = put(device, 1)
    timer = threading.Timer(0.1, device.run)
    timer.start()
    try:
        raise error
    except BaseException:
        device.module.flush(wait=True)
    timer.join()
    assert got == [1.0]


def test_what_has_not_arrived_at_the_end_is_counted(device):
    got = put(device, 1, 2, 3)
    old = device.module.queue
    device.module.settle(False)
    assert len(device.said) == 1 and "3 values" in device.said[0] and "lost" in device.said[0]
    assert device.module.queue.count == 0 and device.module.queue is not old
    device.run()
    device.module.flush(wait=True)
    assert got == [], "they belong to a run that is over"


def test_a_handler_of_a_signal_may_end_the_run(device):
    """It runs in the middle of anything."""
    got = put(device, 1)
    device.run()
    with device.module.queue.putting:
        device.module.flush()
    assert got == [1.0]


STUCK = STORED[: STORED.index("    said = ")] + """
    class Event:
        def record(self, stream): pass
        def query(self): return False
        def synchronize(self): time.sleep(1000)
    class Device:
        Event = Event
        current_stream = staticmethod(lambda device: None)
    _later._ASYNC = ("cpu",)
    _later._module = lambda device: Device
    _later._pinned = lambda size, n, dtype: [torch.empty(size, dtype=dtype) for _ in range(n)]
    lapse._ends.QUIET_S = lapse._ends.WAIT_S = float(os.sys.argv[1])
    def train():
        lapse.torch.log({"x": torch.tensor(1.0), "host": 2.0})
        if "interrupt" in os.sys.argv: raise KeyboardInterrupt
        if "error" in os.sys.argv: raise ValueError
    lapse.init()
    if os.sys.argv[2] == "with":
        with lapse.init():
            train()
    elif os.sys.argv[2] == "finally":
        try: train()
        finally: lapse.finish()
    else:
        train()
"""


@pytest.mark.parametrize(
    "given",
    [("1000", "with", "error"), ("1000", "finally", "interrupt"), ("1000", "exit", "error"),
     ("1", "exit")],
)  # fmt: skip
def test_a_program_with_a_stuck_device_ends(program, given):
    """By an exception at once: 1000 s are not waited for."""
    done = program(STUCK, *given, check=None, timeout=200)
    assert (done.returncode == 0) == (len(given) == 2), done.stderr
    recorded = done.stored.recorded()
    assert recorded["host"] == [(None, 2.0)] and "x" not in recorded
    texts = [event["text"] for event in done.stored.events("lapse.torch")]
    assert len([text for text in texts if "1 values" in text and "lost" in text]) == 1, texts


def test_elements_of_mixed_types_are_exact():
    import torch

    from lapse.torch import later

    got = []
    big = 2**53 - 1
    later(
        [torch.tensor(big), torch.tensor([[0.1]], dtype=torch.float64), torch.tensor(True)],
        lambda values, step, time_ns: got.append((values, step, time_ns)),
        step=4,
        time_ns=123,
    )
    assert got == [([big, 0.1, 1.0], 4, 123)]
    later([], lambda values, step, time_ns: got.append(values))
    assert got[1] == []


def test_gradients_do_not_matter():
    import torch

    from lapse.torch import later

    got = []
    x = torch.tensor(2.0, requires_grad=True)
    loss = x * 3
    later([loss, x], lambda values, *_: got.extend(values))
    assert got == [6.0, 2.0]
    loss.backward()
    assert x.grad == 3


def test_threads_put_at_once(device):
    import torch

    got = []

    def put(n):
        for i in range(200):
            device.later([torch.tensor(n * 1000 + i)], lambda values, *_: got.extend(values))
            device.run()

    threads = [threading.Thread(target=put, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.module.flush(wait=True)
    assert sorted(got) == sorted(n * 1000 + i for n in range(4) for i in range(200))


def test_names_are_those_of_the_page():
    """Each name of the table in docs/torch.md is there."""
    page = Path(__file__).resolve().parents[2] / "docs" / "torch.md"
    import lapse.torch

    table = page.read_text().partition("## Calls")[2].partition("\n## ")[0]
    names = set()
    for line in table.splitlines():
        if line.startswith("| `"):
            cell = line.split(" | ")[0].lstrip("| ")
            names |= {part.strip(" `").split("(")[0] for part in cell.split("`, `")}
    assert len(names) > 10
    for name in names:
        assert callable(getattr(lapse.torch, name)), name
    with pytest.raises(AttributeError, match="no attribute"):
        lapse.torch.nothing  # noqa: B018
    assert set(lapse.torch.__all__) == set(dir(lapse.torch))
