# SPDX-License-Identifier: Apache-2.0
"""The callbacks guide's package `ocr.callbacks`, for configurations that name its classes:

    import lapse.compat.ocr

    lapse.compat.ocr.install()      # before hydra.main() instantiates

Then `_target_: ocr.callbacks.throughput_monitor.ThroughputMonitorCallback` makes a
lapse.lightning.ThroughputMonitorCallback. A package `ocr` that is there is never hidden: if
only its module is missing, that one is added, and what it has stays."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CLASSES", "install", "new_name", "uninstall"]

#: {module of the guide: its class}
CLASSES = {
    "ocr.callbacks.throughput_monitor": "ThroughputMonitorCallback",
    "ocr.callbacks.profiler": "ProfilerCallback",
    "ocr.callbacks.resource_monitor": "ResourceMonitorCallback",
}
_PACKAGES = ("ocr", "ocr.callbacks")


def new_name(target: str) -> str:
    """The name here of one of the guide's: "ocr.callbacks.profiler.ProfilerCallback" is
    "lapse.lightning.ProfilerCallback"; another is given back as it is."""
    module, _, name = target.rpartition(".")
    found = CLASSES.get(module) == name or (module == "ocr.callbacks" and name in CLASSES.values())
    return f"lapse.lightning.{name}" if found else target


def _get(names: Sequence[str], module: str, name: str) -> Any:
    if name in names:
        return getattr(importlib.import_module("lapse.lightning"), name)
    raise AttributeError(f"module {module!r} (of lapse.compat.ocr) has no attribute {name!r}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Behind all others: asked for what nobody else has."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in _PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if name in CLASSES:
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Classes are looked up when they are asked for: which package of Lightning the
        program uses is known then."""
        name = module.__name__
        names = [CLASSES[name]] if name in CLASSES else (
            list(CLASSES.values()) if name == "ocr.callbacks" else [])  # fmt: skip
        module.__doc__ = f"{name} of the callbacks guide, by lapse.compat.ocr."
        module.__dict__["__all__"] = names
        module.__dict__["__getattr__"] = lambda one: _get(names, name, one)


_finder = _Finder()


def install() -> None:
    """Make the guide's names importable where there are none; again does nothing. Nothing is
    imported for it."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)


def uninstall() -> None:
    """Undo it; modules that it made are forgotten."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in (*CLASSES, *reversed(_PACKAGES)):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "loader", None) is _finder:
            del sys.modules[name]
