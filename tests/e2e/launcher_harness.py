# SPDX-License-Identifier: Apache-2.0
"""What the tests of `lapse run` share: the launcher with folders of its own, and
programs and questions for it. The program is $LAPSE_BIN, else
$LAPSE_BUILD/lapse, else build/lapse. No agent is started unless a test names
one: LAPSE_AGENT is a program that fails."""
import fcntl
import os
import re
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
LIMIT = 60  # seconds for one command


def find_program():
    build = os.environ.get("LAPSE_BUILD")
    named = os.environ.get("LAPSE_BIN") or (build and str(Path(build) / "lapse"))
    return str(Path(named or ROOT / "build" / "lapse").absolute())


class Launcher:
    def __init__(self, folder):
        self.folder, self.program = folder, find_program()
        self.runs, self.rendezvous = folder / "runs", folder / "meet"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
        self.env.update(LAPSE_DIR=str(self.runs), LAPSE_RENDEZVOUS=str(self.rendezvous),
                        LAPSE_AGENT="/bin/false", HOME=str(folder / "home"), LC_ALL="C.UTF-8",
                        LAPSE_DASHBOARD="false")
        self.env.pop("XDG_STATE_HOME", None)
        # A sanitizer's run-time would change the core limit that commands inherit.
        self.env["ASAN_OPTIONS"] = ":".join(filter(None, (self.env.get("ASAN_OPTIONS"),
                                                          "disable_coredump=0")))

    def argv(self, *command, options=()):
        return [self.program, "run", *options, "--", *map(str, command)]

    def run(self, *command, options=(), **more):
        more.setdefault("env", self.env)
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("cwd", self.folder)
        return subprocess.run(self.argv(*command, options=options), capture_output=True,
                              timeout=LIMIT, check=False, **more)

    def start(self, *command, options=(), **more):
        more.setdefault("env", self.env)
        more.setdefault("cwd", self.folder)
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(self.argv(*command, options=options), **more)

    def bare(self, *command, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([*map(str, command)], env=self.env, cwd=self.folder,
                              capture_output=True, timeout=LIMIT, check=False, **more)

    def files(self, kind):
        """The run files or outcome files as dictionaries, by id."""
        found = {}
        for path in sorted((self.rendezvous / "runs").glob("*." + kind)):
            lines = path.read_bytes().decode().split("\n")
            magic = {"run": "lapse-run 1", "outcome": "lapse-outcome 1"}[kind]
            assert lines[0] == magic and lines[-2:] == ["end", ""]
            found[path.stem] = dict(line.split("=", 1) for line in lines[1:-2])
        return found

    def outcome(self):
        outcomes = self.files("outcome")
        assert len(outcomes) == 1, outcomes
        return next(iter(outcomes.values()))


@pytest.fixture
def launcher(tmp_path):
    one = Launcher(tmp_path)
    if not Path(one.program).exists():
        pytest.fail(f"{one.program} has not been built; run make")
    return one


def memory_group():
    """Make a control group with 48 MiB of memory; (folder, kind) or a reason why not."""
    for base, limit, kind in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "v1"),
                              ("/sys/fs/cgroup", "memory.max", "v2")):
        group = Path(base) / f"lapse-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            group.mkdir()
        except OSError as error:
            reason = str(error)
            continue
        try:
            (group / limit).write_text(str(48 << 20))
            return group, kind
        except OSError as error:
            reason = str(error)
            group.rmdir()
    return None, reason


@pytest.fixture
def group():
    folder, kind = memory_group()
    if folder is None:
        pytest.skip("may not make a memory control group: " + kind)
    yield folder
    wait_for(lambda: not (folder / "cgroup.procs").read_text().strip())
    folder.rmdir()


EAT = "import time; time.sleep(0.3); a = [bytearray(b'x' * (1 << 20)) for _ in range(400)]"


def in_group(folder):
    return lambda: (folder / "cgroup.procs").write_text("0")


def script(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)
    return path


def wait_for(question, timeout=LIMIT):
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.02)


def lock_is_free(path):
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    with open(path, "r+b") as file:
        answer = fcntl.fcntl(file, 36, lock)  # F_OFD_GETLK
    return struct.unpack("hhqqi4x", answer)[0] == fcntl.F_UNLCK


def process_group(path):
    try:
        return int((path / "stat").read_text().rsplit(")", 1)[1].split()[2])
    except (OSError, IndexError):
        return -1


def has_pending(path):
    """Are signals pending in a process, which may be gone by now?"""
    try:
        return re.search(r"^(?:Sig|Shd)Pnd:\s*0*[1-9a-f]", (path / "status").read_text(), re.M)
    except OSError:
        return False


def process_state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def lines_of(path):
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def unescape(text):
    return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())


# Counts the signals named in its arguments until the file named first appears. Its limit is
# only so that it does not stay for ever.
COUNTER = """
import os, signal, sys, time
count = {}
def note(number, _):
    count[number] = count.get(number, 0) + 1
    os.write(1, b"got %s\\n" % signal.Signals(number).name.encode())
for number in map(int, sys.argv[2:]):
    signal.signal(number, note)
end = time.monotonic() + 100
print("ready", os.getpid(), flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print(sorted((signal.Signals(n).name, c) for n, c in count.items()), flush=True)
"""


class Counted:
    """A command under lapse that counts the signals that it gets."""

    def __init__(self, launcher, *numbers, group=False):
        program = script(launcher.folder, "count.py", COUNTER)
        self.stop = launcher.folder / "stop"
        self.child = launcher.start(PYTHON, program, self.stop, *map(int, numbers),
                                    start_new_session=True)
        self.pid = int(self.child.stdout.readline().split()[1])

    def got(self, n):
        """Wait for n signals; the names that the command told."""
        lines = [self.child.stdout.readline() for _ in range(n)]
        assert all(line.startswith(b"got ") for line in lines), lines
        return [line.split()[1].decode() for line in lines]

    def taken(self):
        """Wait until the launcher is through with what came, and has a new witness: then
        nothing is pending in the whole group."""
        def pending():
            return [p for p in Path("/proc").iterdir() if p.name.isdigit()
                    and process_group(p) == self.child.pid and has_pending(p)]
        assert wait_for(lambda: not pending()), pending()

    def counts(self, at_least):
        """What the command counted, once it got so many and time for one more."""
        self.got(at_least)
        time.sleep(0.3)
        self.stop.touch()
        rest = self.child.stdout.read().decode().splitlines()
        self.child.wait(LIMIT)
        return rest[-1]
