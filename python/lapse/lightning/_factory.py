# SPDX-License-Identifier: Apache-2.0
"""Callbacks that Lightning attaches to every Trainer by itself (entry points
`lightning.pytorch.callbacks_factory`, `pytorch_lightning.callbacks_factory`), if the
variable LAPSE_LIGHTNING asks for them."""

from __future__ import annotations

import difflib
import os
import warnings
from typing import Any

VARIABLE = "LAPSE_LIGHTNING"
NAMES = {
    "record": "LapseCallback",
    "throughput": "ThroughputMonitorCallback",
    "resources": "ResourceMonitorCallback",
    "profiler": "ProfilerCallback",
}
_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def asked_for(value: str) -> list[str]:
    """Names of NAMES in a value of the variable: "1" is record, "all" all of them but the
    profiler, else words with commas between. ValueError for another word."""
    words = [word.strip().lower() for word in value.split(",")]
    if len(words) == 1 and words[0] in _OFF:
        return []
    found: list[str] = []
    for word in words:
        if word in _ON:
            found.append("record")
        elif word == "all":
            found.extend(("record", "throughput", "resources"))
        elif word in NAMES:
            found.append(word)
        elif word:
            near = difflib.get_close_matches(word, [*NAMES, "all"], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(NAMES)}, all"
            raise ValueError(f"{VARIABLE}: no {word!r}; {hint}")
    return list(dict.fromkeys(found))


def _callbacks(package: str) -> list[Any]:
    try:
        names = asked_for(os.environ.get(VARIABLE, ""))
    except ValueError as error:  # a variable must not end the program
        warnings.warn(f"{error}; nothing is attached", RuntimeWarning, stacklevel=2)
        return []
    if not names:
        return []
    from . import of

    classes = of(package)
    options = {"profiler": {"enabled": True}}
    return [getattr(classes, NAMES[name])(**options.get(name, {})) for name in names]


def for_lightning() -> list[Any]:
    """What the entry point of `lightning.pytorch` calls."""
    return _callbacks("lightning.pytorch")


def for_pytorch_lightning() -> list[Any]:
    """What the entry point of `pytorch_lightning` calls."""
    return _callbacks("pytorch_lightning")
