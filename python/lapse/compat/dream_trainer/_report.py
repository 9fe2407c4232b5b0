# SPDX-License-Identifier: Apache-2.0
"""PerformanceReporter: figures of the whole fit and advice, in performance_report.txt."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from ... import _callback, _machine
from ...torch import Allocator, CompileMonitor, Throughput
from ._base import GIB, Printing, hook, of_rank
from ._measure import batch_size, write_file

EVERY_S = 1.0
GPU_LOW, MEMORY_HIGH, COMPILE_HIGH, SPREAD_HIGH, FRAGMENTED = 50.0, 0.9, 0.1, 0.2, 0.3


class PerformanceReporter(Printing):
    """Watches a fit and writes performance_report.txt after it.

    `metrics` has what was seen, about once a second: "throughput" (samples a second since the
    last), "gpu_util" (percent, mean of the GPUs, as lapse's agent reads it), "memory" (GiB: the
    allocator's peak on a GPU, else the process's resident memory), and "compile_time" (seconds).
    A program may add to the lists, and override get_recommendations(). It opens a run if the
    program has not, because GPUs are read by the agent; what is not known is "n/a"."""

    FILE = "performance_report.txt"

    def __init__(self, console_style: str | None = None) -> None:
        super().__init__(console_style)
        self.metrics: dict[str, Any] = {
            "throughput": [], "gpu_util": [], "memory": [], "compile_time": 0.0,
        }  # fmt: skip
        self.total_time = 0.0
        self.rates = Throughput(warmup=0, every=sys.maxsize)  # it records nothing twice
        self.allocator: Allocator | None = None
        self._compile: CompileMonitor | None = None
        self._machine: _machine.Machine | None = None
        self._began = self._looked = 0.0
        self._mark: Any = None
        self._seen, self._steps, self._size = 0, 0, 0
        self._from = 0

    def warm_up(self, steps: int) -> None:
        self._from = steps

    @hook
    def pre_setup(self) -> None:
        if self._compile is None:
            self._compile = CompileMonitor()

    @hook
    def pre_fit(self) -> None:
        self.pre_setup()
        self._began = self._looked = time.monotonic()
        self.allocator = Allocator(every=1, threshold=None) if torch.cuda.is_available() else None
        _callback.begin_run(None, None, None)
        self._machine = _machine.share()

    @hook
    def pre_train_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        if self._steps == self._from or batch_idx == 0:
            self.rates.begin()
            self._mark = self.rates.mark()
        self._size = batch_size(self.trainer, batch)

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        self._steps += 1
        if self._steps <= self._from:
            return
        self.rates.step(samples=self._size)
        now = time.monotonic()
        if now - self._looked >= EVERY_S:
            self._looked = now
            self._look()

    def _look(self) -> None:
        """What has been since the last time."""
        new = self.rates.total - self._mark if self._mark else self.rates.total
        rate = new.samples_per_second()
        if rate:
            self.metrics["throughput"].append(rate)
        self._mark = self.rates.mark()
        machine = self._machine
        if self.allocator is not None:
            self.allocator.step()
            peaks = [one["allocated/peak"] for one in self.allocator.last.values()]
            if peaks:
                self.metrics["memory"].append(max(peaks) / GIB)
        if machine is None or machine.version == self._seen:
            return
        self._seen = machine.version
        used = [machine.get(f"gpu_{gpu}_util") for gpu in machine.gpus]
        known = [value for value in used if value is not None]
        if known:
            self.metrics["gpu_util"].append(100 * sum(known) / len(known))
        resident = machine.get("memory_process_mb")
        if self.allocator is None and resident is not None:
            self.metrics["memory"].append(resident / 1024)

    @hook
    def post_fit(self) -> None:
        self.total_time = time.monotonic() - self._began if self._began else 0.0
        if self._began:
            self._look()
        if self._compile is not None:
            self.metrics["compile_time"] += sum(self._compile.compile_times.values())
            self._compile.close()
            self._compile = None
        if self._machine is not None:
            _machine.give_back()
            self._machine = None
        write_file(of_rank(self.FILE), self.report())

    def average_throughput(self) -> float | None:
        """Over the fit if steps were seen, else the mean of what is in `metrics`."""
        rate = self.rates.total.samples_per_second()
        return rate if rate else _mean(self.metrics["throughput"])

    def report(self) -> str:
        """The report's text."""
        of, gb = self.metrics, "GB" if self.classic else "GiB"
        used = of["gpu_util"]
        return "\n".join([
            "", "Performance Report", "==================", "", "Training Summary:",
            f"- Total time: {self.total_time:.2f}s",
            f"- Average throughput: {_text(self.average_throughput(), '.2f', ' samples/s')}",
            f"- Peak memory: {_text(_most(of['memory']), '.2f', ' ' + gb)}",
            f"- Compilation time: {of['compile_time']:.2f}s", "", "GPU Utilization:",
            f"- Average: {_text(_mean(used), '.1f', '%')}",
            f"- Min: {_text(min(used, default=None), '.1f', '%')}",
            f"- Max: {_text(_most(used), '.1f', '%')}", "", "Recommendations:",
            self.get_recommendations(), "",
        ])  # fmt: skip

    def get_recommendations(self) -> str:
        """A line for each thing that the figures speak against."""
        lines = []
        busy = _mean(self.metrics["gpu_util"])
        if busy is not None and busy < GPU_LOW:
            lines.append(f"- GPUs work {busy:.1f}% of the time: look at data loading, then a "
                         "larger batch; lapse trace says what they wait for")  # fmt: skip
        peaks = list(self.allocator.last.values()) if self.allocator else []
        full = max((one.get("share", 0.0) for one in peaks), default=0.0)
        if full > MEMORY_HIGH:
            lines.append(f"- {full:.1%} of a GPU's memory is reserved: activation checkpointing, "
                         "CPU offload or a smaller batch")  # fmt: skip
        split = max((one.get("fragmentation", 0.0) for one in peaks), default=0.0)
        if split > FRAGMENTED:
            lines.append(f"- {split:.1%} of the reserved memory is not used: fixed shapes, or "
                         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")  # fmt: skip
        compiled = self.metrics["compile_time"]
        if self.total_time and compiled > COMPILE_HIGH * self.total_time:
            lines.append(f"- Compiling took {compiled / self.total_time:.1%} of the time: look for "
                         "recompilations (CompilationMonitor), mark sizes as dynamic")  # fmt: skip
        rates = self.metrics["throughput"]
        mean = _mean(rates)
        if mean and len(rates) >= 5:
            spread = (sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5 / mean
            if spread > SPREAD_HIGH:
                lines.append(f"- Throughput varies by {spread:.1%}: uneven batches, a slow disk, "
                             "or checkpoints within steps")  # fmt: skip
        return "\n".join(lines) or "- None: no figure is beyond its limit"


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _most(values: list[float]) -> float | None:
    return max(values, default=None)


def _text(value: float | None, form: str, unit: str) -> str:
    return "n/a" if value is None else f"{value:{form}}{unit}"
