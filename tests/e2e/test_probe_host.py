# SPDX-License-Identifier: Apache-2.0
"""Figures of the machine in a recorded run against independent readers: psutil, which is
asked all the while, mpstat, free. What was recorded between its first and last reading
must lie between what the other saw within that time and what it saw around it."""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import wait_for
from held import LIMIT, Held, has

pytestmark = pytest.mark.alone  # CPU, disks and counters of the whole machine

WATCH = """
import json, os, psutil, sys, threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
def snapshot():
    begin = time.time()
    stat, swap = psutil.cpu_stats(), psutil.swap_memory()
    pressure = {}
    for kind in ("cpu", "memory", "io"):
        try:
            for line in open("/proc/pressure/" + kind):
                pressure[kind + "/" + line.split()[0]] = int(line.split("total=")[1])
        except OSError:
            pass
    cpu, cores = psutil.cpu_times()._asdict(), [c._asdict() for c in psutil.cpu_times(percpu=True)]
    return {"cpu": cpu, "cores": cores, "memory": psutil.virtual_memory()._asdict(),
            "swap": [swap.total, swap.used, swap.sin, swap.sout], "load": os.getloadavg(),
            "cpu/switches": stat.ctx_switches, "cpu/interrupts": stat.interrupts,
            "pressure": pressure, "begin": begin, "end": time.time()}
while True:
    print(json.dumps(snapshot()), flush=True)
    if over.wait(0.2):
        break
print(json.dumps(snapshot()), flush=True)
print(json.dumps({"count": psutil.cpu_count(), "physical": psutil.cpu_count(logical=False)}))
"""
LATE = 1.0  # seconds by which a reading may be later than its time


def python_with_psutil():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import psutil"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return pytest.skip("needs psutil (Debian: python3-psutil)")


def points(lapse, name, labels=""):
    """(time in s, value) of a series of the run's host."""
    done = lapse("query", name, "--points", "10000", "--json")
    assert done.returncode == 0, done.stderr
    found = [s for s in json.loads(done.stdout)["series"] if s["labels"] == labels]
    assert len(found) == 1, name
    return [(b["time_min_ns"] / 1e9, b["last"]) for b in found[0]["buckets"]]


class Watched:
    """A run of some seconds under a load, and what psutil saw."""

    def __init__(self, lapse):
        python = python_with_psutil()
        watcher = subprocess.Popen([python, "-c", WATCH], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        try:
            head = watcher.stdout.readline()  # it is at work
            # Busy in many short processes, until a line comes.
            load = ("while [ ! -e \"$0\" ]; do date > /dev/null; done & read line; "
                    ": > \"$0\"; wait")
            with Held(lapse, command=("sh", "-c", load, lapse.folder / "over")) as run:
                assert run.until(has("memory/total", 6))
        finally:
            text, _ = watcher.communicate("")
        *self.seen, self.counts = map(json.loads, (head + text).splitlines())
        self.lapse = lapse
        times = [t for t, _ in points(lapse, "memory/total")]
        self.first, self.last = times[0], times[-1]
        assert self.last - self.first > 2 * LATE
        self.before = [s for s in self.seen if s["end"] <= self.first][-1]
        self.after = self.seen[-1]
        inner = [s for s in self.seen
                 if self.first + LATE <= s["begin"] and s["end"] <= self.last]
        self.inner = (inner[0], inner[-1])

    def bracket(self, total, of, slack):
        """total was added from the first to the last reading; of(snapshot) is the counter."""
        least = of(self.inner[1]) - of(self.inner[0])
        most = of(self.after) - of(self.before)
        assert least - slack <= total <= most + slack, (least, total, most)

    def seconds(self, name, labels=""):
        """A share summed over the time between readings, in seconds."""
        values = points(self.lapse, name, labels)
        times = [self.first] + [t for t, _ in values]
        return sum(v * (b - a) for (_, v), a, b in zip(values, times, times[1:]))


@pytest.fixture
def watched(lapse):
    return Watched(lapse)


def busy(t):
    return sum(t[k] for k in ("user", "nice", "system", "irq", "softirq", "steal"))


def test_agrees_with_psutil(lapse, watched):
    w = watched
    cpus = w.counts["count"]
    assert points(lapse, "cpu/count")[0][1] == cpus
    if w.counts["physical"]:
        assert points(lapse, "cpu/count/physical")[0][1] == w.counts["physical"]
    assert points(lapse, "cpu/count/affinity")[0][1] == len(os.sched_getaffinity(0))

    # counters: nothing is rounded
    for name in ("cpu/switches", "cpu/interrupts"):
        w.bracket(sum(v for _, v in points(lapse, name)), lambda s: s[name], 0)
    for name, i in (("swap/in", 2), ("swap/out", 3)):
        w.bracket(sum(v for _, v in points(lapse, name)), lambda s: s["swap"][i], 0)

    # shares: ticks of 10 ms, each state and CPU rounded by itself
    slack = 0.1 * cpus
    w.bracket(w.seconds("cpu/busy") * cpus, lambda s: busy(s["cpu"]), slack)
    w.bracket(w.seconds("cpu/system") * cpus, lambda s: s["cpu"]["system"], slack)
    w.bracket(w.seconds("cpu/steal") * cpus, lambda s: s["cpu"]["steal"], slack)
    w.bracket(w.seconds("cpu/irq") * cpus, lambda s: s["cpu"]["irq"] + s["cpu"]["softirq"], slack)
    w.bracket(w.seconds("cpu/user") * cpus, lambda s: s["cpu"]["user"] + s["cpu"]["nice"]
              - s["cpu"]["guest"] - s["cpu"]["guest_nice"], slack)
    for i in range(len(w.after["cores"])):
        w.bracket(w.seconds("cpu/core/busy", f'cpu="{i}"'), lambda s: busy(s["cores"][i]), 0.1)

    for kind in w.after["pressure"]:
        if kind == "cpu/full":
            continue
        name = "pressure/" + kind.replace("/some", "")
        w.bracket(w.seconds(name), lambda s: s["pressure"][kind] / 1e6, 0.05)


def test_memory_and_load_agree_with_psutil(lapse, watched):
    w = watched
    total = w.after["memory"]["total"]
    assert {v for _, v in points(lapse, "memory/total")} == {total}
    assert {v for _, v in points(lapse, "swap/total")} == {w.after["swap"][0]}
    for name, field in (("memory/available", "available"), ("memory/free", "free"),
                        ("memory/buffers", "buffers"), ("memory/shared", "shared")):
        seen = [s["memory"][field] for s in w.seen]
        for _, value in points(lapse, name):
            assert min(seen) - 0.1 * total <= value <= max(seen) + 0.1 * total, name
    used = dict(points(lapse, "memory/used"))
    for t, available in points(lapse, "memory/available"):
        assert used[t] + available == total
    for i, name in enumerate(("load/1m", "load/5m", "load/15m")):
        seen = [s["load"][i] for s in w.seen]
        for _, value in points(lapse, name):
            assert min(abs(value - s) for s in seen) < 0.02, name


@pytest.mark.skipif(not shutil.which("mpstat") or not shutil.which("taskset"),
                    reason="needs mpstat (Debian: sysstat) and taskset")
def test_core_agrees_with_mpstat(lapse):
    """A CPU that is busy all the while is so in both, and it is the same one."""
    cpu = max(os.sched_getaffinity(0))
    spin = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
    try:
        done = lapse("run", "--", "mpstat", "-P", str(cpu), "-o", "JSON", "4", "1")
    finally:
        spin.kill()
        spin.wait()
    assert done.returncode == 0, done.stderr
    assert lapse.settled()
    load = json.loads(done.stdout)["sysstat"]["hosts"][0]["statistics"][-1]["cpu-load"]
    theirs = 1 - (load[0]["idle"] + load[0]["iowait"]) / 100
    ours = [v for _, v in points(lapse, "cpu/core/busy", f'cpu="{cpu}"')]
    assert load[0]["cpu"] == str(cpu) and theirs > 0.9
    assert sum(ours) / len(ours) > 0.9


@pytest.mark.skipif(not shutil.which("free"), reason="needs free (Debian: procps)")
def test_memory_agrees_with_free(lapse):
    with Held(lapse, command=("sh", "-c", "read line; free -b")) as run:
        assert run.until(lambda seen: has("memory/total")(seen) and has("swap/total")(seen))
        text = run.end("\n")
    rows = {line.split(":")[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert points(lapse, "memory/total")[0][1] == int(rows["Mem"][0])
    assert points(lapse, "swap/total")[0][1] == int(rows["Swap"][0])


def quota_cgroup():
    """A new cgroup that has 1.5 CPUs, v1 or v2."""
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    try:
        if (v1 / "cgroup.procs").exists():
            folder = v1 / f"lapse-test-{os.getpid()}"
            folder.mkdir()
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("150000")
        else:
            folder = v2 / f"lapse-test-{os.getpid()}"
            folder.mkdir()
            (folder / "cpu.max").write_text("150000 100000")
        return folder
    except OSError as error:
        return pytest.skip(f"no cgroup with a quota can be made here: {error}")


def test_quota_of_a_cgroup(lapse):
    folder = quota_cgroup()
    try:
        enter = f"echo $$ > {folder}/cgroup.procs && exec {lapse.program} run -- cat"
        run = subprocess.Popen(["sh", "-c", enter], env=lapse.env, cwd=lapse.folder, stdin=subprocess.PIPE)
        assert wait_for(lambda: has("cpu/quota")(lapse.shown()), LIMIT)
        run.communicate()
        assert run.returncode == 0
        assert points(lapse, "cpu/quota")[0][1] == 1.5
    finally:
        for _ in range(100):  # the agent ends by itself
            try:
                folder.rmdir()
                break
            except OSError:
                for pid in (folder / "cgroup.procs").read_text().split():
                    (folder.parent / "cgroup.procs").write_text(pid)
                time.sleep(0.1)
