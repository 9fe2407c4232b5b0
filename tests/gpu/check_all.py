#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_all - what all helpers of lapse.torch together cost a small language model, whose
step takes about 30 ms, and whether they make the host wait for the device.

    python tests/gpu/check_all.py [--pairs 12] [--steps 40]    with torch and lapse

Blocks of steps without and with them, in turn; the figure is the median over pairs. Prints
"ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2 without a
device."""

import argparse
import collections
import contextlib
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
    """The same steps, bare and measured."""

    def __init__(self, batch):
        torch.manual_seed(0)
        self.batch = batch
        self.model = Model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.bare_batches = iter(self.loader())
        self.watched = lapse.torch.watch_loader(self.loader())
        self.batches = iter(self.watched)
        self.rates = lapse.torch.Throughput(
            warmup=10, window=100,
            flops=6 * sum(p.numel() for p in self.model.parameters()) * batch * LENGTH,
        )  # fmt: skip
        self.gradients = lapse.torch.Gradients(self.model, layers=2)
        self.helpers = [
            lapse.torch.Histograms(self.model, every=100),
            lapse.torch.OptimizerState(self.optimizer),
            lapse.torch.Allocator(),
        ]
        self.others = [lapse.torch.GarbageCollector(), lapse.torch.CompileMonitor()]

    def loader(self):
        return torch.utils.data.DataLoader(Batches(), batch_size=self.batch, num_workers=4,
                                           pin_memory=True, persistent_workers=True)

    def bare(self):
        words, wanted = next(self.bare_batches)
        words, wanted = words.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(words, wanted)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def measured(self):
        with lapse.step(samples=self.batch, tokens=self.batch * LENGTH):
            words, wanted = next(self.batches)
            words, wanted = words.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
            with lapse.torch.phase("forward"), torch.autocast("cuda", torch.bfloat16):
                loss = self.model(words, wanted)
            with lapse.torch.phase("backward"):
                loss.backward()
            self.gradients.step()
            with lapse.torch.phase("optimizer"):
                self.optimizer.step()
            for helper in self.helpers:
                helper.step()
            self.optimizer.zero_grad(set_to_none=True)
            lapse.torch.log({"loss": loss.detach()})
        self.rates.step(samples=self.batch, tokens=self.batch * LENGTH)
        return loss


def block(step, n):
    """Seconds a step."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(n):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / n


def cost(loop, pairs, steps):
    block(loop.bare, steps)
    block(loop.measured, steps)
    both = [(block(loop.bare, steps), block(loop.measured, steps)) for _ in range(pairs)]
    ratio = statistics.median(b / a for a, b in both)
    without, with_ = (statistics.median(one) for one in zip(*both))
    check("all.cost", ratio < 1.005,
          f"{100 * (ratio - 1):.3f} % ({without * 1e3:.2f} ms without, {with_ * 1e3:.2f} with; "
          f"{pairs} pairs of {steps} steps)")


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


def norms(loop):
    """Ours against clip_grad_norm_()'s, of the same gradients."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).to("cuda", dtype)
        ours = lapse.torch.Gradients(model)
        model(torch.randn(64, 512, device="cuda", dtype=dtype)).float().pow(2).mean().backward()
        ours.step()
        lapse.torch.flush(wait=True)
        want = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
        exact = float(torch.stack([p.grad.double().norm() for p in model.parameters()]).norm())
        near = torch.finfo(dtype).eps * exact
        check(f"all.norm-{dtype}", abs(ours.total - want) <= near,
              f"{ours.total!r}, clip_grad_norm_ {want!r}, in double {exact!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=7)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no CUDA device here", file=sys.stderr)
        return 2
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(lapse.init(name="check_all", dir=folder))
        loop = Loop(options.batch)
        norms(loop)
        cost(loop, options.pairs, options.steps)
        synchronisation(loop)
        print("#", loop.rates.report() if hasattr(loop.rates, "report") else "")
        for name, times in lapse.torch.phase_times().items():
            print(f"# device/{name}: median {times.quantile(0.5) * 1e3:.3f} ms")
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
