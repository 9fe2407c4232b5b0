# SPDX-License-Identifier: Apache-2.0
"""lapse.torch measures what a training loop in PyTorch does, without a framework.

    import lapse, lapse.torch

    lapse.init(project="ocr")
    loader = lapse.torch.watch_loader(loader)
    rates = lapse.torch.Throughput(flops=6e9)
    for batch in loader:
        with lapse.step(samples=len(batch)):
            with lapse.torch.phase("forward"):
                loss = model(batch)
            with lapse.torch.phase("backward"):
                loss.backward()
            rates.step(samples=len(batch))
            lapse.torch.log({"loss": loss})     # loss stays on the device: no waiting

Nothing here waits for a device, and nothing raises in training. docs/torch.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._allocator import Allocator
    from ._benchmark import Benchmark, benchmark, compare_outputs
    from ._collector import GarbageCollector
    from ._compile import CompileMonitor
    from ._flops import Flops, measure_flops, transformer_flops
    from ._from_config import Watch, from_config
    from ._gradients import Gradients
    from ._histograms import Histograms
    from ._later import flush, later, log
    from ._loader import Loader, Times, watch_loader
    from ._memory import CacheMemory, DatasetMemory
    from ._optimizer import OptimizerState
    from ._phase import phase, phase_times
    from ._profile import Profile
    from ._profile_nsys import NsysCapture
    from ._summary import Summary
    from ._throughput import Throughput
    from ._tracemalloc import TraceMalloc
    from ._transform import transform

# Each name is loaded when it is first used: importing lapse.torch is importing torch.
_MODULES = {
    "_allocator": ("Allocator",),
    "_benchmark": ("Benchmark", "benchmark", "compare_outputs"),
    "_collector": ("GarbageCollector",),
    "_compile": ("CompileMonitor",),
    "_flops": ("Flops", "measure_flops", "transformer_flops"),
    "_from_config": ("Watch", "from_config"),
    "_gradients": ("Gradients",),
    "_histograms": ("Histograms",),
    "_later": ("flush", "later", "log"),
    "_loader": ("Loader", "Times", "watch_loader"),
    "_memory": ("CacheMemory", "DatasetMemory"),
    "_optimizer": ("OptimizerState",),
    "_phase": ("phase", "phase_times"),
    "_profile": ("Profile",),
    "_profile_nsys": ("NsysCapture",),
    "_summary": ("Summary",),
    "_throughput": ("Throughput",),
    "_tracemalloc": ("TraceMalloc",),
    "_transform": ("transform",),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Allocator",
    "Benchmark",
    "CacheMemory",
    "CompileMonitor",
    "DatasetMemory",
    "Flops",
    "GarbageCollector",
    "Gradients",
    "Histograms",
    "Loader",
    "NsysCapture",
    "OptimizerState",
    "Profile",
    "Summary",
    "Throughput",
    "Times",
    "TraceMalloc",
    "Watch",
    "benchmark",
    "compare_outputs",
    "flush",
    "from_config",
    "later",
    "log",
    "measure_flops",
    "phase",
    "phase_times",
    "transform",
    "transformer_flops",
    "watch_loader",
]

import torch  # noqa: E402, F401 - a missing torch is said here, not at the first use

if not TYPE_CHECKING:  # or every name would be one

    def __getattr__(name: str) -> Any:
        module = _NAMES.get(name)
        if module is None:
            raise AttributeError(f"module 'lapse.torch' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"lapse.torch.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
