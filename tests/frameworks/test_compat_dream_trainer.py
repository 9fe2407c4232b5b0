# SPDX-License-Identifier: Apache-2.0
"""lapse.compat.dream_trainer: the document's usage, adapted, run with a stub trainer that has
its hooks; what throughput, profile and compilation say, against known times."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from lapse.compat import dream_trainer as dream  # noqa: E402
from lapse.compat.dream_trainer import _measure, _profile  # noqa: E402

HAS_COMPILE = hasattr(torch, "compile")
GIB = 1 << 30
needs_kineto = pytest.mark.skipif(
    not torch.autograd.kineto_available(), reason="this PyTorch is built without its profiler"
)
pytestmark = pytest.mark.timeout(300)

PROGRAM = """
import json, os, sys, time
from types import SimpleNamespace
import torch
from torch.profiler import ProfilerActivity, schedule
torch.set_num_threads(1)
import lapse
from lapse import _machine
lapse.init(capture=False)
from lapse.compat.dream_trainer import (
    AutoAnalyzer, Callback, CallbackCollection, CompilationMonitor, MemoryProfiler,
    PerformanceReporter, ProfileCallback, ThroughputMonitor, WarmupCallback)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).sum()

class Trainer:
    def __init__(self, callbacks):
        self.config = SimpleNamespace(batch_size=32)
        self.model, self.scalars, self.clock = Model(), [], []
        self.callbacks = CallbackCollection(callbacks)
        self.callbacks.initialize(self)

    def log_scalar(self, name, value):
        self.scalars.append((name, value))

    def training_step(self, batch):
        return self.compiled(batch)

    def fit(self, epochs, steps, sleep=0.0, between=0.0, backend=None):
        self.callbacks.pre_launch()
        self.callbacks.pre_setup()
        self.compiled = self.model if backend is None else torch.compile(self.model,
                                                                         backend=backend)
        self.callbacks.post_setup()
        self.callbacks.pre_fit()
        for epoch in range(epochs):
            for i in range(steps):
                batch = {"x": torch.ones(32, 8)}
                times = [time.perf_counter()]
                self.callbacks.pre_train_step(batch, i)
                times.append(time.perf_counter())
                self.training_step(batch["x"]).backward()
                time.sleep(sleep)
                times.append(time.perf_counter())
                self.callbacks.post_train_step({}, i)
                self.clock.append((*times, time.perf_counter()))
            time.sleep(between)
        self.callbacks.post_fit()
        return self

out = {}

# A callback that fails does no harm.
class Bad(Trainer):
    def log_scalar(self, name, value):
        raise RuntimeError("no logger")
Bad([ThroughputMonitor(warmup_steps=0)]).fit(1, 101)

# Throughput: two epochs of 110 steps of 5 ms, and a pause that is no training.
print("BEGIN throughput")
monitor = ThroughputMonitor()
trainer = Trainer([monitor]).fit(2, 110, 0.005, 0.25)
print("END throughput")
# It looks at its clock within its hooks: from the tenth step's second one to that of the
# epoch's last step, and in the other epoch from the first step's first one.
clock = trainer.clock
least = clock[109][2] - clock[9][3] + clock[219][2] - clock[110][1]
most = clock[109][3] - clock[9][2] + clock[219][3] - clock[110][0]
out["throughput"] = dict(scalars=trainer.scalars, samples=monitor.samples_processed,
                         rate=monitor.throughput, least=least, most=most,
                         warmup=monitor.warmup_steps)

# The document's profiler, as it stands there but for CUDA; then another handler.
profiler = torch.profiler.profile(
    activities=[ProfilerActivity.CPU],
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2),
    on_trace_ready=torch.profiler.tensorboard_trace_handler("./logs"),
    record_shapes=True, profile_memory=True, with_stack=True)
trainer = Trainer([ProfileCallback(profiler)])
own_step = trainer.training_step
trainer.fit(1, 14)
callback = trainer.callbacks["ProfileCallback"]
def rows(callback):
    return [dict(path=t.path, bound=t.bound, operators=[o.name for o in t.operators],
                 error=t.error) for t in callback.traces]
out["profile"] = dict(traces=rows(callback), files=sorted(os.listdir("logs")),
                      restored=trainer.training_step == own_step)

# Composition of warm-up, profile and throughput; a trainer without training_step.
saved = Trainer.training_step
def through(self, batch):
    return self.compiled(batch)
del Trainer.training_step
def fit_step(prof):
    prof.export_chrome_trace("trace.json")
Trainer.forward_only = through
trainer = Trainer([
    WarmupCallback(steps=20),
    ProfileCallback(torch.profiler.profile(activities=[ProfilerActivity.CPU],
                    schedule=schedule(wait=20, warmup=2, active=4), on_trace_ready=fit_step)),
    ThroughputMonitor(warmup_steps=5),
    MemoryProfiler(profile_every=50),
])
trainer.callbacks.pre_setup(); trainer.callbacks.pre_fit()
for i in range(40):
    trainer.callbacks.pre_train_step({"x": torch.ones(32, 8)}, i)
    trainer.model(torch.ones(32, 8)).backward()
    trainer.callbacks.post_train_step({}, i)
trainer.callbacks.post_fit()
Trainer.training_step = saved
trace = json.load(open("trace.json"))
rows_of = trace["traceEvents"] if isinstance(trace, dict) else trace
steps = sorted({e["name"] for e in rows_of
                if e.get("name", "").startswith("ProfilerStep#")})
out["composition"] = dict(samples=trainer.callbacks["ThroughputMonitor"].samples_processed,
                          steps=steps, active=trainer.callbacks["WarmupCallback"].active,
                          traces=rows(trainer.callbacks["ProfileCallback"]),
                          memory=json.load(open("memory_profile.json")),
                          why=trainer.callbacks["MemoryProfiler"].reason)

# Compiled: the compiler takes a known time, at the first step.
slept = []
def slow(graph, inputs):
    start = time.perf_counter()
    time.sleep(0.2)
    slept.append(time.perf_counter() - start)
    return graph
if hasattr(torch, "compile"):
    print("BEGIN compile")
    monitor = CompilationMonitor()
    trainer = Trainer([monitor, PerformanceReporter()]).fit(1, 3, backend=slow)
    print("END compile")
    out["compile"] = dict(times=monitor.compile_times, slept=slept, breaks=monitor.graph_breaks,
                          report=open("performance_report.txt").read())
trainer = Trainer([PerformanceReporter()])
reporter = trainer.callbacks["PerformanceReporter"]
machine = _machine.share()      # the same as the reporter's: the agent has read this process
end = time.monotonic() + 30
while machine.get("memory_process_mb") is None and time.monotonic() < end:
    time.sleep(0.05)
trainer.fit(1, 20, 0.12)
out["report"] = dict(text=open("performance_report.txt").read(), total=reporter.total_time,
                     rate=reporter.average_throughput(), memory=reporter.metrics["memory"])

# A profiler and a path are analysed.
analyzer = AutoAnalyzer()
with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as recorded:
    Model()(torch.ones(4, 8)).backward()
out["analyzer"] = dict(slow=[o.name for o in analyzer.find_slow_operations(recorded)],
                       path=analyzer.is_memory_bound("trace.json"),
                       missing=analyzer.analyze_profile("nowhere.json"))
lapse.finish()
print("RESULT " + json.dumps(out))
"""


@pytest.fixture
def ran(program):
    return program(PROGRAM)


def between(ran, name):
    return ran.lines[ran.lines.index(f"BEGIN {name}") + 1 : ran.lines.index(f"END {name}")]


# ---- throughput --------------------------------------------------------------------------------


def test_throughput_is_that_after_the_warm_up(ran):
    """Ten steps count nowhere, nor does what is between epochs."""
    said = ran.said["throughput"]
    assert said["warmup"] == 10
    assert said["samples"] == 32 * (220 - 10)
    assert said["least"] <= said["samples"] / said["rate"] <= said["most"]
    assert said["most"] >= 210 * 0.005


def test_throughput_is_logged_and_printed_each_100_steps(ran):
    said = ran.said["throughput"]
    assert [name for name, _ in said["scalars"]] == ["perf/throughput"] * 2
    assert between(ran, "throughput") == [
        f"Throughput: {value:.2f} samples/sec" for _, value in said["scalars"]
    ]
    recorded = ran.stored.recorded()["perf/throughput"]
    assert [step for step, _ in recorded] == [100, 100, 200]  # the failing trainer had 100 too
    assert set(zip((100, 200), (value for _, value in said["scalars"]))) <= set(recorded)


def test_batch_size_without_a_configuration():
    batch = {"name": "x", "x": torch.ones(5, 2)}
    assert _measure.batch_size(SimpleNamespace(), batch) == 5
    assert _measure.batch_size(SimpleNamespace(config=SimpleNamespace(batch_size=7)), batch) == 7
    assert _measure.batch_size(SimpleNamespace(), torch.ones(3)) == 3
    assert _measure.batch_size(SimpleNamespace(), [{"a": 1}]) == 0


@pytest.mark.parametrize("style, line", [("classic", "Throughput: 2.00 samples/sec"),
                                         ("lapse", "2.00 samples/s since the warm-up"),
                                         ("none", None)])  # fmt: skip
def test_styles_of_lines(style, line, capsys, monkeypatch):
    """The document's lines unless something else is asked for, also by the variable."""
    given = dream.ThroughputMonitor(console_style=style)
    monkeypatch.setenv("LAPSE_CONSOLE_STYLE", style)
    for monitor in (given, dream.ThroughputMonitor()):
        monitor.say("Throughput: 2.00 samples/sec", "2.00 samples/s since the warm-up")
        assert capsys.readouterr().out == ("" if line is None else line + "\n")
    monkeypatch.delenv("LAPSE_CONSOLE_STYLE")
    assert dream.ThroughputMonitor().console_style == "classic"
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dream.ThroughputMonitor().say("of another rank")
    assert capsys.readouterr().out == ""


# ---- profile -----------------------------------------------------------------------------------


@needs_kineto
def test_documented_profiler_writes_and_is_analysed(ran):
    said = ran.said["profile"]
    assert said["restored"]
    written = [name for name in said["files"] if name.endswith(".pt.trace.json")]
    assert len(written) == 2  # repeat=2
    assert sorted(Path(one["path"]).name for one in said["traces"]) == written
    for one in said["traces"]:
        assert one["error"] == "" and one["bound"]
        assert any(name.startswith("aten::") for name in one["operators"])
    events = [e for e in ran.stored.events("profile") if "logs" in e["attrs"]["path"]]
    assert len(events) == 2


def test_composition_of_the_document(ran):
    """Warm-up of 20 steps holds for throughput too; the profiler goes by its own schedule."""
    said = ran.said["composition"]
    assert said["samples"] == 32 * 20 and not said["active"]
    if torch.autograd.kineto_available():
        assert said["steps"] == [f"ProfilerStep#{n}" for n in range(22, 26)]
    assert [Path(one["path"]).name for one in said["traces"]] == ["trace.json"]
    assert said["memory"] == [] and "no accelerator" in said["why"]
    assert [e["text"] for e in ran.stored.events("warmup")] == ["20 steps of warm-up are over"]


class FakeProfiler:
    step_rec_fn = None

    def __init__(self):
        self.calls = []

    def start(self):
        self.calls.append("start")

    def step(self):
        self.calls.append("step")

    def stop(self):
        self.calls.append("stop")

    def export_chrome_trace(self, path):
        raise AssertionError


def test_profiler_is_stepped_once_a_training_step():
    trainer = SimpleNamespace(training_step=lambda x: x + 1)
    own = trainer.training_step
    callback = dream.ProfileCallback(FakeProfiler())
    callbacks = dream.CallbackCollection([callback])
    callbacks.initialize(trainer)
    callbacks.pre_fit()
    callbacks.pre_fit()
    assert trainer.training_step(1) == 2
    callbacks.post_train_step({}, 0)
    callbacks.post_fit()
    assert callback.profiler.calls == ["start", "step", "stop"]
    assert trainer.training_step is own
    with pytest.raises(TypeError):
        dream.ProfileCallback("profile")


def test_memory_snapshot(tmp_path, monkeypatch):
    calls = []
    memory = SimpleNamespace(
        _record_memory_history=lambda **options: calls.append(options),
        _dump_snapshot=lambda path: Path(path).write_bytes(b"snapshot"),
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory", memory)
    callback = dream.ProfileCallback(
        FakeProfiler(), memory_snapshot_enabled=True,
        memory_snapshot_output_dir=str(tmp_path / "new" / "folder"),
    )  # fmt: skip
    callback.trainer = SimpleNamespace()
    callback.pre_fit()
    callback.post_fit()
    assert calls == [{"max_entries": 100000}, {"enabled": None}]
    assert (tmp_path / "new" / "folder" / "memory_snapshot.pickle").read_bytes() == b"snapshot"


@needs_kineto
@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's, about the memory's timeline
def test_files_of_the_original_handler(tmp_path):
    """They are written, and the program goes on."""
    def handler(prof):
        dream.trace_handler(prof, str(tmp_path / "out"))

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_stack=True,
        profile_memory=True, on_trace_ready=handler,
    ):  # fmt: skip
        torch.ones(8, 8).mm(torch.ones(8, 8))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"trace.json", "time_averages.txt", "memory_averages.txt", "stacks.txt"} <= names
    assert "aten::mm" in (tmp_path / "out" / "time_averages.txt").read_text()
    assert json.loads((tmp_path / "out" / "trace.json").read_text())["traceEvents"]


# ---- analysis ----------------------------------------------------------------------------------


def _maker():
    path = Path(__file__).resolve().parent.parent / "e2e" / "trace_maker.py"
    spec = importlib.util.spec_from_file_location("lapse_trace_maker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planted(path, nccl=0, allocated=0.0):
    """A trace whose steps of 10 ms wait `nccl` us in an all-reduce beside nothing, and
    which has allocated that share of its device's 8 GiB."""
    maker = _maker()
    trace = maker.make_trace()
    rows = trace["traceEvents"]
    for row in rows:
        if row["name"].startswith("nccl") and row["cat"] == "kernel":
            row["ts"] = row["ts"] // 10000 * 10000 + 3000  # behind the product
            row["dur"] = nccl
        if row["name"].startswith("Memcpy"):
            row["ts"] += 4900
            row["dur"] = 50
    if allocated:
        size = int(allocated * 8 * GIB)
        rows.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
                     "pid": 100, "tid": 100, "ts": 1500,
                     "args": {"Total Allocated": size, "Total Reserved": size, "Bytes": size,
                              "Addr": 4096, "Device Type": 1, "Device Id": 0}})  # fmt: skip
    return maker.write_trace(path, trace)


BOUND = {
    "communication": ["Training is communication bound",
                      "Consider: larger batch size, gradient accumulation"],
    "memory": ["Training is memory bound", "Consider: activation checkpointing, CPU offload"],
}  # fmt: skip


@pytest.mark.parametrize("nccl, allocated, bound", [
    (5000, 0.0, ["communication"]), (300, 0.95, ["memory"]), (300, 0.5, []),
    (5000, 0.95, ["communication", "memory"]),
])  # fmt: skip
def test_what_a_profile_is_bound_by(tmp_path, capsys, nccl, allocated, bound):
    path = planted(tmp_path / "trace.json", nccl, allocated)
    analyzer = dream.AutoAnalyzer()
    found = analyzer.analyze_profile(path)
    assert capsys.readouterr().out.splitlines() == [line for kind in bound for line in BOUND[kind]]
    assert found["communication_bound"] == ("communication" in bound)
    assert found["memory_bound"] == ("memory" in bound)
    assert analyzer.is_communication_bound(str(path)) == ("communication" in bound)
    assert found["slow_operations"][0].name == ("nccl:all_reduce" if nccl > 2000 else "aten::mm")
    dream.AutoAnalyzer(console_style="lapse").analyze_profile(path)
    evidence = capsys.readouterr().out
    assert ("(more than 10 %)" in evidence or "takes" in evidence) == ("communication" in bound)


def test_own_rules_of_a_subclass(tmp_path, capsys):
    class Mine(dream.AutoAnalyzer):
        def is_memory_bound(self, profile_data):
            return True

    Mine().analyze_profile(planted(tmp_path / "trace.json", 300))
    assert capsys.readouterr().out.splitlines() == BOUND["memory"]


def test_profiles_that_cannot_be_analysed(tmp_path, capsys, monkeypatch):
    analyzer = dream.AutoAnalyzer()
    with pytest.raises(RuntimeError, match="no such file"):
        analyzer.is_memory_bound(tmp_path / "none.json")
    assert analyzer.analyze_profile(tmp_path / "none.json") == {}
    assert "not analysed" in capsys.readouterr().out
    monkeypatch.setattr(_profile._program, "find", lambda: None)
    with pytest.raises(RuntimeError, match="LAPSE_BIN"):
        analyzer.find_slow_operations(tmp_path)


def test_profiler_and_path_are_profiles(ran):
    said = ran.said["analyzer"]
    if torch.autograd.kineto_available():
        assert any(name.startswith("aten::") for name in said["slow"])
    assert said["path"] is False and said["missing"] == {}


def test_a_callback_that_fails_does_no_harm(ran):
    assert [e for e in ran.stored.events("lapse.dream_trainer") if "no logger" in e["text"]]


# ---- compilation -------------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_COMPILE, reason=f"PyTorch {torch.__version__} cannot compile")
def test_compile_times_are_those_of_compiling(ran):
    """Not of torch.compile(), which returns at once."""
    said = ran.said["compile"]
    assert list(said["times"]) == ["Model"] and said["breaks"] == {}
    assert len(said["slept"]) == 1
    assert said["slept"][0] <= said["times"]["Model"]
    seconds = f"{said['times']['Model']:.2f}s"
    assert between(ran, "compile") == [f"Compiled Model in {seconds}", "", "Compilation Summary:",
                                       f"Total time: {seconds}", f"- Model: {seconds}"]  # fmt: skip
    assert f"- Compilation time: {seconds}" in said["report"]


# ---- report ------------------------------------------------------------------------------------


def test_report_of_a_fit(ran):
    """Figures come from the fit and from lapse's agent, without doing anything."""
    said = ran.said["report"]
    assert said["total"] >= 20 * 0.12
    assert f"- Total time: {said['total']:.2f}s" in said["text"]
    assert 0 < said["rate"] <= 32 / 0.12
    assert f"- Average throughput: {said['rate']:.2f} samples/s" in said["text"]
    assert said["memory"] and all(0.02 < gib < 16 for gib in said["memory"])
