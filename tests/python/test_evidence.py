# SPDX-License-Identifier: Apache-2.0
"""How a program ends, and what is known of it afterwards: with `lapse run` and
without, and never with another output or status than without lapse."""

import signal

import pytest
from ends import BEGIN, LAUNCHER, line_of, one, outcome, where


def with_and_without(place, code, launcher, status):
    """The script's run; what it printed must be the same without lapse."""
    bare = place.run(BEGIN + code, "off", check=status)
    done = place.script(BEGIN + code, launcher=launcher, check=status)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    return done


@LAUNCHER
def test_uncaught_exception(place, launcher):
    done = with_and_without(
        place,
        """
def inner():
    raise LookupError("no more data")
def outer():
    inner()
outer()
""",
        launcher,
        1,
    )
    assert outcome(done) == ("exited", 1, None)
    event = one(done, "exception")
    assert event["severity"] == "error"
    assert event["text"] == "LookupError: no more data"
    attrs = event["attrs"]
    assert attrs["type"] == "LookupError"
    assert attrs["message"] == "no more data"
    assert attrs["thread"] == "MainThread"
    assert attrs["where"] == where(place, "raise LookupError", "inner")
    assert attrs["traceback"] == done.stderr
    assert not done.events("crash")
    shown = place.command("show", "last").replace("\n  ", "\n")
    assert "\nTraceback of the last event exception (trainer)\n" + done.stderr in shown
    assert "1 error; last: exception: LookupError: no more data\n" in place.command("report")
    if not launcher:
        assert done.info["command"].endswith("script.py")


def test_spans_that_an_exception_ended(place):
    """Outermost first; not those of an earlier exception, wherever it lay."""
    done = place.script(
        BEGIN
        + """
def fail(outside):
    if outside:
        raise ValueError("outside")
    with lapse.span("forward"), lapse.span("layer 3"):
        raise ValueError("inside")

for i in range(100):
    try:
        fail(False)
    except ValueError:
        pass

@lapse.span("epoch")
def train():
    with lapse.step(7):
        fail(False)

def outside():
    fail(True)

import threading
for name, work in ("a", train), ("b", outside), ("c", lambda: fail(False)):
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()
try:
    train()
except ValueError:
    fail(True)
""",
        check=1,
    )
    told = {e["attrs"]["thread"]: e["attrs"].get("spans") for e in done.events("exception")}
    assert told == {
        "a": "epoch > forward > layer 3",
        "b": None,
        "c": "forward > layer 3",
        "MainThread": None,
    }


@LAUNCHER
def test_exception_in_a_thread(place, launcher):
    done = with_and_without(
        place,
        """
import threading
thread = threading.Thread(target=lambda: 1 / 0, name="loader")
thread.start()
thread.join()
print("goes on")
""",
        launcher,
        0,
    )
    assert done.stdout == "goes on\n"
    event = one(done, "exception")
    assert event["text"] == "ZeroDivisionError: division by zero"
    assert event["attrs"]["thread"] == "loader"
    assert outcome(done) == ("exited", 0, None)


@LAUNCHER
def test_nested_exceptions(place, launcher):
    done = with_and_without(
        place,
        """
def load():
    try:
        {}["weights"]
    except KeyError as error:
        raise OSError("no checkpoint") from error
try:
    load()
except OSError:
    raise RuntimeError("cannot start")
""",
        launcher,
        1,
    )
    attrs = one(done, "exception")["attrs"]
    assert attrs["traceback"] == done.stderr
    assert "KeyError: 'weights'" in attrs["traceback"]
    assert "direct cause" in attrs["traceback"] and "During handling" in attrs["traceback"]
    assert attrs["where"] == where(place, "cannot start", "<module>")


def test_huge_message(place):
    done = with_and_without(
        place,
        """
def fail():
    raise ValueError("begin " + '"\\n' * 2_000_000 + " end")
fail()
""",
        False,
        1,
    )
    event = one(done, "exception")
    assert len(event["text"].encode()) <= 4096
    assert event["text"].startswith('ValueError: begin "\n')
    assert event["text"].endswith('"\n end')
    assert "characters left out" in event["text"]
    traceback = event["attrs"]["traceback"]
    assert len(traceback.encode()) <= 8192
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith('"\n end\n')
    assert "in fail" in traceback


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("raise ValueError('half \\ud800 and nul \\0')", "ValueError: half \\ud800 and nul \ufffd"),
        ("raise MemoryError", "MemoryError"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("import json\njson.loads('{')", "json.decoder.JSONDecodeError: Expecting property name"),
    ],
)
def test_odd_exceptions(place, code, text):
    done = with_and_without(place, code, False, 1)
    assert one(done, "exception")["text"].startswith(text)


def test_exception_whose_text_fails(place):
    done = with_and_without(
        place,
        """
class Broken(Exception):
    def __str__(self):
        raise OSError("no text")
raise Broken
""",
        False,
        1,
    )
    event = one(done, "exception")
    assert event["attrs"]["type"] == "Broken"
    assert event["attrs"]["where"] == where(place, "raise Broken", "<module>")


@LAUNCHER
def test_interrupt_is_told_apart(place, launcher):
    code = (
        BEGIN
        + """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
while True:
    pass
"""
    )
    done = place.script(code, launcher=launcher, check=-signal.SIGINT)
    event = one(done, "interrupt")
    assert event["severity"] == "warning"
    assert event["attrs"]["type"] == "KeyboardInterrupt"
    assert not done.events("exception")
    # Nobody is told the signal without the launcher; 130 is what a shell says.
    assert outcome(done) == (("signaled", None, "SIGINT") if launcher else ("exited", 130, None))
    assert not done.events("crash")


@LAUNCHER
def test_os_exit(place, launcher):
    done = with_and_without(
        place,
        """
import os
def leave():
    print("last words", flush=True)
    os._exit(7)
leave()
""",
        launcher,
        7,
    )
    event = one(done, "exit")
    assert event["text"] == "os._exit(7)"
    assert event["attrs"] == {"status": 7, "where": where(place, "os._exit(7)", "leave")}
    assert outcome(done) == ("exited", 7, None)
    assert not done.events("crash")


@LAUNCHER
def test_sys_exit(place, launcher):
    done = with_and_without(place, "sys.exit(3)\n", launcher, 3)
    assert outcome(done) == ("exited", 3, None)
    assert not done.events("exception") and not done.events("crash")


@LAUNCHER
def test_sys_exit_with_a_text(place, launcher):
    done = with_and_without(
        place,
        """
def check(config):
    sys.exit("the learning rate is missing")
check({})
""",
        launcher,
        1,
    )
    assert outcome(done) == ("exited", 1, None)
    event = one(done, "exit")
    assert event["text"] == "sys.exit: the learning rate is missing"
    assert event["severity"] == "warning"
    assert event["attrs"] == {
        "message": "the learning rate is missing",
        "thread": "MainThread",
        "where": where(place, "sys.exit(", "check"),
    }


@pytest.mark.parametrize(
    ("call", "status"),
    [("sys.exit()", 0), ("sys.exit(None)", 0), ("sys.exit(True)", 1), ("sys.exit(0)", 0)],
)
def test_sys_exit_with_a_status_is_no_event(place, call, status):
    done = with_and_without(place, call, False, status)
    # That a status is not 0 the agent's check of the end tells, docs/alerts.md; not the program.
    assert [row["kind"] for row in done.events()] == ["alert"] * (status != 0)
    assert outcome(done) == ("exited", status, None)


@LAUNCHER
@pytest.mark.parametrize(
    ("number", "act"),
    [
        (signal.SIGKILL, "os.kill(os.getpid(), signal.SIGKILL)"),
        (signal.SIGSEGV, "ctypes.string_at(0)"),
        (signal.SIGABRT, "os.abort()"),
    ],
    ids=["kill", "segv", "abort"],
)
def test_killed(place, launcher, number, act):
    done = place.script(
        BEGIN
        + f"""
import ctypes, os, signal, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def fall():
    with lapse.span("forward"):
        {act}
with lapse.step(5):
    lapse.log({{"loss": 1.5}})
    fall()
""",
        launcher=launcher,
        check=-number,
    )
    assert outcome(done) == (("signaled", None, number.name) if launcher else ("lost", None, None))
    assert done.values("loss") == [1.5]
    lanes = one(done, "crash")["attrs"]["lanes"]
    assert "forward" in [span["name"] for lane in lanes for span in lane["open_spans"]]
    if number == signal.SIGKILL:
        assert not done.events("fatal")
    else:
        text = one(done, "fatal")["text"]
        assert text.startswith("Fatal Python error: ")
        assert 'File "{}", line {} in fall\n'.format(*line_of(place, act)) in text


def test_hooks_before_and_after(place):
    """A hook of the program runs whether it came before init() or after it, and
    finish() takes back what is still lapse's."""
    done = place.run(
        """
import faulthandler, os, sys, threading, traceback, warnings
def names():
    return [sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning,
            traceback.print_exc, os._exit, sys.exit, faulthandler.enable, faulthandler.disable]
original = names()
import lapse
lapse.init()
assert all(a is not b for a, b in zip(names(), original))
assert faulthandler.is_enabled()
lapse.finish()
assert names() == original
assert not faulthandler.is_enabled()

def before(*args):
    print("before")
sys.excepthook = before
print(lapse.init().id)
lapses = sys.excepthook
def after(*args):
    print("after")
    lapses(*args)
sys.excepthook = after
raise ValueError("seen by three")
""",
        check=1,
    )
    run, *printed = done.stdout.split()
    assert printed == ["after", "before"]
    assert done.stderr == ""
    assert one(place.stored(run), "exception")["text"] == "ValueError: seen by three"


def test_wrapped_hook_after_finish_and_again(place):
    """What cannot be taken out of a chain is silent, also when lapse comes again."""
    done = place.run(
        """
import sys, lapse
lapse.init()
inner = sys.excepthook
def wrapper(*args):
    print("wrapper")
    inner(*args)
sys.excepthook = wrapper
lapse.finish()
assert sys.excepthook is wrapper
print(lapse.init().id)
1 / 0
""",
        check=1,
    )
    run, *printed = done.stdout.split()
    assert printed == ["wrapper"]
    assert done.stderr.count("ZeroDivisionError") == 1
    assert one(place.stored(run), "exception")


@pytest.mark.parametrize(
    "code",
    [
        "with run:\n    raise ValueError('leaves')",
        "try:\n    raise ValueError('leaves')\nfinally:\n    lapse.finish()",
        "with run:\n    try:\n        raise ValueError('leaves')\n    finally:\n"
        "        lapse.finish()",
    ],
)
def test_exception_that_ends_the_run(place, code):
    """The ring is closed before the hook would see it."""
    done = place.script(BEGIN + code, check=1)
    assert one(done, "exception")["text"] == "ValueError: leaves"
    assert outcome(done) == ("exited", 1, None)


def test_finish_without_an_exception(place):
    done = place.script(
        BEGIN
        + """
try:
    raise ValueError("caught")
except ValueError:
    pass
with run:
    pass
"""
    )
    assert not done.events("exception")


def test_unraisable(place):
    done = place.script(
        BEGIN
        + """
class Broken:
    def __del__(self):
        raise ValueError("in a destructor")
Broken()
print("goes on")
"""
    )
    assert done.stderr.startswith("Exception ignored in: <function Broken.__del__")
    assert done.stderr.count("ValueError: in a destructor") == 1
    event = one(done, "exception")
    assert event["severity"] == "warning"
    assert event["attrs"]["message"] == "in a destructor"
    assert event["attrs"]["at"].startswith("Exception ignored")


def test_warnings_once_each(place):
    place.env.update(PYTHONWARNINGS="always", PYTHONTRACEMALLOC="3")
    done = with_and_without(
        place,
        """
import warnings
def warn(text):
    warnings.warn(text, UserWarning, stacklevel=1)
for i in range(3):
    warn("slow")
warn("slower")
def leak():
    open("/dev/null")
leak()
with warnings.catch_warnings(record=True) as caught:
    warn("kept by the program")
assert len(caught) == 1
""",
        False,
        0,
    )
    assert done.stderr.count("UserWarning: slow\n") == 3
    assert "Object allocated at" in done.stderr
    events = done.events("warning")
    assert [e["text"] for e in events[:2]] == ["UserWarning: slow", "UserWarning: slower"]
    assert [e["text"].split(":")[0] for e in events[2:]] == ["ResourceWarning"]
    assert events[0]["severity"] == "warning"
    assert events[0]["attrs"]["where"] == "{}:{}".format(*line_of(place, "stacklevel"))


def test_many_warnings_are_limited(place):
    done = place.script(
        BEGIN
        + """
import warnings
sys.stderr = open("/dev/null", "w")
for i in range(1000):
    warnings.warn(f"number {i}")
"""
    )
    assert [e["text"] for e in done.events("warning")] == [
        f"UserWarning: number {i}" for i in range(200)
    ]


@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_of_the_program_is_left_alone(place, when):
    own = "import faulthandler\nfaulthandler.enable()\n"
    start = own + BEGIN if when == "before" else BEGIN + own
    done = place.script(
        start
        + """
import ctypes, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
lapse.event("goes on")
ctypes.string_at(0)
""",
        check=-signal.SIGSEGV,
    )
    assert done.stderr.startswith("Fatal Python error: Segmentation fault")
    assert not done.events("fatal")


def test_faulthandler_of_the_program_outlives_finish(place):
    place.script(
        BEGIN
        + """
import faulthandler
faulthandler.enable()
lapse.finish()
assert faulthandler.is_enabled()
"""
    )


def test_capture_names_what_is_hooked(place):
    done = place.script(
        """
import faulthandler, os, sys, warnings, lapse
original = os._exit, warnings.showwarning
lapse.init(capture={"exceptions"})
assert (os._exit, warnings.showwarning) == original
assert not faulthandler.is_enabled()
lapse.finish()
lapse.init(capture=False)
assert sys.excepthook is sys.__excepthook__
1 / 0
""",
        check=1,
        runs=2,
    )
    assert not done.events("exception")


def test_asyncio(place):
    done = with_and_without(
        place,
        """
import asyncio
async def main():
    await asyncio.sleep(0)
    raise ValueError("in a task")
asyncio.run(main())
""",
        False,
        1,
    )
    assert one(done, "exception")["attrs"]["where"] == where(place, "in a task", "main")


def test_nothing_is_recorded_without_a_ring(place):
    """LAPSE_DISABLE: the program behaves as without lapse."""
    place.env["LAPSE_DISABLE"] = "1"
    done = place.run(
        """
import sys, lapse
lapse.init()
assert sys.excepthook is sys.__excepthook__
raise SystemExit("bye")
""",
        check=1,
    )
    assert done.stderr == "bye\n"
    assert place.ids() == []
