# SPDX-License-Identifier: Apache-2.0
"""The dashboard of this user's live runs: the program `lapse` serves it, in a process of its
own that leaves after the last run (docs/dashboard.md)."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from . import _program

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 10.0  # seconds for a server to say where it is


def rendezvous() -> str:
    """Where programs and agent meet (docs/launcher.md)."""
    named = os.environ.get("LAPSE_RENDEZVOUS")
    if named:
        return named
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "lapse") if runtime else f"/dev/shm/lapse-{os.geteuid()}"


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def start(host: str | None = None, port: int | None = None, config: str | None = None) -> str:
    """See that there is a server; where it is. RuntimeError with the reason: there is none.
    One that is there already stays as it is, whatever is asked for."""
    program, folder = _program.find(), rendezvous()
    if program is None:
        raise RuntimeError("there is no program lapse: install it, or name it in LAPSE_BIN")
    command = [program, "serve", "--rendezvous", folder]
    command += ["--host", host] if host else []
    command += ["--port", str(port)] if port else []
    command += ["--config", config] if config else []
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise RuntimeError(f"{program}: {error.strerror}") from None
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        ended = server.poll()
        if ended:
            raise RuntimeError(f"it ended; {folder}/agent.log says why")
        # It leaves at once where another serves.
        if ended == 0 or _read(folder, "http.lock") == str(server.pid):
            address = _read(folder, "http")
            if address:
                server.returncode = 0  # it outlives us, of which Python would warn
                return address
        time.sleep(0.005)
    raise RuntimeError(f"it does not answer; {folder}/agent.log may say why")


def told(
    host: str | None,
    port: int | None,
    say: Callable[[str], None] | None,
    warn: Callable[[str], None],
) -> str | None:
    """start(), and say where, or warn why not. For training, where nothing raises."""
    try:
        address = start(host, port)
    except RuntimeError as error:
        warn(f"no dashboard: {error}")
        return None
    if say:
        say(f"lapse: dashboard: {address}")
    return address
