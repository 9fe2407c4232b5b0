# SPDX-License-Identifier: Apache-2.0
"""Which of the two packages of Lightning the program uses. They are never both
imported here, and none is before one of its classes is asked for."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

PACKAGES = {
    "lightning.pytorch": "lapse.lightning._for_lightning",
    "pytorch_lightning": "lapse.lightning._for_pytorch_lightning",
}


def choose() -> str:
    """The one that is imported, else the one that is installed. ImportError."""
    for package in PACKAGES:
        if package in sys.modules:
            return package
    for package in PACKAGES:
        if importlib.util.find_spec(package.partition(".")[0]) is not None:
            return package
    raise ImportError("lapse.lightning needs Lightning: pip install lightning")


def module_for(package: Any) -> str:
    """Our module with the classes for a package, by its name or the module itself."""
    name = str(getattr(package, "__name__", package))
    name = "lightning.pytorch" if name == "lightning" else name
    if name not in PACKAGES:
        raise ValueError(f"lapse.lightning.of(): {name!r} is neither of {', '.join(PACKAGES)}")
    return PACKAGES[name]
