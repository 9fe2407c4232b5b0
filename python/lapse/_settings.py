# SPDX-License-Identifier: Apache-2.0
"""What init() can be told, where each setting comes from, and in which order:
arguments, then LAPSE_* environment variables, then the dict `settings`, then
defaults."""
from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CAPTURES = frozenset(("environment", "git", "exceptions", "warnings", "faulthandler", "exit"))


def text(value: Any) -> str:
    """Text that can be stored: UTF-8 without NUL; what cannot be is replaced."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _number(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _words(value: str | Iterable[Any]) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    return [text(word).strip() for word in words if str(word).strip()]


def _tags(value: Any) -> str:
    return ",".join(_words(value))


def _capture(value: Any) -> frozenset[str]:
    """True: all; False: nothing; else the names."""
    if isinstance(value, str) and value not in CAPTURES and "," not in value:
        value = _flag(value)
    if isinstance(value, bool):
        return CAPTURES if value else frozenset()
    names = frozenset(_words(value))
    for name in names - CAPTURES:
        raise ValueError(f"{name!r} is none of {', '.join(sorted(CAPTURES))}")
    return names


# name: (environment variable, how its value is read, default)
SETTINGS: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "project": ("LAPSE_PROJECT", text, None),
    "name": ("LAPSE_NAME", text, None),
    "dir": ("LAPSE_DIR", os.fspath, None),
    "tags": ("LAPSE_TAGS", _tags, None),
    "notes": ("LAPSE_NOTES", text, None),
    "role": ("LAPSE_ROLE", text, None),
    "capture": ("LAPSE_CAPTURE", _capture, CAPTURES),
    "ring_kib": ("LAPSE_RING_KIB", _number, None),
    "lanes": ("LAPSE_LANES", _number, None),
    "start_agent": ("LAPSE_START_AGENT", _flag, True),
}


def _read(name: str, value: Any, where: str) -> Any:
    try:
        return SETTINGS[name][1](value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"lapse.init(): {where}: {error}") from None


def _from_environment(name: str, value: str) -> Any:
    """A variable comes from far away: a bad one must not end the program."""
    variable = SETTINGS[name][0]
    try:
        return _read(name, value, variable)
    except ValueError as error:
        warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=4)
        return None


def _check_names(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if name not in SETTINGS:
            import difflib

            near = difflib.get_close_matches(str(name), SETTINGS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SETTINGS)}"
            raise ValueError(f"lapse.init(): settings: no {name!r}; {hint}")


def merge(arguments: Mapping[str, Any], settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values that hold. An argument or setting that is None was not given.
    ValueError or TypeError for a bad argument or an unknown setting."""
    given = settings or {}
    _check_names(given)
    merged = {}
    for name, (variable, _, default) in SETTINGS.items():
        value, environment = None, os.environ.get(variable)
        if arguments.get(name) is not None:
            value = _read(name, arguments[name], name)
        elif environment:
            value = _from_environment(name, environment)
        if value is None and given.get(name) is not None:
            value = _read(name, given[name], f"settings[{name!r}]")
        merged[name] = default if value is None else value
    return merged
