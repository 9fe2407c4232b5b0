# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of all frameworks share: the run that they open, what they say if
there is none, values of tensors, one event of one exception."""

import subprocess
import sys
import warnings

import pytest
from conftest import need

from lapse import _callback

NO_RUN = """
import lapse, warnings
from lapse import _callback
print(_callback.begin_run(None, None, None), lapse._run.current().recording)
_callback.begin_run(None, None, None)
"""


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({}, (), 1),
        ({}, ("-W", "error"), 0),  # a warning is no reason to end the training
        ({"LAPSE_DISABLE": "1"}, (), 0),
    ],
)
def test_without_a_run_it_says_why(place, tmp_path, variables, options, said):
    folder = tmp_path / "open to all"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    env = {**place.env, "LAPSE_RENDEZVOUS": str(folder), **variables}
    ran = subprocess.run(
        [sys.executable, *options, "-c", NO_RUN],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "True False\n"
    lines = [line for line in ran.stderr.splitlines() if "nothing is recorded" in line]
    assert len(lines) == said, ran.stderr
    assert all("0700" in line for line in lines)


@need("torch")
def test_a_loss_with_its_graph_is_logged_without_a_warning(recording):
    torch = pytest.importorskip("torch")
    loss = (2 * torch.ones(1, requires_grad=True)).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _callback.log({"loss": loss, "rate": 0.5}, 3)
    assert loss.requires_grad, "the program's own stays as it is"


EXCEPTION = """
import lapse
from lapse import _evidence
lapse.init(capture=["exceptions"])
try:
    raise ValueError("first")
except ValueError as error:
    _evidence.exception(error, at="the Trainer")
{}
"""


@pytest.mark.parametrize(
    ("then", "texts"),
    [
        ("    raise", ["ValueError: first"]),
        ("raise ValueError('second')", ["ValueError: first", "ValueError: second"]),
        ("raise KeyError('first')", ["ValueError: first", "KeyError: 'first'"]),
    ],
)
def test_one_exception_is_one_event(place, then, texts):
    run = place.script(EXCEPTION.format(then), check=None)
    assert [event["text"] for event in run.events("exception")] == texts
