# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.Gradients, OptimizerState: against clip_grad_norm_ and sums by hand."""

import math

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.torch import Gradients, OptimizerState  # noqa: E402

NEW = tuple(int(x) for x in torch.__version__.split(".")[:2]) >= (2, 4)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 6))
        self.decoder = torch.nn.Linear(6, 4)
        self.classifier = torch.nn.Linear(4, 3, bias=False)

    def forward(self, x):
        return self.classifier(self.decoder(self.encoder(x)))


def net(dtype=torch.float32, seed=0):
    """With gradients whose norms are of about 1."""
    torch.manual_seed(seed)
    model = Net().to(dtype)
    for p in model.parameters():
        p.grad = torch.randn(p.shape).to(dtype)
    return model


def clip(parameters, norm=2.0):
    """What clip_grad_norm_ returns; nothing is clipped."""
    return float(torch.nn.utils.clip_grad_norm_(parameters, 1e30, norm))


def by_hand(tensors, p=2.0):
    values = [abs(float(v)) for t in tensors for v in t.flatten()]
    return max(values) if math.isinf(p) else sum(v**p for v in values) ** (1 / p)


def measured(model, **options):
    one = Gradients(model, **{"every": 1, **options})
    one.step()
    assert one.reason == ""
    return one


# The spacing of the numbers that clip_grad_norm_ returns; ours are at least as fine.
@pytest.mark.parametrize(
    ("dtype", "relative"),
    [
        (torch.float64, 1e-14),
        (torch.float32, 2**-22),
        (torch.float16, 2**-9),
        (torch.bfloat16, 2**-6),
    ],
)
@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf])
def test_total_equals_clip_grad_norm(dtype, relative, norm):
    model = net(dtype)
    total = measured(model, norm=norm).total
    grads = [p.grad for p in model.parameters()]
    assert total == pytest.approx(by_hand(grads, norm), rel=1e-6)
    if NEW or dtype in (torch.float32, torch.float64):  # 1.13 adds halves up in halves
        assert total == pytest.approx(clip(model.parameters(), norm), rel=relative)


def test_half_does_not_overflow():
    """The norm is beyond 65504, though no element is."""
    model = torch.nn.Linear(4, 4).half()
    for p in model.parameters():
        p.grad = torch.full_like(p, 60000.0)
    one = measured(model, exploding=None)
    assert one.total == pytest.approx(60000 * math.sqrt(20), rel=1e-3)
    assert one.bad == {}


def test_types_may_be_mixed_and_gradients_missing():
    model = net()
    model.decoder.to(torch.float64)
    model.decoder.weight.grad = model.decoder.weight.grad.double()
    model.decoder.bias.grad = None
    model.classifier.to(torch.bfloat16)
    model.classifier.weight.grad = model.classifier.weight.grad.bfloat16()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    one = measured(model, layers=1)
    assert one.total == pytest.approx(by_hand(grads), rel=1e-6)
    assert one.layers["decoder"] == pytest.approx(by_hand([model.decoder.weight.grad]), rel=1e-6)


def test_no_gradients_is_nothing():
    model = Net()
    one = measured(model)
    assert one.total is None and one.stats() == {}


def test_sparse():
    """Rows that are there twice count once, as their sum."""
    embedding = torch.nn.Embedding(6, 3, sparse=True)
    (embedding(torch.tensor([1, 1, 4])) * torch.arange(9.0).view(3, 3)).sum().backward()
    assert not embedding.weight.grad.is_coalesced()
    expected = by_hand([torch.tensor([0.0 + 3, 1 + 4, 2 + 5, 6, 7, 8])])
    assert measured(embedding).total == pytest.approx(expected, rel=1e-6)


def test_shared_parameters_count_once():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    assert measured(model).total == pytest.approx(math.sqrt(9 + 3 + 3), rel=1e-6)


def test_complex():
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    p.grad = torch.tensor([3 + 4j, 0], dtype=torch.complex64)
    assert measured([("p", p)]).total == pytest.approx(5)


# ---- layers -----------------------------------------------------------------------


def test_layers_of_the_document():
    model = net()
    one = measured(model, layers=["encoder", "decoder", "classifier"])
    assert set(one.layers) == {"encoder", "decoder", "classifier"}
    for name, norm in one.layers.items():
        grads = [p.grad for p in getattr(model, name).parameters()]
        assert norm == pytest.approx(by_hand(grads), rel=1e-6)
    assert one.total == pytest.approx(math.sqrt(sum(v**2 for v in one.layers.values())), rel=1e-6)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (1, {"encoder": 4, "decoder": 2, "classifier": 1}),
        (9, {"encoder.0": 2, "encoder.1": 2, "decoder": 2, "classifier": 1}),
        ("*.weight", {"*.weight": 4}),
        (["encoder.1", "*bias"], {"encoder.1": 2, "*bias": 3}),
        (["0"], {"0": 2}),
        (lambda name: "tail" if "er.b" in name else None, {"tail": 1}),
        (["encoder.?"], {"encoder.?": 4}),
    ],
)
def test_layers_by_depth_pattern_and_function(layers, expected):
    """The count of gradients of a layer, as the square of a norm of ones."""
    model = net()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
        p.grad.view(-1)[0] = 1.0
    one = measured(model, layers=layers)
    assert {name: round(norm**2) for name, norm in one.layers.items()} == expected


def test_names_without_what_wrapping_adds():
    model = torch.nn.Module()
    model.add_module("_orig_mod", net())
    wrapped = torch.nn.DataParallel(model) if not torch.cuda.is_available() else model
    assert set(measured(wrapped, layers=1).layers) == {"encoder", "decoder", "classifier"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"layers": ["encodr"]}, "no parameter is of layer 'encodr'; there are classifier"),
        ({"layers": 0}, "depth"),
        ({"every": 0}, "every"),
        ({"window": 0}, "window"),
        ({"norm": 0}, "norm"),
        ({"layers": lambda name: name + str(id(name))}, None),
    ],
)
def test_wrong_arguments_raise_at_once(options, error):
    model = net()
    if error is None:
        many = [(f"p{i}", torch.nn.Parameter(torch.zeros(1))) for i in range(257)]
        model, options, error = many, {"layers": lambda name: name}, "257 layers, more than 256"
    with pytest.raises(ValueError, match=error):
        Gradients(model, **options)


# ---- AMP ---------------------------------------------------------------------------


class Stage:
    def __init__(self, name):
        self.name = name


class Scaler:
    """What GradScaler has of it, without a device."""

    def __init__(self, scale, stage=None, optimizer=None, enabled=True):
        self._scale, self._enabled = torch.tensor(scale), enabled
        self._per_optimizer_states = {id(optimizer): {"stage": Stage(stage)}} if stage else {}

    def is_enabled(self):
        return self._enabled


@pytest.mark.parametrize(
    ("stage", "enabled", "divided"),
    [(None, True, True), ("READY", True, True), ("UNSCALED", True, False),
     ("STEPPED", True, False), (None, False, False)],
)  # fmt: skip
def test_scaled_gradients(stage, enabled, divided):
    model = net()
    expected = by_hand([p.grad for p in model.parameters()]) / (1024 if divided else 1)
    for given in (None, model):
        one = Gradients(model, layers=1, every=1)
        one.step(scaler=Scaler(1024.0, stage, model, enabled), optimizer=given)
        assert one.reason == ""
        assert one.total == pytest.approx(expected, rel=1e-6)
        parts = math.sqrt(sum(v**2 for v in one.layers.values()))
        assert parts == pytest.approx(expected, rel=1e-6)


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="GradScaler is for CUDA only")
def test_real_grad_scaler():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    x = torch.ones(2, 5)
    optimizer.zero_grad()
    model(x).sum().backward()
    expected = by_hand([p.grad for p in model.parameters()])
    optimizer.zero_grad()
    scaler.scale(model(x).sum()).backward()
    one = Gradients(model, every=1)
    one.step(scaler, optimizer)
    assert one.total == pytest.approx(expected, rel=1e-5)
    scaler.unscale_(optimizer)
    one.step(scaler, optimizer)
    assert one.total == pytest.approx(expected, rel=1e-5)
    one.step(scaler)
    assert one.total == pytest.approx(expected, rel=1e-5)


# ---- what is no number -----------------------------------------------------------------


def spoil(model):
    grad = model.encoder[0].weight.grad
    grad[0, 0], grad[0, 1], grad[2, 2] = math.nan, math.inf, -math.inf
    model.decoder.bias.grad[0] = math.nan


def test_bad_by_parameter_and_elements():
    model = net()
    one = measured(model, layers=1)
    assert one.bad == {} and one.elements == {"nan": 0, "inf": 0}
    spoil(model)
    one.step()
    assert one.bad == {"encoder.0.weight": 1, "decoder.bias": 1}
    assert one.elements == {"nan": 2, "inf": 2}
    assert math.isnan(one.layers["encoder"]) and math.isnan(one.total)
    assert one.layers["classifier"] == pytest.approx(by_hand([model.classifier.weight.grad]))


def test_stats_over_the_window():
    """Of norms 1, 2, 3, 4 and NaN with a window of 4."""
    p = torch.nn.Parameter(torch.zeros(1))
    one = Gradients([("p", p)], window=4, every=1)
    for value in (1.0, 2.0, 3.0, 4.0, math.nan):
        p.grad = torch.tensor([value])
        one.step()
    assert one.stats()["total"] == pytest.approx(
        {"avg": 3.0, "max": 4.0, "min": 2.0, "std": math.sqrt(2 / 3), "count": 3}
    )
    assert one.stats()["p"] == one.stats()["total"]
    assert "total" in one.report() and "p" in one.report()


def test_default_window_is_100():
    p = torch.nn.Parameter(torch.zeros(1))
    one = Gradients([("p", p)], exploding=None, every=1)
    for value in range(150):
        p.grad = torch.tensor([float(value)])
        one.step()
    assert one.stats()["total"] == pytest.approx(
        {"avg": 99.5, "max": 149, "min": 50, "std": math.sqrt((100**2 - 1) / 12), "count": 100}
    )


def events(monkeypatch):
    from lapse import _events

    said = []
    monkeypatch.setattr(
        _events, "event", lambda kind, text="", severity="info", **a: said.append((kind, text, a))
    )
    return said


def test_exploding_and_vanishing_are_told_once_each_time(monkeypatch):
    said = events(monkeypatch)
    model = net()
    one = Gradients(model, layers=1, every=1)

    def step(encoder, decoder):
        for module, value in ((model.encoder, encoder), (model.decoder, decoder)):
            for p in module.parameters():
                p.grad.fill_(value)
        one.step()

    for encoder, decoder in ((0.1, 0.1), (5.0, 0.1), (5.0, 0.1), (0.1, 1e-9), (5.0, 0.1)):
        step(encoder, decoder)
    kinds = [(kind, list(attrs["layers"])) for kind, _, attrs in said]
    assert kinds == [
        ("gradient-exploding", ["encoder"]),
        ("gradient-vanishing", ["decoder"]),
        ("gradient-exploding", ["encoder"]),
    ]
    _, text, attrs = said[0]
    norm = math.sqrt(5 * 7 + 7 + 7 * 6 + 6) * 5  # 47.4
    assert attrs["layers"]["encoder"] == pytest.approx(norm, rel=1e-6)
    assert attrs["limit"] == 10.0
    assert "larger than 10 in encoder (47.4)" in text
    assert "smaller than 1e-07 in decoder" in said[1][1]


def test_exploding_in_sum_only_names_the_largest(monkeypatch):
    """Each layer is below the limit, all together are not."""
    said = events(monkeypatch)
    model = net()
    for p in model.parameters():
        p.grad.zero_()
    for layer, value in ((model.encoder[0], 6.0), (model.decoder, 9.0)):
        layer.bias.grad[0] = value
    measured(model, vanishing=None)
    ((kind, _, attrs),) = said
    assert kind == "gradient-exploding"
    assert next(iter(attrs["layers"])) == "decoder"
    assert attrs["total"] == pytest.approx(math.sqrt(36 + 81))


def test_bad_is_told_with_the_layer(monkeypatch):
    said = events(monkeypatch)
    model = net()
    spoil(model)
    one = Gradients(model, every=1)
    one.step()
    one.step(Scaler(2.0))  # it was bad already: nothing begins
    assert [kind for kind, _, _ in said] == ["gradient-bad"]
    assert set(said[0][2]["layers"]) == {"encoder.0", "decoder"}


def test_the_default_is_each_tenth_step():
    one = Gradients(net())
    for _ in range(21):
        one.step()
    assert one.stats()["total"]["count"] == 3


def test_every(monkeypatch):
    model = net()
    one = Gradients(model, every=3)
    for _ in range(7):
        one.step()
    assert one.stats()["total"]["count"] == 3


# ---- arriving late ----------------------------------------------------------------------


def test_late_values_keep_step_time_and_order(monkeypatch):
    """As on a device: nothing is known until it arrives; the gradients are others by then."""
    from lapse.torch import _gradients

    waiting = []

    def late(tensors, then):
        assert len({t.device for t in tensors}) == 1
        values = torch.cat([t.detach().reshape(-1).double() for t in tensors]).tolist()
        waiting.append((then, values, len(waiting), 1000 + len(waiting)))

    monkeypatch.setattr(_gradients, "later", late)
    model = net()
    one = Gradients(model, layers=1, every=1)
    recorded = []
    monkeypatch.setattr(one, "_record", lambda *row: recorded.append(row))
    first = by_hand([p.grad for p in model.parameters()])
    one.step(Scaler(4.0))
    spoil(model)
    one.step()
    assert one.total is None and not recorded
    for then, values, step, time_ns in waiting[:1]:
        then(values, step, time_ns)
    assert one.total == pytest.approx(first / 4, rel=1e-6) and one.last_step == 0
    assert ("gradients/norm", None, one.total, 0, 1000) in recorded
    (then, values, step, time_ns) = waiting[1]
    then(values, step, time_ns)
    assert one.bad == {"encoder.0.weight": 1, "decoder.bias": 1}
    assert ("gradients/bad", "encoder", 1, 1, 1001) in recorded
    # The elements are counted at the next step, of what was bad.
    del waiting[:]
    one.step()
    assert len(waiting) == 2 and waiting[1][1] == [1, 2, 1, 0]
    waiting[1][0](waiting[1][1], 2, 1002)
    assert one.elements == {"nan": 2, "inf": 2}
    assert ("gradients/inf", "encoder", 2.0, 2, 1002) in recorded


def test_nothing_raises_in_training():
    model = net()
    one = Gradients(model, every=1)
    one.step(scaler=object())
    assert "is_enabled" in one.reason
    one.step()
    assert one.total is None


# ---- distributed ---------------------------------------------------------------------


DISTRIBUTED = """
import json, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from lapse.torch import Gradients

def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(1)
    x = torch.randn(8, 5)

    def fsdp2(m):
        fully_shard(m[2], mesh=mesh)
        return fully_shard(m, mesh=mesh)

    def fsdp1(m, **options):
        return FullyShardedDataParallel(m, device_id=torch.device("cpu"), **options)

    wraps = {"plain": lambda m: m, "fsdp2": fsdp2, "fsdp1": fsdp1,
             "fsdp1_orig": lambda m: fsdp1(m, use_orig_params=True)}
    out = {}
    for name, wrap in wraps.items():
        m = wrap(model())
        for norm in (2.0, float("inf")):
            one = Gradients(m, layers=None if name == "fsdp1" else 1, norm=norm)
            m.zero_grad()
            (m(x) ** 2).mean().backward()
            one.step()
            out[f"{name} {norm}"] = [one.reason, one.total, one.layers]
    with open(f"{folder}/rank{rank}", "w") as file:
        json.dump(out, file)
    dist.barrier()
    os._exit(0)  # what was to be shown is written; how gloo ends is not asked

if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[1],), 2, start_method="fork")
"""


@pytest.mark.skipif(not NEW, reason="FSDP on the CPU and DTensors: PyTorch 2.4 and newer")
@pytest.mark.timeout(300)
def test_parts_of_distributed_gradients(place, tmp_path):
    import json

    place.env["CUDA_VISIBLE_DEVICES"] = ""
    place.run(DISTRIBUTED, str(tmp_path), timeout=250)
    ranks = [json.loads((tmp_path / f"rank{r}").read_text()) for r in (0, 1)]
    for name in ranks[0]:
        kind, norm = name.split()
        _, total, layers = ranks[0][f"plain {norm}"]
        for rank in ranks:
            reason, got, got_layers = rank[name]
            assert reason == "", name
            assert got == pytest.approx(total, rel=1e-5), name
            if kind != "fsdp1":
                assert got_layers == pytest.approx(layers, rel=1e-5), name


# ---- the optimizer's settings ----------------------------------------------------------


def test_optimizer_state():
    a, b = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD(
        [{"params": [a]}, {"params": [b], "lr": 0.5, "momentum": 0.25}],
        lr=0.1, momentum=0.9, weight_decay=0.01,
    )  # fmt: skip
    state = OptimizerState(sgd)
    state.step()
    assert state.last == [
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        {"lr": 0.5, "momentum": 0.25, "weight_decay": 0.01},
    ]
    sgd.param_groups[0]["lr"] = 0.2
    state.step()
    assert state.last[0]["lr"] == 0.2
    adam = OptimizerState(torch.optim.AdamW([a], lr=1e-3, betas=(0.8, 0.95), weight_decay=0.1))
    adam.step()
    assert adam.last == [{"lr": 1e-3, "momentum": 0.8, "beta2": 0.95, "weight_decay": 0.1}]
    tensor = torch.optim.SGD([a], lr=0.1)
    tensor.param_groups[0]["lr"] = torch.tensor(0.375)
    late = OptimizerState(tensor)
    late.step()
    assert late.reason == "" and late.last[0]["lr"] == 0.375


def test_optimizer_state_of_something_else():
    with pytest.raises(TypeError, match="param_groups"):
        OptimizerState(object())
