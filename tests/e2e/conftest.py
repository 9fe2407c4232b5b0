# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests. Each test gets a runs folder, a rendezvous
folder on tmpfs and so an agent of its own, and both are gone afterwards.

    def test_x(lapse):
        done = lapse("run", "--", "true")
        assert done.returncode == 0

The program is $LAPSE_BUILD/lapse, else build/lapse. Mark a test `kill` to run it
in the tier of kill tests, and `alone` if it must not run beside others; every test
ends after 120 s unless marked otherwise.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LAPSE_BUILD") or ROOT / "build")
TIMEOUT = 120  # seconds for a test
PATIENCE = 30  # seconds that a test waits for something that is to come


def pytest_configure(config):
    # Under nohup and in the background they are ignored, and so they would be in the commands.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "kill: kills, full disks, hostile rings; a tier of its own")
    config.addinivalue_line("markers", "alone: looks at the whole machine or at how time is used; "
                                       "not beside others")
    config.addinivalue_line("markers", "tensorboard: needs TensorBoard; the tier export has it")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


class Lapse:
    """The program with an environment, runs folder and rendezvous of its own.

    Call it to run a command to its end (a CompletedProcess with text streams);
    start() for a Popen. `env` may be changed; `runs` and `rendezvous` are paths."""

    def __init__(self, program, folder, rendezvous):
        self.program, self.folder, self.rendezvous = str(program), folder, rendezvous
        self.runs = folder / "runs"
        self.started = []
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("LAPSE_", "SLURM_", "OMPI_", "PMI_"))
                    and k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "COLUMNS", "LINES")}
        self.env.update(LAPSE_DIR=str(self.runs), LAPSE_RENDEZVOUS=str(rendezvous),
                        XDG_CACHE_HOME=str(folder / "cache"), NO_COLOR="1", TZ="UTC", LC_ALL="C.UTF-8",
                        LAPSE_DASHBOARD="false")

    def _options(self, options):
        options.setdefault("env", self.env)
        options.setdefault("cwd", self.folder)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("text", True)
        return options

    def __call__(self, *arguments, check=False, timeout=100, **options):
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([self.program, *map(str, arguments)], check=check, timeout=timeout,
                              **self._options(options))

    def start(self, *arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        self.started.append(subprocess.Popen([self.program, *map(str, arguments)],
                                             **self._options(options)))
        return self.started[-1]

    def json(self, *arguments):
        """What a command prints with --json; the command must succeed."""
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shown(self, run="last"):
        """What `show` says of a run that may not be there yet; then it is empty."""
        done = self("show", run, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def agent_pid(self):
        """pid of the running agent, or None: also of one that has ended and that nobody has
        waited for yet, which takes the first process of some machines a second or two."""
        try:
            pid = int((self.rendezvous / "agent.lock").read_text().split()[0])
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        return None if state == "Z" else pid

    def run_ids(self):
        """Ids of the runs in the runs folder, oldest first."""
        if not self.runs.is_dir():
            return []
        return sorted(p.name for p in self.runs.iterdir() if p.is_dir())

    def settled(self, timeout=PATIENCE):
        """Wait until the agent has stored the end of every run."""
        return wait_for(lambda: not any((self.rendezvous / "runs").glob("*.run")), timeout)

    def end_started(self):
        """What a test that failed has left running, and with it the commands of `lapse run`."""
        left = [process for process in self.started if process.poll() is None]
        for process in left:
            process.terminate()
            process.send_signal(signal.SIGCONT)
        for process in left:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def end_server(self):
        """End the server that goes with the agent, if there is one."""
        try:
            os.kill(int((self.rendezvous / "http.lock").read_text()), signal.SIGTERM)
        except (OSError, ValueError):
            pass

    def end_agent(self):
        self.end_server()
        pid = self.agent_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not wait_for(lambda: self.agent_pid() != pid, 20):
            os.kill(pid, signal.SIGKILL)


def wait_for(question, timeout=PATIENCE):
    """Ask until the answer is true; the answer, or what was last said."""
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.02)


@pytest.fixture
def lapse(tmp_path):
    program = BUILD / "lapse"
    if not program.exists():
        pytest.fail(f"{program} has not been built; run make")
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rendezvous = Path(tempfile.mkdtemp(prefix="lapse-e2e-", dir=shared))
    one = Lapse(program, tmp_path, rendezvous)
    yield one
    one.end_started()
    one.end_agent()
    shutil.rmtree(rendezvous, ignore_errors=True)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def charlm():
    """Path of the example trainer."""
    program = BUILD / "examples" / "charlm" / "charlm"
    if not program.exists():
        pytest.fail(f"{program} has not been built; run make")
    return program


@pytest.fixture(name="wait_for")
def wait_for_fixture():
    return wait_for
