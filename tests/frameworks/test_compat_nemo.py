# SPDX-License-Identifier: Apache-2.0
"""lapse.compat.nemo: the guide's usage, adapted, against the tools that it names (TensorBoard's
loader, prometheus_client, psutil): what is measured, logged and shown."""

import importlib
import json
import signal
import socket
import sys
import urllib.error
import urllib.request
from types import ModuleType, SimpleNamespace

import pytest
from conftest import need

from lapse.compat import nemo
from lapse.compat.nemo import Timer

pytestmark = pytest.mark.timeout(300)
GIB = 1 << 30

PROGRAM = """
import json, os, signal, sys, time
import torch
torch.set_num_threads(1)
from lapse.compat.nemo import (LoggerInterface, TensorBoardMonitor, Timer, TrainingMonitor,
                               monitor_resources, performance_metrics)
import lapse

monitor = TrainingMonitor()
empty = monitor.get_training_stats()
board = TensorBoardMonitor("logs")
out = {"empty": empty}
# They look at different moments, while other programs come and go: until they agree.
end = time.monotonic() + 30
while True:
    out["resources"] = said = monitor_resources()
    try:
        import psutil
    except ImportError:
        break
    memory = psutil.virtual_memory()
    out["psutil"] = dict(count=psutil.cpu_count(), percent=memory.percent,
                         available=memory.available / 2**30)
    if time.monotonic() > end or (
            None not in (said["cpu_percent"], said["memory_percent"])
            and abs(said["memory_percent"] - memory.percent) < 2):
        break
    time.sleep(0.2)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
model[1].bias.requires_grad = False
for step in (10, 20, 30):
    loss = (model(torch.full((4, 3), 0.5)) - step).pow(2).mean()
    loss.backward()
    monitor.record_metrics(step, loss, 0.5 / step, 4)
    board.log_training_metrics(step, {"loss": loss, "reward": {"mean": step / 10}})
    board.log_resource_metrics(step, {"cpu_percent": 50.0, "gpu_metrics": {
        "gpu_0": {"memory_allocated": 12.0 + step}}})
    board.log_model_parameters(step, model)
out["losses"] = list(monitor.metrics["loss"])
out["steps"] = list(monitor.metrics["step"])
out["stats"] = monitor.get_training_stats()
out["weights"] = model[0].weight.flatten().tolist()
if "kill" in sys.argv:
    print("RESULT " + json.dumps(out), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
board.close()
board.log_training_metrics(40, {"loss": 0.0})
out["reason"] = board.reason

class Figure:
    def savefig(self, path):
        open(path, "wb").write(b"PNG")

logger = LoggerInterface("mylogs")
logger.log_metrics({"reward": 1.5, "nested": {"a": torch.tensor(2.0)}, "text": "hello",
                    "many": [1, 2]}, 5, prefix="train")
logger.log_metrics({"reward": 2.5}, 3, prefix="train", step_finished=True)
logger.log_metrics({"gpu.0.util": 0.5, "ray_step": 17.9}, 99, prefix="ray",
                   step_metric="ray_step")
logger.log_hyperparams({"lr": 0.1, "model": {"name": "x", "api_key": "hunter2"}})
logger.log_histogram([1.0, 2.0, 2.0, float("nan")], 7, "lengths")
logger.log_plot(Figure(), 3, "train/plot")
timer = Timer(prefix="timing/validation")
with timer.time("generate"):
    time.sleep(0.01)
timer.record("wait", 0.25)
timer.mark("weights/updated", {"version": 3})
out["elapsed"] = timer.get_elapsed("generate")
performance_metrics({"total_step_time": 10.0}, samples=80, training_gpus=4, step=12)
lapse.finish()
print("RESULT " + json.dumps(out))
"""


@pytest.fixture
def ran(program):
    return program(PROGRAM)


def accumulate(folder):
    module = "tensorboard.backend.event_processing.event_accumulator"
    event_accumulator = importlib.import_module(module)
    loaded = event_accumulator.EventAccumulator(str(folder), size_guidance={"histograms": 0})
    loaded.Reload()
    return loaded


# ---- training and resources --------------------------------------------------------------------


@need("torch")
def test_training_statistics(ran):
    said = ran.said
    assert said["empty"] == {}
    assert said["steps"] == [10, 20, 30] and len(said["losses"]) == 3
    stats, losses = said["stats"], said["losses"]
    assert stats["training_time"] > 0
    assert {k: v for k, v in stats.items() if k != "training_time"} == pytest.approx({
        "current_loss": losses[-1], "avg_loss": sum(losses) / 3, "min_loss": min(losses),
        "max_loss": max(losses), "total_steps": 3,
    })  # fmt: skip
    recorded = ran.stored.recorded()
    assert recorded["loss"] == list(zip((10, 20, 30), losses))
    assert [step for step, _ in recorded["learning_rate"]] == [10, 20, 30]
    assert recorded["batch_size"] == [(10, 4), (20, 4), (30, 4)]


def test_statistics_in_constant_memory(recording):
    monitor = nemo.TrainingMonitor()
    for step in range(2500):
        monitor.record_metrics(step, float(step), 0.1, 1)
    monitor.record_metrics(2500, float("nan"), 0.1, 1)
    stats = monitor.get_training_stats()
    assert len(monitor.metrics["loss"]) == 1000
    assert (stats["min_loss"], stats["max_loss"], stats["total_steps"]) == (0, 2499, 2501)
    assert stats["avg_loss"] == pytest.approx(1249.5)
    assert stats["current_loss"] != stats["current_loss"]


@need("torch", "psutil")
def test_resources_agree_with_psutil(ran):
    said, theirs = ran.said["resources"], ran.said["psutil"]
    assert said["cpu_count"] == theirs["count"]
    assert 0 <= said["cpu_percent"] <= 100
    assert said["memory_percent"] == pytest.approx(theirs["percent"], abs=5)
    assert said["memory_available_gb"] == pytest.approx(theirs["available"], rel=0.1)
    assert said["gpu_metrics"] == {} and said["gpu_devices"] == {}


@need("torch")
def test_allocator_of_each_gpu(monkeypatch):
    import torch

    from lapse.compat.nemo import _metrics

    cuda = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
        memory_allocated=lambda i: (i + 1) << 20, memory_reserved=lambda i: (i + 2) << 20,
        max_memory_allocated=lambda i: (i + 3) << 20,
        get_device_properties=lambda i: SimpleNamespace(total_memory=80 * GIB),
    )  # fmt: skip
    monkeypatch.setattr(torch, "cuda", cuda)
    assert _metrics.allocator()["gpu_1"] == {
        "memory_allocated": 2, "memory_reserved": 3, "max_memory_allocated": 4,
        "memory_total": 81920,
    }  # fmt: skip
    monkeypatch.setattr(cuda, "is_initialized", lambda: False)
    assert _metrics.allocator() == {}


def test_ray_cluster(monkeypatch):
    ray = ModuleType("ray")
    ray.cluster_resources = lambda: {"CPU": 16.0, "GPU": 0.0, "memory": 1e9}
    ray.available_resources = lambda: {"CPU": 4.0}
    ray.nodes = lambda: [{}, {}, {}]
    monkeypatch.setitem(sys.modules, "ray", ray)
    found = nemo.monitor_ray_cluster()
    assert found == {"cluster_resources": ray.cluster_resources(),
                     "available_resources": {"CPU": 4.0}, "cpu_utilization": 0.75,
                     "gpu_utilization": 0, "total_nodes": 3}  # fmt: skip
    ray.cluster_resources = lambda: {"GPU": 8.0}
    ray.available_resources = dict
    found = nemo.monitor_ray_cluster()
    assert (found["cpu_utilization"], found["gpu_utilization"]) == (0, 1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="needs Ray"):
        nemo.monitor_ray_cluster()


# ---- TensorBoard -------------------------------------------------------------------------------


@need("torch", "tensorboard")
def test_tensorboard_has_the_documented_tags(ran):
    assert ran.said["reason"] == ""
    loaded = accumulate(ran.folder / "logs")

    def scalars(tag):
        return [(event.step, event.value) for event in loaded.Scalars(tag)]

    losses = ran.said["losses"]
    assert scalars("training/loss") == [(s, pytest.approx(v)) for s, v in zip((10, 20, 30), losses)]
    assert scalars("training/reward/mean") == [(10, 1), (20, 2), (30, 3)]
    assert scalars("resources/cpu_percent") == [(10, 50), (20, 50), (30, 50)]
    # The document's own code fails at this depth.
    assert scalars("resources/gpu_metrics/gpu_0/memory_allocated") == [(10, 22), (20, 32), (30, 42)]
    names = [f"{of}/{name}" for of in ("parameters", "gradients")
             for name in ("0.weight", "0.bias", "1.weight")]  # fmt: skip
    assert sorted(loaded.Tags()["histograms"]) == sorted(names)  # what has a gradient
    for name in names:
        # Steps within a second are one histogram in the store, at the last one's step.
        steps = [event.step for event in loaded.Histograms(name)]
        assert steps[-1] == 30 and set(steps) <= {10, 20, 30}
    last = loaded.Histograms("parameters/0.weight")[-1].histogram_value
    weights = ran.said["weights"]
    assert last.num in (len(weights), 2 * len(weights), 3 * len(weights))
    width = 2 ** (1 / 3)  # of a bin, a quarter of an octave at its widest
    assert min(weights) - abs(min(weights)) * (width - 1) <= last.min
    assert last.max <= max(weights) + abs(max(weights)) * (width - 1)


@need("torch", "tensorboard")
def test_tensorboard_survives_a_kill(program, wait_for):
    """The files are written beside the training, and it was never closed."""
    run = program(PROGRAM, "kill", check=None)
    assert run.returncode == -9
    losses = run.said["losses"]

    def there():
        if not list((run.folder / "logs").glob("events.out.tfevents.*")):
            return None
        loaded = accumulate(run.folder / "logs")
        if "training/loss" not in loaded.Tags()["scalars"]:
            return None
        found = [(event.step, event.value) for event in loaded.Scalars("training/loss")]
        return found if len(found) == 3 else None

    assert wait_for(there, 40) == [(s, pytest.approx(v)) for s, v in zip((10, 20, 30), losses)]


def test_tensorboard_without_the_program(recording, tmp_path, monkeypatch):
    from lapse.compat.nemo import _tensorboard

    monkeypatch.setattr(_tensorboard._program, "find", lambda: None)
    board = nemo.TensorBoardMonitor(tmp_path / "logs")
    assert "the program lapse is not there" in board.reason
    board.log_training_metrics(1, {"loss": 1.0})
    board.close()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert nemo.TensorBoardMonitor(tmp_path / "logs").reason == "rank 0 writes them, not rank 1"
    assert not (tmp_path / "logs").exists()


# ---- Prometheus --------------------------------------------------------------------------------


def get(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_metrics_equal_those_of_the_client(recording):
    """What the document's code serves, with its library, is what ours serves."""
    client = pytest.importorskip("prometheus_client")
    parser = importlib.import_module("prometheus_client.parser")
    registry = client.CollectorRegistry()
    loss = client.Gauge("training_loss", "Current training loss", registry=registry)
    steps = client.Counter("training_steps_total", "Total training steps", registry=registry)
    memory = client.Gauge("gpu_memory_mb", "GPU memory usage in MB", ["gpu_id"], registry=registry)
    cpu = client.Gauge("cpu_usage_percent", "CPU usage percentage", registry=registry)
    duration = client.Histogram("training_step_duration_seconds", "Training step duration",
                                registry=registry)  # fmt: skip
    monitor = nemo.PrometheusMonitor(port=0)
    rows = [(2.5, {"gpu_0": {"memory_allocated": 100.0}}, 40.0, 0.004), (float("nan"), {}, 50, 0.1),
            (1.25, {"gpu_0": {"memory_allocated": 300.5}, 'odd "1"\n': {"memory_allocated": 7}},
             97.5, 11.0)]  # fmt: skip
    for value, gpus, percent, seconds in rows:
        monitor.update_metrics(value, gpus, percent, seconds)
        loss.set(value)
        steps.inc()
        cpu.set(percent)
        duration.observe(seconds)
        for gpu, metrics in gpus.items():
            memory.labels(gpu_id=gpu).set(metrics["memory_allocated"])

    def samples(text):
        families = list(parser.text_string_to_metric_families(text))
        kinds = {family.name: (family.type, family.documentation) for family in families}
        return {name: kind for name, kind in kinds.items() if not name.endswith("_created")}, {
            (one.name, tuple(sorted(one.labels.items()))): one.value
            for family in families for one in family.samples if not one.name.endswith("_created")
        }  # fmt: skip

    kind, text = get(monitor.port)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert samples(text) == samples(client.generate_latest(registry).decode())
    assert get(monitor.port, "/metrics?name[]=x")[1] == text
    with pytest.raises(urllib.error.HTTPError):
        get(monitor.port, "/other")
    monitor.close()


def test_a_port_that_is_taken(recording):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monitor = nemo.PrometheusMonitor(port=port)
        assert port < monitor.port < port + 10
        assert "training_steps_total 0" in get(monitor.port)[1]
        monitor.close()
        monitor.close()
    unusable = nemo.PrometheusMonitor(port=0, host="192.0.2.1")
    assert "192.0.2.1" in unusable.reason
    unusable.update_metrics(1.0, {}, 1.0, 0.1)
    assert "training_steps_total 1" in unusable.text()


# ---- logger and timer --------------------------------------------------------------------------


@need("torch")
def test_logger(ran):
    recorded = ran.stored.recorded()
    assert recorded["train/reward"] == [(3, 2.5), (5, 1.5)]  # a smaller step is not dropped
    assert recorded["train/nested/a"] == [(5, 2.0)]
    assert recorded["ray/gpu.0.util"] == [(17, 0.5)]
    assert recorded["ray_step"] == [(17, 17.9)]
    assert not [name for name in recorded if "many" in name]
    (row,) = ran.stored.of("histogram", "lengths")
    assert (row["step"], row["count"], row["sum"]) == (7, 3, 5)
    assert (ran.folder / "mylogs" / "plots" / "train_plot_3.png").read_bytes() == b"PNG"
    attrs = ran.place.attrs()
    assert attrs["train/text"] == "hello" and attrs["config/lr"] == "0.1"
    assert attrs["config/model/name"] == "x"
    assert "hunter2" not in json.dumps(attrs)


@need("torch")
def test_timer_is_recorded(ran):
    (span,) = ran.stored.spans("timing/validation/generate")
    assert 0.01 <= ran.said["elapsed"][0] < 5 and 0.0099 <= span["duration_ns"] / 1e9 < 5
    (row,) = ran.stored.of("histogram", "timing/validation/wait")
    assert row["sum"] == 0.25
    (mark,) = ran.stored.events("mark")
    assert mark["text"] == "weights/updated" and mark["attrs"] == {"version": 3}
    assert ran.stored.recorded()["performance/samples_per_sec_per_gpu"] == [(12, 2.0)]


def test_reductions_equal_numpys():
    numpy = pytest.importorskip("numpy")
    timer = Timer()
    assert timer.prefix == "timing/train"
    times = [0.5, 0.25, 4.0, 1.0]
    for seconds in times:
        timer.record("step", seconds)
    for name in ("mean", "median", "min", "max", "std", "sum"):
        assert timer.reduce("step", name) == pytest.approx(getattr(numpy, name)(times))
    assert timer.reduce("step", "count") == 4
    assert timer.get_latest_elapsed("step") == 1.0
    timer.record("other", 2.0)
    assert timer.get_timing_metrics() == {"step": pytest.approx(1.4375), "other": 2.0}
    assert timer.get_timing_metrics({"step": "max"}) == {"step": 4.0, "other": [2.0]}
    timer.mark("moment", {"a": 1})
    assert timer.get_markers("moment")["moment"][0][1] == {"a": 1}
    timer.reset("step")
    assert timer.get_timing_metrics() == {"other": 2.0}
    timer.reset()
    assert timer.get_timing_metrics() == {} and timer.get_markers() == {}


def test_timer_that_is_used_wrongly():
    timer = Timer()
    timer.start("a")
    with pytest.raises(ValueError, match="already running"):
        timer.start("a")
    assert timer.stop("a") >= 0
    with pytest.raises(ValueError, match="not running"):
        timer.stop("a")
    with pytest.raises(KeyError):
        timer.reduce("b")
    with pytest.raises(ValueError, match="Invalid operation"):
        timer.reduce("a", "mode")
    with pytest.raises(RuntimeError), timer.time("raises"):
        raise RuntimeError
    assert len(timer.get_elapsed("raises")) == 1


# ---- performance metrics -----------------------------------------------------------------------


def test_performance_metrics_by_hand():
    found = nemo.performance_metrics(
        {"total_step_time": 10.0, "policy_training": 4.0, "policy_and_reference_logprobs": 2.0,
         "exposed_generation": 2.0, "prepare_for_generation/total": 1.0},
        samples=80, tokens=6400, valid_tokens=4800, training_gpus=8, generation_gpus=8,
        train_flops=3.2e15, peak_flops=1e15,
    )  # fmt: skip
    assert found == pytest.approx({
        "performance/samples_per_sec": 8, "performance/samples_per_sec_per_gpu": 0.5,
        "performance/tokens_per_sec": 640, "performance/tokens_per_sec_per_gpu": 40,
        "performance/policy_training_tokens_per_sec": 1600,
        "performance/policy_training_tokens_per_sec_per_gpu": 200,
        "performance/generation_tokens_per_sec": 800,
        "performance/generation_tokens_per_sec_per_gpu": 100,
        "performance/train_flops": 8e14, "performance/train_flops_per_gpu": 1e14,
        "performance/train_fp_utilization": 0.1,
        "performance/training_worker_idle_time_ratio": 2 / 9,
        "timing/train/valid_tokens_per_sec": 1200,
        "timing/train/valid_tokens_per_sec_per_gpu": 150,
    })  # fmt: skip


@pytest.mark.parametrize("exposed", [0.0, 0.05, 0.1, 0.11, 5.0])
def test_idle_time_of_any_length(exposed):
    """The original says 0 as soon as training has waited for more than 0.1 s."""
    found = nemo.performance_metrics({"policy_training": 1.0, "exposed_generation": exposed})
    assert found == pytest.approx(
        {"performance/training_worker_idle_time_ratio": exposed / (1 + exposed)}
    )


def test_performance_of_nothing():
    assert nemo.performance_metrics({}) == {}
    assert nemo.performance_metrics({"total_step_time": 0.0}, samples=5, tokens=5) == {}


# ---- the module --------------------------------------------------------------------------------


def ask(url, what=""):
    with urllib.request.urlopen(url + what, timeout=20) as answer:
        return answer.read().decode()


def test_dashboard(monkeypatch, tmp_path):
    """T-26: served from this machine alone, by the guide's title, at its port or the next."""
    monkeypatch.setenv("LAPSE_DIR", str(tmp_path / "runs"))
    usual = nemo.MonitoringDashboard()
    assert (usual.host, usual.port, usual.url) == ("localhost", 8050, None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = min(taken.getsockname()[1], 65400)
        dashboard = nemo.MonitoringDashboard(port=port)
        try:
            url = dashboard.start()
            assert url.startswith("http://127.0.0.1:")
            assert port < int(url.rstrip("/").rsplit(":", 1)[1]) < port + 100
            assert json.loads(ask(url, "healthz"))["status"] == "ok"
            assert json.loads(ask(url, "api/v1/info"))["title"] == "NeMo RL Training Monitor"
            page = ask(url)
            assert "<title>" in page and "http" not in page.replace("http://www.w3.org/", "")
            assert dashboard.start() == dashboard.url == url
        finally:
            dashboard.stop()
    assert dashboard.url is None
    with pytest.raises(urllib.error.URLError):
        ask(url)
    with pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        nemo.MonitoringDashboard(host="192.0.2.1").start()
    monkeypatch.setenv("LAPSE_BIN", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match="nowhere: No such file"):
        nemo.MonitoringDashboard().start()


def test_graphs_of_rows():
    """The guide's figures, of rows that the program gives."""
    dashboard = nemo.MonitoringDashboard()
    assert dashboard.create_loss_graph()["data"][0]["x"] == []
    dashboard.metrics_data += [
        {"timestamp": 1, "loss": 2.5, "cpu_percent": 50, "gpu_memory": 100},
        {"timestamp": 2, "loss": 2.0, "cpu_percent": 60, "gpu_memory": 200},
    ]
    loss, resources = dashboard.create_loss_graph(), dashboard.create_resource_graph()
    (line,) = loss["data"]
    assert (line["x"], line["y"]) == ([1, 2], [2.5, 2.0])
    assert (line["mode"], line["name"]) == ("lines+markers", "Training Loss")
    assert loss["layout"]["title"] == "Training Loss Over Time"
    cpu, gpu = resources["data"]
    assert (cpu["y"], cpu.get("yaxis")) == ([50, 60], None)
    assert (gpu["y"], gpu["yaxis"], gpu["name"]) == ([100, 200], "y2", "GPU Memory")
    right = resources["layout"]["yaxis2"]
    assert right == {"title": "GPU Memory (MB)", "overlaying": "y", "side": "right"}


SERVED = """
import json, os, signal, sys, time
import lapse
from lapse.compat.nemo import MonitoringDashboard
lapse.init(name="shown")
for i in range(20):
    with lapse.step(i):
        lapse.log({"loss": 2.0 - i / 16})
dashboard = MonitoringDashboard(port=int(sys.argv[1]))
dashboard.start()
end = time.monotonic() + 30
while time.monotonic() < end:
    try:
        loss, resources = dashboard.create_loss_graph(), dashboard.create_resource_graph()
    except OSError:  # the run is not stored yet
        loss = resources = None
    if loss and len(loss["data"][0]["y"]) == 20 and resources["data"][0]["y"]:
        break
    time.sleep(0.1)
print(json.dumps([dashboard.url, loss["data"][0]["y"], resources["data"][0]["y"]]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_dashboard_of_the_run_ends_with_the_program(place, wait_for):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = min(free.getsockname()[1], 65400)
    done = place.run(SERVED, str(port), check=-signal.SIGKILL, timeout=100)
    url, losses, cpus = json.loads(done.stdout)
    assert losses == [2.0 - i / 16 for i in range(20)]
    assert all(0 <= percent <= 100 for percent in cpus)

    def gone():
        try:
            return not ask(url, "healthz")
        except OSError:
            return True

    assert wait_for(gone)


def test_names():
    for name in nemo.__all__:
        assert getattr(nemo, name).__doc__
    with pytest.raises(AttributeError):
        nemo.Nothing  # noqa: B018
    assert dir(nemo) == sorted(nemo.__all__)
