# SPDX-License-Identifier: Apache-2.0
"""Parameters by name, and names put together into layers."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Callable, Union

import torch

# What a wrapper adds to the names of what it wraps.
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
LAYERS_MAX = 256

Model = Union[torch.nn.Module, Iterable[tuple[str, torch.nn.Parameter]]]
Layers = Union[None, int, str, Iterable[str], Callable[[str], "str | None"]]


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    while isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        model = model.module
    return model


def parameters(model: Model) -> list[tuple[str, torch.nn.Parameter]]:
    """Those of a module, or pairs of name and parameter; each parameter once, under names
    without what compiling and wrapping added."""
    pairs: Iterable[tuple[str, torch.nn.Parameter]] = (
        _unwrapped(model).named_parameters() if isinstance(model, torch.nn.Module) else model
    )
    out, seen = [], set()
    for name, parameter in pairs:
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        plain = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
        out.append((plain, parameter))
    return out


def module_of(name: str, depth: int | None = None) -> str:
    """The module that a parameter is of, cut to so many levels; of the root: its name."""
    parts = name.split(".")[:-1]
    return ".".join(parts[:depth]) or name


def matches(name: str, pattern: str) -> bool:
    """Does a dotted name have `pattern` as a run of whole components, or match it as a
    glob, itself or with more components behind?"""
    if fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*"):
        return True
    return f".{pattern}." in f".{name}."


def layers(names: list[str], wanted: Layers, who: str) -> dict[str, list[int]]:
    """{layer: which of the names}. ValueError if a pattern finds nothing, or there are
    too many."""
    found: dict[str, list[int]] = {}
    if wanted is None:
        return found
    if isinstance(wanted, bool):
        raise TypeError(f"{who}: layers is a depth, a list of names, or a function")
    if isinstance(wanted, int):
        if wanted < 1:
            raise ValueError(f"{who}: layers={wanted}: a depth is 1 or more")
        for i, name in enumerate(names):
            found.setdefault(module_of(name, wanted), []).append(i)
    elif callable(wanted):
        for i, name in enumerate(names):
            layer = wanted(name)
            if layer is not None:
                found.setdefault(str(layer), []).append(i)
    else:
        for pattern in [wanted] if isinstance(wanted, str) else wanted:
            found[pattern] = [i for i, name in enumerate(names) if matches(name, pattern)]
            if not found[pattern]:
                raise ValueError(
                    f"{who}: no parameter is of layer {pattern!r}; there are "
                    + ", ".join(sorted({module_of(name, 1) for name in names})[:10])
                )
    if len(found) > LAYERS_MAX:
        raise ValueError(f"{who}: {len(found)} layers, more than {LAYERS_MAX}")
    return found
