# SPDX-License-Identifier: Apache-2.0
"""A configuration as attributes: each leaf of nested mappings and lists is one,
`config/model/layers`."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

LEAVES_MAX = 4096
DEPTH_MAX = 16


def as_mapping(config: Any) -> Mapping[Any, Any] | None:
    """A dict, dataclass, argparse.Namespace or other mapping as a mapping; None if
    it is nothing of the kind."""
    if isinstance(config, Mapping):
        return config
    fields = getattr(type(config), "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(config, name) for name in fields if hasattr(config, name)}
    if type(config).__name__ == "Namespace" and hasattr(config, "__dict__"):
        members: Mapping[Any, Any] = vars(config)
        return members
    return None


def _failed(error: Exception) -> str:
    """In place of what cannot be read. OmegaConf's `???` is a value that is to come."""
    kind = type(error).__name__
    return "???" if kind == "MissingMandatoryValue" else f"<{kind}>"


def items(mapping: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, str]]:
    """Like items(), but a value that cannot be read harms no other: (key, None, what stands
    in its place)."""
    try:
        keys = list(mapping)
    except Exception:
        return
    for key in keys:
        try:
            yield key, mapping[key], ""
        except Exception as error:
            yield key, None, _failed(error)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        return _failed(error)


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except Exception:
        pass
    return _text(value)


def _children(value: Any) -> Iterator[tuple[Any, Any, str]] | None:
    """The members of what is no leaf. A list of plain values is one leaf."""
    mapping = as_mapping(value)
    if mapping is not None:
        return items(mapping)
    if isinstance(value, (list, tuple)) and any(
        isinstance(x, (list, tuple)) or as_mapping(x) is not None for x in value
    ):
        return ((n, x, "") for n, x in enumerate(value))
    return None


def _walk(prefix: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    children = _children(value) if depth < DEPTH_MAX else None
    if children is None:
        yield prefix, _leaf(value)
        return
    for key, child, failed in children:
        path = f"{prefix}/{_text(key)}"
        if failed:
            yield path, failed
        else:
            yield from _walk(path, child, depth + 1)


def leaves(config: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """(path, text) of each leaf, at most LEAVES_MAX; deeper than DEPTH_MAX levels a
    branch is one leaf."""
    for n, leaf in enumerate(_walk("config", config, 0)):
        if n == LEAVES_MAX:
            yield "config.cut", f"more than {LEAVES_MAX} values; the rest is left out"
            return
        yield leaf
