# SPDX-License-Identifier: Apache-2.0
"""A configuration file (YAML), read by `lapse config --json`: the same parser as
everywhere, in a process of its own, so that no file can harm this one."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import _program

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 10  # it takes some milliseconds


class UnreadableError(Exception):
    """The program could not be asked; this says nothing about the file."""


class File:
    """What a file says: `values` by the names of init()'s settings, and `config`."""

    __slots__ = ("config", "path", "values")

    def __init__(self, path: str, document: Mapping[str, Any]) -> None:
        self.path = path
        self.values: dict[str, Any] = {}
        self.config: Mapping[str, Any] | None = None
        for key in document["keys"]:
            if key.get("from") != "file":
                continue
            if key["python"]:
                self.values[key["python"]] = key["value"]
            elif key["path"] == "python.config":
                self.config = key["value"]


def document(*arguments: str) -> Any:
    """What `lapse config --json` prints. ValueError with its sentence if the file is
    bad, UnreadableError if the program cannot be asked."""
    import subprocess

    program = _program.find()
    if program is None:
        raise UnreadableError("the program `lapse`, which reads it, is not found; set LAPSE_BIN")
    try:
        done = subprocess.run(
            [program, "config", "--json", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnreadableError(f"{program}: {error}") from None
    said = done.stderr.decode("utf-8", "replace").strip()
    try:
        return json.loads(done.stdout)
    except ValueError:
        if said.startswith("lapse config: "):
            raise ValueError(said[len("lapse config: ") :]) from None
        raise UnreadableError(f"{program}: {said or f'exit status {done.returncode}'}") from None


def read(path: str | os.PathLike[str]) -> File:
    """Read a file; raises as document() does."""
    name = os.fsdecode(path)
    return File(name, document("--", name))
