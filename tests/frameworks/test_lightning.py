# SPDX-License-Identifier: Apache-2.0
"""Callbacks, logger and profiler in real fits of both packages of Lightning."""

import json
import os
import re
import textwrap

import pytest
from conftest import missing, need

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
pytestmark = [need("torch"), pytest.mark.timeout(300)]

HEAD = """
import importlib, json, os, sys, time, warnings
name = sys.argv[1]
pl = importlib.import_module(name)
import torch
import lapse, lapse.lightning as ll
torch.set_num_threads(1)
warnings.simplefilter("ignore")

class Data(torch.utils.data.Dataset):
    def __init__(self, n, load=0.0, transform=0.0):
        self.data, self.slow, self.slower = torch.ones(n, 4), load, transform
        self.slept = self.transformed = 0.0
        self.transform = self.change
    def change(self, x):
        begin = time.perf_counter()
        time.sleep(self.slower)
        self.transformed += time.perf_counter() - begin
        return x
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        begin = time.perf_counter()
        time.sleep(self.slow)
        x = self.transform(self.data[i])
        self.slept += time.perf_counter() - begin
        return x

class Model(pl.LightningModule):
    def __init__(self, fail_at=None, compute=0.0):
        super().__init__()
        self.save_hyperparameters({"width": 4})
        self.layer, self.fail_at, self.compute = torch.nn.Linear(4, 1), fail_at, compute
    def training_step(self, batch, index):
        if self.global_step == self.fail_at:
            raise RuntimeError("planted")
        time.sleep(self.compute)
        loss = self.layer(batch).pow(2).mean()
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, index):
        self.log("val_loss", self.layer(batch).pow(2).mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def loader(data, **options):
    return torch.utils.data.DataLoader(data, batch_size=4, **options)

def trainer(*callbacks, **options):
    options.setdefault("logger", False)
    options.setdefault("enable_checkpointing", False)
    options.setdefault("max_epochs", 2)
    return pl.Trainer(callbacks=list(callbacks), accelerator="cpu", devices=1,
                      enable_progress_bar=False, enable_model_summary=False,
                      log_every_n_steps=1, default_root_dir="root", **options)

out, runs = {}, {}
def begin(section, **options):
    options.setdefault("capture", False)
    runs[section] = lapse.init(**options).id
    print("BEGIN " + section, flush=True)
    folder = os.path.abspath(section)
    os.makedirs(folder)
    os.chdir(folder)
def end(section, **said):
    os.chdir("..")
    out[section] = said
    print("END " + section, flush=True)
    lapse.finish()

class Memory(importlib.import_module(name + ".loggers").CSVLogger):
    def __init__(self):
        super().__init__("csv")
        self.all = []
    def log_metrics(self, metrics, step=None):
        self.all.append((step, {k: float(v) for k, v in metrics.items()}))
        super().log_metrics(metrics, step)
"""

RECORDED = """
begin("recorded", capture=["exceptions"], project="pytest")
callback = ll.LapseCallback()
second = ll.LapseCallback()
data = Data(16)
fit = trainer(callback, second, max_epochs=3, accumulate_grad_batches=2,
              enable_checkpointing=True)
fit.fit(Model(), loader(data), loader(Data(4)))
profiler_is_clean = "start" not in fit.profiler.__dict__
both = "lightning.pytorch" in sys.modules and "pytorch_lightning" in sys.modules
bases = [c.__module__ for c in type(callback).__mro__]
end("recorded", both=both, bases=bases, clean=profiler_is_clean, key=callback.state_key)
"""

UNWRITABLE = """
begin("unwritable")
with open("file", "w"):
    pass
fit = trainer(ll.ResourceMonitorCallback(log_interval=1, timeseries_path="file/logs"),
              ll.ProfilerCallback(enabled=True, profile_epochs=[0], profile_steps=1,
                                  warmup_steps=0, output_dir="file/traces", activities=["cpu"]),
              profiler=ll.LapseProfiler(dirpath="file/prof", filename="x"), max_epochs=1)
fit.fit(Model(), loader(Data(8)))
end("unwritable", name=fit.profiler.filename)
"""

FAILED = """
begin("failed", capture=["exceptions"])
data = Data(16)
try:
    trainer(ll.LapseCallback(metrics=False)).fit(Model(fail_at=2), loader(data))
    failed = False
except RuntimeError:
    failed = True
end("failed", failed=failed)
"""

LOGGED = """
begin("logged")
logger, profiler = ll.LapseLogger(project="p"), ll.LapseProfiler(dirpath="prof", filename="x")
fit = trainer(ll.LapseCallback(), logger=logger, profiler=profiler, enable_checkpointing=True)
fit.fit(Model(), loader(Data(8)), loader(Data(4)))
import pickle
copies = [pickle.loads(pickle.dumps(c)) for c in (
    ll.LapseCallback(), ll.ThroughputMonitorCallback(), ll.ResourceMonitorCallback(),
    ll.ProfilerCallback())]
end("logged",
    files=os.listdir("prof"), version=logger.version, run=logger.experiment.id,
    calls={k: v.count for k, v in profiler.durations.items()},
    config=dict(logger.experiment.config), kinds=[type(c).__name__ for c in copies],
    same=[type(c) is getattr(ll, type(c).__name__) for c in copies],
    other=ll.of(name).LapseCallback is ll.LapseCallback,
    table=open("prof/" + os.listdir("prof")[0]).read())
"""

MONITORS = """
style = STYLE
begin(style)
data = Data(16, load=0.004, transform=0.002)
logger = Memory()
throughput = ll.ThroughputMonitorCallback(console_style=style,
                                          caches={"images": lambda: 3 * 2**20})
profiler = ll.ProfilerCallback(enabled=True, profile_epochs=[1], warmup_steps=1,
                               log_top_k_ops=5, activities=["cpu"], console_style=style)
resources = ll.ResourceMonitorCallback(log_interval=2, console_style=style)
off = [ll.ThroughputMonitorCallback(enabled=False), ll.ProfilerCallback(),
       ll.ResourceMonitorCallback(enabled=False, timeseries_path="never")]
class Watch(pl.Callback):
    # What each epoch really took.
    def __init__(self):
        self.rows, self.wall = [], 0.0
    def on_train_epoch_start(self, *_):
        self.slept, self.transformed = data.slept, data.transformed
        self.begin = time.perf_counter()
    def on_train_batch_end(self, *_):
        self.wall = time.perf_counter() - self.begin
    def on_train_epoch_end(self, *_):
        self.rows.append([self.wall, data.slept - self.slept,
                          data.transformed - self.transformed])
class Slow(pl.Callback):
    def on_train_start(self, *_):   # there are readings, of this process too
        end = time.monotonic() + 60
        def wanted():
            row = resources._machine.row("ocr")
            return [row["cpu_percent"], row["memory_percent"], row["memory_process_mb"],
                    resources._machine.cores() or None]
        while None in wanted() and time.monotonic() < end:
            time.sleep(0.05)
    def on_train_batch_end(self, *_):
        time.sleep(0.3)             # few samples a second
watch = Watch()
fit = trainer(watch, throughput, profiler, resources, *off, Slow(), max_epochs=3, logger=logger)
fit.fit(Model(), loader(data), loader(Data(4, load=0.02)))
end(style,
    rows=watch.rows, logged=[(s, v) for s, v in logger.all],
    traces=sorted(os.listdir("profiler_traces")), logs=sorted(os.listdir("resource_logs")),
    folders=sorted(os.listdir(".")), last=throughput.last, row=resources.last)
"""

EVERY_OTHER = """
begin("every_other")
class Eight(Model):
    def training_step(self, batch, index):
        loss = 8.0 + 0.0 * self.layer(batch).sum()
        self.log("loss", loss)
        return loss
data = Data(16)
class FirstIsSlow(pl.Callback):
    def on_train_epoch_start(self, trainer, *_):
        data.slow = 0.0 if trainer.current_epoch else 0.01
throughput = ll.ThroughputMonitorCallback(log_interval=2, track_memory=False)
trainer(FirstIsSlow(), ll.LapseCallback(), throughput,
        accumulate_grad_batches=4).fit(Eight(), loader(data))
end("every_other", last=throughput.last)
"""

ATTACHED = """
begin("attached")
found = {}
for value in (None, "0", "1", "record,throughput", "all", "profiler", "recrod"):
    os.environ.pop("LAPSE_LIGHTNING", None)
    if value is not None:
        os.environ["LAPSE_LIGHTNING"] = value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = trainer()
    found[str(value)] = [[type(c).__name__ for c in fit.callbacks if "lapse" in type(c).__module__],
                         [str(w.message) for w in caught if "LAPSE_LIGHTNING" in str(w.message)]]
os.environ["LAPSE_LIGHTNING"] = "all"
fit = trainer(ll.LapseCallback(), ll.ThroughputMonitorCallback(enabled=False),
              ll.ThroughputMonitorCallback(), ll.ResourceMonitorCallback(log_interval=1),
              max_epochs=1)
fit.fit(Model(), loader(Data(8)))
del os.environ["LAPSE_LIGHTNING"]
with open("resource_logs/epoch_0.csv") as file:
    rows = len(file.readlines()) - 1
end("attached", rows=rows, **found)
"""

# One program for all: importing Lightning takes many seconds.
ALL = (
    HEAD + RECORDED + FAILED + UNWRITABLE + LOGGED + MONITORS.replace("STYLE", '"classic"')
    + MONITORS.replace("STYLE", '"lapse"') + EVERY_OTHER + ATTACHED
    + 'print("RESULT " + json.dumps(dict(out, runs=runs)))'
)  # fmt: skip

RANKS = HEAD + """
lapse.init(capture=False)
if __name__ == "__main__":
    fit = pl.Trainer(
        callbacks=[ll.LapseCallback(), ll.ThroughputMonitorCallback(console_style="classic"),
                   ll.ProfilerCallback(enabled=True, profile_epochs=[0], profile_steps=2,
                                       warmup_steps=0, ranks=None, activities=["cpu"],
                                       console_style="none"),
                   ll.ResourceMonitorCallback(log_interval=1, console_style="none")],
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=ll.LapseLogger(),
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir="root", log_every_n_steps=1)
    fit.fit(Model(), loader(Data(16)))
    if fit.is_global_zero:
        print("RESULT " + json.dumps(dict(traces=sorted(os.listdir("profiler_traces")),
                                          logs=sorted(os.listdir("resource_logs")))))
lapse.finish()
"""


@pytest.fixture(params=PACKAGES, scope="module")
def package(request):
    if missing(request.param.partition(".")[0]):
        pytest.skip(f"not installed: {request.param}")
    return request.param


@pytest.fixture(scope="module")
def everything(program, package, tmp_path_factory):
    return program(ALL, package, env=entry_points(package, tmp_path_factory), timeout=290)


def part(name):
    @pytest.fixture(scope="module", name=name)
    def fixture(everything):
        return everything.part(name, everything.said["runs"][name])

    return fixture


recorded, failed = part("recorded"), part("failed")
logged, attached, unwritable = part("logged"), part("attached"), part("unwritable")
classic, own, every_other = part("classic"), part("lapse"), part("every_other")


def entry_points(package, tmp_path_factory):
    """Those of the installed wheel; of a source tree, those that it will have."""
    from importlib import metadata

    groups = metadata.entry_points()
    known = getattr(groups, "select", lambda group: groups.get(group, ()))
    if any(e.name == "lapse" for e in known(group=f"{package}.callbacks_factory")):
        return {}
    folder = tmp_path_factory.mktemp("site")
    info = folder / "lapse-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lapse\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        textwrap.dedent("""\
            [lightning.pytorch.callbacks_factory]
            lapse = lapse.lightning._factory:for_lightning
            [pytorch_lightning.callbacks_factory]
            lapse = lapse.lightning._factory:for_pytorch_lightning
            """)
    )
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


# ---- LapseCallback -------------------------------------------------------------------------


def test_only_the_package_in_use_is_imported(recorded, package):
    assert not recorded.said["both"]
    assert any(base.startswith(package) for base in recorded.said["bases"])
    assert recorded.said["key"] == "LapseCallback"


def test_steps_epochs_and_phases(recorded):
    """3 epochs of 4 batches, 2 batches a step."""
    stored = recorded.stored
    steps = stored.spans("step")
    assert [row["step"] for row in steps] == list(range(6))
    samples = [row["value"] for row in stored.of("sample", "lapse/step/samples")]
    assert samples == [8] * 6
    counts = {name: len(stored.spans(name))
              for name in ("data", "forward", "backward", "optimizer", "validation",
                           "sanity_check", "checkpoint", "epoch")}  # fmt: skip
    assert counts == {"data": 12, "forward": 12, "backward": 12, "optimizer": 6,
                      "validation": 3, "sanity_check": 1, "checkpoint": 3, "epoch": 3}  # fmt: skip
    assert recorded.said["clean"], "the Trainer's profiler is what it was"


def test_optimizer_is_without_the_closure(recorded):
    """Its phase begins after backward has ended."""
    stored = recorded.stored
    ends = [row["time_ns"] + row["duration_ns"] for row in stored.spans("backward")]
    for row in stored.spans("optimizer"):
        assert any(end <= row["time_ns"] for end in ends)
        assert not any(
            other["time_ns"] > row["time_ns"]
            and other["time_ns"] + other["duration_ns"] < row["time_ns"] + row["duration_ns"]
            for other in stored.spans("backward")
        )


def test_loss_and_metrics_once(recorded):
    stored = recorded.stored
    loss = stored.of("sample", "loss")
    assert [row["step"] for row in loss] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(stored.of("sample", "train_loss")) == 3
    assert len(stored.of("sample", "val_loss")) == 3
    rates = stored.of("sample", "optimizer/lr")
    assert [row["value"] for row in rates] == pytest.approx([0.1] * 6)


def test_loss_is_that_of_the_batch(every_other):
    """Lightning divides what it tells callbacks by the number of accumulated batches."""
    loss = every_other.stored.of("sample", "loss")
    assert [(row["step"], row["value"]) for row in loss] == [(0, 8)] * 4 + [(1, 8)] * 4


def test_checkpoints_and_exceptions(recorded, failed):
    stored = recorded.stored
    assert [e["attrs"]["step"] for e in stored.events("checkpoint")] == [2, 4, 6]
    paths = [e["attrs"]["path"] for e in stored.events("artifact")
             if e["attrs"]["kind"] == "checkpoint"]  # fmt: skip
    assert len(paths) == 3 and all(path.endswith(".ckpt") for path in paths)
    assert failed.said["failed"], "the program still sees it"
    assert [row["step"] for row in failed.stored.spans("step")] == [0, 1]
    (exception,) = failed.stored.events("exception")
    assert "planted" in exception["text"] + json.dumps(exception["attrs"])


# ---- LapseLogger, LapseProfiler ------------------------------------------------------------


def test_logger_records_once_with_its_steps(logged):
    """The callback leaves to the logger what the logger is given."""
    stored = logged.stored
    assert stored.steps("train_loss") == [0, 1, 2, 3]
    assert stored.steps("val_loss") == [1, 3]
    assert stored.steps("loss") == [0, 1, 2, 3]
    assert logged.said["run"] == logged.said["version"] == stored.info["id"]
    assert logged.said["config"] == {"width": 4}
    checkpoints = [e["attrs"]["path"] for e in stored.events("artifact")]
    assert len(checkpoints) == len(set(checkpoints)) == 2
    assert [e["text"] for e in stored.events("fit")] == ["success"]


def test_profiler_sees_fetching(logged):
    stored = logged.stored
    calls = logged.said["calls"]
    assert calls["[_TrainingEpochLoop].train_dataloader_next"] == 4
    assert calls["[Strategy]SingleDeviceStrategy.backward"] == 4
    assert len(stored.spans("lightning/[_TrainingEpochLoop].train_dataloader_next")) == 4
    assert len(stored.spans("data")) == 4, "once, though callback and profiler are there"
    assert len(stored.spans("optimizer")) == 4
    named = [row["name"] for row in stored.names.values() if row["name"].startswith("lightning/")]
    assert not any("[Callback]" in name and ".on_" in name for name in named)
    assert logged.said["files"] == ["fit-x.txt"]
    assert "train_dataloader_next" in logged.said["table"]


def test_what_cannot_be_written_is_said_and_training_goes_on(unwritable):
    said = [e["text"] for e in unwritable.stored.events("lapse.resources")]
    assert said == ["file/logs: Not a directory"]
    (said,) = unwritable.stored.events("lapse.lightning")
    assert "its table is on the console" in said["text"]
    (said,) = unwritable.stored.events("profile")
    assert "not written" in said["text"]
    assert unwritable.said["name"] == "x"


def test_classes_are_pickled(logged):
    assert all(logged.said["same"]) and logged.said["other"]


# ---- the three callbacks of the guide ----------------------------------------------------------


def reports(ran, name):
    return [(step, values) for step, values in ran.said["logged"] if name in values]


def test_throughput_of_each_epoch(classic):
    """T-01, T-02: loading is what loading took, not what computing took; against what
    was slept, measured in the same run."""
    found = [values for _, values in reports(classic, "samples_per_second")]
    assert len(found) == 3
    for values, (wall, slept, transformed) in zip(found, classic.said["rows"]):
        assert values["samples_per_second"] == pytest.approx(16 / wall, rel=0.1)
        assert values["batches_per_second"] == pytest.approx(4 / wall, rel=0.1)
        assert values["batch_load_time_ms_avg"] == pytest.approx(1e3 * slept / 4, rel=0.2)
        assert values["batch_transform_time_ms_avg"] == pytest.approx(
            1e3 * transformed / 4, rel=0.2
        )
        for name in ("load", "transform"):
            p50, p95, p99 = (values[f"batch_{name}_time_ms_p{q}"] for q in (50, 95, 99))
            assert 0 < p50 <= p95 <= p99
        assert values["throughput_efficiency"] == pytest.approx(1 - slept / wall, abs=0.05)
        assert values["data_wait_ratio"] == pytest.approx(slept / wall, abs=0.05)
        assert values["samples_per_second_with_validation"] < values["samples_per_second"]


def test_throughput_is_over_all_epochs_since_the_last_report(every_other):
    """4 batches of the first epoch took 40 ms each to load, 4 of the second nearly nothing."""
    last = every_other.said["last"]
    assert last["samples_per_second"] <= 32 / 0.16
    assert last["batch_load_time_ms_avg"] >= 20
    assert last["batch_load_time_ms_p95"] >= 40


def test_throughput_memory(classic):
    """T-05: bytes of what caches and data sets hold, in MiB."""
    values = reports(classic, "memory_peak_mb")[-1][1]
    assert values["memory_cache_mb"] == 3
    assert 16 * 4 * 4 / 2**20 <= values["memory_dataset_mb"] < 0.1
    assert 100 < values["memory_peak_mb"] < 20000


def test_throughput_lines_of_the_guide(classic):
    lines = [line for line in classic.lines if line.startswith("ThroughputMonitor")]
    assert len(lines) == 6
    for epoch in range(3):
        head, timing = lines[2 * epoch : 2 * epoch + 2]
        assert re.fullmatch(
            rf"ThroughputMonitor: Epoch {epoch} - samples/sec: \d+\.\d, memory_peak: \d+\.\dGB",
            head,
        )
        assert re.fullmatch(
            r"ThroughputMonitor: Batch timing - load: \d+ms \(p95\), transform: \d+ms \(p95\)",
            timing,
        )


def test_profiler_files_and_lines_of_the_guide(classic):
    """T-06: an epoch of 4 batches ends a window of 100."""
    assert classic.said["traces"] == ["analysis", "chrome_trace_epoch_1.json"]
    at = classic.lines.index("Profiler: Top 5 slowest operations:")
    for i, line in enumerate(classic.lines[at + 1 : at + 6], 1):
        assert re.fullmatch(rf"{i}\. \S.* \(\d+\.\d% of time\)", line)
    (event,) = classic.stored.events("profile")
    assert event["attrs"]["epoch"] == 1
    assert (event["attrs"]["first_step"], event["attrs"]["last_step"]) == (5, 7)
    path = classic.folder / "classic" / "profiler_traces" / "chrome_trace_epoch_1.json"
    names = {event.get("name", "") for event in json.loads(path.read_text())["traceEvents"]}
    marks = {name for name in names if name.startswith("ProfilerStep")}
    assert marks == {"ProfilerStep#5", "ProfilerStep#6", "ProfilerStep#7"}


def test_resource_files_and_lines_of_the_guide(classic):
    pandas = pytest.importorskip("pandas")
    assert classic.said["logs"] == ["epoch_0.csv", "epoch_1.csv", "epoch_2.csv"]
    frames = [pandas.read_csv(classic.folder / "classic" / "resource_logs" / name)
              for name in classic.said["logs"]]  # fmt: skip
    for epoch, frame in enumerate(frames):
        assert list(frame.columns[-12:]) == (
            "cpu_percent cpu_process_percent memory_system_mb memory_available_mb memory_percent "
            "memory_process_mb io_read_rate_mbps io_write_rate_mbps io_wait_pct step timestamp "
            "epoch"
        ).split()
        assert len(frame) == 2 and set(frame["epoch"]) == {epoch}
    assert frames[0].columns.tolist() == frames[2].columns.tolist()
    assert list(frames[2]["step"]) == [10, 12]
    last = frames[2].iloc[-1]
    assert 0 <= last["cpu_percent"] <= 100 and last["memory_process_mb"] > 100
    lines = [line for line in classic.lines if line.startswith("ResourceMonitor: CPU")]
    assert lines
    for line in lines:
        assert re.fullmatch(
            r"ResourceMonitor: CPU - Usage: \d+%, Memory: \d+\.\d/\d+GB", line
        )


def test_loggers_get_the_names_at_their_own_step(classic):
    """T-07: the step axis of the loggers never goes back, and is Lightning's own."""
    steps = [step for step, _ in classic.said["logged"]]
    assert steps == sorted(steps)
    assert [step for step, _ in reports(classic, "samples_per_second")] == [4, 8, 12]
    assert reports(classic, "cpu_percent")
    assert any("cpu_core_0_percent" in values for _, values in classic.said["logged"])


def test_disabled_callbacks_do_nothing(classic):
    assert "never" not in classic.said["folders"]


def test_own_style(lapse):
    own = [line for line in lapse.lines if line.startswith("lapse: ")]
    assert any(re.match(r"lapse: epoch 0: \d+\.\d samples/s; ", line) for line in own)
    assert any(re.match(r"lapse: epoch 2: CPUs busy \d+ %; memory", line) for line in own)
    assert any("steps 5 to 7 profiled: Bound by" in line for line in own)
    assert any("below 30" in line and "check the data loader" in line for line in own)
    assert not any(line.startswith(("Throughput", "Resource")) for line in lapse.lines)
    (advice,) = [e for e in lapse.stored.events("advice") if e["attrs"]["rule"] == "throughput.low"]
    assert "samples/s" in advice["text"]


# ---- attached by itself ----------------------------------------------------------------------


def test_attached_when_asked(attached):
    said = attached.said
    assert said["None"] == said["0"] == [[], []]
    assert said["1"][0] == ["LapseCallback"]
    assert said["record,throughput"][0] == ["LapseCallback", "ThroughputMonitorCallback"]
    assert said["all"][0] == [
        "LapseCallback", "ThroughputMonitorCallback", "ResourceMonitorCallback",
    ]  # fmt: skip
    assert said["profiler"][0] == ["ProfilerCallback"]
    names, warned = said["recrod"]
    assert names == [] and "did you mean 'record'" in warned[0]


def test_attached_beside_the_programs_own_records_once(attached):
    assert [row["step"] for row in attached.stored.spans("step")] == [0, 1]
    assert attached.stored.steps("loss") == [0, 1]
    assert len(attached.stored.of("sample", "samples_per_second")) == 1
    assert len([line for line in attached.lines if "samples/s" in line]) == 1
    assert attached.said["rows"] == 2


# ---- several ranks ----------------------------------------------------------------------------


@need("lightning")
def test_two_ranks(program):
    """Every rank records; rank 0 alone speaks; files carry the rank."""
    ran = program(RANKS, "lightning.pytorch", launcher=True, timeout=250)
    traces = [name for name in ran.said["traces"] if name != "analysis"]
    assert traces == [f"chrome_trace_epoch_0_rank_{rank}.json" for rank in (0, 1)]
    assert ran.said["logs"] == ["epoch_0_rank_0.csv", "epoch_0_rank_1.csv"]
    said = [line for line in ran.lines if line.startswith("ThroughputMonitor: Epoch")]
    assert len(said) == 1
    stored = ran.stored
    ranks = {row["rank"] for row in stored.processes() if row["rank"] is not None}
    assert ranks == {0, 1}
    loss = stored.of("sample", "loss")
    assert len(loss) == 4 and len({row["series"] for row in loss}) == 2
    logged = stored.of("sample", "train_loss")
    assert len(logged) == 2, "of the global rank 0 only"
