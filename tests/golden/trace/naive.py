#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""naive.py - the exact rule against a plain walk over the events in Python, for every trace
there is: those of AMD, of CPUs and of several steps too, where HTA has no such numbers.

    naive.py PROGRAM [NAME...]

PROGRAM and the folder of traces are those of compare.py. Held against each other, to the ns:
each launch with its work, the idle and the whole time of a rank, the gaps of each stream by
cause. Ends with 77 (skipped) without the folder.
"""
import bisect
import collections
import gzip
import json
import pathlib
import sys
import tempfile
from decimal import Decimal

import compare

WORK = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events"}
CALL = {"cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime"}
DELAY = 30000


def ns(number):
    return int(Decimal(number) * 1000)


def events(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as f:
        top = json.loads(f.read().decode("utf-8", "replace"), parse_float=Decimal)
    for e in top["traceEvents"] if isinstance(top, dict) else top:
        if e.get("ph") == "X" and "dur" in e and "cat" in e:
            yield (e["cat"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e.get("args") or {},
                   (e.get("pid"), e.get("tid")))


def busy(spans):
    """(whole, idle): from the first start to the last end, and what no span covers."""
    total, reach = 0, None
    for start, end in sorted(s for s in spans if s[1] >= s[0]):
        if reach is None or start > reach:
            total, reach = total + end - start, end
        elif end > reach:
            total, reach = total + end - reach, end
    whole = max(e for _, e in spans) - min(s for s, _ in spans)
    return whole, whole - total


def gaps(rows):
    """Gaps of one stream: rows are (start, end, start of the launch or None), by start."""
    found = collections.Counter()
    reach = None
    for start, end, launch in rows:
        if reach is not None and start > reach:
            if launch is not None and launch > reach:
                found["host_wait"] += start - reach
            elif start - reach < DELAY:
                found["kernel_wait"] += start - reach
            else:
                found["other"] += start - reach
        reach = end if reach is None else max(reach, end)
    return found


def walk(path):
    """(launches, whole and idle, gaps of streams) of one file."""
    calls, work = {}, []
    for cat, start, end, args, track in events(path):
        correlation = args.get("correlation", 0)
        if cat in CALL and correlation > 0:
            if correlation not in calls or start >= calls[correlation][0]:
                calls[correlation] = (start, end)
        elif cat in WORK:
            work.append((start, end, correlation, track, args.get("stream")))
    launches, streams = [], collections.defaultdict(list)
    for start, end, correlation, track, stream in work:
        call = calls.get(correlation)
        if call:
            launches.append((correlation, call[1] - call[0], end - start,
                             max(0, start - call[1])))
        rows = streams[track, stream]
        bisect.insort(rows, (start, end, call[0] if call else None), key=lambda r: r[0])
    return (sorted(launches), busy([w[:2] for w in work]) if work else None,
            sorted(tuple(gaps(rows)[k] for k in ("host_wait", "kernel_wait", "other"))
                   for rows in streams.values()))


def to_ns(us):
    return round(float(us) * 1000)


def ours(target):
    """The same of our tables, all ranks together."""
    def read(name):
        return compare.read_table(pathlib.Path(target) / f"{name}.csv") or []
    launches = sorted((int(r[0]), to_ns(r[1]), to_ns(r[2]), to_ns(r[3]))
                      for r in read("cuda_kernel_launch_stats"))
    times = sorted((to_ns(r[4]), to_ns(r[1])) for r in read("temporal_breakdown"))
    rows = read("idle_time_breakdown")
    idle = sorted(tuple(to_ns(r[3]) for r in rows[i:i + 3]) for i in range(0, len(rows), 3))
    return launches, times, idle


def main(args):
    program, data = args[0], compare.data_folder()
    if not data.is_dir():
        print(f"no folder of traces at {data} (LAPSE_TRACE_DATA names one): nothing compared")
        return 77
    bad = count = 0
    for folder, files in compare.jobs(data, args[1:]):
        with tempfile.TemporaryDirectory() as target:
            compare.run(program, "exact", files, target)
            got = ours(target)
            compare.run(program, "exact_devices", files, target)
            if ours(target) != got:
                bad += 1
                print("DIFFERENT", folder.name, "with devices_only")
        launches, times, idle = [], [], []
        for one in map(walk, files):
            launches += one[0]
            times += [one[1]] if one[1] else []
            idle += one[2]
        wanted = (sorted(launches), sorted(times), sorted(idle))
        for what, a, b in zip(("launches", "times", "gaps"), wanted, got):
            count += 1
            if a != b:
                bad += 1
                differ = [p for p in zip(a, b) if p[0] != p[1]][:1]
                print("DIFFERENT", folder.name, what, len(a), len(b), differ)
    print(f"exact rule against a plain walk: {count - bad} equal, {bad} different")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
