# SPDX-License-Identifier: Apache-2.0
"""Callbacks, a logger and a profiler for Lightning, in either of its two packages.

    import lightning.pytorch as pl
    import lapse.lightning

    trainer = pl.Trainer(callbacks=[lapse.lightning.LapseCallback()])

`lightning.pytorch` and `pytorch_lightning` have different classes. The names here are for
the one that the program has imported; if it has imported both, or neither, for
`lightning.pytorch` if that is installed. `lapse.lightning.of("pytorch_lightning")` has
the same names for the one that is named. docs/callbacks.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._package import choose, module_for

if TYPE_CHECKING:
    from types import ModuleType

    from ._logger import LapseLogger
    from ._profiler import ProfilerCallback
    from ._record import LapseCallback
    from ._resources import ResourceMonitorCallback
    from ._spans import LapseProfiler
    from ._throughput import ThroughputMonitorCallback

__all__ = [
    "LapseCallback",
    "LapseLogger",
    "LapseProfiler",
    "ProfilerCallback",
    "ResourceMonitorCallback",
    "ThroughputMonitorCallback",
    "of",
]


def of(package: str | ModuleType) -> ModuleType:
    """The classes for one package: "lightning" (or "lightning.pytorch"),
    "pytorch_lightning", or either module. ValueError for another, ImportError if it is not
    installed."""
    return importlib.import_module(module_for(package))


if not TYPE_CHECKING:  # or every name would be one

    def __getattr__(name: str) -> Any:
        """Which package it is for is known when a class is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'lapse.lightning' has no attribute {name!r}")
        return getattr(of(choose()), name)


def __dir__() -> list[str]:
    return sorted(__all__)
