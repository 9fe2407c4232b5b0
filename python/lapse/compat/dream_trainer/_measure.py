# SPDX-License-Identifier: Apache-2.0
"""Callbacks that measure: throughput, compilation, the allocator's memory, and pauses of
Python's garbage collector."""

from __future__ import annotations

import json
import os
from typing import Any

import torch

from ..._tell import tell_once
from ...torch import Allocator, CompileMonitor, GarbageCollector, Throughput, log
from ._base import Callback, Printing, hook, of_rank


def whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is a whole number from {least} on, not {value!r}")
    number: int = value
    return number


def batch_size(trainer: Any, batch: Any) -> int:
    """trainer.config.batch_size; else the length of the first tensor of the batch; else 0."""
    size = getattr(getattr(trainer, "config", None), "batch_size", None)
    if size:
        return int(size)
    values = batch.values() if isinstance(batch, dict) else batch
    if isinstance(batch, torch.Tensor):
        values = [batch]
    for value in values if isinstance(values, (list, tuple, type({}.values()))) else ():
        if isinstance(value, torch.Tensor) and value.dim():
            return int(value.shape[0])
    return 0


def record(trainer: Any, name: str, value: float, step: int) -> None:
    """Into the run, and to the trainer's own logger if it has one."""
    log({name: value}, step)
    scalar = getattr(trainer, "log_scalar", None)
    if callable(scalar):
        scalar(name, value)


class ThroughputMonitor(Printing):
    """Samples a second since the warm-up, each 100 steps: printed, `perf/throughput` in the
    run and through `trainer.log_scalar`.

    warmup_steps: steps of training that count nowhere, once, not in each epoch. Time between
    epochs does not count. Samples are `trainer.config.batch_size` a step, or the length of
    the batch's first tensor. Validation is no training."""

    EVERY = 100

    def __init__(self, warmup_steps: int = 10, console_style: str | None = None) -> None:
        super().__init__(console_style)
        self.warmup_steps = whole("ThroughputMonitor: warmup_steps", warmup_steps, 0)
        self.rates = Throughput(warmup=self.warmup_steps, every=1)
        self.steps = 0
        self._size = 0
        self._pause: Any = None

    @property
    def samples_processed(self) -> int:
        """Since the warm-up."""
        return int(self.rates.total.samples)

    @property
    def throughput(self) -> float | None:
        """Samples a second since the warm-up; None while there is none."""
        return self.rates.total.samples_per_second()

    def warm_up(self, steps: int) -> None:
        self.rates.warmup = max(self.warmup_steps, steps)

    @hook
    def pre_train_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        if batch_idx == 0 or not self.steps:
            self.rates.begin()
        self._size = batch_size(self.trainer, batch)

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        step, self.steps = self.steps, self.steps + 1
        self.rates.step(samples=self._size)
        value = self.throughput
        if value is not None and step > self.rates.warmup and step % self.EVERY == 0:
            record(self.trainer, "perf/throughput", value, step)
            self.say(f"Throughput: {value:.2f} samples/sec",
                     f"{value:,.2f} samples/s since the warm-up")  # fmt: skip

    @hook
    def pre_validation_epoch(self) -> None:
        self._pause = self.rates.validation()
        self._pause.__enter__()

    @hook
    def post_validation_epoch(self, result: dict[str, Any]) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.__exit__(None, None, None)


class CompilationMonitor(Printing):
    """What torch.compile does, from pre_setup() on: `compile_times` {class: seconds} and
    `graph_breaks` {reason: how often}. torch.compile() itself returns at once, so nothing is
    patched and the times are those of compiling, which comes with the first step; the
    summary is printed at post_setup() if something has been compiled by then, and at
    post_fit()."""

    def __init__(self, console_style: str | None = None) -> None:
        super().__init__(console_style)
        self.monitor: CompileMonitor | None = None
        self._told = 0
        self._at_setup = -1

    @property
    def compile_times(self) -> dict[str, float]:
        return self.monitor.compile_times if self.monitor else {}

    @property
    def graph_breaks(self) -> dict[str, int]:
        if self.monitor is None:
            return {}
        self.monitor.step()
        return dict(self.monitor.breaks)

    @hook
    def pre_setup(self) -> None:
        if self.monitor is None:
            self.monitor = CompileMonitor()

    @hook
    def post_setup(self) -> None:
        self._names()
        if self._tell():
            self._summary()
            self._at_setup = self._told

    @hook
    def pre_fit(self) -> None:
        self.pre_setup()
        self._names()

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        self._tell()

    @hook
    def post_fit(self) -> None:
        self._tell()
        if self._told != self._at_setup:
            self._summary()
        if self.monitor is not None:
            self.monitor.close()

    def _names(self) -> None:
        """The trainer's modules: what is compiled is called by its class."""
        if self.monitor is None:
            return
        for value in list(getattr(self.trainer, "__dict__", {}).values()):
            for one in value.values() if isinstance(value, dict) else [value]:
                if isinstance(one, torch.nn.Module):
                    self.monitor._learn(one)

    def _tell(self) -> int:
        """Print what was compiled since; how many compilations there were."""
        if self.monitor is None:
            return 0
        self.monitor.step()
        all_of_them = self.monitor.compilations
        for one in all_of_them[self._told :]:
            text = f"Compiled {one.name} in {one.seconds:.2f}s"
            self.say(text, text + (f" again: {one.reason}" if one.again else ""))
        self._told = len(all_of_them)
        return self._told

    def _summary(self) -> None:
        if self.monitor is not None:
            self.say("\n" + self.monitor.report(classic=True), self.monitor.report())


class MemoryProfiler(Printing):
    """The caching allocator's figures of the current device, each `profile_every` steps from
    the first on: in the run, in `memory_stats`, and at post_fit() (or on_interrupt()) in
    memory_profile.json. The keys in `_gb` are GiB; fragmentation is null while nothing is
    reserved. Without an accelerator the list stays empty, and `reason` says why."""

    FILE = "memory_profile.json"

    def __init__(self, profile_every: int = 100, console_style: str | None = None) -> None:
        super().__init__(console_style)
        self.profile_every = whole("MemoryProfiler: profile_every", profile_every, 1)
        self.memory_stats: list[dict[str, Any]] = []
        self.allocator = Allocator(every=1)
        self.steps = 0
        self._from = 0

    @property
    def reason(self) -> str:
        return self.allocator.reason

    def warm_up(self, steps: int) -> None:
        self._from = steps

    @hook
    def post_train_step(self, result: dict[str, Any], batch_idx: int) -> None:
        step, self.steps = self.steps, self.steps + 1
        if step < self._from or step % self.profile_every:
            return
        self.allocator.last.clear()
        self.allocator.step()
        if not self.allocator.last:
            return
        stats = self.allocator.document(step)
        self.memory_stats.append(stats)
        share = stats["fragmentation"]
        if share is not None and share > 0.3:
            self.say(f"⚠️ High memory fragmentation: {share:.1%}")

    @hook
    def post_fit(self) -> None:
        self.write()

    @hook
    def on_interrupt(self) -> None:
        self.write()

    def write(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write the list: whole or not at all."""
        write_file(path or of_rank(self.FILE), json.dumps(self.memory_stats, indent=2) + "\n")


class GarbageCollectionCallback(Callback[Any]):
    """Python's garbage collector is switched off, and collects what is young at each
    `gc_every_n_steps` steps, so that all ranks pause at the same one; pauses are series
    `python/gc/pause`. After the fit it is as it was."""

    def __init__(self, gc_every_n_steps: int = 1000) -> None:
        self.gc_every_n_steps = whole("GarbageCollectionCallback: gc_every_n_steps",
                                      gc_every_n_steps, 1)  # fmt: skip
        self.collector: GarbageCollector | None = None

    @hook
    def pre_launch(self) -> None:
        if self.collector is None:
            self.collector = GarbageCollector(every=self.gc_every_n_steps)

    @hook
    def pre_fit(self) -> None:
        self.pre_launch()

    @hook
    def pre_train_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        if self.collector is not None:
            self.collector.step()

    @hook
    def post_fit(self) -> None:
        if self.collector is not None:
            self.collector.close()
            self.collector = None


def write_file(path: str | os.PathLike[str], text: str) -> None:
    """Whole or not at all; missing folders are made. What goes wrong is said."""
    path = os.fspath(path)
    part = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        tell_once("dream_trainer", f"{path}: {error.strerror}")
