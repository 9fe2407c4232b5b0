# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.Profile: which steps are recorded, how files are called, what comes out,
and that the training does not wait. NsysCapture."""

import gzip
import json
import re

import pytest
from conftest import need

pytestmark = [need("torch"), pytest.mark.timeout(300)]

HEAD = """
import json, os, sys, threading, time, warnings
import torch
import lapse, lapse.torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
def train():
    model(torch.ones(2, 16)).sum().backward()
def rows(traces):
    return [dict(name=os.path.basename(t.path), epoch=t.epoch, cycle=t.cycle,
                 first=t.first_step, last=t.last_step, steps=t.steps, bound=t.bound,
                 verdict=t.verdict, operators=[list(o) for o in t.operators],
                 analysis=t.analysis, error=t.error, stop=t.stop_seconds, path=t.path)
            for t in traces]
lapse.init(capture=False)
"""

CYCLES = HEAD + """
shown = []
profile = lapse.torch.Profile(skip_first=1, wait=2, warmup=1, active=2, repeat=2, gz=True,
                              activities=["cpu"], warn_mb=0.001, on_trace=shown.append)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with profile:
        for step in range(14):
            with lapse.step():
                with lapse.torch.phase("forward"):
                    train()
            profile.step()
tables = [t.top(3) for t in profile.traces]
print("RESULT " + json.dumps(dict(
    traces=rows(profile.traces), shown=len(shown), reason=profile.reason, tables=tables,
    kineto=torch.autograd.kineto_available(), estimated=profile.estimated_bytes,
    warnings=[str(w.message) for w in caught])))
lapse.finish()
"""

# One program for all that needs no run of its own: importing torch takes seconds.
OTHERS = HEAD + """
import lapse.torch._profile_trace as traces
from torch.profiler import record_function
write, out = traces.write, {}
def said(profile):
    return dict(traces=rows(profile.traces), reason=profile.reason)

# Epochs, shorter than what is asked for.
profile = lapse.torch.Profile(epochs=[1, 3], wait=0, warmup=1, active=100, activities=["cpu"])
profile.start()
for epoch in range(5):
    profile.epoch_begin(epoch)
    for i in range(4):
        train()
        profile.step(last=i == 3)
    profile.epoch_end()
profile.close()
out["epochs"] = said(profile)

# A disk that does not answer until the training has gone on.
begun, go = threading.Event(), threading.Event()
def slow(*args):
    begun.set()
    go.wait(60)
    return write(*args)
traces.write = slow
profile = lapse.torch.Profile(wait=0, warmup=0, active=1, repeat=3, activities=["cpu"],
                              estimate=False, output_dir="slow")
with profile:
    for _ in range(3):
        train()
        profile.step()
    assert begun.wait(60)
    steps = 0
    for _ in range(20):
        train()
        profile.step()
        steps += 1
    before = len(profile.traces)
    go.set()
out["slow"] = dict(said(profile), steps=steps, before=before)

# The operators, and PyTorch's own table of them.
kept = []
def keep(recorded, path, gz):
    kept.append([(e.key, e.self_cpu_time_total, e.count) for e in recorded.key_averages()])
    return write(recorded, path, gz)
traces.write = keep
profile = lapse.torch.Profile(wait=0, warmup=0, active=2, activities=["cpu"], export=False,
                              estimate=False, output_dir="averages")
with profile:
    for _ in range(3):
        train()
        profile.step()
out["averages"] = dict(said(profile), theirs=kept[0], left=sorted(os.listdir("averages")))
traces.write = write

# What else PyTorch can record.
profile = lapse.torch.Profile(wait=0, warmup=0, active=1, activities=["cpu"], with_stack=True,
                              profile_memory=True, with_flops=True, estimate=False,
                              output_dir="much")
with profile:
    for _ in range(2):
        train()
        profile.step()
out["much"] = dict(said(profile), kineto=torch.autograd.kineto_available())

# No program to analyse with, no folder to write to.
bin = os.environ.pop("LAPSE_BIN", None)
os.environ["LAPSE_BIN"] = "/nowhere/lapse"
def once(**options):
    profile = lapse.torch.Profile(wait=0, warmup=0, active=1, activities=["cpu"], **options)
    with profile:
        for _ in range(2):
            train()
            profile.step()
    return said(profile)
out["no program"] = once(output_dir="alone")
open("file", "w").close()
out["no folder"] = once(output_dir="file/below")
del os.environ["LAPSE_BIN"]
if bin:
    os.environ["LAPSE_BIN"] = bin

# Ranks: the second of two.
os.environ.update(RANK="1", WORLD_SIZE="2")
for ranks in ((0,), (1,), None):
    out[f"ranks {ranks}"] = once(ranks=ranks, analyse=False)
os.environ["LOCAL_RANK"] = "0"   # the first of the second machine: still not rank 0
out["local 0"] = once(analyse=False)
profile = lapse.torch.Profile(wait=0, warmup=0, active=2, repeat=2, activities=["cpu"],
                              ranks=None, layout="tensorboard", output_dir="tb", analyse=False)
with profile:
    for _ in range(5):
        train()
        profile.step()
out["tensorboard"] = said(profile)
with torch.autograd.profiler.profile():   # another one is running: nothing may break
    out["nested"] = once(ranks=None, analyse=False)
print("RESULT " + json.dumps(out))
lapse.finish()
"""


@pytest.fixture(scope="module")
def others(program):
    return program(OTHERS)


@pytest.fixture(scope="module")
def cycles(program):
    return program(CYCLES)


def names(traces):
    return [trace["name"] for trace in traces]


def step_marks(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        text = file.read()
    return sorted(map(int, set(re.findall(r'ProfilerStep#(\d+)"', text)))), text


def test_cycles_record_the_steps_of_the_schedule(cycles):
    """skip_first 1, wait 2, warmup 1, active 2: steps 4 and 5, then 9 and 10."""
    traces = cycles.said["traces"]
    assert [(t["cycle"], t["first"], t["last"]) for t in traces] == [(0, 4, 5), (1, 9, 10)]
    assert names(traces) == [
        "chrome_trace_cycle_0_steps_4-5.json.gz",
        "chrome_trace_cycle_1_steps_9-10.json.gz",
    ]
    for trace in traces:
        first = trace["first"]
        marks, text = step_marks(cycles.folder / trace["path"])
        assert marks == [first, trace["last"]]
        if cycles.said["kineto"]:  # Debian's PyTorch 1.13 is built without it
            assert f'"lapse_first_step": "{first}"' in text
            assert "Input Dims" in text, "record_shapes"
        assert '"forward"' in text, "phases are in the trace"


def test_traces_are_analysed_and_recorded(cycles):
    traces = cycles.said["traces"]
    assert cycles.said["shown"] == 2 and cycles.said["reason"] == ""
    for trace in traces:
        assert trace["error"] == ""
        assert trace["bound"] and trace["verdict"].startswith(f"Bound by {trace['bound']}")
        said = json.loads((cycles.folder / trace["analysis"]).read_text())
        assert said["command"] == "trace summary"
        assert sum(op[1] for op in trace["operators"]) == pytest.approx(1)
    events = cycles.stored.events("profile")
    assert [event["attrs"]["first_step"] for event in events] == [4, 9]
    assert events[0]["attrs"]["bound"] == traces[0]["bound"]
    kinds = [event["attrs"]["kind"] for event in cycles.stored.events("artifact")]
    assert kinds.count("trace") == 2 and kinds.count("trace-summary") == 2


def test_top_table(cycles):
    lines = cycles.said["tables"][0].splitlines()
    assert lines[0] == "Profiler: Top 3 slowest operations:"
    assert re.fullmatch(r"1\. [\w:. ]+ \(\d+\.\d% of time\)", lines[1])
    assert len(lines) == 4


def test_size_is_estimated_before_and_warned_of(cycles):
    """Within a factor of two of what the windows then had, unpacked."""
    path = cycles.folder / cycles.said["traces"][0]["path"]
    with gzip.open(path) as file:
        real = len(file.read())
    assert real / 2 < cycles.said["estimated"] < real * 2
    (warning,) = (w for w in cycles.said["warnings"] if "warn_mb" in w)
    assert "more than warn_mb (0.001)" in warning
    (event,) = cycles.stored.events("profile-estimate")
    assert event["attrs"]["bytes"] == cycles.said["estimated"]


def test_epochs_and_their_ends(others):
    """T-06: no step is made up: an epoch of 4 steps gives 3 after one of warm-up."""
    said = others.said["epochs"]
    assert said["reason"] == ""
    traces = said["traces"]
    assert [(t["epoch"], t["first"], t["last"], t["steps"]) for t in traces] == [
        (1, 5, 7, 3),
        (3, 13, 15, 3),
    ]
    assert names(traces) == ["chrome_trace_epoch_1.json", "chrome_trace_epoch_3.json"]
    marks, _ = step_marks(others.folder / traces[0]["path"])
    assert marks == [5, 6, 7]


def test_ranks_and_names(others):
    """T-27: the global rank counts, not LOCAL_RANK; T-28: cycle and steps are in the name."""
    said = others.said
    assert said["ranks (0,)"]["traces"] == [] and "rank 1" in said["ranks (0,)"]["reason"]
    for ranks in ("ranks (1,)", "ranks None"):
        (trace,) = said[ranks]["traces"]
        assert trace["name"] == "chrome_trace_cycle_0_steps_0-0_rank_1.json"
    assert said["local 0"]["traces"] == []
    pattern = r".+_\d+_rank_1_cycle_(\d)_steps_(\d)-(\d)\.\d{19}\.pt\.trace\.json"
    found = [re.fullmatch(pattern, t["name"]).groups() for t in said["tensorboard"]["traces"]]
    assert found == [("0", "0", "1"), ("1", "2", "3")]


def test_another_profiler_ends_nothing(others):
    """Whatever PyTorch says of it, the training went on, and a failure has a reason."""
    said = others.said["nested"]
    assert bool(said["traces"]) != bool(said["reason"])


def test_training_does_not_wait_for_the_disk(others):
    said = others.said["slow"]
    assert said["steps"] == 20 and said["before"] == 0
    assert sorted(t["cycle"] for t in said["traces"]) == [0, 1, 2]
    assert not any(t["error"] for t in said["traces"])


def test_operators_are_those_of_key_averages(others):
    """Own times on the host, to the rounding of PyTorch's microseconds; and with
    export=False no trace stays."""
    said = others.said["averages"]
    (trace,) = said["traces"]
    assert trace["path"] == "" and said["left"] == ["analysis"]
    mine = {name: (time * 1e6, calls) for name, _, time, calls in trace["operators"]}
    theirs = {key: (us, count) for key, us, count in said["theirs"]
              if not key.startswith("ProfilerStep") and us > 0}  # fmt: skip
    assert set(theirs) <= set(mine)
    for key, (us, count) in theirs.items():
        assert mine[key][1] == count
        assert mine[key][0] == pytest.approx(us, abs=1.5 * count + 1)


def test_stacks_memory_and_flops(others):
    said = others.said["much"]
    (trace,) = said["traces"]
    if not said["kineto"]:
        pytest.skip("this PyTorch is built without Kineto")
    text = (others.folder / trace["path"]).read_text()
    events = json.loads(text)["traceEvents"]
    assert any(event.get("cat") == "python_function" for event in events), "stacks"
    assert any(event.get("name") == "[memory]" for event in events), "memory"
    assert '"with_flops": 1' in text


def test_what_cannot_be_done_is_said(others):
    (trace,) = others.said["no program"]["traces"]
    assert trace["path"] and trace["error"].startswith("not analysed: ")
    assert "/nowhere/lapse" in trace["error"]
    (trace,) = others.said["no folder"]["traces"]
    assert trace["path"] == "" and trace["error"].startswith("not written")


# ---- arguments ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch_module():
    return pytest.importorskip("torch")


def test_schedule_is_that_of_torch(torch_module):
    """Against torch.profiler.schedule() itself, for many settings."""
    from torch.profiler import schedule

    from lapse.torch import _profile_plan as plans

    for settings in [(0, 0, 0, 1, 0), (3, 2, 1, 2, 2), (0, 5, 2, 3, 1), (1, 0, 1, 1, 3)]:
        skip, wait, warmup, active, repeat = settings
        theirs = plans.custom(
            schedule(skip_first=skip, wait=wait, warmup=warmup, active=active, repeat=repeat)
        )
        ours = plans.cycle(*settings)
        assert [ours.action(n, 0) for n in range(60)] == [theirs.action(n, 0) for n in range(60)]


def test_absent_activities_warn(torch_module):
    from lapse.torch import _profile_plan as plans

    if torch_module.cuda.is_available():
        pytest.skip("CUDA is here")
    with pytest.warns(RuntimeWarning, match="'cuda' is left out"):
        found = plans.activities(["cpu", "cuda"])
    assert found == {torch_module.profiler.ProfilerActivity.CPU}
    with pytest.warns(RuntimeWarning, match="'mps'"):
        plans.activities(["cpu", "mps"])
    with pytest.raises(ValueError, match="did you mean 'cuda'"):
        plans.activities(["cuad"])


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"active": 0}, "active"), ({"wait": -1}, "wait"), ({"layout": "x"}, "layout"),
     ({"epochs": [-1]}, "epoch"), ({"repeat": 1.5}, "repeat")],
)  # fmt: skip
def test_wrong_arguments_raise_at_once(torch_module, wrong, match):
    import lapse.torch

    with pytest.raises(ValueError, match=match):
        lapse.torch.Profile(**wrong)


# ---- nsys ----------------------------------------------------------------------------------


def captured(monkeypatch, torch_module, steps=None, total=6):
    """Which steps, from 1, ran while the profiler was on."""
    import lapse.torch

    calls = []
    monkeypatch.setattr(torch_module.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch_module.cuda.profiler, "start", lambda: calls.append("start"))
    monkeypatch.setattr(torch_module.cuda.profiler, "stop", lambda: calls.append("stop"))
    capture, inside = lapse.torch.NsysCapture(steps), []
    for step in range(1, total + 1):
        with capture:
            if capture.capturing:
                inside.append(step)
    capture.close()
    return inside, calls


def test_nsys_range_is_half_open_from_1(monkeypatch, torch_module):
    assert captured(monkeypatch, torch_module, "3:5") == ([3, 4], ["start", "stop"])
    assert captured(monkeypatch, torch_module, "1:2") == ([1], ["start", "stop"])
    assert captured(monkeypatch, torch_module, "5:99") == ([5, 6], ["start", "stop"])


def test_nsys_variables(monkeypatch, torch_module):
    assert captured(monkeypatch, torch_module) == ([], [])
    monkeypatch.setenv("NRL_NSYS_PROFILE_STEP_RANGE", "2:3")
    assert captured(monkeypatch, torch_module)[0] == [2]
    monkeypatch.setenv("LAPSE_NSYS_PROFILE_STEP_RANGE", "4:5")
    assert captured(monkeypatch, torch_module)[0] == [4]
    monkeypatch.setenv("LAPSE_NSYS_PROFILE_STEP_RANGE", "5:4")
    assert captured(monkeypatch, torch_module) == ([], [])


@pytest.mark.parametrize("text", ["0:3", "3:3", "3", "a:b", "", "3:"])
def test_nsys_bad_range(torch_module, text):
    import lapse.torch

    with pytest.raises(ValueError, match="START:STOP"):
        lapse.torch.NsysCapture(text)
