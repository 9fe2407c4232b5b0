# SPDX-License-Identifier: Apache-2.0
"""How children of a program end, forked, spawned or of a pool, and what is known of it
afterwards."""

import os
import signal

import pytest
from ends import BEGIN, LAUNCHER, one, outcome, where


@LAUNCHER
def test_leaked_fork(place, launcher, wait_for):
    """The program has ended, whatever it left running."""
    done = place.script(
        BEGIN
        + """
import os, time
child = os.fork()
if child == 0:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    time.sleep(100)
    os._exit(0)
print(child)
sys.exit(4)
""",
        launcher=launcher,
        check=4,
    )
    child = int(done.stdout)
    try:
        assert outcome(done) == ("exited", 4, None)
        os.kill(child, 0)  # it lives
        assert not done.events("crash")
    finally:
        os.kill(child, signal.SIGKILL)


def test_forked_child_that_crashes(place):
    """A child without a ring tells its crash in its parent's file, one with a ring
    in its own; neither touches the parent's outcome."""
    done = place.script(
        BEGIN
        + """
import ctypes, os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def quiet_child():
    ctypes.string_at(0)
def recording_child():
    lapse.event("hello")
    ctypes.string_at(0)
for run_child in (quiet_child, recording_child):
    pid = os.fork()
    if pid == 0:
        run_child()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == 11
""",
        launcher=True,
    )
    fatal = {"quiet": None, "recording": None}
    for event in done.events("fatal"):
        for name in fatal:
            if f"in {name}_child" in event["text"]:
                fatal[name] = event["process"]
    assert None not in fatal.values(), fatal
    assert outcome(done) == ("exited", 0, None)


def test_worker_that_ends_well_leaves_nothing(place):
    done = place.script(
        BEGIN
        + """
import os
for status in (0, 9):
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    os.waitpid(pid, 0)
"""
    )
    assert one(done, "exit")["text"] == "os._exit(9)"
    assert len(done.processes()) == 2
    assert not done.events("crash")


def test_spawned_child_records_its_own(place):
    done = place.script(
        """
import multiprocessing, os, lapse
def work():
    lapse.init()
    os._exit(5)
if __name__ == "__main__":
    lapse.init()
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 5
""",
        launcher=True,
    )
    assert one(done, "exit")["text"] == "os._exit(5)"
    assert outcome(done) == ("exited", 0, None)


CHILD = """
import multiprocessing, sys
def begin():
    if "off" not in sys.argv:
        import lapse
        lapse.init()
def work(before):
    begin()
    {}
if __name__ == "__main__":
    begin()
    context = multiprocessing.get_context("{}")
    try:
        raise KeyError("handled")
    except KeyError:
        child = context.Process(target=work, args=(1,), name="loader")
        child.start()
    child.join()
    print(child.exitcode)
"""
METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])


@pytest.mark.parametrize(
    ("method", "launcher"),
    [("fork", False), ("fork", True), ("spawn", True), ("forkserver", True)],
)
def test_exception_of_a_multiprocessing_child(place, launcher, method):
    """It is printed there and reaches no hook."""
    code = CHILD.format('raise LookupError("no more data")', method)
    bare = place.run(code, "off")
    done = place.script(code, launcher=launcher)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    assert done.stdout == "1\n"
    event = one(done, "exception")
    assert event["text"] == "LookupError: no more data"
    assert event["severity"] == "error"
    assert event["attrs"]["at"] == "end of loader"
    assert event["attrs"]["where"] == where(place, "no more data", "work")
    assert event["attrs"]["traceback"] in "Process loader:\n" + done.stderr
    roles = {p["process"]: p["role"] for p in done.processes()}
    assert roles[event["process"]] == "worker"
    assert outcome(done) == ("exited", 0, None)
    assert not done.events("crash")


@METHODS
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "lapse = sys.modules['lapse']"])
def test_multiprocessing_child_that_ends_well(place, method, end):
    runs = 1 if method == "fork" else 2  # without the launcher a new interpreter has its own
    done = place.script(CHILD.format(end, method), runs=runs)
    assert done.stdout == "0\n"
    assert not done.events("exception") and not done.events("exit")


def test_exception_of_a_child_that_finishes_first(place):
    """Told once, by finish()."""
    code = "import lapse\n    try:\n        1 / 0\n    finally:\n        lapse.finish()"
    done = place.script(CHILD.format(code, "spawn"), runs=2)
    assert done.stdout == "1\n"
    assert one(done, "exception")["text"] == "ZeroDivisionError: division by zero"


def test_exception_in_a_pool_comes_back(place):
    done = place.script(
        BEGIN
        + """
import multiprocessing
def work(i):
    return 1 // (i - 2)
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(work, range(4))
""",
        check=1,
    )
    event = one(done, "exception")
    assert event["attrs"]["traceback"] == done.stderr
    assert "in work" in done.stderr and "RemoteTraceback" in done.stderr
