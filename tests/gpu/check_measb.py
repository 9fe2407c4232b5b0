#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of lapse.torch what only a CUDA device can show: gradients, histograms, optimizer,
allocator, compiler, inference. Needs PyTorch with CUDA and the package; prints a line
`ok NAME figure` or `not ok NAME why` for each check, status 1 if one fails.

    python tests/gpu/check_measb.py [--no-compile]
"""

import argparse
import math
import os
import sys
import tempfile
import time
import traceback

import torch

import lapse
from lapse import torch as measure

DEVICE = "cuda"
SYNCS = (
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy",
    "cuStreamSynchronize", "cuCtxSynchronize",
)  # fmt: skip


class WrongError(Exception):
    """What a check found instead."""


def expect(truth, what):
    if not truth:
        raise WrongError(what)


def close(a, b, relative, what):
    expect(a == b or abs(a - b) <= relative * abs(b), f"{what}: {a!r}, not {b!r}")


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = torch.nn.LayerNorm(width), torch.nn.MultiheadAttention(
            width, 16, batch_first=True
        )
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
            torch.nn.Linear(4 * width, width),
        )  # fmt: skip

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


def gpt(width=1024, depth=12):
    """Some 150 million parameters in some 200 tensors."""
    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block(width) for _ in range(depth))).to(DEVICE)


class Loop:
    """A training loop of bf16 autocast, with or without the helpers."""

    def __init__(self, model, batch=8, length=1024, every=10):
        self.model = model
        self.x = torch.randn(batch, length, model[0].mlp[1].in_features, device=DEVICE)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        self.gradients = measure.Gradients(model, layers=1, every=every)
        self.helpers = [
            self.gradients,
            measure.Histograms(model),
            measure.OptimizerState(self.optimizer),
            measure.Allocator(),
        ]
        self.collector = measure.GarbageCollector()
        self.n = 0

    def step(self, measured):
        with lapse.step(self.n):
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = self.model(self.x).float().pow(2).mean()
            loss.backward()
            if measured:
                for helper in self.helpers:
                    helper.step()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.n += 1

    def reasons(self):
        return [helper.reason for helper in self.helpers if helper.reason]


def check_norms(_):
    """In each precision: what clip_grad_norm_ returns, and the sum in double precision."""
    figures = []
    for dtype, relative in ((torch.float32, 2**-21), (torch.float16, 2**-9),
                            (torch.bfloat16, 2**-6)):  # fmt: skip
        torch.manual_seed(1)
        model = gpt(256, 4).to(dtype)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        one = measure.Gradients(model, every=1, layers=1)
        one.step()
        clipped = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30))
        measure.flush(wait=True)
        expect(not one.reason, one.reason)
        exact = math.sqrt(sum(float(p.grad.double().pow(2).sum()) for p in model.parameters()))
        close(one.total, clipped, relative, f"{dtype} against clip_grad_norm_")
        close(one.total, exact, 1e-5, f"{dtype} against double precision")
        parts = math.sqrt(sum(v**2 for v in one.layers.values()))
        close(parts, one.total, 1e-9, "layers together")
        figures.append(f"{str(dtype)[6:]} {abs(one.total - clipped) / clipped:.1e}")
    return "relative difference to clip_grad_norm_: " + ", ".join(figures)


def check_late(_):
    """Values are those of their own step though the next ones are made meanwhile."""
    p = torch.nn.Parameter(torch.zeros(1000, device=DEVICE))
    one = measure.Gradients([("p", p)], every=1, exploding=None, vanishing=None)
    seen = []
    take = one._arrived

    def arrived(numbers, norms, total, step, *more):
        seen.append((step, norms[0]))
        take(numbers, norms, total, step, *more)

    one._arrived = arrived
    for i in range(50):
        with lapse.step(1000 + i):
            torch.cuda._sleep(200_000)  # the device is behind the host
            p.grad = torch.full_like(p, float(i))
            one.step()
    behind = len(seen)
    measure.flush(wait=True)
    expect(not one.reason, one.reason)
    expect(len(seen) == 50, f"{len(seen)} of 50 arrived")
    for i, (step, norm) in enumerate(seen):
        expect(step == 1000 + i, f"value {i} has step {step}")
        close(norm, i * math.sqrt(1000), 1e-5, f"norm of step {i}")
    return f"{behind} of 50 had arrived when the last was sent"


def check_bad(_):
    model = gpt(256, 2)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    one = measure.Gradients(model, every=1, layers=1)
    one.step()
    measure.flush(wait=True)
    expect(one.bad == {}, f"bad before anything was: {one.bad}")
    grad = model[1].mlp[1].weight.grad
    grad[0, 0], grad[1, 1], grad[2, 2] = math.nan, math.inf, -math.inf
    for _ in range(2):
        one.step()
        measure.flush(wait=True)
    expect(not one.reason, one.reason)
    expect(one.bad == {"1.mlp.1.weight": 2}, str(one.bad))
    expect(one.elements == {"nan": 1, "inf": 2}, str(one.elements))
    return str(one.bad)


def check_scaler(_):
    model = gpt(256, 2)
    x = torch.randn(2, 16, 256, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(x).pow(2).mean().backward()
    expected = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30))
    optimizer.zero_grad()
    make = getattr(torch.amp, "GradScaler", None)
    scaler = make(DEVICE, init_scale=4096.0) if make else torch.cuda.amp.GradScaler(4096.0)
    scaler.scale(model(x).pow(2).mean()).backward()
    one = measure.Gradients(model, every=1)
    for unscale in (False, True):
        if unscale:
            scaler.unscale_(optimizer)
        one.step(scaler, optimizer)
        measure.flush(wait=True)
        expect(not one.reason, one.reason)
        close(one.total, expected, 1e-4, f"unscaled before: {unscale}")
    return f"norm {one.total:.6g}"


def check_histograms(_):
    """Counts are those of the same elements on the CPU."""
    figures = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        torch.manual_seed(2)
        values = (torch.randn(200_000) * torch.exp(torch.randn(200_000) * 4)).to(dtype)
        values[:4] = torch.tensor([0.0, math.nan, math.inf, -math.inf])
        for options in ({}, {"per_octave": 16}, {"bins": 50, "limits": (-2.0, 2.0)}):
            got = []
            for device in ("cpu", DEVICE):
                p = torch.nn.Parameter(values.to(device))
                one = measure.Histograms([("p", p)], every=1, gradients=False, **options)
                one.step()
                measure.flush(wait=True)
                expect(not one.reason, one.reason)
                got.append(one.last["parameters/p"])
            a, b = got
            if "bins" in options:  # an element on an edge may be on either side of it
                moved = sum(abs(x - y) for x, y in zip(a.counts, b.counts))
                moved += abs(a.outside - b.outside)
                expect(moved <= 400, f"{moved} of 200,000 are in other bins")
            else:
                expect(a.counts == b.counts, f"{dtype} {options}: counts differ")
            expect((a.nan, a.inf) == (b.nan, b.inf), "NaN and infinite")
            expect(a.nan == 1 and a.inf >= 2, f"{a.nan} NaN, {a.inf} infinite")
            figures += 1
    n = (1 << 24) + 3
    p = torch.nn.Parameter(torch.ones(n, device=DEVICE))
    one = measure.Histograms([("p", p)], every=1, gradients=False, elements=None)
    one.step()
    measure.flush(wait=True)
    expect(one.last["parameters/p"].elements == n, "more than 2^24 of one value")
    return f"{figures} histograms of 200,000 elements"


def check_allocator(_):
    memory = measure.Allocator(every=1)
    kept = torch.empty(1 << 28, device=DEVICE)
    memory.step()
    theirs = torch.cuda.memory_stats()
    last = memory.last[torch.cuda.current_device()]
    for ours, name in (("allocated", "allocated_bytes.all.current"),
                       ("reserved", "reserved_bytes.all.current"),
                       ("allocated/peak", "allocated_bytes.all.peak"),
                       ("reserved/peak", "reserved_bytes.all.peak"),
                       ("inactive_split", "inactive_split_bytes.all.current"),
                       ("retries", "num_alloc_retries"), ("ooms", "num_ooms")):  # fmt: skip
        expect(last[ours] == theirs[name], f"{ours}: {last[ours]}, not {theirs[name]}")
    start = time.perf_counter()
    for _ in range(200):
        memory.step()
    ours = (time.perf_counter() - start) / 200
    start = time.perf_counter()
    for _ in range(200):
        torch.cuda.memory_stats()
    theirs = (time.perf_counter() - start) / 200
    del kept
    try:
        torch.empty(1 << 42, device=DEVICE)
    except torch.cuda.OutOfMemoryError:
        pass
    memory.step()
    after = memory.last[torch.cuda.current_device()]["ooms"]
    expect(after == last["ooms"] + 1, f"{after} failures counted")
    return f"{ours * 1e6:.1f} us a step; torch.cuda.memory_stats() alone {theirs * 1e6:.1f} us"


def synchronisations(loop, measured, steps=20):
    """How often the host waits in so many steps, by call."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(5):
        loop.step(measured)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(steps):
            loop.step(measured)
    counts = {}
    for event in prof.events():
        if event.name in SYNCS or "Pageable" in event.name:
            counts[event.name] = counts.get(event.name, 0) + 1
    measure.flush(wait=True)
    return counts


def check_synchronisation(_):
    loop = Loop(gpt(512, 4), batch=4)
    for helper in loop.helpers:  # so that each tensor is looked at
        helper.every = min(helper.every, 10)
    for _ in range(40):
        loop.step(True)  # buffers of each size are made
    without, with_them = (synchronisations(loop, measured) for measured in (False, True))
    expect(not loop.reasons(), str(loop.reasons()))
    more = {k: n - without.get(k, 0) for k, n in with_them.items() if n > without.get(k, 0)}
    # The profiler itself waits once or twice, whatever is between.
    expect(sum(more.values()) == 0, f"more with the helpers: {more}; without: {without}")
    return f"in 20 steps without {without}, with {with_them}"


def check_benchmark(_):
    class Sleeper(torch.nn.Module):
        """Keeps the device busy for a known number of its cycles."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1024, 1024, device=DEVICE))

        def forward(self, x):
            torch.cuda._sleep(10_000_000)
            return x

    model, x = Sleeper(), torch.ones(4, 2, device=DEVICE)
    got = measure.benchmark(model, x, warmup=3, runs=20)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(20):
        model(x)
    last.record()
    torch.cuda.synchronize()
    each = first.elapsed_time(last) / 20e3
    close(got.device_time.median, each, 0.05, "time on the device")
    expect(got.host.median < 0.5 * got.device_time.median, "the host waits in the call")
    expect(got.device_time.median <= got.latency.median, "latency is less than the device's time")
    expect(got.size == {"float32": 4 << 20}, str(got.size))
    expect(got.peak_memory >= 4 << 20, f"peak {got.peak_memory}")
    return f"device {got.device_time.median * 1e3:.3f} ms, host {got.host.median * 1e6:.0f} us"


def check_compile(options):
    if options.no_compile:
        return "left out"
    model = gpt(256, 2)
    x = torch.randn(2, 64, 256, device=DEVICE)
    with measure.CompileMonitor(model) as monitor:
        compiled = torch.compile(model)
        start = time.perf_counter()
        compiled(x).sum().backward()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
        compiled(torch.randn(3, 64, 256, device=DEVICE)).sum().backward()
        text = monitor.report()
    first = [one for one in monitor.compilations if not one.again]
    total = sum(one.seconds for one in first)
    expect(not monitor.reason, monitor.reason)
    expect(0.3 * wall < total <= wall, f"{total:.2f} s of {wall:.2f} s")
    expect(any(one.again for one in monitor.compilations), "another shape: " + text)
    reason = monitor.compilations[-1].reason
    return f"{total:.2f} s of a first step of {wall:.2f} s; again: {reason}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--only", help="the one check to make")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("not ok device: no CUDA")
        return 1
    folder = tempfile.mkdtemp()
    os.environ.setdefault("LAPSE_RENDEZVOUS", tempfile.mkdtemp(dir="/dev/shm"))
    run = lapse.init(dir=folder, capture=False, settings={"start_agent": False})
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}, "
          f"{'recording' if run.recording else run.error}")  # fmt: skip
    failed = 0
    for name, check in list(globals().items()):
        if not name.startswith("check_") or (options.only and name != "check_" + options.only):
            continue
        try:
            print(f"ok {name[6:]} {check(options)}", flush=True)
        except WrongError as error:
            failed = 1
            print(f"not ok {name[6:]} {error}", flush=True)
        except Exception as error:
            failed = 1
            traceback.print_exc()
            print(f"not ok {name[6:]} {type(error).__name__}: {error}", flush=True)
    lapse.finish()
    return failed


if __name__ == "__main__":
    sys.exit(main())
