# SPDX-License-Identifier: Apache-2.0
"""LapseTracker in a real Accelerator."""

import pytest
from conftest import need

pytestmark = [need("accelerate", "torch"), pytest.mark.timeout(300)]

LOOP = """
    import sys, warnings, torch
    torch.set_num_threads(1)
    import lapse, lapse.accelerate
    from accelerate import Accelerator

    named = sys.argv[1] == "name"
    if named:
        accelerator = Accelerator(cpu=True, log_with="lapse")
    else:
        lapse.init(project="mine")
        accelerator = Accelerator(cpu=True, log_with=lapse.accelerate.LapseTracker())
    accelerator.init_trackers("theirs", config={"lr": 0.5, "nested": {"width": 8}})
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(3):
        loss = model(torch.ones(4, 2)).square().mean()
        accelerator.backward(loss)
        optimizer.step(); optimizer.zero_grad()
        accelerator.log({"loss": loss.detach(), "split": {"a": step}, "phase": "warm"}, step=step)
    tracker = accelerator.get_tracker("lapse", unwrap=True)
    print(type(tracker).__name__, tracker.recording)
    accelerator.end_training()
    print(tracker.recording)
"""


@pytest.mark.parametrize("how", ["name", "object"])
def test_what_is_logged_is_recorded(program, how):
    """log_with="lapse": the run is the tracker's, named by init_trackers(), and ends with the
    training; the program's own run stays, and stays open."""
    if how == "name":
        tracking = pytest.importorskip("accelerate.tracking")
        if not hasattr(tracking, "register_tracker_class"):
            pytest.skip("this Accelerate has no register_tracker_class()")
    done = program(LOOP, how)
    assert done.stdout.splitlines() == ["Run True", "False" if how == "name" else "True"]
    recorded = done.stored.recorded()
    assert [step for step, _ in recorded["loss"]] == [0, 1, 2]
    assert recorded["loss"][0][1] > recorded["loss"][2][1]
    assert recorded["split/a"] == [(0, 0), (1, 1), (2, 2)]
    attrs = done.place.attrs()
    assert attrs["config/lr"] == "0.5" and attrs["config/nested/width"] == "8"
    assert attrs["phase"] == "warm"
    assert done.stored.info["project"] == ("theirs" if how == "name" else "mine")


def test_wrong_arguments():
    from lapse.accelerate import LapseTracker

    with pytest.raises(ValueError, match="'zero' or 'all'"):
        LapseTracker(ranks="some")
    assert LapseTracker().main_process_only and not LapseTracker(ranks="all").main_process_only
