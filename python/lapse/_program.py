# SPDX-License-Identifier: Apache-2.0
"""Where the program `lapse` is, for the agent that init() starts."""
from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find() -> str | None:
    """Path of the program: $LAPSE_BIN, else the script that was installed with this
    package, else `lapse` in PATH; None if there is none."""
    named = os.environ.get("LAPSE_BIN")
    if named:
        return named
    folders = [os.path.dirname(sys.executable or ""), sysconfig.get_path("scripts") or ""]
    for scheme in ("posix_user", "posix_local"):
        if scheme in sysconfig.get_scheme_names():
            folders.append(sysconfig.get_path("scripts", scheme))
    for folder in folders:
        path = os.path.join(folder, "lapse")
        if folder and _executable(path):
            return path
    return shutil.which("lapse")
