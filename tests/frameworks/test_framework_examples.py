# SPDX-License-Identifier: Apache-2.0
"""The examples for Lightning with Hydra and for Transformers do what they say, by the
command lines that their heads and the documents give."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import need

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(place, path, *arguments, launcher=()):
    import sys

    from conftest import QUIET

    place.env.update(QUIET)
    done = subprocess.run(
        [*launcher, sys.executable, str(EXAMPLES / path), *arguments],
        cwd=place.folder, env=place.env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def loss_of(said):
    (line,) = [line for line in said.splitlines() if line.startswith("loss ")]
    return float(line.split()[1])


@need("transformers", "torch", "accelerate")
@pytest.mark.timeout(300)
def test_transformers_with_the_flags(place):
    """--max-steps 50 and profiling, as the guide's ready-made script: it tells how to look
    at the result."""
    said = run(place, "transformers_loop.py", "--max-steps", "50", "--enable-profiling",
               "--enable-memory-logging", "--profiler-output-dir", "./my_traces",
               "--profiler-wait-steps", "10", "--profiler-repeat", "2")  # fmt: skip
    assert loss_of(said) < 3.4  # ln 32 = 3.47 by chance
    traces = sorted((place.folder / "my_traces").glob("*.pt.trace.json.gz"))
    assert [p.name.split("steps_")[1].split(".")[0] for p in traces] == ["13-15", "28-30"]
    assert "tensorboard --logdir=./my_traces" in said
    summary = json.loads(place.command("trace", "summary", "--json", str(traces[0])))
    assert summary
    stored = place.stored()
    assert [row["step"] for row in stored.spans("step")] == list(range(1, 51))
    assert [step for step, _ in sorted(stored.recorded()["loss"])] == list(range(5, 51, 5))
    assert len(stored.events("profile")) == 2


@need("lightning.pytorch", "hydra")
@pytest.mark.timeout(300)
def test_lightning_with_hydra(place):
    """The configuration's own callbacks, and those of the documents' command lines."""
    pytest.importorskip("lapse.hydra")
    said = run(place, "lightning_hydra/train.py", "max_epochs=2",
               "callbacks=[lapse,throughput_monitor,profiler,resource_monitor]",
               "callbacks.throughput_monitor.enabled=true",
               "callbacks.throughput_monitor.log_interval=1",
               "callbacks.profiler.enabled=true", "callbacks.profiler.profile_epochs=[1]",
               "callbacks.profiler.profile_steps=5", "callbacks.profiler.warmup_steps=2",
               "project_name=OCR_Training", "exp_name=throughput_monitoring_test")  # fmt: skip
    assert 0 < loss_of(said) < 0.5
    stored = place.stored()
    assert (stored.info["project"], stored.info["name"]) == (
        "OCR_Training", "throughput_monitoring_test")  # fmt: skip
    assert len(stored.spans("step")) == 32
    assert (place.folder / "profiler_traces" / "chrome_trace_epoch_1.json").exists()
    assert (place.folder / "resource_logs" / "epoch_0.csv").exists()
    assert place.attrs()["config/lr"] == "0.01"
