# SPDX-License-Identifier: Apache-2.0
"""lapse.transformers with a real Trainer and a tiny model made from a configuration:
what is recorded of a training, that nothing of it changes, profiles, printed lines."""

import gzip
import json
import re
import textwrap
from types import SimpleNamespace

import pytest
from conftest import need

pytestmark = [need("transformers", "torch", "accelerate"), pytest.mark.timeout(300)]

MODEL = """
    import json, sys, torch
    torch.set_num_threads(1)
    import lapse, lapse.transformers as ours
    from transformers import (LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                              TrainingArguments)

    def model():
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16))

    def data(n):
        g = torch.Generator().manual_seed(1)
        ids = torch.randint(0, 32, (n, 8), generator=g)
        return [{"input_ids": row, "labels": row} for row in ids]

    def arguments(**more):
        usual = dict(output_dir="out", per_device_train_batch_size=2, logging_steps=1,
                     use_cpu=True, disable_tqdm=True, report_to="none", seed=3)
        return TrainingArguments(**{**usual, **more})

    def said(**values):
        print("RESULT " + json.dumps(values))
"""


def script(text):
    return textwrap.dedent(MODEL) + textwrap.dedent(text)


# ---- one training, asked many things -------------------------------------------------

TRAIN = """
    class Control(TrainerCallback):  # behind ours: is what it sees what it would be?
        seen = []
        def on_step_end(self, args, state, control, **kwargs):
            Control.seen.append((state.global_step, control.should_log, control.should_save,
                                 control.should_training_stop))

    def train(callbacks, **more):
        Control.seen = []
        args = arguments(gradient_accumulation_steps=2, num_train_epochs=2, save_steps=4,
                         save_strategy="steps", eval_strategy="epoch", run_name="tiny",
                         include_num_input_tokens_seen=sys.argv[1], **more)
        trainer = Trainer(model(), args, train_dataset=data(19), eval_dataset=data(4),
                          callbacks=[*callbacks, Control()])
        trainer.train()
        return trainer, Control.seen, [row["loss"] for row in trainer.state.log_history
                                       if "loss" in row]

    lapse.init(project="given")
    _, seen, losses = train([])
    trainer, seen_ours, losses_ours = train(
        [ours.LapseCallback(plan={"torch": {"helpers": ["optimizer"], "every": 1}}),
         ours.ProfilerCallback("traces", wait_steps=1, warmup_steps=1, active_steps=2,
                               repeat_times=2, console_style="classic")],
        report_to="lapse")
    trainer.predict(data(2))
    said(same=[seen == seen_ours, losses == losses_ours], losses=losses,
         history=trainer.state.log_history, stopped=trainer.state.global_step,
         kept=sorted(trainer.state.stateful_callbacks))
"""


@pytest.fixture
def tiny(program):
    from packaging.version import Version
    from transformers import __version__

    tokens = "all" if Version(__version__) >= Version("4.56") else "True"
    return program(script(TRAIN), tokens)


def test_training_is_not_changed(tiny):
    assert tiny.said["same"] == [True, True]
    assert tiny.said["stopped"] == 10


def test_steps_samples_and_tokens(tiny):
    """19 samples, 4 a step: the last step of an epoch has 3 of them."""
    stored = tiny.stored
    assert [row["step"] for row in stored.spans("step")] == list(range(1, 11))
    assert stored.values("lapse/step/samples") == [4, 4, 4, 4, 3] * 2
    assert stored.values("lapse/step/tokens") == [32, 32, 32, 32, 24] * 2


def test_logs_are_recorded_once(tiny):
    """Also where the same Trainer has two of our callbacks: by report_to and in the list."""
    recorded = tiny.stored.recorded()
    history = tiny.said["history"]
    for name in ("loss", "grad_norm", "learning_rate"):
        logged = [(row["step"], row[name]) for row in history if name in row]
        assert dict(recorded[name]) == pytest.approx(dict(logged)), name
        assert len(recorded[name]) == len(logged) == 10
    evaluated = {row["step"]: row["eval_loss"] for row in history if "eval_loss" in row}
    assert dict(recorded["eval/loss"]) == pytest.approx(evaluated)
    assert len(recorded["eval/loss"]) == 2
    assert sorted(step for step, _ in recorded["epoch"]) == list(range(1, 11))
    assert [step for step, _ in recorded["test/loss"]] == [10]
    assert [step for step, _ in recorded["train/loss"]] == [10]
    (said,) = tiny.stored.events("lapse.transformers")
    assert "two LapseCallbacks" in said["text"]


def test_phases(tiny):
    """Within the step and behind each other; what is done between steps is of none."""

    def end(row):
        return row["time_ns"] + row["duration_ns"]

    stored = tiny.stored
    for name in ("forward_backward", "optimizer"):
        assert [row["step"] for row in stored.spans(name)] == list(range(1, 11)), name
    for step in range(1, 11):
        whole, first, second = (
            next(row for row in stored.spans(name) if row["step"] == step)
            for name in ("step", "forward_backward", "optimizer")
        )
        assert whole["time_ns"] <= first["time_ns"]
        assert end(first) <= second["time_ns"]
        assert end(second) <= end(whole)
        for other in [*stored.spans("evaluate"), *stored.spans("checkpoint")]:
            assert end(other) <= whole["time_ns"] or end(whole) <= other["time_ns"]
    assert [row["step"] for row in stored.spans("evaluate")] == [5, 10, 10]  # the last: predict()
    assert [row["step"] for row in stored.spans("epoch")] == [5, 10]


def test_checkpoints(tiny):
    """Saved at 4, 8 and at the end: with a span around the saving, an event with the path."""
    assert [row["step"] for row in tiny.stored.spans("checkpoint")] == [4, 8, 10]
    events = tiny.stored.events("checkpoint")
    assert [row["attrs"]["step"] for row in events] == [4, 8, 10]
    for row in events:
        assert row["attrs"]["path"] == str(tiny.folder / "out" / f"checkpoint-{row['step']}")
        assert json.loads((tiny.folder / "out" / f"checkpoint-{row['step']}" /
                           "trainer_state.json").read_text())  # fmt: skip


def test_configuration_is_recorded(tiny):
    attrs = tiny.place.attrs()
    assert attrs["config/args/per_device_train_batch_size"] == "2"
    assert attrs["config/model/hidden_size"] == "16"
    assert attrs["max_steps"] == "10"
    assert tiny.stored.info["project"] == "given"


def test_helpers_of_a_plan(tiny):
    """OptimizerState at each step: the rate after the scheduler's step; Trainer logs that
    (4.x), or the one before it, with which the step was made."""
    rates = dict(tiny.stored.recorded()["learning_rate"])
    ours = dict(tiny.stored.recorded()["optimizer/lr"])
    later = 1 if rates[1] == pytest.approx(5e-05) else 0
    assert {step: ours[step] for step in range(1, 10)} == pytest.approx(
        {step: rates[step + later] for step in range(1, 10)}
    )


def test_profile_by_steps(tiny):
    """wait 1, warm-up 1, active 2, twice: steps 3 and 4, 7 and 8."""
    traces = sorted((tiny.folder / "traces").glob("*.json.gz"))
    assert len(traces) == 2
    for path, steps in zip(traces, ((3, 4), (7, 8))):
        assert f"steps_{steps[0]}-{steps[1]}" in path.name
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        marks = {e["name"] for e in events if str(e.get("name", "")).startswith("ProfilerStep#")}
        assert marks == {f"ProfilerStep#{step}" for step in steps}
        shapes = [e for e in events if "Input Dims" in e.get("args", {})]
        stacks = [e for e in events if e.get("cat") == "python_function"]
        memory = [e for e in events if e.get("name") == "[memory]"]
        assert shapes and stacks and memory  # record_shapes, with_stack, profile_memory
    assert len(tiny.stored.events("profile")) == 2


def test_lines_of_the_guide(tiny):
    ours = [line for line in tiny.lines if re.search("rofil|view traces|tensorboard", line)]
    assert ours == [
        "PyTorch Profiler initialized. Traces will be saved to: traces",
        "Profiler schedule: wait=1, warmup=1, active=2, repeat=2",
        "Profiling complete! Traces saved to: traces",
        "To view traces, run:",
        "  tensorboard --logdir=traces",
    ]


def test_tensorboard_finds_the_traces(tiny):
    """The names that its profiler plugin looks for: WORKER.TIME.pt.trace.json.gz."""
    for path in (tiny.folder / "traces").glob("*.json.gz"):
        assert re.fullmatch(r"[^.]+\.\d+\.pt\.trace\.json\.gz", path.name)


# ---- exceptions, and going on --------------------------------------------------------

RESUME = """
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3:
                raise RuntimeError("lost the node")

    def trainer(callbacks):
        args = arguments(max_steps=4, save_steps=2, save_strategy="steps",
                         restore_callback_states_from_checkpoint=True)
        return Trainer(model(), args, train_dataset=data(20), callbacks=callbacks)

    first = ours.LapseCallback(config=False, ranks="zero", every=7)
    one = trainer([first, Stop()])
    try:
        one.train()
    except RuntimeError:
        pass
    two = trainer([ours.LapseCallback()])
    two.train(resume_from_checkpoint="out/checkpoint-2")
    (restored,) = [cb for cb in two.callback_handler.callbacks
                   if isinstance(cb, ours.LapseCallback)]
    said(restored=restored.state(), first=first.state())
    lapse.finish()
    trainer([first, Stop()]).train()
"""


def test_exceptions_and_resuming(program):
    """Checkpoints hold what it has seen; a training that an exception left does not stand
    in the way of the next; one that nobody catches is recorded."""
    done = program(script(RESUME), check=1)
    restored = done.said["restored"]
    assert restored["args"]["ranks"] == "zero" and restored["args"]["every"] == 7
    assert restored["attributes"]["samples_seen"] == 8  # 4 before the checkpoint, 4 after
    assert done.said["first"]["attributes"]["samples_seen"] == 6
    runs = [done.place.stored(run) for run in done.place.begun(n=2)]
    runs.sort(key=lambda run: len(run.spans("step")), reverse=True)  # ids of one second mix
    assert [sorted(row["step"] for row in run.spans("step")) for run in runs] == [
        [1, 2, 3, 3, 4],
        [1, 2, 3],
    ]
    assert [len(run.events("training-interrupted")) for run in runs] == [0, 1]
    assert [[e["text"] for e in run.events("exception")] for run in runs] == [
        [], ["RuntimeError: lost the node"]]  # fmt: skip
    assert [run.events("lapse.transformers") for run in runs] == [[], []]


# ---- several ranks -------------------------------------------------------------------

TORCHRUN = """
    import os, sys
    if "RANK" not in os.environ:
        from torch.distributed.run import main
        main(["--standalone", "--nproc_per_node=2", __file__])   # at a free port
        sys.exit()
"""

RANKS = """
    import torch.distributed as dist
    os.environ["LOCAL_RANK"] = "0"   # as on two nodes with a rank each

    def train(mode, name):
        callbacks = [ours.LapseCallback(ranks=mode, every=2),
                     ours.ProfilerCallback(name, 1, 1, 1, console_style="none")]
        args = arguments(output_dir=name, num_train_epochs=1, ddp_backend="gloo",
                         save_strategy="no", include_num_input_tokens_seen="all")
        Trainer(model(), args, train_dataset=data(18), callbacks=callbacks).train()

    train("aggregate", "a")
    lapse.finish()
    lapse.init()
    lapse.event("second")
    train("all", "b")
    dist.destroy_process_group()
"""


@pytest.fixture
def ranks(program):
    return program(textwrap.dedent(TORCHRUN) + script(RANKS), launcher=True)


def by_rank(stored, kind, name, first=False):
    """{rank: rows} of a series, of the second training or the first."""
    found = {}
    middle = min(row["time_ns"] for row in stored.events("second"))
    for row in sorted((r for r in stored.rows if r["type"] == kind), key=lambda r: r["time_ns"]):
        if (row["time_ns"] < middle) == first and stored.names[row["series"]]["name"] == name:
            found.setdefault(stored.names[row["series"]]["rank"], []).append(row)
    return found


def test_all_ranks_record_without_duplicates(ranks):
    """18 samples on two ranks, 2 each a step: 5 steps, the last padded. What is the same
    on all ranks is there once."""
    stored = ranks.stored
    for kind, name in (("span", "step"), ("span", "forward_backward"), ("span", "optimizer")):
        rows = by_rank(stored, kind, name)
        assert {rank: [row["step"] for row in found] for rank, found in rows.items()} == {
            0: [1, 2, 3, 4, 5], 1: [1, 2, 3, 4, 5]}  # fmt: skip
    for name, each in (("lapse/step/samples", 2), ("lapse/step/tokens", 16)):
        rows = by_rank(stored, "sample", name)
        assert {rank: [row["value"] for row in found] for rank, found in rows.items()} == {
            0: [each] * 5, 1: [each] * 5}  # fmt: skip
    for name in ("loss", "grad_norm", "learning_rate", "epoch"):
        rows = by_rank(stored, "sample", name)
        assert {rank: len(found) for rank, found in rows.items()} == {0: 5}, name


def test_aggregate_names_the_rank(ranks):
    stored = ranks.stored
    for name in ("step/time", "step/gap"):
        rows = {what: by_rank(stored, "sample", f"{name}/{what}", True)
                for what in ("min", "mean", "max", "min/rank", "max/rank")}  # fmt: skip
        assert all(list(found) == [0] for found in rows.values())  # rank 0 alone records
        assert [row["step"] for row in rows["mean"][0]] == [2, 4]
        for i in range(2):
            low, mean, high = (rows[what][0][i]["value"] for what in ("min", "mean", "max"))
            assert 0 < low <= mean <= high < 60
            assert mean == pytest.approx((low + high) / 2)
            assert {rows["min/rank"][0][i]["value"], rows["max/rank"][0][i]["value"]} <= {0, 1}


def test_global_rank_zero_profiles(ranks):
    """Two nodes with a rank each have LOCAL_RANK 0 twice; one profiles."""
    for name in ("a", "b"):
        assert len(list((ranks.folder / name).glob("*.json.gz"))) == 1


# ---- memory of the GPUs, by a device that is not there --------------------------------

GIB = 1 << 30


@pytest.fixture
def gpus(monkeypatch):
    """torch.cuda with two devices that hold known amounts."""
    import torch

    held = {"memory_allocated": 1.0, "memory_reserved": 1.75, "max_memory_allocated": 1.5}
    for name, gib in held.items():
        monkeypatch.setattr(torch.cuda, name, lambda i, gib=gib: int((gib + i) * GIB))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)

    def refuse(*_):
        raise AssertionError("it waits for the GPU")

    monkeypatch.setattr(torch.cuda, "synchronize", refuse)


def printed(capsys, steps, world=1, **options):
    from lapse.transformers import SimpleGPUMemoryCallback

    callback = SimpleGPUMemoryCallback(**options)
    for step in steps:
        callback.on_step_end(SimpleNamespace(world_size=world), SimpleNamespace(global_step=step),
                             None)  # fmt: skip
    return capsys.readouterr().out.splitlines()


def test_memory_line_of_the_guide(gpus, capsys):
    assert printed(capsys, range(1, 21), console_style="classic") == [
        "[Step 10] GPU 0: Allocated: 1.00GB, Reserved: 1.75GB, Peak: 1.50GB",
        "[Step 10] GPU 1: Allocated: 2.00GB, Reserved: 2.75GB, Peak: 2.50GB",
        "[Step 20] GPU 0: Allocated: 1.00GB, Reserved: 1.75GB, Peak: 1.50GB",
        "[Step 20] GPU 1: Allocated: 2.00GB, Reserved: 2.75GB, Peak: 2.50GB",
    ]


def test_memory_line_of_ours_says_what_its_unit_is(gpus, capsys):
    assert printed(capsys, [3], log_every_n_steps=3)[0] == (
        "[Step 3] GPU 0: Allocated: 1.00 GiB, Reserved: 1.75 GiB, Peak: 1.50 GiB"
    )


def test_each_rank_prints_its_own_gpu(gpus, capsys):
    (line,) = printed(capsys, [10], world=2)
    assert "GPU 1:" in line


def test_without_a_gpu_nothing_is_printed(capsys):
    assert printed(capsys, [10]) == []


def test_style_by_environment(monkeypatch, gpus, capsys):
    monkeypatch.setenv("LAPSE_CONSOLE_STYLE", "classic")
    assert "1.00GB," in printed(capsys, [10])[0]
    monkeypatch.setenv("LAPSE_CONSOLE_STYLE", "none")
    assert printed(capsys, [10]) == []


# ---- arguments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SimpleGPUMemoryCallback", {"log_every_n_steps": 0}),
        ("SimpleGPUMemoryCallback", {"console_style": "loud"}),
        ("ProfilerCallback", {"active_steps": 0}),
        ("ProfilerCallback", {"wait_steps": -1}),
        ("LapseCallback", {"ranks": "some"}),
        ("LapseCallback", {"every": 0}),
        ("LapseCallback", {"plan": {"track_gradient": True}}),
    ],
)
def test_wrong_arguments_are_refused_at_once(name, arguments):
    import lapse.transformers

    with pytest.raises(ValueError, match=r"."):
        getattr(lapse.transformers, name)(**arguments)


def test_defaults_of_the_guide():
    import lapse.transformers as ours

    callback = ours.ProfilerCallback()
    assert (callback.output_dir, callback.wait_steps, callback.warmup_steps) == (
        "./profiler_traces", 5, 2)  # fmt: skip
    assert (callback.active_steps, callback.repeat_times) == (3, 1)
    assert callback.record_shapes and callback.profile_memory
    assert callback.with_stack and callback.with_flops
    assert ours.SimpleGPUMemoryCallback().log_every_n_steps == 10


def test_report_to_is_registered():
    from transformers.integrations import get_reporting_integration_callbacks

    import lapse.transformers

    assert get_reporting_integration_callbacks(["lapse"]) == [lapse.transformers.LapseCallback]


def test_names_of_the_guide(gpus, capsys):
    """lapse.compat.profiling: the guide's names, arguments in its order, and its lines."""
    import inspect

    from lapse.compat.profiling import PyTorchProfilerCallback, SimpleGPUMemoryCallback

    parameters = list(inspect.signature(PyTorchProfilerCallback).parameters.values())
    assert [(p.name, p.default) for p in parameters] == [
        ("output_dir", "./profiler_traces"),
        ("wait_steps", 5),
        ("warmup_steps", 2),
        ("active_steps", 3),
        ("repeat_times", 1),
        ("record_shapes", True),
        ("profile_memory", True),
        ("with_stack", True),
        ("with_flops", True),
    ]
    assert PyTorchProfilerCallback().console_style == "classic"
    SimpleGPUMemoryCallback().on_step_end(
        SimpleNamespace(world_size=1), SimpleNamespace(global_step=10), None
    )
    assert "Allocated: 1.00GB, Reserved: 1.75GB, Peak: 1.50GB" in capsys.readouterr().out
