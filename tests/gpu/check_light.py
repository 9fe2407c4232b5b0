#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_light - what only a CUDA device can show of lapse.torch.Profile, the figures of
machine and GPUs for callbacks, and NsysCapture.

    python tests/gpu/check_light.py        with torch and lapse; a run is recorded for itself

Prints "ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2
without a device."""

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import lapse
import lapse.torch
from lapse import _machine
from lapse._resource_alerts import Alerts

BAD = []
STEP_MS = 30.0


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


class Training:
    """Steps of about 30 ms of matrix products."""

    def __init__(self):
        self.a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.n = 1
        for _ in range(3):
            self.step()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(20):
            self.step()
        torch.cuda.synchronize()
        one = (time.perf_counter() - begin) / 20
        self.n = max(1, round(STEP_MS / 1e3 / one))

    def step(self):
        b = self.a
        for _ in range(self.n):
            b = b @ self.a * 1e-3
        return b

    def measure(self, steps, each):
        """Seconds of each step, the device's work waited for."""
        out = []
        for _ in range(steps):
            begin = time.perf_counter()
            with lapse.step():
                self.step()
            torch.cuda.synchronize()
            each()
            out.append(time.perf_counter() - begin)
        return out


def check_profile(training, folder):
    shown = []
    profile = lapse.torch.Profile(wait=3, warmup=1, active=3, output_dir=folder, gz=True,
                                  profile_memory=True, on_trace=shown.append)  # fmt: skip
    with profile:
        for _ in range(12):
            training.step()
            torch.cuda.synchronize()
            profile.step()
    check("profile.reason", profile.reason == "" and len(shown) == 1, profile.reason or len(shown))
    if not shown:
        return
    (trace,) = shown
    check("profile.error", trace.error == "", trace.error or trace.path)
    with gzip.open(trace.path, "rt") as file:
        events = json.load(file)["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    check("profile.kernels", len(kernels) >= 3 * training.n, len(kernels))
    check("profile.verdict", bool(trace.bound), trace.verdict)
    device = sum(e["dur"] for e in kernels) / 1e6
    mine = sum(op.time for op in trace.operators)
    check("profile.device_time", abs(mine / device - 1) < 0.02, f"{mine:.4f} s of {device:.4f} s")
    with gzip.open(trace.path) as file:
        size = len(file.read())
    ratio = (profile.estimated_bytes or 0) / size
    check("profile.estimate", 0.4 < ratio < 2.5, f"{ratio:.2f} of the size")
    check("profile.stop", trace.stop_seconds < 5, f"{trace.stop_seconds:.3f} s")


def check_waiting(training, folder):
    """A Profile whose windows are over, and one that waits, cost nothing."""
    before = training.measure(60, lambda: None)
    profile = lapse.torch.Profile(wait=1_000_000, output_dir=folder, estimate=False)
    with profile:
        during = training.measure(60, profile.step)
    after = training.measure(60, lambda: None)
    base = statistics.median(before + after)
    cost = statistics.median(during) / base - 1
    check("profile.idle_overhead", cost < 0.005, f"{100 * cost:.3f} % of {base * 1e3:.1f} ms")


def check_machine(training):
    machine = _machine.share()
    end = time.monotonic() + 30
    while time.monotonic() < end and not machine.gpus:
        training.step()
        torch.cuda.synchronize()
    check("machine.gpus", len(machine.gpus) >= torch.cuda.device_count(), machine.gpus)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        training.step()
        torch.cuda.synchronize()
    asked = subprocess.run(
        ["nvidia-smi", "--format=csv,noheader,nounits",
         "--query-gpu=index,memory.used,memory.total,temperature.gpu,power.draw"],
        capture_output=True, text=True, check=False).stdout  # fmt: skip
    row = machine.row("ocr", 3.0)
    found = [name for name, value in row.items() if name.startswith("gpu_0") and value is not None]
    check("machine.columns", len(found) == 6, found)
    if asked:
        index, *rest = (x.strip() for x in asked.splitlines()[0].split(","))
        names = ("memory_used_mb", "memory_total_mb", "temp_c", "power_w")
        for name, theirs, near in zip(names, rest, (0.05, 0.01, 0.1, 0.25)):
            mine = row.get(f"gpu_{index}_{name}")
            ok = mine is not None and abs(mine - float(theirs)) <= near * float(theirs) + 1
            check(f"machine.{name}", ok, f"{mine} against {theirs}")
    busy = row.get("gpu_0_util")
    check("machine.busy", busy is not None and busy > 0.8, busy)
    check_alert(machine)
    _machine.give_back()


def check_alert(machine):
    """An idle GPU is told after 30 batches and three readings."""
    torch.cuda.synchronize()
    alerts = Alerts(gpu_util=0.5, memory=None, io_wait=None, temperature=None)
    found, batch, version, end = [], 0, machine.version, time.monotonic() + 15
    while time.monotonic() < end and not found:
        time.sleep(0.05)
        batch += 1
        if machine.version != version:
            version = machine.version
            found = alerts.look(machine, machine.gpus[:1], batch)
    check("alert.idle_gpu", bool(found), found[0].text if found else f"none in {batch} batches")


def check_nsys():
    capture = lapse.torch.NsysCapture("2:4")
    on = []
    for _ in range(5):
        with capture:
            on.append(capture.capturing)
    check("nsys.range", on == [False, True, True, False, False], on)


def main():
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        run = lapse.init(dir=os.path.join(folder, "runs"), capture=False)
        check("recording", run.recording, run.error or run.id)
        training = Training()
        check_profile(training, os.path.join(folder, "traces"))
        check_waiting(training, os.path.join(folder, "none"))
        check_machine(training)
        check_nsys()
        lapse.finish()
        time.sleep(1)
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
