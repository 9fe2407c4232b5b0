# SPDX-License-Identifier: Apache-2.0
"""What `lapse doctor` finds of frameworks in the interpreter that has them."""

import json
import os
import subprocess
import sys

import pytest

from lapse import _program

pytest.importorskip("hydra")
pytest.importorskip("lightning")


def findings(folder, **env):
    done = subprocess.run(
        [_program.find(), "doctor", "--json", "--python", sys.executable],
        cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [f for f in json.loads(done.stdout)["findings"] if f["area"] == "python"]


def test_frameworks_find_lapse(tmp_path):
    found = findings(tmp_path, LAPSE_LIGHTNING="all")
    assert not [f for f in found if f["state"] in ("warning", "broken")], found
    texts = "\n".join(f["text"] for f in found)
    assert "Hydra applications find the config group" in texts
    assert "LAPSE_LIGHTNING=all" in texts
    assert "profiler_traces" not in texts


def test_no_word_of_what_nobody_asked_for(tmp_path):
    assert "LAPSE_LIGHTNING" not in str(findings(tmp_path, LAPSE_LIGHTNING="0"))


def test_traces_that_tensorboard_does_not_show(tmp_path):
    (tmp_path / "profiler_traces" / "rank0").mkdir(parents=True)
    (tmp_path / "profiler_traces" / "rank0" / "a.pt.trace.json.gz").write_bytes(b"")
    (tmp_path / "profiler_traces" / "b.json").write_text("{}")
    (tmp_path / "profiler_traces" / "notes.txt").write_text("")
    (text,) = (f["text"] for f in findings(tmp_path) if "profiler_traces" in f["text"])
    assert text.startswith("2 traces in ./profiler_traces: lapse trace summary profiler_traces")
    assert "torch-tb-profiler is not installed" in text
