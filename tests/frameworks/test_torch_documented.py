# SPDX-License-Identifier: Apache-2.0
"""The code blocks of docs/torch.md on gradients, memory, compilation and inference run as
they stand, over a model and a loader made here."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

import lapse.torch  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch.md"


def block(section):
    """The first Python block under a heading."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (code, *_) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return code


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.classifier = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.classifier(self.decoder(self.encoder(x)))


class Scaler:
    """GradScaler where there is no device."""

    def is_enabled(self):
        return False

    def scale(self, loss):
        return loss

    def step(self, optimizer):
        optimizer.step()

    def update(self):
        pass


def run(section, change=lambda code: code, **names):
    model = Net()
    names = {
        "lapse": lapse, "torch": torch, "model": model, "loader": [torch.ones(3, 4)] * 3,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "x": torch.ones(3, 4),
        "inputs": torch.ones(3, 4), **names,
    }  # fmt: skip
    exec(compile(change(block(section)), section, "exec"), names)
    return names


def test_gradients():
    names = run("Gradients", scaler=Scaler(), loss_of=lambda model, x: model(x).pow(2).sum())
    gradients = names["gradients"]
    assert gradients.reason == names["histograms"].reason == names["state"].reason == ""
    assert set(gradients.layers) == {"encoder", "decoder", "classifier"}
    assert gradients.stats()["total"]["count"] == 1  # of 3 steps the first, as every is 10
    assert names["state"].last == [{"lr": 0.1, "momentum": 0, "weight_decay": 0}]


def test_memory():
    names = run("Memory")
    names["collector"].close()
    names["traced"].stop()
    assert names["traced"].peak > 0


@pytest.mark.timeout(300)
@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch cannot compile")
def test_compilation(capsys):
    lazy = "torch.compile(model)"
    assert lazy in block("Compilation")
    names = run("Compilation", lambda code: code.replace(lazy, lazy[:-1] + ", backend='eager')"))
    names["monitor"].close()
    assert list(names["monitor"].compile_times) == ["Net"]
    assert "Compilation Summary:" in capsys.readouterr().out


@pytest.mark.skipif(
    not [e for e in torch.backends.quantized.supported_engines if e != "none"],
    reason="this PyTorch has no dynamic quantisation",
)
@pytest.mark.filterwarnings("ignore")
def test_inference(capsys):
    run("Inference")
    out = capsys.readouterr().out
    assert "'size_ratio'" in out and "consistency_score" in out
