# SPDX-License-Identifier: Apache-2.0
"""What init() can be told, where each setting comes from, and in which order:
arguments, then LAPSE_* environment variables, then the dict `settings`, then the
configuration file, then defaults."""
from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._file import File

RING_KIB_MAX, LANES_MAX = 1 << 24, 256  # as the record library has them
CAPTURES = frozenset(("environment", "git", "exceptions", "warnings", "faulthandler", "exit"))


def text(value: Any) -> str:
    """Text that can be stored: UTF-8 without NUL; what cannot be is replaced."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _number(most: int) -> Callable[[Any], int]:
    """A whole number up to this one."""

    def read(value: Any) -> int:
        number = int(value)
        if number < 0:
            raise ValueError(f"{number} is negative")
        if number > most:
            raise ValueError(f"{number} is more than {most}")
        return number

    return read


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


# name: (environment variable, how its value is read, default). The program's table
# (docs/config.md) has the same names, variables and defaults; a test compares.
SETTINGS: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "project": ("LAPSE_PROJECT", text, None),
    "name": ("LAPSE_NAME", text, None),
    "dir": ("LAPSE_DIR", os.fspath, None),
    "tags": ("LAPSE_TAGS", _tags, None),
    "notes": ("LAPSE_NOTES", text, None),
    "role": ("LAPSE_ROLE", text, None),
    "capture": ("LAPSE_CAPTURE", _capture, CAPTURES),
    "ring_kib": ("LAPSE_RING_KIB", _number(RING_KIB_MAX), None),
    "lanes": ("LAPSE_LANES", _number(LANES_MAX), None),
    "start_agent": ("LAPSE_START_AGENT", _flag, True),
}


def _read(name: str, value: Any, where: str) -> Any:
    try:
        return SETTINGS[name][1](value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"lapse.init(): {where}: {error}") from None
    except OverflowError as error:  # an infinity
        raise ValueError(f"lapse.init(): {where}: {error}") from None


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


def read_file(settings: Any, may_read: bool) -> File | None:
    """The file that `settings` names, else (if may_read) that of LAPSE_CONFIG.
    ValueError for a bad one by argument; a bad variable is left out."""
    named = settings if isinstance(settings, (str, os.PathLike)) else None
    path = named or (os.environ.get("LAPSE_CONFIG") if may_read else None)
    if not path:
        return None
    from . import _file

    where = "settings" if named else "LAPSE_CONFIG"
    try:
        return _file.read(path)
    except ValueError as error:
        if named:
            raise ValueError(f"lapse.init(): {where}: {error}") from None
        why = str(error)
    except _file.UnreadableError as error:
        why = f"{os.fsdecode(path)}: {error}"
    warnings.warn(
        f"lapse.init(): {where}: {why}; it is left out", RuntimeWarning, stacklevel=3
    )
    return None


def as_mapping(settings: Any) -> Mapping[str, Any]:
    """The dict of `settings`, which may also be a path or None."""
    if settings is None or isinstance(settings, (str, os.PathLike)):
        return {}
    if not hasattr(settings, "items"):
        raise TypeError(
            "lapse.init(): settings must be a dict or the path of a YAML file, "
            f"not {type(settings).__name__}"
        )
    mapping: Mapping[str, Any] = settings
    return mapping


def merge(
    arguments: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
    file: File | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that hold, and where each is from: "argument", "environment",
    "settings", "file" or "default". An argument or setting that is None was not given.
    ValueError or TypeError for a bad argument or an unknown setting."""
    given = settings or {}
    _check_names(given)
    merged, sources = {}, {}
    for name, (variable, _, default) in SETTINGS.items():
        environment = os.environ.get(variable)
        value, source = None, "environment"
        if arguments.get(name) is not None:
            value, source = _read(name, arguments[name], name), "argument"
        elif environment:
            value = _from_environment(name, environment)
        if value is None and given.get(name) is not None:
            value, source = _read(name, given[name], f"settings[{name!r}]"), "settings"
        if value is None and file and file.values.get(name) is not None:
            value, source = _read(name, file.values[name], file.path), "file"
        merged[name] = default if value is None else value
        sources[name] = "default" if value is None else source
    return merged, sources
