# SPDX-License-Identifier: Apache-2.0
"""Processes of a recorded run against psutil, which the program asks about itself and its
workers while they stand still or burn CPU at a known rate."""
import json
import subprocess
import sys

import pytest

from held import Held, has

pytestmark = pytest.mark.alone  # its workers keep the CPUs busy

PROGRAM = """
import json, multiprocessing, os, psutil, resource, sys, threading, time

def work(out):
    ballast = bytearray(24 << 20)
    began, end = time.time(), time.time() + 7
    with open(sys.executable, "rb") as file:
        while time.time() < end:
            file.seek(0)
            while file.read(65536):
                pass
    out.put((os.getpid(), began, os.times()[0] + os.times()[1],
             psutil.Process().io_counters().read_chars))
    time.sleep(2)

def look(process):
    with process.oneshot():
        listing = process.pid == os.getpid()  # a descriptor of ours lists ours
        return {"rss": process.memory_info().rss, "threads": process.num_threads(),
                "files": process.num_fds() - listing}

context = multiprocessing.get_context("fork")
out = context.SimpleQueue()
ballast = bytearray(64 << 20)
files = [open("/dev/null") for _ in range(40)]
for _ in range(3):
    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
sys.stdin.readline()  # lapse has begun
workers = [context.Process(target=work, args=(out,)) for _ in range(2)]
for w in workers:
    w.start()
time.sleep(4)
me = psutil.Process()
seen = {"command": look(me), "workers": [look(psutil.Process(w.pid)) for w in workers]}
done = [out.get() for _ in workers]
for w in workers:
    w.join()
time.sleep(1.5)
print(json.dumps({**seen, "done": done}), flush=True)
"""


def python_with_psutil():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import psutil"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return pytest.skip("needs psutil (Debian: python3-psutil)")


@pytest.fixture
def run(lapse):
    """What the program saw, and the recorded points of a series by name and labels."""
    with Held(lapse, command=(python_with_psutil(), "-c", PROGRAM)) as held:
        assert held.until(has("tree/processes", 2))
        text = held.end("\n")

    def points(name, labels=""):
        found = lapse("query", name, "--points", "10000", "--json")
        assert found.returncode == 0, found.stderr
        series = [s for s in json.loads(found.stdout)["series"] if s["labels"] == labels]
        assert len(series) == 1, (name, labels)
        return [(b["time_min_ns"] / 1e9, b["last"]) for b in series[0]["buckets"]]

    return json.loads(text.splitlines()[-1]), points


def test_processes_agree_with_psutil(run):
    seen, points = run
    command = 'role="command",slot="0"'
    workers = ['role="worker",slot="0"', 'role="worker",slot="1"']
    # values that stand still for the seconds around psutil's look
    for labels, theirs in [(command, seen["command"]), *zip(workers, seen["workers"])]:
        rss = sorted(v for _, v in points("process/rss", labels))
        assert rss[len(rss) // 2] == pytest.approx(theirs["rss"], rel=0.1)
        assert theirs["threads"] in [v for _, v in points("process/threads", labels)]
        assert theirs["files"] in [v for _, v in points("process/files", labels)]
    assert max(v for _, v in points("process/rss/peak", command)) >= 64 << 20
    assert max(v for _, v in points("tree/processes")) == 3
    assert max(v for _, v in points("tree/threads")) == 6

    # CPU of each worker: mean over its readings against its own times, which are a lower
    # bound (it sleeps afterwards) of what was used from the first reading to the last
    total = 0
    for labels in workers:
        cpu = points("process/cpu", labels)
        total += sum(v * (b - a) for (a, _), (b, v) in zip(cpu, cpu[1:])) + cpu[0][1]
    used = sum(d[2] for d in seen["done"])
    assert used / 2 < total < used * 1.25 + 0.5

    # what the workers read, once: in the tree, also what their parent inherited
    read = sum(d[3] for d in seen["done"])
    assert sum(v for _, v in points("tree/read/all")) == pytest.approx(read, rel=0.1)
    assert max(v for _, v in points("process/read/size", workers[0])) <= 65536
    assert min(v for _, v in points("process/read/cached", workers[0])) > 0.5
