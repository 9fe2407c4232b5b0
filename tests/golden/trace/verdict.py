#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shares of a verdict, counted again from the JSON by the plainest way there is.

Every begin and end of every event is sorted and walked once; each instant goes to the first
kind that has something open. What is equal must be equal to the nanosecond: arithmetic, bytes
moved, copies, communication, data loader, all idle time, the wall time. Name tables are
written anew, for the names of these traces only. Skipped (77) where the traces are not.
"""

import collections
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

ARITHMETIC = re.compile(r"gemm|nvjet|cutlass|wgmma|flash|sdpa|attention|cudnn", re.I)
COMMUNICATION = re.compile(r"^nccl|ncclKernel")
SYNCS = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy"}
ORDER = ["arithmetic", "bytes", "copy", "communication", "overhead", "loader", "sync", "busy"]
NAMES = ["compiled", "compute_bound", "data_bound", "launch_bound", "with_stack", "ddp",
         "ddp_straggler"]


def nanoseconds(value):
    """Microseconds with up to three decimals: exact here, since they are below 2^53 ns apart."""
    return round(value * 1000)


def kind_of(event):
    """The kind of an event, or None if it counts for nothing."""
    name, cat = event["name"], event.get("cat")
    if cat == "kernel":
        if COMMUNICATION.search(name):
            return "communication"
        return "arithmetic" if ARITHMETIC.search(name) else "bytes"
    if cat == "gpu_memset":
        return "bytes"
    if cat == "gpu_memcpy":
        return "bytes" if "DtoD" in name else "copy"
    if cat == "overhead":
        return "overhead"
    if cat == "user_annotation":
        return "loader" if name.startswith("enumerate(DataLoader)") else None
    if cat in ("cuda_runtime", "cuda_driver"):
        return "sync" if name in SYNCS else "busy"
    return "busy" if cat == "cpu_op" else None


def shares(path):
    """Nanoseconds of each kind between the first step's begin and the last one's end."""
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    spans = [(nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"]), e)
             for e in events]
    steps = [(begin, end) for begin, end, e in spans
             if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
    first, last = min(s[0] for s in steps), max(s[1] for s in steps)
    edges = []
    for begin, end, event in spans:
        kind = kind_of(event)
        begin, end = max(begin, first), min(end, last)
        if kind and end > begin:
            edges += [(begin, 1, ORDER.index(kind)), (end, -1, ORDER.index(kind))]
    edges.sort()
    open_, result, at = [0] * len(ORDER), collections.Counter(), first
    for time, change, kind in edges:
        if time > at:
            top = next((ORDER[k] for k in range(len(ORDER)) if open_[k]), "nothing")
            result[top] += time - at
            at = time
        open_[kind] += change
    result["nothing"] += last - at
    return result


def check(program, path):
    """Compare one trace; the list of what differs."""
    want = shares(path)
    text = subprocess.run([program, path], check=True, capture_output=True).stdout
    rank = json.loads(text)["ranks"][0]
    have = {s["kind"]: s["ns"] for s in rank["shares"]}
    idle = sum(have[k] for k in ("profiler", "launch", "host", "sync", "unknown"))
    pairs = {
        "compute": (want["arithmetic"], have["compute"]),
        "memory": (want["bytes"], have["memory"]),
        "copy": (want["copy"], have["copy"]),
        "communication": (want["communication"], have["communication"] + have["straggler"]),
        "data": (want["loader"], have["data"]),
        "idle": (sum(want[k] for k in ("overhead", "sync", "busy", "nothing")), idle),
        "wall": (sum(want.values()), rank["wall_ns"]),
        "percent": (1000, round(10 * sum(s["percent"] for s in rank["shares"]))),
    }
    return [f"{path}: {name} is {b}, not {a}" for name, (a, b) in pairs.items() if a != b]


def main():
    """All traces there are."""
    default = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("LAPSE_TRACE_DATA", default)) / "h100"
    paths = [p for name in NAMES for p in sorted((folder / name).glob("rank*.gz"))]
    if not paths:
        print(f"no traces in {folder}: skipped")
        return 77
    wrong = [line for path in paths for line in check(sys.argv[1], path)]
    print("\n".join(wrong) or f"{len(paths)} of {len(paths)} traces equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
