# SPDX-License-Identifier: Apache-2.0
"""The config group `callbacks` for Hydra applications: with this package installed it is
there in every one (a plugin puts it on the search path), behind the application's own.

    python train.py +callbacks=[throughput_monitor,profiler,resource_monitor] \\
        callbacks.profiler.enabled=true callbacks.profiler.profile_epochs=[1]

    @hydra.main(config_path="conf", config_name="train", version_base=None)
    def main(cfg):
        trainer = Trainer(callbacks=lapse.hydra.callbacks(cfg))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SEARCH_PATH", "callbacks"]

SEARCH_PATH = "pkg://lapse.hydra.conf"


def callbacks(cfg: Mapping[str, Any], group: str = "callbacks") -> list[Any]:
    """What the entries of cfg.callbacks that have a `_target_` make, in their order. An
    entry with `enabled: false` makes nothing, so that what it needs is not imported.
    ValueError: an entry is no mapping."""
    instantiate = importlib.import_module("hydra.utils").instantiate
    entries = cfg.get(group) if hasattr(cfg, "get") else None
    made = []
    for name, entry in (entries or {}).items():
        if entry is None:
            continue
        if not hasattr(entry, "get"):
            raise ValueError(f"{group}.{name} must be a mapping with _target_, not {entry!r}")
        if entry.get("_target_") and entry.get("enabled", True):
            made.append(instantiate(entry))
    return made
