# SPDX-License-Identifier: Apache-2.0
"""The performance callbacks of Dream Trainer's documentation, over lapse.torch.

    from lapse.compat.dream_trainer import CallbackCollection, MemoryProfiler, ThroughputMonitor

    callbacks = CallbackCollection([ThroughputMonitor(warmup_steps=100), MemoryProfiler()])

Hooks are called `pre_*` and `post_*`; any trainer that calls them will do. What these
callbacks fail at is said once, and training goes on. docs/callbacks.md."""

from __future__ import annotations

from ._base import Callback, CallbackCollection, RankZeroCallback, WarmupCallback
from ._benchmark import BenchmarkCallback
from ._measure import (
    CompilationMonitor,
    GarbageCollectionCallback,
    MemoryProfiler,
    ThroughputMonitor,
)
from ._profile import AutoAnalyzer, ProfileCallback, trace_handler
from ._report import PerformanceReporter

__all__ = [
    "AutoAnalyzer",
    "BenchmarkCallback",
    "Callback",
    "CallbackCollection",
    "CompilationMonitor",
    "GarbageCollectionCallback",
    "MemoryProfiler",
    "PerformanceReporter",
    "ProfileCallback",
    "RankZeroCallback",
    "ThroughputMonitor",
    "WarmupCallback",
    "trace_handler",
]
