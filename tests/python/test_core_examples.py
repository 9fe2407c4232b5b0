# SPDX-License-Identifier: Apache-2.0
"""The examples of the source tree do what they say, with and without `lapse run`."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("launcher", [False, True], ids=["alone", "launcher"])
def test_plain_loop(place, launcher):
    pytest.importorskip("numpy")
    run = place.script((EXAMPLES / "plain_loop.py").read_text(), "--epochs=2", launcher=launcher)
    assert run.steps("loss") == list(range(128))
    assert run.values("loss")[-1] < run.values("loss")[0] < 1
    assert len(run.spans("forward")) == 128
    assert [e["attrs"]["epoch"] for e in run.events("eval")] == [0, 1]
    assert run.events("eval")[1]["attrs"]["accuracy"] > 0.8
    assert run.info["exit_code"] == 0
    assert place.attrs()["config/epochs"] == "2"


@pytest.mark.timeout(200)
@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loop(place, workers):
    pytest.importorskip("torch")
    run = place.script(
        (EXAMPLES / "torch_loop.py").read_text(),
        f"--workers={workers}",
        "--steps=50",
        launcher=True,
        timeout=150,
    )
    assert run.steps("loss") == list(range(50))
    assert run.values("loss")[-1] < run.values("loss")[0]
    assert len(run.spans("make item")) == 50 * 32
    assert len(run.spans("backward")) == 50
    assert len(run.processes()) == 1 + workers
