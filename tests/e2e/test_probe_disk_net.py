# SPDX-License-Identifier: Apache-2.0
"""Disks, network, file systems and open files of a recorded run, against this test's own
reader of the same counters, which runs as the command; and against df.

Whatever else the machine does: what lapse counts between two of its readings must lie
between what the reader saw shortly inside and shortly outside of them."""
import bisect
import csv
import io
import json
import re
import subprocess
import sys

import pytest

from conftest import wait_for
from held import LIMIT, Held

pytestmark = pytest.mark.alone  # CPU, disks and counters of the whole machine

# Reads everything each 50 ms until its input ends, and in between writes, reads and sends.
READER = r"""
import json, os, socket, subprocess, sys, threading, time
folder, over = sys.argv[1], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()

def disks():
    out = {}
    for line in open("/proc/diskstats"):
        f = line.split()
        out[f[2]] = [int(f[5]) * 512, int(f[9]) * 512, int(f[3]), int(f[7])]
    return out

def interfaces():
    out = {}
    for line in open("/proc/net/dev").readlines()[2:]:
        name, rest = line.rsplit(":", 1)
        f = [int(x) for x in rest.split()]
        out[name.strip()] = [f[0], f[8], f[1], f[9]]
    return out

def space(path):
    v = os.statvfs(path)
    return [v.f_blocks * v.f_frsize, (v.f_blocks - v.f_bfree) * v.f_frsize, v.f_bavail * v.f_frsize]

def look():
    before = time.time_ns()
    row = {"disk": disks(), "net": interfaces(), "files": int(open("/proc/sys/fs/file-nr").read().split()[0]),
           "space": {p: space(p) for p in ("/", "/dev/shm") if os.path.isdir(p)}}
    return dict(row, before=before, after=time.time_ns())

rows, n = [look()], 0
with open(os.path.join(folder, "work"), "wb") as f:
    while not over.wait(0.05):
        rows.append(look())
        n += 1
        if n % 20 == 0:
            f.write(os.urandom(1 << 20) * 8)
            f.flush()
            os.fsync(f.fileno())
json.dump(rows, open(os.path.join(folder, "rows.json"), "w"))
"""
SLACK_NS = 500_000_000  # a reading may come late by this on a busy machine


@pytest.fixture(scope="module")
def seen():
    return {}


def readings(run):
    """How often lapse has read the machine."""
    return sum(s["count"] for s in run.get("series", []) if s["name"] == "memory/total")


@pytest.fixture
def recorded(lapse, seen):
    """(rows of the reader, {series: [(time, value)]}), once for all tests."""
    if seen:
        return seen["rows"], seen["series"]
    df = [subprocess.run(["df", "-B1", "--output=size,used,avail", "/"], text=True, check=True,
                         stdout=subprocess.PIPE).stdout.split()[-3:]]
    with Held(lapse, command=(sys.executable, "-c", READER, lapse.folder)) as run:
        assert wait_for((lapse.folder / "work").exists, LIMIT), "the reader does not begin"
        before = readings(lapse.shown())
        assert run.until(lambda run: readings(run) >= before + 6)
    df.append(subprocess.run(["df", "-B1", "--output=size,used,avail", "/"], text=True, check=True,
                             stdout=subprocess.PIPE).stdout.split()[-3:])
    raw = lapse("query", "last", "disk/*", "network/*", "filesystem/*", "files/*", "--raw")
    assert raw.returncode == 0, raw.stderr
    series = {}
    for row in csv.DictReader(io.StringIO(raw.stdout)):
        series.setdefault(row["series"], []).append((int(row["time_ns"]), float(row["value"])))
    rows = json.loads((lapse.folder / "rows.json").read_text())
    seen.update(rows=rows, series=series, df=df)
    return rows, series


def label(series, name, key):
    found = {}
    for full, points in series.items():
        match = re.fullmatch(re.escape(name) + r'\{' + key + r'="(.*)"\}', full)
        if match:
            found[match.group(1)] = points
    return found


def check_counter(rows, points, value):
    """points of a counter against value(row), between any two of lapse's readings."""
    befores, afters = [r["before"] for r in rows], [r["after"] for r in rows]
    checked = 0
    for i in range(len(points)):
        total = 0
        for k in range(i + 1, len(points)):
            total += points[k][1]
            first, last = points[i][0], points[k][0]
            # The reader's rows around each of the two moments.
            a_low = bisect.bisect_right(afters, first - SLACK_NS) - 1
            a_high = bisect.bisect_left(befores, first + SLACK_NS)
            b_low = bisect.bisect_right(afters, last - SLACK_NS) - 1
            b_high = bisect.bisect_left(befores, last + SLACK_NS)
            if a_low < 0 or b_high >= len(rows):
                continue
            most = value(rows[b_high]) - value(rows[a_low])
            least = max(0, value(rows[b_low]) - value(rows[a_high])) if b_low >= 0 else 0
            assert least <= total <= most, (i, k, least, total, most)
            checked += 1
    assert checked >= 3


def test_disks(recorded):
    rows, series = recorded
    devices = label(series, "disk/written", "device")
    if not devices:
        pytest.skip("no disk to be seen here")
    for device in devices:
        assert not re.match(r"(loop|ram|zram|sr|fd)\d", device)
        for k, name in enumerate(("disk/read", "disk/written", "disk/reads", "disk/writes")):
            points = label(series, name, "device")[device]
            check_counter(rows, points, lambda row, k=k, d=device: row["disk"][d][k])
        for _, busy in label(series, "disk/busy", "device").get(device, []):
            assert 0 <= busy <= 1
        for name in ("disk/latency/read", "disk/latency/write", "disk/queue"):
            for _, value in label(series, name, "device").get(device, []):
                assert 0 <= value < 10000


def test_network(recorded):
    rows, series = recorded
    interfaces = label(series, "network/received", "interface")
    assert "lo" not in interfaces
    used = {n for n, v in rows[0]["net"].items()
            if v[2] + v[3] and not re.match(r"lo$|veth|cali|lxc|ifb", n)}
    assert used <= set(interfaces)
    for interface in interfaces:
        for k, name in enumerate(("network/received", "network/sent", "network/packets/received",
                                  "network/packets/sent")):
            points = label(series, name, "interface")[interface]
            check_counter(rows, points, lambda row, k=k, n=interface: row["net"][n][k])


def test_file_systems(recorded, seen):
    rows, series = recorded
    slack = 64 << 20  # what others write between two looks
    for mount in rows[0]["space"]:
        for k, name in enumerate(("filesystem/total", "filesystem/used", "filesystem/available")):
            points = label(series, name, "mount").get(mount)
            if points is None:  # /dev/shm may be no mount of its own
                assert mount != "/"
                continue
            ours = [row["space"][mount][k] for row in rows]
            for _, value in points:
                assert min(ours) - slack <= value <= max(ours) + slack
            if k == 0:
                assert points[-1][1] == ours[-1]
    root = {name: label(series, "filesystem/" + name, "mount")["/"][0][1]
            for name in ("total", "used", "available")}
    df = [[int(x) for x in row] for row in seen["df"]]
    assert root["total"] == df[0][0]
    assert abs(root["used"] - df[0][1]) <= slack + abs(df[1][1] - df[0][1])
    assert abs(root["available"] - df[0][2]) <= slack + abs(df[1][2] - df[0][2])


def test_open_files(recorded):
    rows, series = recorded
    ours = [row["files"] for row in rows]
    for _, value in series["files/open"]:
        assert min(ours) * 0.5 - 200 <= value <= max(ours) * 2 + 200
