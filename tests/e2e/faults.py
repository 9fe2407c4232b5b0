# SPDX-License-Identifier: Apache-2.0
"""What the tests of faults share: a stress program counts its returned calls in a page of
its own, and `judge` holds the stored run against that page (tests/chaos). They are found
beside each other at $LAPSE_STRESS, else in $LAPSE_BUILD/tests/chaos."""
import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import BUILD, PATIENCE, Lapse, wait_for

HEADER, PROCESS = 64, 320  # bytes, tests/chaos/calls.h
STRESS = Path(os.environ.get("LAPSE_STRESS") or BUILD / "tests" / "chaos" / "stress")
LAPSE = Path(os.environ.get("LAPSE_BIN") or BUILD / "lapse")


class Page:
    """The page in which a stress program counts."""

    def __init__(self, path):
        self.path = path

    def words(self, offset, n):
        try:
            data = self.path.read_bytes()[offset:offset + 8 * n]
        except OSError:
            data = b""
        return struct.unpack(f"{n}Q", data) if len(data) == 8 * n else (0,) * n

    @property
    def pid(self):
        return self.words(HEADER, 1)[0] if self.words(0, 1)[0] else 0

    @property
    def child(self):
        """pid of the program's first child, once it records."""
        return self.words(HEADER + PROCESS, 1)[0]

    @property
    def returned(self):
        return sum(self.words(HEADER + i * PROCESS + 64 + k * 64, 1)[0]
                   for i in range(8) for k in range(4))

    def goes_on(self):
        """Wait until more calls have returned."""
        before = self.returned
        return wait_for(lambda: self.returned > before)


class World:
    """Lapse with folders of its own, and stress programs in it."""

    def __init__(self, runs=None, rendezvous=None):
        self.base = Path(tempfile.mkdtemp(prefix="lapse-faults-"))
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        meet = rendezvous or Path(tempfile.mkdtemp(prefix="lapse-faults-", dir=shared))
        self.lapse = Lapse(LAPSE, self.base, meet)
        self.own_rendezvous = rendezvous is None
        if runs:
            self.lapse.runs = runs
            self.lapse.env["LAPSE_DIR"] = str(runs)
        self.lapse.env["HOME"] = str(self.base / "home")
        self.lapse.env.pop("XDG_STATE_HOME", None)
        self.started, self.pages = [], 0

    def page(self):
        self.pages += 1
        return Page(self.base / f"page{self.pages}")

    def stress(self, *options, launch=True, wait=True, env=None, **more):
        """Start a stress program; (Popen, its page)."""
        page = self.page()
        command = [str(STRESS), *map(str, options), str(page.path)]
        if launch:
            command = [self.lapse.program, "run", "--", *command]
        process = subprocess.Popen(command, env={**self.lapse.env, **(env or {})},
                                   cwd=self.base, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        self.started.append((process, page))
        if wait:
            assert wait_for(lambda: page.pid), "the program does not begin"
        return process, page

    def end(self, process, page, sig=signal.SIGTERM):
        """End the program; the launcher's status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(page.pid, sig)
        # Where the program was stopped, its launcher stands still, too.
        process.send_signal(signal.SIGCONT)
        return process.wait(timeout=60)

    def log(self):
        path = self.lapse.rendezvous / "agent.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self, text, timeout=PATIENCE):
        return wait_for(lambda: text in self.log(), timeout)

    def stores(self, page, at_least=1):
        """Wait until the agent has stored records of a program."""
        def stored():
            return sum(one["stored"] for i in self.lapse.run_ids()
                       for one in self.lapse.shown(i).get("processes", ())
                       if one["pid"] == page.pid and one["stored"])
        return wait_for(lambda: stored() >= at_least)

    def only_run(self):
        ids = [i for i in self.lapse.run_ids() if list((self.lapse.runs / i).glob("*.db*"))]
        assert len(ids) == 1, ids
        return self.lapse.runs / ids[0]

    def judge(self, page, run=None):
        done = subprocess.run([STRESS.parent / "judge", page.path, run or self.only_run()],
                              capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def holds(self, page, run=None):
        """The run is complete and everything adds up; what the judge says."""
        said = self.judge(page, run)
        assert said["problems"] == "", f"{said['problems']}\nagent.log:\n{self.log()}"
        assert said["warning"] == ""
        return said

    def end_agents(self):
        """Also those whose folder is gone, or which have not taken its lock yet."""
        def gone(sig):
            for pid in agents_of(self):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sig)
            return not agents_of(self)

        if not wait_for(lambda: gone(signal.SIGTERM), 20):
            wait_for(lambda: gone(signal.SIGKILL), 20)

    def close(self):
        for process, page in self.started:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(page.pid or process.pid, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
            # A program whose launcher is gone.
            if page.pid and is_stress(page.pid):
                os.kill(page.pid, signal.SIGKILL)
        self.end_agents()
        if self.own_rendezvous:
            shutil.rmtree(self.lapse.rendezvous, ignore_errors=True)
        shutil.rmtree(self.base, ignore_errors=True)


def is_stress(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe") == str(STRESS.resolve())
    except OSError:
        return False


@pytest.fixture(name="world")
def world_fixture():
    if not STRESS.exists():
        pytest.fail(f"{STRESS} has not been built")
    with contextlib.closing(World()) as one:
        yield one


def rings(world):
    return sorted((world.lapse.rendezvous / "rings").glob("*.ring"))


def agents_of(world):
    """pids of the agents that serve a world's rendezvous folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"agent" in words and str(world.lapse.rendezvous).encode() in words:
                found.append(int(path.parent.name))
    return found
