# SPDX-License-Identifier: Apache-2.0
"""Metrics of training, of the machine, and of a Ray cluster."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from collections import deque
from typing import Any

from ... import _core, _machine
from ._common import MIB, arrived, hook, log, open_run, when_there

KEPT = 1000  # of each list of TrainingMonitor.metrics
FIRST_S = 3.0  # monitor_resources() waits so long for the agent's first reading
_LISTS = ("step", "loss", "learning_rate", "batch_size", "timestamp")

_watched: _machine.Machine | None = None
_lock = threading.Lock()


class Running:
    """Mean, least and most of numbers in constant memory; NaN and infinities are left out."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.least, self.most = float("inf"), float("-inf")

    def add(self, value: float) -> None:
        if value - value != 0:
            return
        self.count += 1
        self.mean += (value - self.mean) / self.count
        self.least, self.most = min(self.least, value), max(self.most, value)


class TrainingMonitor:
    """Loss, learning rate and batch size of each step: into the run, and statistics.

    loss may be a tensor on a device: it is not waited for, and counts when it has arrived.
    `metrics` has the last 1000 of each; statistics are of all."""

    def __init__(self) -> None:
        open_run()
        self.metrics: dict[str, deque[Any]] = {name: deque(maxlen=KEPT) for name in _LISTS}
        self.start_time = time.time()
        self.total_steps = 0
        self._losses = Running()

    @hook
    def record_metrics(self, step: int, loss: Any, learning_rate: Any, batch_size: Any) -> None:
        """A step of training."""
        self.total_steps += 1
        for name, value in (("step", step), ("learning_rate", learning_rate),
                            ("batch_size", batch_size), ("timestamp", time.time())):  # fmt: skip
            self.metrics[name].append(value)
        values = {"loss": loss, "learning_rate": learning_rate, "batch_size": batch_size}
        log(values, step)
        when_there(loss, self._take, step)

    def _take(self, loss: float) -> None:
        self.metrics["loss"].append(loss)
        self._losses.add(loss)

    def get_training_stats(self) -> dict[str, float]:
        """current_loss, avg_loss, min_loss, max_loss, total_steps, training_time in seconds;
        {} before the first loss. NaN and infinite losses are in current_loss only."""
        arrived()
        if not self.metrics["loss"]:
            return {}
        losses, current = self._losses, self.metrics["loss"][-1]
        known = losses.count > 0
        return {
            "current_loss": current,
            "avg_loss": losses.mean if known else current,
            "min_loss": losses.least if known else current,
            "max_loss": losses.most if known else current,
            "total_steps": self.total_steps,
            "training_time": time.time() - self.start_time,
        }


def machine() -> _machine.Machine:
    """The figures of lapse's agent: followed from the first call on."""
    global _watched
    with _lock:
        if _watched is None:
            open_run()
            _watched = _machine.share()
            atexit.register(_machine.give_back)
    _watched.start()
    return _watched


def _after_fork() -> None:
    global _watched, _lock
    _watched, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def allocator() -> dict[str, dict[str, float]]:
    """{gpu_0: memory_allocated, memory_reserved, max_memory_allocated} in MiB, of the devices
    that PyTorch sees, numbered as it does; {} without CUDA in use. No waiting."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    cuda = torch.cuda
    return {
        f"gpu_{i}": {
            "memory_allocated": cuda.memory_allocated(i) / MIB,
            "memory_reserved": cuda.memory_reserved(i) / MIB,
            "max_memory_allocated": cuda.max_memory_allocated(i) / MIB,
            "memory_total": cuda.get_device_properties(i).total_memory / MIB,
        }
        for i in range(cuda.device_count())
    }


def monitor_resources() -> dict[str, Any]:
    """cpu_percent (of all CPUs, since the agent's last reading: nothing blocks), cpu_count,
    memory_percent, memory_available_gb (GiB), gpu_metrics: PyTorch's allocator in MiB, by its
    numbers of the devices. `gpu_devices` has what the driver says, numbered as nvidia-smi
    does: utilization in percent, memory_used and memory_total in MiB.

    The first call opens the run if the program has not, and waits for the agent's first
    reading, at most 3 s. None: not known."""
    figures = machine()
    end = time.monotonic() + FIRST_S
    while figures.get("cpu_percent") is None and not figures.version > 1:
        if time.monotonic() > end or not _core.is_open():
            break
        time.sleep(0.05)
    row = figures.row("nemo")
    count = row.get("cpu_count")
    devices = {}
    for gpu in figures.gpus:
        devices[f"gpu_{gpu}"] = {
            "utilization": row[f"gpu_{gpu}_utilization"],
            "memory_used": row[f"gpu_{gpu}_memory_mb"],
            "memory_total": row[f"gpu_{gpu}_memory_total_mb"],
        }
    return {
        "cpu_percent": row["cpu_percent"],
        "cpu_count": os.cpu_count() if count is None else int(count),
        "memory_percent": row["memory_percent"],
        "memory_available_gb": row["memory_available_gb"],
        "gpu_metrics": allocator(),
        "gpu_devices": devices,
    }


def _share(total: dict[str, float], free: dict[str, float], name: str) -> float:
    whole = total.get(name, 0)
    return (whole - free.get(name, 0)) / whole if whole > 0 else 0


def monitor_ray_cluster() -> dict[str, Any]:
    """cluster_resources, available_resources, cpu_utilization, gpu_utilization (0 to 1; the
    share of Ray's resources that is scheduled, not the load), total_nodes. ImportError: Ray
    is not installed."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(f"monitor_ray_cluster() needs Ray: {error}") from None
    total, free = ray.cluster_resources(), ray.available_resources()
    return {
        "cluster_resources": total,
        "available_resources": free,
        "cpu_utilization": _share(total, free, "CPU"),
        "gpu_utilization": _share(total, free, "GPU"),
        "total_nodes": len(ray.nodes()),
    }
