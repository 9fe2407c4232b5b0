#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_all - what all helpers of lapse.torch together, at their defaults, cost a small
language model, whose step takes about 30 ms of the device, eager and compiled, and whether
they make the host wait for the device.

    python tests/gpu/check_all.py [--pairs 12] [--steps 20] [--no-compile]

with torch and lapse. Blocks of steps without and with them, in turn; the figure is the
median over pairs. Beside it: host time to enqueue a step, and of each helper. Prints
"ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2 without a
device."""

import argparse
import collections
import contextlib
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time

import torch
from torch import nn

import lapse
import lapse.torch

BAD = []
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH = 50304, 768, 12, 12, 1024


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (part.view(shape).transpose(1, 2)
                   for part in self.mix(self.before(x)).chunk(3, dim=-1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, words, wanted):
        x = self.words(words) + self.places.weight
        guess = self.head(self.norm(self.layers(x)))
        return nn.functional.cross_entropy(guess.flatten(0, 1), wanted.flatten())


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        words = torch.randint(0, VOCABULARY, (LENGTH + 1,))
        return words[:-1], words[1:]


class Loop:
    """The same steps, bare and measured. spent: host time of each helper, ns."""

    def __init__(self, batch, compiled=False):
        torch.manual_seed(0)
        self.batch = batch
        self.model = Model().cuda()
        if compiled:  # one of them is: all have the same code
            for layer in self.model.layers:
                layer.compile(dynamic=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        words = torch.randint(0, VOCABULARY, (batch, LENGTH)).pin_memory()
        self.bare_batches = itertools.repeat((words, words))
        self.name = "compiled" if compiled else "eager"

    def start(self):
        """Its batch is the right one: with loaders and helpers."""
        batch = self.batch
        self.bare_batches = iter(self.loader())
        self.batches = iter(lapse.torch.watch_loader(self.loader(), self.name))
        self.rates = lapse.torch.Throughput(
            warmup=10, window=100,
            flops=6 * sum(p.numel() for p in self.model.parameters()) * batch * LENGTH,
        )  # fmt: skip
        self.helpers = {
            "gradients": lapse.torch.Gradients(self.model, layers=2),
            "histograms": lapse.torch.Histograms(self.model),
            "optimizer-state": lapse.torch.OptimizerState(self.optimizer),
            "allocator": lapse.torch.Allocator(),
        }
        self.collector = lapse.torch.GarbageCollector()
        self.spent, self.steps = collections.Counter(), 0

    def loader(self):
        return torch.utils.data.DataLoader(Batches(), batch_size=self.batch, num_workers=2,
                                           pin_memory=True, persistent_workers=True)

    def close(self):
        """The loaders' workers and the model go, not while something is measured."""
        self.__dict__.clear()
        gc.collect()

    def bare(self):
        words, wanted = next(self.bare_batches)
        words, wanted = words.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(words, wanted)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def measured(self):
        with lapse.step(samples=self.batch, tokens=self.batch * LENGTH):
            words, wanted = next(self.batches)
            words, wanted = words.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
            with lapse.torch.phase("forward"), torch.autocast("cuda", torch.bfloat16):
                loss = self.model(words, wanted)
            with lapse.torch.phase("backward"):
                loss.backward()
            self.helpers["gradients"].step()
            with lapse.torch.phase("optimizer"):
                self.optimizer.step()
            for name in ("histograms", "optimizer-state", "allocator"):
                self.helpers[name].step()
            self.optimizer.zero_grad(set_to_none=True)
            lapse.torch.log({"loss": loss})
        self.rates.step(samples=self.batch, tokens=self.batch * LENGTH)

    def timed(self):
        """As measured(), with the host's time of each: what it says is of this loop only."""
        spent, clock = self.spent, time.perf_counter_ns
        phases = [lapse.torch.phase(name) for name in ("forward", "backward", "optimizer")]
        works = (self._forward, self._backward, self.optimizer.step)
        with lapse.step(samples=self.batch, tokens=self.batch * LENGTH):
            start = clock()
            self.words = next(self.batches)
            spent["loader, bare time in it"] += clock() - start
            for one, work in zip(phases, works):
                start = clock()
                one.__enter__()
                begun = clock()
                work()
                end = clock()
                one.__exit__(None, None, None)
                spent["phases, begin"] += begun - start
                spent["phases, end"] += clock() - end
                if work == self._backward:
                    start = clock()
                    self.helpers["gradients"].step()
                    spent["gradients"] += clock() - start
            for name in ("histograms", "optimizer-state", "allocator"):
                start = clock()
                self.helpers[name].step()
                spent[name] += clock() - start
            self.optimizer.zero_grad(set_to_none=True)
            start = clock()
            lapse.torch.log({"loss": self.loss})
            spent["log"] += clock() - start
        start = clock()
        self.rates.step(samples=self.batch, tokens=self.batch * LENGTH)
        spent["throughput"] += clock() - start
        self.steps += 1

    def _forward(self):
        words, wanted = (one.cuda(non_blocking=True) for one in self.words)
        with torch.autocast("cuda", torch.bfloat16):
            self.loss = self.model(words, wanted)

    def _backward(self):
        self.loss.backward()


def block(step, n):
    """(seconds a step, seconds of them until the host has enqueued all)"""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(n):
        step()
    queued = time.perf_counter() - begin
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / n, queued / n


def host_time(step, n):
    """Seconds that the host takes to enqueue a step while the device has nothing to do."""
    took = []
    for _ in range(n):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def loop_of(seconds, batch, compiled=False):
    """A loop with a batch whose bare step takes so long, which the device needs and not the
    host; both are printed."""
    while True:
        loop = Loop(batch, compiled)
        block(loop.bare, 8)
        took, _ = block(loop.bare, 12)
        host = host_time(loop.bare, 8)
        print(f"# {loop.name}, batch {batch}: {took * 1e3:.2f} ms a step, "
              f"the host enqueues it in {host * 1e3:.2f} ms", flush=True)  # fmt: skip
        short = took < 0.9 * seconds or took < 1.15 * host
        if not short or batch >= 64:
            break
        more = max(seconds / took, 1.3 * host / took, 1 + 1 / batch)
        batch = min(64, max(batch + 1, round(batch * more)))
        loop.close()
    loop.start()
    return loop


def cost(loop, pairs, steps, name):
    block(loop.measured, steps)
    both = [(block(loop.bare, steps)[0], block(loop.measured, steps)[0]) for _ in range(pairs)]
    ratio = statistics.median(b / a for a, b in both)
    without, with_ = (statistics.median(one) for one in zip(*both))
    host = [host_time(step, steps) for step in (loop.bare, loop.measured)]
    check(f"all.cost-{name}", ratio < 1.005,
          f"{100 * (ratio - 1):.3f} % ({without * 1e3:.2f} ms without, {with_ * 1e3:.2f} with; "
          f"{pairs} pairs of {steps} steps; host alone {host[0] * 1e3:.2f} and "
          f"{host[1] * 1e3:.2f} ms)")
    loop.timed()
    loop.spent.clear()
    loop.steps = 0
    for _ in range(100):
        torch.cuda.synchronize()  # with a full queue each launch would wait
        loop.timed()
    rows = {name: ns / loop.steps / 1e3 for name, ns in loop.spent.items()}
    total = sum(us for name, us in rows.items() if not name.startswith("loader"))
    print(f"# {name}: host us a step, mean of {loop.steps}: "
          + ", ".join(f"{name} {us:.1f}" for name, us in rows.items())
          + f"; together without the loader {total:.1f}", flush=True)  # fmt: skip
    for one in loop.helpers.values():
        check(f"all.measures-{type(one).__name__}-{name}", not one.reason, one.reason or "yes")


def waits(step, n, folder):
    """{what makes the host wait, or copies without being able to go on: how often}"""
    step()
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        for _ in range(n):
            step()
    path = os.path.join(folder, "trace.json")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    found = collections.Counter(e["name"] for e in events if e.get("name") in WAITS)
    found["pageable copies"] = sum(
        e.get("cat") == "gpu_memcpy" and "Pageable" in e.get("name", "") for e in events)
    return found


def synchronisation(loop):
    with tempfile.TemporaryDirectory() as folder:
        without = waits(loop.bare, 20, folder)
        with_ = waits(loop.measured, 20, folder)
    check("all.no-synchronisation", with_ <= without, f"{dict(with_)}, without {dict(without)}")


def norms():
    """Ours against clip_grad_norm_()'s, of the same gradients."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).to("cuda", dtype)
        ours = lapse.torch.Gradients(model, every=1)
        model(torch.randn(64, 512, device="cuda", dtype=dtype)).float().pow(2).mean().backward()
        ours.step()
        lapse.torch.flush(wait=True)
        want = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
        exact = float(torch.stack([p.grad.double().norm() for p in model.parameters()]).norm())
        near = torch.finfo(dtype).eps * exact
        check(f"all.norm-{dtype}", abs(ours.total - want) <= near,
              f"{ours.total!r}, clip_grad_norm_ {want!r}, in double {exact!r}")


def compiled(options, batch):
    try:
        loop = loop_of(0.030, batch, compiled=True)
    except Exception as error:  # no compiler on this machine
        print(f"# torch.compile: {type(error).__name__}: {str(error)[:200]}")
        return
    cost(loop, options.pairs, options.steps, "compiled")
    loop.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no CUDA device here", file=sys.stderr)
        return 2
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(lapse.init(name="check_all", dir=folder))
        loop = loop_of(0.030, 8)
        norms()
        cost(loop, options.pairs, options.steps, "eager")
        synchronisation(loop)
        for line in loop.rates.report().splitlines():
            print("#", line)
        for name, times in lapse.torch.phase_times().items():
            print(f"# device/{name}: median {times.quantile(0.5) * 1e3:.3f} ms")
        batch = round(1.25 * loop.batch)
        loop.collector.close()
        loop.close()
        if not options.no_compile:
            compiled(options, batch)
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
