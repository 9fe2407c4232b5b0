#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_compatb - what only a CUDA device can show of lapse.compat.monitor.TrainingMonitor:
it adds no synchronisation, each late value keeps its step, figures of the GPU, its cost.

    python tests/gpu/check_compatb.py      with torch and lapse; a run is recorded for itself

Prints "ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2
without a device."""

import os
import statistics
import sys
import tempfile
import time

import torch

import lapse
from lapse.compat.monitor import TrainingMonitor

BAD = []
STEP_MS = 30.0
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


class Training:
    """Steps of about 30 ms of matrix products."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            *(torch.nn.Linear(4096, 4096, device="cuda") for _ in range(8))
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(64, 4096, device="cuda")
        self.repeat = 1
        self.repeat = max(1, round(STEP_MS / self.takes(5)))

    def step(self):
        self.optimizer.zero_grad()
        for _ in range(self.repeat):
            loss = self.model(self.x).pow(2).mean()
            loss.backward()
        self.optimizer.step()
        return loss

    def takes(self, n):
        """Milliseconds a step."""
        self.step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            self.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / n * 1e3


def syncs(training, monitor, n=20):
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
        for _ in range(n):
            loss = training.step()
            if monitor is not None:
                monitor.log_training_step(training.model, training.optimizer, loss)
    return sum(e.count for e in profile.key_averages() if e.key in SYNCS)


def check_steps(training, folder):
    """Each loss and each norm is in the file at the step that it is of."""
    monitor = TrainingMonitor({"save_dir": folder}, console_style="none")
    seen = []
    monitor.start_monitoring()
    monitor.alert_system.add_alert_rule("all", lambda m: m.phase == "train", "info",
                                        "{step}:{loss!r}:{grad_norm!r}", 0)  # fmt: skip
    monitor.alert_system.callbacks.append(
        lambda alert: seen.append(alert["message"]) if alert["type"] == "all" else None
    )
    truth = []
    for _ in range(30):
        loss = training.step()
        norms = torch.stack([p.grad.norm() for p in training.model.parameters()])
        truth.append((loss.detach().clone(), norms.norm()))
        monitor.log_training_step(training.model, training.optimizer, loss)
    end = time.monotonic() + 15
    while monitor.system_monitor.get_latest_metrics() is None and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(3)
    status = monitor.get_monitoring_status()["components"]["performance_monitor"]
    latest = monitor.system_monitor.get_latest_metrics()
    monitor.stop_monitoring()
    wrong = 0
    for i, (text, (loss, norm)) in enumerate(zip(seen, truth)):
        step, a, b = text.split(":")
        ok = int(step) == i and abs(float(a) - loss.item()) <= 1e-6 * abs(loss.item())
        wrong += not (ok and abs(float(b) - norm.item()) <= 1e-4 * norm.item())
    check("steps", len(seen) == 30 and wrong == 0, f"{len(seen)} steps, {wrong} wrong")
    memory = status["latest_training_metrics"]["gpu_memory_mb"]
    held = torch.cuda.memory_allocated() / 2**20
    check("gpu_memory_mb", memory is not None and 0.5 * held <= memory <= 2 * held,
          f"{memory} MiB, allocator {held:.0f}")  # fmt: skip
    gpus = latest.gpus if latest else {}
    check("system", bool(gpus) and latest.gpu_memory_mb >= held / 2,
          f"{len(gpus)} GPUs: {latest and latest.to_dict()}")  # fmt: skip


def check_cost(training, folder):
    """Alternating, medians."""
    monitor = TrainingMonitor({"save_dir": folder}, console_style="none")
    monitor.start_monitoring()
    host, without, with_it = [], [], []
    for _ in range(8):
        without.append(training.takes(20))
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            loss = training.step()
            begin = time.perf_counter()
            monitor.log_training_step(training.model, training.optimizer, loss)
            host.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        with_it.append((time.perf_counter() - start) / 20 * 1e3)
    monitor.stop_monitoring()
    a, b = statistics.median(without), statistics.median(with_it)
    check("cost", (b - a) / a < 0.005,
          f"{a:.2f} ms without, {b:.2f} with: {100 * (b - a) / a:+.2f} %; "
          f"call {1e6 * statistics.median(host):.0f} us")  # fmt: skip


def main():
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 2
    os.chdir(tempfile.mkdtemp())
    training = Training()
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"{training.takes(10):.1f} ms a step")  # fmt: skip
    monitor = TrainingMonitor({"save_dir": "syncs"}, console_style="none")
    monitor.start_monitoring()
    for _ in range(20):  # buffers and events are made once
        monitor.log_training_step(training.model, training.optimizer, training.step())
    base, measured = syncs(training, None), syncs(training, monitor)
    result = monitor.log_model_inference_benchmark(training.model, "cuda", torch.randn(2, 4096))
    monitor.stop_monitoring()
    check("syncs", measured <= base, f"{base} without, {measured} with, in 20 steps")
    check("inference", result is not None and result.peak_memory_mb > 100,
          f"{result and result.avg_latency_ms:.3f} ms")  # fmt: skip
    check_steps(training, "steps")
    check_cost(training, "cost")
    lapse.finish()
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
