# SPDX-License-Identifier: Apache-2.0
"""The dashboard, which the program `lapse` serves in a process of its own (docs/dashboard.md):
that of this user's live runs, which leaves after the last run; or one of this program alone,
which ends with it."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING

from . import _machine, _program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PATIENCE = 10.0  # seconds for a server to say where it is
_PORTS = 100  # that are tried


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


def _command(host: str | None, port: int | None, options: Sequence[str]) -> list[str]:
    program = _program.find()
    if program is None:
        raise RuntimeError("there is no program lapse: install it, or name it in LAPSE_BIN")
    command = [program, "serve", *options]
    # Without --host it is this machine's loopback, both 127.0.0.1 and ::1.
    command += ["--host", host] if host and host != "localhost" else []
    command += ["--port", str(port)] if port else []
    return command


def start(
    host: str | None = None, port: int | None = None, options: Sequence[str] = ()
) -> str:  # fmt: skip
    """See that there is a server; where it is. RuntimeError with the reason: there is none.
    One that is there already stays as it is, whatever is asked for. options: further ones of
    `lapse serve`."""
    folder = rendezvous()
    command = _command(host, port, ["--rendezvous", folder, *options])
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise RuntimeError(f"{command[0]}: {error.strerror}") from None
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
    options: Sequence[str] = (),
) -> str | None:
    """start(), and say where, or warn why not. For training, where nothing raises."""
    try:
        address = start(host, port, options)
    except RuntimeError as error:
        warn(f"no dashboard: {error}")
        return None
    if say:
        say(f"lapse: dashboard: {address}")
    return address


class Own:
    """A server of this program's own: the folder of its run, else the usual folder of runs, at
    port, or the next free one of a hundred. It ends by stop(), at exit, and at the latest a
    second after the program, however that ended. RuntimeError with the reason: it cannot be."""

    def __init__(self, host: str | None, port: int, title: str) -> None:
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        options = ["--title", title, "--end-with", str(self._owner)]
        why = "no port is left"
        for one in range(port, min(port + _PORTS, 65536)):
            why = self._try(_command(host, one, options))
            if self.url:
                atexit.register(self.stop)
                return
            if f"port {one} is taken" not in why:
                break
        raise RuntimeError(why)

    def _try(self, command: list[str]) -> str:
        """Why it does not serve; an empty text: it does."""
        run = _machine.run_folder()
        environment = dict(os.environ)
        if run:  # the usual folder of runs need not be there yet, other than one that is named
            environment["LAPSE_DIR"] = os.path.dirname(os.path.abspath(run))
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                    env=environment, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return f"{command[0]}: {error.strerror}"
            assert process.stdout is not None
            with process.stdout as out:
                self.url = _line(out)
            if self.url:
                self._process = process
                return ""
            process.terminate()
            process.wait()
            said.seek(0)
            text = said.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"it does not answer in {_PATIENCE:.0f} s"

    @property
    def serves(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it, if it is still there; a child that was forked leaves it alone."""
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        self._process = None
        atexit.unregister(self.stop)
        process.terminate()
        process.wait()


def _line(out: IO[bytes]) -> str:
    """The line that a server prints once it serves; "": none."""
    ready, _, _ = select.select([out], [], [], _PATIENCE)
    return out.readline().decode("utf-8", "replace").strip() if ready else ""
