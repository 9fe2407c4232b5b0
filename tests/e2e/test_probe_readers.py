# SPDX-License-Identifier: Apache-2.0
"""Figures of a run against the tools that people trust: vmstat, iostat, ip and nstat for
counters, stress-ng for load of a known size. Each tool tells totals since boot: what
lapse counted in the run cannot be more than the totals rose around it, nor less than
they rose inside of it."""
import csv
import io
import json
import re
import shutil
import subprocess
import time

import pytest

from conftest import wait_for
from held import LIMIT, Held

pytestmark = pytest.mark.alone  # CPU, disks and counters of the whole machine


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def vmstat():
    found = {}
    for line in output("vmstat", "-s").splitlines():
        number, _, name = line.strip().partition(" ")
        found[name.strip()] = int(number)
    return found


def iostat():
    """Bytes read and written by device, as far as iostat rounds them (KiB)."""
    host = json.loads(output("iostat", "-d", "-k", "-o", "JSON"))["sysstat"]["hosts"][0]
    return {d["disk_device"]: (d["kB_read"] * 1024, d["kB_wrtn"] * 1024)
            for d in host["statistics"][0]["disk"]}


def points(lapse, *patterns):
    """What is stored of these series; nothing of those that are not here (yet)."""
    done = lapse("query", "last", *patterns, "--raw")
    series = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        series.setdefault(row["series"], []).append((int(row["time_ns"]), float(row["value"])))
    return series


class Course:
    """A run whose command does some work, and a reader's totals outside and inside of it:
    `outside` before and after the run, `inside` before and after the work, which begins when
    lapse has read the counters twice and after which it reads them once more. `found` is what
    is stored of `series`."""

    def __init__(self, lapse, read, work, *series):
        def is_read(since=-1):
            """Has each of the series, of those that are here, a later value?"""
            stored = points(lapse, *series)
            return stored and all(values[-1][0] > since for values in stored.values())

        self.outside, worked = [read()], lapse.folder / "worked"
        command = ("sh", "-c", f'read go; {work}; : > "$0"; cat', worked)
        with Held(lapse, command=command) as run:
            assert wait_for(is_read, LIMIT), "lapse does not read"
            self.inside = [read()]
            run.process.stdin.write("go\n")
            run.process.stdin.flush()
            assert wait_for(worked.exists, LIMIT)
            self.inside.append(read())
            after = time.time_ns()
            assert wait_for(lambda: is_read(after), LIMIT), "lapse reads no more"
        self.outside.append(read())
        self.found = points(lapse, *series)

    def check(self, total, value, slack=0):
        """Does a sum of a counter lie between what it must and what it can be?"""
        least = value(self.inside[1]) - value(self.inside[0])
        most = value(self.outside[1]) - value(self.outside[0])
        assert least - slack <= total <= most + slack, (least, total, most)


@needs("vmstat")
def test_vmstat(lapse):
    course = Course(lapse, vmstat, "i=0; while [ $i -lt 60 ]; do sleep 0.05; i=$((i+1)); done",
                    "cpu/switches", "cpu/interrupts", "cpu/forks", "memory/paged/*")
    found = course.found
    for series, name, unit in (("cpu/switches", "CPU context switches", 1),
                               ("cpu/interrupts", "interrupts", 1), ("cpu/forks", "forks", 1),
                               ("memory/paged/in", "K paged in", 1024),
                               ("memory/paged/out", "K paged out", 1024)):
        course.check(sum(v for _, v in found[series]), lambda row, n=name, u=unit: row[n] * u)
    # The work alone forked 60 times.
    assert sum(v for _, v in found["cpu/forks"]) >= 60


@needs("iostat")
def test_iostat(lapse):
    target = lapse.folder / "written"
    course = Course(lapse, iostat, f"for i in 1 2 3 4 5 6; do dd if=/dev/zero of={target} bs=1M count=8 "
                    "conv=fsync 2>/dev/null; sleep 0.3; done", "disk/read", "disk/written", "cpu/forks")
    found = course.found
    checked = 0
    for series, values in found.items():
        match = re.fullmatch(r'disk/(read|written)\{device="(.*)"\}', series)
        if not match or match[2] not in course.outside[0]:
            continue
        column = 0 if match[1] == "read" else 1
        course.check(sum(v for _, v in values), lambda row, d=match[2], c=column: row[d][c], 1024)
        checked += 1
    assert checked >= 2 or not course.outside[0]


@needs("ip", "nstat")
def test_ip(lapse):
    def read():
        links = {e["ifname"]: e["stats64"] for e in json.loads(output("ip", "-s", "-j", "link"))}
        tcp = json.loads(output("nstat", "-a", "-s", "-z", "-j", "TcpOutSegs"))
        return {"links": links, "segments": int(tcp["kernel"]["TcpOutSegs"])}

    course = Course(lapse, read, "sleep 3", "network/received", "network/sent",
                    "network/tcp/segments", "cpu/forks")
    found = course.found
    checked = 0
    for series, values in found.items():
        match = re.fullmatch(r'network/(received|sent)\{interface="(.*)"\}', series)
        if match and match[2] in course.outside[0]["links"]:
            side = "rx" if match[1] == "received" else "tx"
            course.check(sum(v for _, v in values),
                         lambda row, i=match[2], s=side: row["links"][i][s]["bytes"])
            checked += 1
    if "network/tcp/segments" in found:
        course.check(sum(v for _, v in found["network/tcp/segments"]),
                     lambda row: row["segments"])
    assert checked or not [i for i in course.outside[0]["links"] if i != "lo"]


@needs("stress-ng")
def test_stress_ng(lapse):
    """One worker that computes, one that holds 256 MiB."""
    done = lapse("run", "--", "stress-ng", "--quiet", "--cpu", "1", "--vm", "1", "--vm-bytes",
                 "256m", "--vm-keep", "--vm-populate", "--timeout", "7s")
    assert done.returncode == 0, done.stderr
    assert lapse.settled()
    run = lapse.json("show", "last")
    used = run["user_s"] + run["system_s"]
    found = points(lapse, "tree/cpu", "tree/rss", "cpu/busy", "cpu/count")
    cpu = found["tree/cpu"]
    # What the tree used between the first and last reading, against what the kernel
    # told the launcher of the whole run: less, but not by more than the ends may hold.
    seen = sum(v * (t - before) / 1e9
               for (before, _), (t, v) in zip(cpu, cpu[1:])) if len(cpu) > 1 else 0
    ends = run["duration_s"] - (cpu[-1][0] - cpu[0][0]) / 1e9
    assert 0.9 * used - 2 * ends <= seen <= 1.05 * used + 0.1, (seen, used, ends)
    assert max(v for _, v in found["tree/rss"]) >= 256 * 2**20
    # At least what the tree used was busy on the machine.
    count = found["cpu/count"][0][1]
    busy = sum(v for _, v in found["cpu/busy"][1:]) * count
    tree = sum(v for _, v in cpu[1:])
    assert busy >= 0.85 * tree - 0.5, (busy, tree)
