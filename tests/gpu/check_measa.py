#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_measa - what only a CUDA device can show of lapse.torch's phases, late values,
loaders and rates.

    python tests/gpu/check_measa.py        with torch and lapse; a run is recorded for itself

Prints "ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2
without a device."""

import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time

import torch

import lapse
import lapse.torch
from lapse.torch import _later, _phase
from lapse.torch._step import step_now

BAD = []
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


def work(a, n=12):
    for _ in range(n):
        a = a @ a * 1e-3
    return a


def profiled(loop, folder):
    """Events of a trace of the loop."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        loop()
        torch.cuda.synchronize()
    path = os.path.join(folder, "trace.json")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        return json.load(file)["traceEvents"]


def counts(events):
    """{what makes the host wait: how often}"""
    out = dict.fromkeys(SYNCS, 0)
    out["pageable"] = 0
    for event in events:
        if event.get("name") in SYNCS:
            out[event["name"]] += 1
        if event.get("cat") == "gpu_memcpy" and "Pageable" in event.get("name", ""):
            out["pageable"] += 1
    return out


def no_synchronisation(a, folder):
    loss = torch.zeros((), device="cuda")
    rates = lapse.torch.Throughput(warmup=0, window=5, flops=1e9)

    def bare():
        for _ in range(20):
            work(a)
            loss.add_(1.0)

    def measured():
        for _ in range(20):
            with lapse.step():
                with lapse.torch.phase("outer"), lapse.torch.phase("inner"):
                    work(a)
                loss.add_(1.0)
                lapse.torch.log({"loss": loss, "more": {"n": loss.double()}, "lr": 0.1})
            rates.step(samples=8, tokens=loss.detach())

    measured()  # pools are made
    without, with_ = counts(profiled(bare, folder)), counts(profiled(measured, folder))
    check("no-synchronisation", with_ == without, f"{with_} without: {without}")


def late_values_keep_their_step(a):
    got = []
    with torch.inference_mode():
        lapse.torch.later([torch.ones((), device="cuda")], lambda *_: None)
    for i in range(200):
        with lapse.step(1000 + i):
            loss = work(a, 2).sum() * 0 + i
            lapse.torch.later([loss], lambda values, step, _: got.append((step, values[0])))
    behind = _later.queue.count
    lapse.torch.flush(wait=True)
    want = [(1000 + i, float(i)) for i in range(200)]
    check("late-values", got == want and behind > 0, f"{len(got)} of 200, {behind} were behind")
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool):
        one = []
        lapse.torch.later([torch.ones(3, device="cuda", dtype=dtype)], lambda v, *_: one.extend(v))  # noqa: B023
        lapse.torch.flush(wait=True)
        check(f"late-{dtype}", one == [1.0, 1.0, 1.0], one)


def phases_agree_with_the_trace(a, folder):
    """Per phase: from the first kernel's begin to the last one's end in the trace."""
    _phase._resolver.times.clear()

    def loop():
        for _ in range(10):
            with lapse.torch.phase("measured"):
                work(a)

    loop()
    lapse.torch.flush(wait=True)
    _phase._resolver.times.clear()
    events = profiled(loop, folder)
    lapse.torch.flush(wait=True)
    ranges = sorted(
        (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "user_annotation" and e.get("name") == "measured"
    )
    launches = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    windows = []
    for begin, end in ranges:
        kernels = [
            (e["ts"], e["ts"] + e["dur"])
            for e in events
            if e.get("cat") == "kernel"
            and begin <= launches.get(e["args"].get("correlation"), -1) <= end
        ]
        windows.append(max(k[1] for k in kernels) - min(k[0] for k in kernels))
    ours = lapse.torch.phase_times()["measured"]
    want, got = statistics.median(windows) / 1e6, ours.quantile(0.5)
    check("phase-times", ours.count == 10 and abs(got / want - 1) < 0.02,
          f"{got * 1e3:.4f} ms, in the trace {want * 1e3:.4f} ms")  # fmt: skip


def phases_are_placed_on_the_host_clock(a):
    """The end of a phase lies between the host's launch and what it saw of its end."""
    ends = []
    put = _phase._resolver.phase
    _phase._resolver.phase = lambda name, s, step, time_ns: ends.append((step, time_ns))
    seen = {}
    try:
        for step in range(50):
            with lapse.step(5000 + step), lapse.torch.phase("placed"):
                work(a)
            torch.cuda.synchronize()
            seen[step_now()] = lapse.now()
        lapse.torch.flush(wait=True)
    finally:
        _phase._resolver.phase = put
    late = [seen[step] - time_ns for step, time_ns in ends]
    right = len(late) == 50 and min(late) > -20_000 and statistics.median(late) < 100_000
    check("phase-clock", right, f"seen {min(late) / 1e3:.1f} to {max(late) / 1e3:.1f} us after")


def phases_of_streams_and_graphs(a):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), lapse.torch.phase("side"):
        work(a)
    lapse.torch.flush(wait=True)
    times = lapse.torch.phase_times()
    check("phase-stream", times["side"].count == 1 and times["side"].max > 0, times["side"])
    static = a.clone()
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        work(static, 2)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            with lapse.torch.phase("captured"):
                out = work(static, 2)
            lapse.torch.log({"captured": out.sum()})
        graph.replay()
        torch.cuda.synchronize()
        check("phase-graph", "captured" not in lapse.torch.phase_times(), "captured and replayed")
    except RuntimeError as error:
        check("phase-graph", False, error)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((256, 1024), float(i))


def loader_pins_and_copies():
    for workers in (0, 2):
        options = {"batch_size": 16, "num_workers": workers, "pin_memory": True}
        loader = lapse.torch.watch_loader(
            torch.utils.data.DataLoader(Data(), **options), f"{workers}"
        )
        right = True
        for i, batch in enumerate(loader):
            right &= batch.is_pinned() and loader.to(batch, "cuda")[:, 0, 0].tolist() == [
                float(16 * i + k) for k in range(16)
            ]
        lapse.torch.flush(wait=True)
        times = loader.last
        gigabytes = 16 * 256 * 1024 * 4 / 1e9
        rate = gigabytes / loader.total.copy.quantile(0.5)
        check(f"loader-{workers}-workers", right and times.load.count == 4 and rate > 1
              and loader.total.copy.count == 4, f"copies {rate:.1f} GB/s")  # fmt: skip


def mfu(a):
    rates = lapse.torch.Throughput(
        warmup=2, window=10, flops=lapse.torch.Flops(12 * 2 * a.shape[0] ** 3, "batch")
    )
    for _ in range(20):
        work(a)
        torch.cuda.synchronize()
        rates.step()
    mfu = rates.mfu()
    check("mfu", mfu is not None and 0.05 < mfu < 1.0, rates.report().replace("\n", "; "))


def overhead(a):
    """Of a step that takes about 30 ms, in turn with and without."""
    loss = torch.zeros((), device="cuda")
    start = time.perf_counter()
    work(a)
    torch.cuda.synchronize()
    n = max(1, int(0.03 / (time.perf_counter() - start) * 12))
    rates = lapse.torch.Throughput()

    def bare():  # from the same matrices: those that become 0 are multiplied faster
        for _ in range(4):
            work(a, n // 4)
        work(a, n - n // 4 * 4)

    def measured():
        with lapse.step():
            for name in ("forward", "backward", "optimizer", "clip"):
                with lapse.torch.phase(name):
                    work(a, n // 4)
            work(a, n - n // 4 * 4)
            lapse.torch.log({"loss": loss})
        rates.step(samples=8)

    seen = {bare: [], measured: []}
    for step in seen:
        for _ in range(5):
            step()
    for _ in range(12):
        for step, times in seen.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(10):
                step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 10)
    without, with_ = (statistics.median(seen[step]) for step in (bare, measured))
    check("overhead", with_ / without < 1.005,
          f"{(with_ / without - 1):.3%} of {without * 1e3:.2f} ms")  # fmt: skip


def main():
    if not torch.cuda.is_available():
        print("check_measa: no CUDA device", file=sys.stderr)
        return 2
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}")
    folder, shared = tempfile.mkdtemp(), tempfile.mkdtemp(dir="/dev/shm")
    os.environ.update(LAPSE_RENDEZVOUS=shared, LAPSE_DIR=os.path.join(folder, "runs"))
    run = lapse.init(capture=False, settings={"start_agent": False, "ring_kib": 65536})
    if not run.recording:
        print(f"# not recording: {run.error}")
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    work(a)
    try:
        no_synchronisation(a, folder)
        late_values_keep_their_step(a)
        phases_agree_with_the_trace(a, folder)
        phases_are_placed_on_the_host_clock(a)
        phases_of_streams_and_graphs(a)
        loader_pins_and_copies()
        mfu(a)
        overhead(a)
    finally:
        lapse.torch.flush(wait=True)
        lapse.finish()
        with contextlib.suppress(OSError, ValueError), open(f"{shared}/agent.lock") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        for path in (folder, shared):
            shutil.rmtree(path, ignore_errors=True)
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
