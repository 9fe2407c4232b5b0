# SPDX-License-Identifier: Apache-2.0
"""TensorBoardMonitor: values are recorded under the guide's tags; the program `lapse` writes
TensorBoard's files of them, live, in another process."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from ... import _core, _events, _machine, _program
from ..._ranks import rank_and_world
from ..._tell import tell_once
from ._common import hook, leaves, log, open_run

if TYPE_CHECKING:
    from collections.abc import Mapping

STORED_S = 10.0  # close() waits so long until the agent has stored what was recorded
EXPORT_S = 120.0


class TensorBoardMonitor:
    """Writes TensorBoard files of the run into log_dir: what the guide's methods log, under
    `training/…`, `resources/…`, `parameters/…` and `gradients/…`, and what else the run has
    (docs/export.md).

    They grow while the run goes on, written by `lapse export --follow`: a crash of the
    training loses nothing. close() waits until all is in them. Rank 0 writes them, the others
    record. `reason` is not "" where nothing is written; recording goes on then."""

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        open_run()
        self.log_dir = os.fspath(log_dir)
        self.start_time = time.time()
        self.reason = ""
        self._histograms: Any = None
        self._of: list[tuple[str, int]] = []
        self._follower: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._run = _machine.run_folder() or ""
        self._program = _program.find() or ""
        rank, _ = rank_and_world()
        if rank:
            self.reason = f"rank 0 writes them, not rank {rank}"
        elif not self._run:
            self._cannot("nothing is recorded")
        elif not self._program:
            self._cannot("the program lapse is not there (LAPSE_BIN, PATH)")
        else:
            self._follow()
        self._closed = False
        atexit.register(self._drop)

    def _cannot(self, why: str) -> None:
        self.reason = why
        tell_once("nemo", f"TensorBoard files are not written: {why}")

    def _command(self, *options: str) -> list[str]:
        nice = shutil.which("nice")
        return [*([nice, "-n", "10"] if nice else []), self._program, "export", "--to",
                "tensorboard", "-o", self.log_dir, *options, self._run]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "LAPSE_RUN"}

    def _is_there(self) -> bool:
        """Can it be read? The file is there some time before there is anything in it."""
        try:
            importlib.import_module("lapse._store").Reader(self._run).close()
        except (OSError, ValueError):
            return False
        return True

    def _follow(self) -> None:
        try:
            end = time.monotonic() + 5  # the agent makes the run's folder, and the file in it
            while not self._is_there() and time.monotonic() < end:
                time.sleep(0.05)
            os.makedirs(self.log_dir, exist_ok=True)
            self._follower = subprocess.Popen(
                self._command("--follow"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env=self._environment(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._cannot(f"{error.filename or self._program}: {error.strerror}")

    # ---- what the program logs ------------------------------------------------------------

    @hook
    def log_training_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """`training/KEY`; tensors on a device are not waited for."""
        self._log("training", step, metrics)

    @hook
    def log_resource_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """`resources/KEY`, of dicts `resources/KEY/SUBKEY` and so on: what
        monitor_resources() gives."""
        self._log("resources", step, metrics)

    def _log(self, prefix: str, step: int, metrics: Mapping[str, Any]) -> None:
        log(dict(leaves(metrics, prefix)), int(step))

    @hook
    def log_model_parameters(self, step: int, model: Any) -> None:
        """Histograms `parameters/NAME` and `gradients/NAME` of the parameters that have a
        gradient, counted on the device: call it before zero_grad()."""
        pairs = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
        if not pairs:
            return
        of = [(name, id(p)) for name, p in pairs]
        if of != self._of:
            helpers = importlib.import_module("lapse.torch")
            self._histograms, self._of = helpers.Histograms(pairs, every=1), of
        kind = type(self._histograms)
        # They arrive later: each with the step that was told here.
        self._histograms._arrived = functools.partial(_at_step, kind, self._histograms, int(step))
        self._histograms.step()

    # ---- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Wait until everything so far is in the files (some seconds), and write no more."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        if "lapse.torch" in sys.modules:
            sys.modules["lapse.torch"].flush(wait=True)
        self._end_follower()
        if self.reason:
            return
        if not self._stored():
            tell_once("nemo", "the agent has not stored all yet: `lapse export --to tensorboard` "
                      "brings the files up to date")  # fmt: skip
        try:
            done = subprocess.run(
                self._command(), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=EXPORT_S, env=self._environment(), check=False,
            )  # fmt: skip
            if done.returncode not in (0, os.EX_TEMPFAIL):  # another one writes them just now
                self._cannot(done.stderr.decode("utf-8", "replace").strip()[-500:])
        except (OSError, subprocess.TimeoutExpired) as error:
            self._cannot(str(error))

    def _end_follower(self) -> None:
        follower, self._follower = self._follower, None
        if follower is None or follower.poll() is not None:
            return
        follower.send_signal(signal.SIGTERM)
        try:
            follower.wait(10)
        except subprocess.TimeoutExpired:
            follower.kill()
            follower.wait()

    def _drop(self) -> None:
        """At exit the follower goes on until the run has ended, and ends by itself."""
        if self._follower is not None and self._pid == os.getpid():
            self._follower.returncode = 0  # no warning about a child that still runs

    def _stored(self) -> bool:
        """Has the agent stored what was recorded? A mark that goes behind it tells."""
        mark = uuid.uuid4().hex
        _events.event("export", f"TensorBoard files up to here: {self.log_dir}", mark=mark)
        store = importlib.import_module("lapse._store")
        end = time.monotonic() + STORED_S
        while time.monotonic() < end and _core.is_open():
            try:
                reader = store.Reader(self._run)
            except (OSError, ValueError):
                time.sleep(0.1)
                continue
            try:
                if any(mark in (row["attrs"] or "") for row in reader.events()):
                    return True
            finally:
                reader.close()
            time.sleep(0.1)
        return False


def _at_step(
    kind: Any, histograms: Any, step: int, found: Any,
    values: list[float], at: int | None, time_ns: int,
) -> None:  # fmt: skip
    kind._arrived(histograms, found, values, step, time_ns)
