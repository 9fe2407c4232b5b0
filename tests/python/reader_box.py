# SPDX-License-Identifier: Apache-2.0
"""What the tests of the reader share: `lapse` with folders of its own, and the program whose
run they read."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lapse import _store
from lapse._reader import open_run

T0 = 1_700_000_000_000_000_000  # what the trainers give as time
#: Bits of doubles that are easily lost: NaN with payloads, infinities, -0.0, the least.
SPECIAL = [0x7FF8DEADBEEF0001, 0xFFF8000000000002, 0x7FF0000000000000, 0xFFF0000000000000,
           0x8000000000000000, 0x0000000000000001, 0x7FEFFFFFFFFFFFFF]

TRAINER = f"""
import struct
from lapse import _core

T0, SPECIAL = {T0}, {SPECIAL}
why = _core.open()
assert why is None, why
_core.rank(3, 1, 8)

loss = _core.metric("loss", unit="nat", help="training loss",
                    labels={{"split": 'a "b"\\n\\\\c', "fold": "1"}})
for i in range(1000):
    loss.set_at(i * 0.1, i, T0 + 1000 * i)

special = _core.metric("special")
for i, bits in enumerate(SPECIAL):
    special.set_at(struct.unpack("<d", struct.pack("<Q", bits))[0], i, T0 + i)

some = _core.metric("some/steps")
for i in range(6):
    some.set_at(i, i if i % 2 else None, T0 + i)

tokens = _core.metric("tokens", unit="1", kind="counter")
for i in range(10):
    tokens.add_at(512.0 + i, i, T0 + i)

latency = _core.metric("latency", unit="s", kind="histogram")
for x in [1.0, 1.0, 1.03, 1.0625, -2.0, 0.0, float("inf"), float("nan")]:
    latency.observe(x)

again = _core.metric("again")
for i in range(100):
    again.set_at(i, i, T0 + i)
for i in range(50, 150):
    again.set_at(1000 + i, i, T0 + 1_000_000 + i)

with _core.span("forward"):
    pass
_core.event(2, "checkpoint", "saved", '{{"path": "a.pt", "size": 12}}')
_core.event(1, "plain", "no attributes")
_core.attr("optimizer", "sgd")
_core.attr("optimizer", "adamw")
assert _core.stats()["dropped"] == 0, _core.stats()
_core.close()
raise SystemExit(3)
"""


class Box:
    """`lapse` with runs, rendezvous and so an agent of its own."""

    def __init__(self, folder):
        built = os.environ.get("LAPSE_BUILD")
        beside = Path(sys.executable).parent / "lapse"
        self.program = (str(Path(built) / "lapse") if built else
                        str(beside) if beside.exists() else shutil.which("lapse"))
        if not self.program:
            pytest.fail("no lapse program: set LAPSE_BUILD to the build folder, or install it")
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.rendezvous = Path(tempfile.mkdtemp(prefix="lapse-reader-", dir=shared))
        self.folder, self.runs = folder, folder / "runs"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
        self.env.update(LAPSE_DIR=str(self.runs), LAPSE_RENDEZVOUS=str(self.rendezvous),
                        PYTHONPATH=str(Path(_store.__file__).parents[1]), TZ="UTC")

    def start(self, script, *, name, **options):
        path = self.folder / f"{name}.py"
        path.write_text(script)
        return subprocess.Popen(
            [self.program, "run", "--name", name, "--", sys.executable, str(path)], env=self.env,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            **options)

    def run(self, script, *, name, status=0):
        """Run a script to its end; the run's folder, once all is stored."""
        process = self.start(script, name=name, stdin=subprocess.DEVNULL)
        text, _ = process.communicate(timeout=100)
        assert process.returncode == status, text
        self.settle()
        return self.find(name)

    def settle(self):
        assert wait_for(lambda: not any((self.rendezvous / "runs").glob("*.run")), 60)

    def find(self, name):
        for path in _store.runs(self.runs):
            with open_run(Path(path)) as run:
                if run.info["name"] == name:
                    return path
        pytest.fail(f"no run {name}")

    def end(self):
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(int((self.rendezvous / "agent.lock").read_text().split()[0]), signal.SIGTERM)
        wait_for(lambda: not any(self.rendezvous.glob("*.sock")), 2)
        shutil.rmtree(self.rendezvous, ignore_errors=True)


def wait_for(question, timeout=20):
    end = time.monotonic() + timeout
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def one(run, name):
    (series,) = run.series(name)
    return series
