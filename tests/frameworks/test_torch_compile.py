# SPDX-License-Identifier: Apache-2.0
"""lapse.torch.CompileMonitor with PyTorch's real compiler, in programs of their own:
whether the compiler is loaded already is a part of what is tested."""

import pytest

torch = pytest.importorskip("torch")

HAS = hasattr(torch, "compile")
pytestmark = pytest.mark.timeout(300)

CODE = """
import json, sys, time
import torch
torch.set_num_threads(1)
if "loaded" in sys.argv:
    import torch._dynamo
    torch.compile(torch.nn.Linear(1, 1), backend="eager")(torch.ones(1, 1))
import lapse
lapse.init(capture=False)
from lapse.torch import CompileMonitor
loaded = "torch._dynamo" in sys.modules

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 1e9:       # depends on a value: the graph breaks
            y = y - 1
        return y + 1

def slow(graph, inputs):        # a compiler that takes a known time
    start = time.perf_counter()
    time.sleep(0.2)
    slept.append(time.perf_counter() - start)
    return graph

slept = []
model = Model()
monitor = CompileMonitor(model)
start = time.perf_counter()
compiled = torch.compile(model, backend=slow)
returned = time.perf_counter() - start
at_return = sum(monitor.compile_times.values())
walls = []
outputs = []
for n in (2, 2, 3):
    start = time.perf_counter()
    outputs.append(torch.equal(compiled(torch.ones(n, 4)), model(torch.ones(n, 4))))
    walls.append(time.perf_counter() - start)
report, classic = monitor.report(), monitor.report(classic=True)
monitor.close()
n = len(monitor.compilations)
compiled(torch.ones(2, 4, dtype=torch.float32, requires_grad=True))
lapse.finish()
print("RESULT " + json.dumps({
    "loaded": loaded, "reason": monitor.reason, "times": monitor.compile_times,
    "all": monitor.compilations, "breaks": monitor.breaks, "places": monitor.places,
    "graphs": monitor.graphs,
    "slept": slept[:5], "walls": walls, "at_return": at_return, "equal": outputs,
    "closed": len(monitor.compilations) == n, "report": report, "classic": classic,
    "finders": [str(f) for f in sys.meta_path if "WhenLoaded" in str(f)]}))
"""
NAME, FILE, LINE, ID, SECONDS, AGAIN, REASON, TRIGGER = range(8)


@pytest.mark.skipif(HAS, reason="this PyTorch has torch.compile")
def test_old_pytorch_is_said():
    from lapse.torch import CompileMonitor

    monitor = CompileMonitor()
    assert monitor.reason == f"PyTorch {torch.__version__} has no torch.compile"
    monitor.step()
    assert monitor.reason in monitor.report()
    monitor.close()


needs_compile = pytest.mark.skipif(not HAS, reason=f"PyTorch {torch.__version__} cannot compile")


@pytest.fixture(params=["first", "loaded"])
def said(program, request):
    run = program(CODE, request.param)
    run.said["run"] = run
    return run.said


@needs_compile
def test_time_is_that_of_compiling(said):
    """torch.compile() returns at once, and nothing is counted then; what is counted has all
    that the compiler slept in it, and is less than the calls that compiled took."""
    assert said["reason"] == "" and all(said["equal"])
    assert said["at_return"] == 0
    total = sum(one[SECONDS] for one in said["all"])
    assert len(said["slept"]) >= 3
    assert sum(said["slept"][: len(said["all"])]) <= total <= sum(said["walls"])
    assert total == pytest.approx(sum(said["times"].values()))


@needs_compile
def test_before_and_after_the_compiler_is_loaded(program):
    early, late = (program(CODE, when).said for when in ("first", "loaded"))
    assert not early["loaded"] and late["loaded"]
    assert [one[NAME] for one in early["all"]] == [one[NAME] for one in late["all"]]
    assert early["finders"] == []


@needs_compile
def test_again_and_why(said):
    first = [one for one in said["all"] if not one[AGAIN]]
    again = [one for one in said["all"] if one[AGAIN]]
    assert first[0][NAME] == "Model"
    assert again and all("size mismatch at index 0. expected 2, actual 3" in one[REASON]
                         for one in again)  # fmt: skip
    assert "Compiled again: " in said["report"]
    assert said["closed"]


@needs_compile
def test_graph_breaks(said):
    """One at the branch, each time that the function is compiled; where it is, is said."""
    assert sum(said["breaks"].values()) == sum(one[NAME] == "Model" for one in said["all"])
    ((_, file, line),) = said["places"]
    assert file.endswith("script.py")
    assert "y.sum() > 1e9" in CODE.splitlines()[line - 1]
    assert f"{file}:{line}" in said["report"]
    assert said["graphs"] == len(said["all"])


@needs_compile
def test_summary_of_the_document(said):
    lines = said["classic"].splitlines()
    assert lines[0] == "Compilation Summary:"
    assert lines[1] == f"Total time: {sum(said['times'].values()):.2f}s"
    assert f"- Model: {said['times']['Model']:.2f}s" in lines


@needs_compile
def test_recorded(said):
    stored = said["run"].stored
    recorded = stored.recorded()
    total = sum(one[SECONDS] for one in said["all"])
    assert sum(v for _, v in recorded["compile/time"]) == pytest.approx(total)
    assert sum(v for _, v in recorded["compile/again"]) == sum(one[AGAIN] for one in said["all"])
    assert sum(v for _, v in recorded["compile/breaks"]) == sum(said["breaks"].values())
    texts = [event["text"] for event in stored.events("compile")]
    assert texts[0] == f"Compiled Model in {said['all'][0][SECONDS]:.2f}s"
    assert len(stored.events("graph-break")) == 1
