#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_compata - what only a CUDA device can show of lapse.compat.dream_trainer and
lapse.compat.nemo: times of forward and backward, the allocator's numbers, no waiting.

    python tests/gpu/check_compata.py      with torch and lapse; a run is recorded for itself

Prints "ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2
without a device."""

import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch

import lapse
from lapse.compat.dream_trainer import (
    AutoAnalyzer,
    BenchmarkCallback,
    CallbackCollection,
    MemoryProfiler,
    PerformanceReporter,
    ProfileCallback,
    ThroughputMonitor,
)
from lapse.compat.nemo import TrainingMonitor, monitor_resources

BAD = []
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
STEPS = 40


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


class Trainer:
    is_accumulating_gradients = False

    def __init__(self, callbacks, monitor=None):
        self.config = SimpleNamespace(batch_size=256)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(12)]).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4)
        self.callbacks = CallbackCollection(callbacks)
        self.callbacks.initialize(self)
        self.monitor = monitor

    def training_step(self, batch):
        return self.model(batch["x"]).square().mean()

    def backward(self, loss):
        loss.backward()

    def fit(self, steps):
        self.callbacks.pre_fit()
        self.steps(steps)
        self.callbacks.post_fit()

    def steps(self, n):
        batch = {"x": torch.ones(256, 2048, device="cuda")}
        for i in range(n):
            self.callbacks.pre_train_step(batch, i)
            loss = self.training_step(batch)
            self.backward(loss)
            self.callbacks.pre_optimizer_step(self.model, self.optimizer)
            self.optimizer.step()
            self.callbacks.post_optimizer_step(self.model, self.optimizer)
            self.optimizer.zero_grad()
            if self.monitor is not None:
                self.monitor.record_metrics(i, loss, 1e-4, 256)
            self.callbacks.post_train_step({}, i)


def syncs(trainer):
    """Waits of the host in a trace of twenty steps."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        trainer.steps(20)
    profiler.export_chrome_trace("syncs.json")
    with open("syncs.json", encoding="utf-8") as file:
        rows = json.load(file)["traceEvents"]
    return sum(row.get("name") in SYNCS for row in rows)


def no_waiting():
    plain = Trainer([])
    plain.fit(10)
    before = syncs(plain)
    callbacks = [ThroughputMonitor(), MemoryProfiler(profile_every=1), PerformanceReporter(),
                 BenchmarkCallback(print_every=5)]  # fmt: skip
    full = Trainer(callbacks, TrainingMonitor())
    full.callbacks.pre_fit()
    full.steps(10)
    after = syncs(full)
    full.callbacks.post_fit()
    check("no-added-waits", after <= before, f"{before} without, {after} with callbacks")
    losses = full.monitor.get_training_stats()
    check("losses-arrive", losses.get("total_steps") == 30 and losses["current_loss"] > 0, losses)


def times():
    """The benchmark against events of our own around the same."""
    callback = BenchmarkCallback(skip=10, print_every=0)
    trainer = Trainer([callback])
    own = trainer.backward
    pairs = []

    def backward(loss):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        own(loss)
        end.record()
        pairs.append((begin, end))

    trainer.backward = backward
    trainer.fit(STEPS)
    torch.cuda.synchronize()
    theirs = sum(begin.elapsed_time(end) for begin, end in pairs[10:]) / (STEPS - 10)
    stats = callback.get_stats()
    ours = stats["backward"]["mean"]
    check("backward-time", abs(ours / theirs - 1) < 0.02, f"{ours:.3f} ms, events {theirs:.3f} ms")
    parts = sum(stats[part]["mean"] for part in ("forward", "backward", "optimizer"))
    share = parts / stats["total_step"]["mean"]
    check("parts-of-a-step", 0.5 < share <= 1.01, f"{share:.1%} of the step")


def memory():
    profiler = MemoryProfiler(profile_every=5)
    Trainer([profiler]).fit(11)
    last = profiler.memory_stats[-1]
    gib = 1 << 30
    peak = torch.cuda.max_memory_allocated() / gib
    right = 0 < last["peak_allocated_gb"] <= peak and last["allocated_gb"] <= last["reserved_gb"]
    check("memory-profile", len(profiler.memory_stats) == 3 and right, last)
    resources = monitor_resources()
    mine = resources["gpu_metrics"].get("gpu_0", {}).get("memory_allocated")
    now = torch.cuda.memory_allocated() / (1 << 20)
    check("allocator-of-resources", mine is not None and abs(mine - now) < 1, f"{mine} MiB")
    check("driver-of-resources", bool(resources["gpu_devices"]), resources["gpu_devices"])


def profile():
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=torch.profiler.tensorboard_trace_handler("./logs"),
        record_shapes=True, profile_memory=True, with_stack=True,
    )  # fmt: skip
    callback = ProfileCallback(profiler, memory_snapshot_enabled=True)
    Trainer([callback]).fit(12)
    check("profile-traces", [t.error for t in callback.traces] == ["", ""]
          and all(t.bound for t in callback.traces), [t.verdict for t in callback.traces])
    check("memory-snapshot", os.path.getsize("memory_snapshot.pickle") > 1000, "written")
    slow = AutoAnalyzer().find_slow_operations(callback.traces[0])
    check("slow-operations", bool(slow) and slow[0].share > 0, slow[:2])


def main():
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 2
    os.chdir(tempfile.mkdtemp(prefix="lapse-compata-"))
    lapse.init(name="check_compata", capture=False)
    for job in (no_waiting, times, memory, profile):
        job()
    lapse.finish()
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
