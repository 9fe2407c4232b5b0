# SPDX-License-Identifier: Apache-2.0
"""LapseCallback for Composer: in a real Trainer where it is installed (it wants an older
PyTorch than the others); everywhere with the events in the order in which Composer 0.32
calls them, on objects that have what the callback reads."""

import textwrap

import pytest
from conftest import need

pytestmark = pytest.mark.timeout(300)

REAL = """
    import warnings
    warnings.simplefilter("ignore")
    import torch
    torch.set_num_threads(1)
    import lapse.composer
    from composer import ComposerModel, Trainer

    class Model(ComposerModel):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
        def forward(self, batch):
            return self.layer(batch[0])
        def loss(self, outputs, batch):
            return torch.nn.functional.mse_loss(outputs, batch[1])

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(18, 4), torch.randn(18, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    Trainer(model=Model(), train_dataloader=loader, max_duration="2ep", device="cpu",
            loggers=[lapse.composer.LapseCallback(project="c")], progress_bar=False,
            run_name="tiny").fit()
"""

STAND_IN = """
    import sys, types
    from types import SimpleNamespace as NS

    class LoggerDestination:  # all events of composer.core.Event, which do nothing
        def __init__(self): pass
    names = ["composer", "composer.loggers"]
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["composer.loggers"].LoggerDestination = LoggerDestination
    import lapse.composer

    ours = lapse.composer.LapseCallback(project="c")
    def value(n): return NS(value=n)
    stamp = NS(batch=value(0), sample=value(0), token=value(0), epoch=value(0))
    state = NS(timestamp=stamp, dataloader_len=5, run_name="tiny",
               max_duration=NS(unit=NS(name="EPOCH"), value=2))
    def call(*events):
        for event in events:
            getattr(ours, event)(state, None)
    call("init")
    ours.log_hyperparameters({"seed": 5})
    call("fit_start")
    for epoch in range(2):
        call("epoch_start")
        for size in (4, 4, 4, 4, 2):
            call("before_dataloader", "after_dataloader", "batch_start", "before_forward",
                 "after_forward", "before_loss", "after_loss", "before_backward",
                 "after_backward")
            ours.log_metrics({"loss/train/total": 0.5, "text": "no number"}, stamp.batch.value)
            stamp.batch.value += 1; stamp.sample.value += size
            call("batch_end")
        call("before_dataloader")
        stamp.epoch.value += 1
        call("epoch_end")
    call("fit_end")
"""


def check(done):
    stored = done.stored
    assert [row["step"] for row in stored.spans("step")] == list(range(10))
    assert stored.values("lapse/step/samples") == [4, 4, 4, 4, 2] * 2
    for name in ("forward", "loss", "backward"):
        assert [row["step"] for row in stored.spans(name)] == list(range(10)), name
    assert 10 <= len(stored.spans("data")) <= 12
    assert len(stored.spans("epoch")) == 2
    assert [step for step, _ in stored.recorded()["loss/train/total"]] == list(range(10))
    assert (stored.info["project"], stored.info["name"]) == ("c", "tiny")
    assert done.place.attrs()["total_steps"] == "10"
    assert stored.events("lapse.composer") == []


@need("composer")
def test_with_composer(program):
    check(program(REAL))


def test_events_in_the_order_of_composer(program):
    done = program(textwrap.dedent(STAND_IN))
    check(done)
    assert "text" not in done.stored.recorded()
    assert done.place.attrs()["config/seed"] == "5"


def test_a_failing_hook_harms_nothing(program):
    """What is not there is said once, as an event, and training goes on."""
    code = textwrap.dedent(STAND_IN).replace('ours.log_hyperparameters({"seed": 5})',
                                             'lapse.init(); ours.batch_start(None, None)\n'
                                             'ours.batch_start(None, None)')  # fmt: skip
    done = program(code)
    (event,) = done.stored.events("lapse.composer")
    assert event["text"].startswith("batch_start: AttributeError")
    assert [row["step"] for row in done.stored.spans("step")] == list(range(10))
