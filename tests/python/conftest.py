# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the package's tests, which run against an installed wheel.

    def test_x(place):
        run = place.script("import lapse; lapse.init(); lapse.log({'a': 1})")
        assert run.values("a") == [1]

Each place is a runs folder and a rendezvous folder on tmpfs, so an agent of its
own; all are gone after the test. Every test ends after 60 s unless marked
otherwise.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "lapse"
SCHEDULERS = ("LAPSE_", "SLURM_", "OMPI_", "PMI_")


def pytest_collection_modifyitems(items):
    for item in items:
        if "place" in item.fixturenames:
            item.add_marker("place")


def wait_for(question, timeout=20):
    """Ask until the answer is true; the answer, or what was last said."""
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.05)


class Stored:
    """What is stored of a run: the rows of `lapse export --to json`."""

    def __init__(self, rows):
        self.rows = rows
        self.info = rows[0]
        self.names = {row["series"]: row for row in rows if row["type"] == "series"}

    def of(self, kind, name):
        """Rows of one type of all series of that name, in the order of time."""
        found = [
            row
            for row in self.rows
            if row["type"] == kind and self.names[row["series"]]["name"] == name
        ]
        return sorted(found, key=lambda row: row["time_ns"])

    def values(self, name):
        return [row["value"] for row in self.of("sample", name)]

    def steps(self, name):
        return [row["step"] for row in self.of("sample", name)]

    def spans(self, name):
        return self.of("span", name)

    def events(self, kind=None):
        return [
            row for row in self.rows if row["type"] == "event" and kind in (None, row["kind"])
        ]

    def recorded(self):
        """{name: [(step, value)]} of everything that the program recorded itself."""
        out = {}
        for row in self.rows:
            if row["type"] != "sample":
                continue
            series = self.names[row["series"]]
            if series["source"] == "record":
                out.setdefault(series["name"], []).append((row["step"], row["value"]))
        return {name: sorted(points, key=repr) for name, points in out.items()}

    def processes(self):
        """Those that recorded."""
        return [
            row
            for row in self.rows
            if row["type"] == "process" and row["role"] not in ("host", "command")
        ]


class Done(Stored):
    """A script that has ended, and what is stored of its run; of several that which began
    last."""

    def __init__(self, process, place, runs):
        self.returncode = process.returncode
        self.stdout, self.stderr = process.stdout, process.stderr
        super().__init__(max(map(place.export, runs), key=lambda rows: rows[0]["start_ns"]))


class Place:
    def __init__(self, folder, rendezvous):
        self.folder, self.rendezvous = folder, rendezvous
        self.runs = folder / "runs"
        self.env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(SCHEDULERS) and k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        }
        self.env.update(
            LAPSE_DIR=str(self.runs),
            LAPSE_RENDEZVOUS=str(rendezvous),
            PYTHONFAULTHANDLER="",
            NO_COLOR="1",
            TZ="UTC",
            LC_ALL="C.UTF-8",
        )

    def start(self, code, *arguments, launcher=False, **options):
        path = self.folder / "script.py"
        path.write_text(textwrap.dedent(code))
        command = [sys.executable, "-u", str(path), *arguments]
        if launcher:
            command = [str(PROGRAM), "run", "--quiet", "--", *command]
        options.setdefault("env", self.env)
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, code, *arguments, check=0, timeout=50, **options):
        """Run a script to its end: a CompletedProcess. check: the exit status that it
        must have, None: any."""
        with self.start(code, *arguments, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        if check is not None:
            assert process.returncode == check, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def script(self, code, *arguments, runs=1, **options):
        """Run a script that makes so many runs to its end."""
        before = self.ids()
        done = self.run(code, *arguments, **options)
        return Done(done, self, self.begun(before, runs))

    def ids(self):
        """Ids of the runs, oldest first; those of one second in any order."""
        return sorted(p.name for p in self.runs.iterdir()) if self.runs.is_dir() else []

    def begun(self, before=(), n=1):
        """Ids of the n runs that are not among these, once they are there: the agent makes
        their folders, maybe after the program has ended."""

        def new():
            return [run for run in self.ids() if run not in before]

        wait_for(lambda: len(new()) >= n)
        assert len(new()) == n, f"runs: {new()}"
        return new()

    def command(self, *arguments):
        """What a command of lapse prints."""
        done = subprocess.run(
            [PROGRAM, *arguments], env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout

    def _export(self, run):
        done = subprocess.run(
            [PROGRAM, "export", run, "--to", "json"],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def export(self, run="last"):
        """The rows of a run, once its end is stored."""
        rows = []

        def ended():
            nonlocal rows
            rows = self._export(run)
            return bool(rows) and rows[0]["outcome"] != "running"

        assert wait_for(ended), f"the end of run {run} was not stored: {rows[:1]}"
        return rows

    def stored(self, run="last"):
        return Stored(self.export(run))

    def attrs(self, run="last"):
        """{key: value} of the run's attributes, once its end is stored."""
        import lapse

        self.export(run)
        with lapse.open_run(run, dir=self.runs) as reader:
            return {attr.key: attr.value for attr in reader.attrs()}

    def end_agent(self):
        """And the server that goes with it. What is stored is of no more use: without waiting."""
        for lock in ("http.lock", "agent.lock"):
            try:
                pid = int((self.rendezvous / lock).read_text().split()[0])
                os.kill(pid, signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                pass


def _folder():
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="lapse-python-", dir=shared))


@pytest.fixture
def place(tmp_path):
    one = Place(tmp_path, _folder())
    yield one
    one.end_agent()
    shutil.rmtree(one.rendezvous, ignore_errors=True)


@pytest.fixture(name="wait_for")
def wait_for_fixture():
    return wait_for


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """lapse, recording in the process of the tests, for nobody to read."""
    import lapse

    rendezvous = _folder()
    os.environ["LAPSE_RENDEZVOUS"] = str(rendezvous)
    run = lapse.init(
        dir=tmp_path_factory.mktemp("runs"), capture=False, settings={"start_agent": False}
    )
    del os.environ["LAPSE_RENDEZVOUS"]
    assert run.recording, run.error
    yield lapse
    lapse.finish()
    shutil.rmtree(rendezvous, ignore_errors=True)
