# SPDX-License-Identifier: Apache-2.0
"""lapse attach: a process that runs already is recorded from outside."""
import os
import platform
import signal
import subprocess
import sys

import pytest

# pylint: disable=redefined-outer-name # pytest fixtures
from launcher_harness import EAT, group

KERNEL = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])


@pytest.fixture
def child():
    """Makes processes that are not lapse's children, which run already, and ends them."""
    made = []

    def make(code):
        made.append(subprocess.Popen([sys.executable, "-c", "print(flush=True)\n" + code],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        made[-1].stdout.readline()
        return made[-1]

    yield make
    for process in made:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def attach(lapse, pid, *options):
    process = lapse.start("attach", *options, pid)
    line = process.stderr.readline()
    assert "recording process" in line, line
    return process


def left(lapse, watcher):
    """What is stored of the run, once the watcher has left."""
    assert watcher.wait(timeout=60) == 0
    assert lapse.settled()
    return lapse.json("show", "last")


def series(shown):
    return {series["name"]: series for series in shown.get("series", ())}


def test_until_it_ends(lapse, child, wait_for):
    process = child("import sys, time\nsys.stdin.read()\nsys.exit(3)")
    watcher = attach(lapse, process.pid, "--name", "rescue", "--project", "p")
    assert wait_for(lambda: {"tree/processes", "tree/rss"} <= set(series(lapse.shown())))
    process.stdin.close()
    process.wait()
    run = left(lapse, watcher)
    assert (run["name"], run["project"], run["outcome"]) == ("rescue", "p", "exited")
    assert run["exit_code"] == (3 if KERNEL >= (6, 15) else -1)
    assert run["command"].startswith(sys.executable)
    assert run["user_s"] is None and run["system_s"] is None
    names = series(run)
    assert names["tree/processes"]["max"] == 1
    assert names["tree/rss"]["min"] > 1 << 20


@pytest.mark.skipif(KERNEL < (6, 15), reason="the kernel tells only the parent how it ended")
def test_killed(lapse, child):
    process = child("import sys\nsys.stdin.read()")
    watcher = attach(lapse, process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait()
    run = left(lapse, watcher)
    assert (run["outcome"], run["signal"]) == ("signaled", "SIGTERM")


def test_killed_for_memory_and_not_reaped(lapse, child, group):
    """The status stays untold: the kernel's log says it all the same."""
    if not os.access("/dev/kmsg", os.R_OK) or os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        pytest.skip("the kernel's log cannot be read, or its pids are not ours")
    process = child("import sys; sys.stdin.read()\n" + EAT)
    (group / "cgroup.procs").write_text(str(process.pid))
    watcher = attach(lapse, process.pid)
    process.stdin.close()
    run = left(lapse, watcher)
    assert (run["outcome"], run["signal"]) == ("oom", "SIGKILL")
    assert f"Killed process {process.pid}" in run["evidence"]
    process.wait()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_leaves_it_alone(lapse, child, sig):
    process = child("import sys\nsys.stdin.read()")
    watcher = attach(lapse, process.pid)
    watcher.send_signal(sig)
    run = left(lapse, watcher)
    assert process.poll() is None
    assert run["outcome"] == "detached"
    assert str(process.pid) in run["evidence"]
    assert "detached" in lapse("ls").stdout


def test_no_such_process(lapse):
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = lapse("attach", gone.pid)
    assert done.returncode == 1 and f"no process {gone.pid}" in done.stderr
    assert not os.path.exists(lapse.runs) or os.listdir(lapse.runs) == []


@pytest.mark.parametrize("arguments", [(), ("x",), ("-5",), ("1", "2"), ("0",)])
def test_wrong_arguments(lapse, arguments):
    assert lapse("attach", *arguments).returncode == 2


def is_ours(lapse, pid):
    """Does a process of the machine, which may be gone by now, meet in our folder?"""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsencode(lapse.rendezvous) in file.read()
    except OSError:
        return False


def test_refuses_who_records_already(lapse, charlm, wait_for):
    run = lapse.start("run", "--", charlm, "--seconds", "100")
    try:
        assert wait_for(lambda: any(p["role"] == "trainer"
                                    for p in lapse.shown().get("processes", ())))
        pid = subprocess.run(["pgrep", "-x", "charlm"], capture_output=True, text=True,
                             check=True).stdout.split()
        refused = [lapse("attach", p) for p in pid if is_ours(lapse, p)]
        assert refused
        assert all(r.returncode == 1 and "records already" in r.stderr for r in refused)
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)
