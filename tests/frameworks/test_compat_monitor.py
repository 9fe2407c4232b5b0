# SPDX-License-Identifier: Apache-2.0
"""The performance monitoring guide's programs with another import line: its quick start, its
integration example, and what they leave in the run and in files."""

import json
import socket
import sqlite3
import sys

import pytest
from conftest import need

pytestmark = [need("torch"), pytest.mark.timeout(300)]

# Quick start 1, in which the dots are filled in. 50 steps; a loss that jumps at step 30.
QUICK_START = """
import json, os, sys, time, warnings
import torch
from lapse.compat.monitor import SystemMonitor, TrainingMonitor
from lapse.compat.monitor import TrainingMetrics
torch.set_num_threads(1)
torch.manual_seed(0)
said = warnings.catch_warnings(record=True)
told = said.__enter__()
warnings.simplefilter("always")

# Create configuration
config = {
    'save_dir': './monitoring_logs',
    'enable_dashboard': True,
    'dashboard_port': 8080,
    'enable_alerts': True,
    'tensorboard_dir': './logs',
    'enable_performance_monitor': True,
    'track_gradients': True,
    'gradient_monitoring': {
        'track_layers': ['encoder', 'decoder', 'classifier']
    },
    'flush_interval': 0.2,
}

# Create and start monitor
monitor = TrainingMonitor(config)
monitor.alert_system.remove_alert_rule("High CPU Usage")
monitor.alert_system.remove_alert_rule("High Memory Usage")
monitor.alert_system.remove_alert_rule("High Disk Usage")
threshold = 50.0
monitor.alert_system.add_alert_rule(
    name="High Loss Spike",
    condition=lambda metrics: metrics.loss > threshold,
    severity="warning",
    message="Loss spike detected: {loss:.2f}",
    cooldown_seconds=300
)
monitor.alert_system.add_alert_rule(
    name="System Seen", condition=lambda metrics: metrics.memory_usage_percent > 0,
    severity="info", message="memory {memory_usage_percent:.0f} %")
monitor.alert_system.add_alert_rule(
    name="Validation", condition=lambda metrics: metrics.phase == "val" and metrics.loss > 1,
    severity="info", message="validation loss {loss:.1f}")
monitor.start_monitoring()
end = time.monotonic() + 30     # rates need two readings of the agent
def cpu():
    latest = monitor.system_monitor.get_latest_metrics()
    return latest is not None and latest.cpu_usage_percent >= 0
while not cpu() and time.monotonic() < end:
    time.sleep(0.1)

model = torch.nn.Sequential()
model.add_module("encoder", torch.nn.Linear(4, 4))
model.add_module("classifier", torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(400, 4))
train_loader = monitor.watch_loader(torch.utils.data.DataLoader(data, batch_size=8))
norms, losses, accuracy, batch_size = [], [], 0.5, 8
for step, (x,) in enumerate(train_loader):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean() + (100 if step == 30 else 0)
    loss.backward()
    optimizer.step()
    norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item())
    losses.append(loss.item())
    time.sleep(0.04)
    if step % 2:
        monitor.log_training_step(
            model=model,
            optimizer=optimizer,
            loss=loss.item(),
            accuracy=accuracy,
            learning_rate=0.02,
            custom_metrics={'batch_size': batch_size, 'tokens_per_second': 100.0}
        )
    else:           # a tensor, the learning rate of the optimizer
        monitor.log_training_step(model, optimizer, loss, custom_metrics={'batch_size': batch_size})
    if step == 25:
        monitor.log_validation_step(1.5, 0.75, {'f1': 0.25})
        monitor.system_monitor = SystemMonitor(update_interval=0.5)
    if step == 40:
        monitor.current_epoch = 1
def samples():
    components = monitor.get_monitoring_status()["components"]
    return components["performance_monitor"]["system_samples"]
end = time.monotonic() + 30
while samples() < 2 and time.monotonic() < end:
    time.sleep(0.1)

# Profile model inference: training mode stays
model.train()
quantised = None
dummy_input = torch.randn(2, 4)
bench = monitor.log_model_inference_benchmark(model, torch.device("cpu"), dummy_input)
half = torch.nn.Sequential()
half.add_module("encoder", torch.nn.Linear(4, 4))
half.add_module("classifier", torch.nn.Linear(4, 1))
half.load_state_dict(model.state_dict())
half = half.to(torch.float64)
class Double(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = half
    def forward(self, x):
        return self.inside(x.double()).float()
compared = monitor.log_model_inference_benchmark(Double(), torch.device("cpu"), dummy_input, model)
failed = monitor.log_model_inference_benchmark(model, torch.device("cpu"), torch.randn(2, 5))
status = monitor.get_monitoring_status()
exported = monitor.export_data("export/deep", format="csv")
exported += monitor.export_data("export/deep", "alerts")
report = None
monitor.stop_monitoring()
monitor.stop_monitoring()
print("RESULT " + json.dumps({
    "norms": norms, "losses": losses, "status": status, "training": model.training,
    "layers": sorted(monitor.gradients.stats()), "exported": exported, "failed": failed,
    "bench": bench.to_dict(), "compared": compared.to_dict(), "report": monitor.report_path,
    "told": [str(one.message) for one in told],
}))
"""


def at_a_free_port(code):
    """What other programs do at the guide's port is nothing to this one."""
    return code.replace("8080", str(free_port()))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def quick(program):
    return program(at_a_free_port(QUICK_START), key="quick")


def steps_of(quick, name):
    """{step: value} in the run."""
    return {row["step"]: row["value"] for row in quick.stored.of("sample", name)}


def test_every_step_is_in_the_run(quick):
    losses = steps_of(quick, "loss")
    assert list(losses) == list(range(50))
    assert [losses[step] for step in range(50)] == pytest.approx(quick.said["losses"])
    assert steps_of(quick, "tokens_per_second") == dict.fromkeys(range(1, 50, 2), 100.0)
    assert [row["step"] for row in quick.stored.spans("step")] == list(range(50))


def test_learning_rate_is_the_optimizers_if_none_is_given(quick):
    rates = steps_of(quick, "learning_rate")
    assert [rates[step] for step in (0, 1, 2, 3)] == [0.01, 0.02, 0.01, 0.02]


def test_gradient_norms(quick):
    """Equal to what clip_grad_norm_() says of the same gradients."""
    norms = steps_of(quick, "grad_norm")
    assert [norms[step] for step in range(50)] == pytest.approx(quick.said["norms"], rel=1e-5)
    assert quick.said["layers"] == ["classifier", "encoder", "total"]
    (said,) = [e for e in quick.stored.events("lapse.monitor") if "decoder" in e["text"]]
    assert "no parameter is of layer 'decoder'" in said["text"]


def test_times_are_measured(quick):
    """T-25: waiting for data is the loader's, not a guess."""
    times, waits = steps_of(quick, "batch_time"), steps_of(quick, "data_load_time")
    assert 0 not in times and len(times) == 49  # the first has no beginning
    assert all(value >= 0.04 for value in times.values())
    assert len(waits) == 50 and all(0 < waits[step] < times[step] for step in times)


def test_validation(quick):
    assert steps_of(quick, "val/loss") == {26: 1.5}
    assert steps_of(quick, "val/accuracy") == {26: 0.75} and steps_of(quick, "val/f1") == {26: 0.25}


def test_alerts(quick):
    """T-20, T-21: rules about training and about the machine, each with its own figures."""
    # Without those of the agent, which are of no type.
    found = {event["attrs"]["type"]: event for event in quick.stored.events("alert")
             if "type" in event["attrs"]}  # fmt: skip
    assert sorted(found) == ["High Loss Spike", "System Seen", "Training Loss Spike", "Validation"]
    spike = found["High Loss Spike"]
    assert (spike["step"], spike["severity"]) == (30, "warning")
    assert spike["text"] == f"Loss spike detected: {quick.said['losses'][30]:.2f}"
    assert found["Training Loss Spike"]["severity"] == "error"
    assert found["Validation"]["text"] == "validation loss 1.5"
    assert f"Alert [WARNING] High Loss Spike: {spike['text']}" in quick.lines
    statistics = quick.said["status"]["components"]["alert_system"]
    assert statistics["total_alerts"] == 4


def test_status(quick):
    status = quick.said["status"]
    assert status["is_monitoring"] and (status["current_step"], status["current_epoch"]) == (50, 1)
    assert status["missing"] == {}
    collector = status["components"]["metrics_collector"]
    assert (collector["collected_training"], collector["collected_model_performance"]) == (51, 2)
    assert collector["lost"] == 0
    monitor = status["components"]["performance_monitor"]
    assert monitor["training_steps"] == 50 and monitor["system_samples"] >= 2
    assert monitor["latest_training_metrics"]["global_step"] == 49
    assert monitor["latest_system_metrics"]["memory_usage_percent"] > 0
    assert monitor["gradient_stats"]["total"]["count"] == 50
    assert quick.said["told"] == []


def test_database_and_files(quick):
    """T-23, T-24: all rows, in the order of time, of every table."""
    folder = quick.folder / "monitoring_logs"
    with sqlite3.connect(folder / "metrics.db") as file:
        rows = file.execute(
            "SELECT global_step, phase, epoch, loss FROM training_metrics ORDER BY id"
        ).fetchall()
        system = file.execute("SELECT count(*) FROM system_metrics").fetchone()[0]
        alerts = file.execute("SELECT alert_type FROM alerts").fetchall()
        models = file.execute("SELECT batch_size FROM model_performance_metrics").fetchall()
    training = [row for row in rows if row[1] == "train"]
    assert [row[0] for row in training] == list(range(50))
    assert [row[2] for row in training] == [0] * 41 + [1] * 9
    assert [row[3] for row in training] == pytest.approx(quick.said["losses"])
    assert len(rows) == 51 and system >= 2 and len(alerts) == 4 and models == [(2,), (2,)]
    (path,) = folder.glob("training_metrics_*.json")
    stored = json.loads(path.read_text())
    assert [row["global_step"] for row in stored if row["phase"] == "train"] == list(range(50))
    assert stored[1]["tokens_per_second"] == 100.0 and stored[0]["batch_time"] is None
    (path,) = folder.glob("system_metrics_*.json")
    assert len(json.loads(path.read_text())) == system
    (path,) = folder.glob("model_performance_*.json")
    assert len(json.loads(path.read_text())) == 2
    log = (folder / "training_monitor.log").read_text()
    assert "monitoring started" in log and "Loss spike detected" in log


def test_exports(quick):
    folder = quick.folder / "export" / "deep"
    names = [path.rpartition("/")[2] for path in quick.said["exported"]]
    assert names == ["training_metrics.csv", "system_metrics.csv", "model_performance_metrics.csv",
                     "alerts.csv", "alerts.json"]  # fmt: skip
    lines = (folder / "training_metrics.csv").read_text().splitlines()
    assert len(lines) == 52 and "tokens_per_second" in lines[0].split(",")
    assert len(json.loads((folder / "alerts.json").read_text())) == 4


def test_report(quick):
    report = json.loads((quick.folder / quick.said["report"]).read_text())
    assert report["monitoring_session"]["total_steps"] == 50
    training = report["training_summary"]
    losses = quick.said["losses"]
    assert training["initial_loss"] == pytest.approx(losses[0])
    assert training["loss_improvement_percent"] == pytest.approx(
        100 * (losses[0] - losses[-1]) / losses[0]
    )
    assert training["final_accuracy"] == 0.5 and training["final_validation_loss"] == 1.5
    assert report["system_summary"]["total_system_samples"] >= 2
    assert report["system_summary"]["peak_gpu_utilization"] is None  # there is none
    titles = [one["title"] for one in report["advice"]]
    assert "Training instability" in titles
    assert report["advice"][0]["rationale"] and len(report["recommendations"]) == len(titles)
    (noted,) = quick.stored.events("artifact")
    assert noted["attrs"]["kind"] == "report"


def test_console_block(quick):
    at = quick.lines.index("TRAINING PERFORMANCE SUMMARY")
    assert quick.lines[at - 1] == quick.lines[at + 1] == "=" * 60 == quick.lines[-1]
    block = quick.lines[at + 2 :]
    assert block[0].startswith("Session Duration: 0.0") and block[0].endswith(" hours")
    assert block[1] == "Total Steps: 50"
    assert block[2].startswith("Loss Improvement: ") and block[3] == "Final Accuracy: 0.500"
    assert block[4].startswith("Average CPU Usage: ") and "RECOMMENDATIONS:" in block
    assert not any("GPU" in line and line.startswith("Peak") for line in block)


def test_inference_benchmark(quick):
    """T-22: sizes by type, and the model stays in training mode."""
    bench = quick.said["bench"]
    assert quick.said["training"] and quick.said["failed"] is None
    assert bench["batch_size"] == 2 and bench["sequence_length"] is None
    assert bench["model_size_mb"] == pytest.approx(25 * 4 / 2**20)
    assert bench["min_latency_ms"] <= bench["median_latency_ms"] <= bench["p99_latency_ms"]
    compared = quick.said["compared"]
    assert compared["model_size_mb"] == pytest.approx(25 * 8 / 2**20)  # twice the bytes
    assert compared["quantization_ratio"] == pytest.approx(-100.0)
    assert compared["inference_quality_score"] == pytest.approx(1.0, abs=1e-6)
    assert compared["consistency_score"] == pytest.approx(1.0)
    said = [e["text"] for e in quick.stored.events("lapse.monitor")]
    assert any("the benchmark failed: RuntimeError" in text for text in said)


@need("tensorboard")
def test_tensorboard_tags(quick):
    """The guide's tags, with the steps and values of the training."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(quick.folder / "logs"), size_guidance={"scalars": 0})
    reader.Reload()

    def tag(name):
        return {event.step: event.value for event in reader.Scalars(name)}

    assert set(reader.Tags()["scalars"]) >= {
        "Loss/train", "Accuracy/train", "Learning_Rate", "Gradient_Norm/total",
        "Timing/Batch_Time", "System/CPU_Usage", "System/Memory_Usage",
    }  # fmt: skip
    losses = tag("Loss/train")
    assert [losses[step] for step in range(50)] == pytest.approx(quick.said["losses"], rel=1e-5)
    times = steps_of(quick, "batch_time")
    assert tag("Timing/Batch_Time")[7] == pytest.approx(1e3 * times[7], rel=1e-5)


# examples/integration_example.py of the guide, from its own text, shortened where it only prints.
INTEGRATION = """
import json, sys
import torch
import torch.nn as nn
import lapse
from lapse.compat.monitor import TrainingMonitor
torch.set_num_threads(1)

lapse.init(name="mine", capture=False)

open("monitoring_config.yaml", "w").write('''
dashboard:
  enabled: true
  host: "127.0.0.1"
  port: 8080

alert_system:
  enabled: true
  thresholds:
    cpu_usage_percent: 85.0
    memory_usage_percent: 80.0
''')
torch.manual_seed(0)
x = torch.randn(64, 4)
train_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long()), batch_size=16)
criterion = nn.CrossEntropyLoss()
num_epochs, effective_batch_size, peak_memory_mb = 3, 16, 32.0

def train_model_with_monitoring(config):
    # Create model and optimizer
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())

    # Create monitor
    monitor = TrainingMonitor(config)
    monitor.start_monitoring()

    # Training loop
    for epoch in range(num_epochs):
        for batch_idx, (data, target) in enumerate(train_loader):
            # Training steps
            optimizer.zero_grad()
            output = model(data)
            loss = criterion(output, target)
            loss.backward()
            optimizer.step()
            accuracy = (output.argmax(1) == target).float().mean().item()

            # Log to monitor
            monitor.log_training_step(
                model=model,
                optimizer=optimizer,
                loss=loss.item(),
                accuracy=accuracy,
                learning_rate=optimizer.param_groups[0]['lr'],
                custom_metrics={
                    'memory_efficiency': effective_batch_size / peak_memory_mb
                }
            )
    rules = monitor.alert_system.alert_rules
    limits = {rule.name: rule.metadata.get("threshold") for rule in rules}
    monitor.stop_monitoring()
    return limits, monitor.get_monitoring_status()

limits, status = train_model_with_monitoring("monitoring_config.yaml")
still = lapse.init(capture=False).recording
# A loop that has steps of its own, and is not to be written of.
quiet = TrainingMonitor({"enable_metrics_collector": False, "monitor_system": False,
                         "track_gradients": False, "save_dir": "second"}, console_style="none")
with quiet:
    for step in range(100, 105):
        with lapse.step(step):
            pass
        quiet.log_training_step(None, None, float(step), custom_metrics={"second": 1.0})
# Values that arrive later, as from a device: each with the step that it was logged at.
import lapse.torch
queue, now = [], lapse.torch.later
lapse.torch.later = lambda tensors, then, step, time_ns: queue.append(
    lambda: now(tensors, then, step, time_ns))
late = TrainingMonitor({"enable_metrics_collector": False, "monitor_system": False,
                        "track_gradients": False, "save_dir": "third"}, console_style="none")
late.alert_system.add_alert_rule("late", lambda m: m.loss > 2, "info", "{loss} at {step}", 0)
waited = []
def done(monitor):
    return monitor.get_monitoring_status()["components"]["performance_monitor"]["training_steps"]
with late:
    for step in range(200, 206):
        with lapse.step(step):
            pass
        late.log_training_step(None, None, torch.tensor(float(step - 200)),
                               custom_metrics={"third": torch.tensor([2.0]), "text": "left out"})
        if len(queue) == 3:     # one step later than they were asked for
            queue.pop(0)()
        waited.append(done(late))
    while queue:
        queue.pop(0)()
    waited.append(done(late))
lapse.torch.later = now
# Norms of gradients that all arrive after the last step.
import lapse.torch._gradients as measuring
queue, now = [], measuring.later
measuring.later = lambda tensors, then: queue.append((tensors, then, step))
norms = TrainingMonitor({"enable_metrics_collector": False, "monitor_system": False,
                         "save_dir": "fourth"}, console_style="none")
one = torch.nn.Linear(1, 1, bias=False)
with norms:
    for step, norm in enumerate((1, 2, 500, 3, 4), 300):
        with lapse.step(step):
            pass
        one.weight.grad = torch.full((1, 1), float(norm))
        norms.log_training_step(one, None, 1.0)
    one.weight.grad = None
    norms.log_training_step(one, None, 1.0)
    waiting = len(norms._pending)
    for arrived in queue:
        now(*arrived)
measuring.later = now
alerts = [[one["type"], one["message"]] for one in norms.alert_system.alerts]
print("RESULT " + json.dumps({"limits": limits, "status": status, "still": still,
                              "waited": waited, "waiting": waiting, "alerts": alerts}))
lapse.finish()
"""


@pytest.fixture(scope="module")
def integration(program):
    return program(at_a_free_port(INTEGRATION), key="integration")


def test_integration_example(integration):
    """In the program's own run, which goes on."""
    assert integration.stored.info["name"] == "mine" and integration.said["still"]
    rows = integration.stored.of("sample", "accuracy")
    assert [row["step"] for row in rows] == list(range(12))
    assert all(0 <= row["value"] <= 1 for row in rows)
    assert set(integration.stored.values("memory_efficiency")) == {0.5}
    assert integration.said["limits"]["High CPU Usage"] == 85.0
    assert integration.said["limits"]["High Memory Usage"] == 80.0
    assert (integration.folder / "monitoring_logs" / "metrics.db").exists()
    assert "TRAINING PERFORMANCE SUMMARY" in integration.lines
    assert integration.lines.count("TRAINING PERFORMANCE SUMMARY") == 1  # "none" prints nothing


def test_steps_of_the_program_go_first(integration):
    assert integration.stored.steps("second") == list(range(100, 105))
    assert not (integration.folder / "second" / "metrics.db").exists()


def test_late_values_keep_their_step(integration):
    """A loss on a device: nothing waits, rules see it when it is there."""
    assert integration.said["waited"] == [0, 0, 1, 2, 3, 4, 6]
    rows = integration.stored.of("sample", "third")
    assert sorted(row["step"] for row in rows) == list(range(200, 206))
    losses = {r["step"]: r["value"] for r in integration.stored.of("sample", "loss")
              if 200 <= r["step"] < 300}  # fmt: skip
    assert losses == {200 + i: float(i) for i in range(6)}
    late = [e["text"] for e in integration.stored.events("alert")
            if e["attrs"].get("type") == "late"]  # fmt: skip
    assert late == ["3.0 at 3", "4.0 at 4", "5.0 at 5"]


def test_late_norms_are_of_their_step(integration):
    """The one that explodes is seen, though others came after it."""
    assert integration.said["waiting"] == 6
    norms = [(row["step"], row["value"]) for row in integration.stored.of("sample", "grad_norm")
             if row["step"] >= 300]  # fmt: skip
    assert norms == [(300, 1), (301, 2), (302, 500), (303, 3), (304, 4)]
    assert [name for name, _ in integration.said["alerts"]] == ["Gradient Explosion"]


DISTRIBUTED = """
import json, os, sys
import torch
import torch.distributed as dist
from lapse.compat.monitor import TrainingMonitor
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="env://")
rank = dist.get_rank()
mode = sys.argv[1]
config = {"save_dir": f"logs_{mode}", "monitor_system": False, "distributed_monitoring": True}
if mode == "zero":
    config["track_rank_0_only"] = True
if mode == "aggregate":
    config["torch"] = {"ranks": "aggregate"}
model = torch.nn.Linear(2, 1)
monitor = TrainingMonitor(config, console_style="none")
monitor.start_monitoring()
for step in range(100):
    model.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    monitor.log_training_step(model, None, float(10 * rank), learning_rate=0.1)
dist.barrier()
monitor.stop_monitoring()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("mode", ["zero", "aggregate"])
def test_distributed(place, mode):
    """Two ranks: rank 0 alone, or with figures over both."""
    import subprocess

    path = place.folder / "script.py"
    path.write_text(DISTRIBUTED)
    env = {**place.env, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
           "WORLD_SIZE": "2",
           "OMP_NUM_THREADS": "1"}  # fmt: skip
    ranks = [
        subprocess.Popen([sys.executable, str(path), mode], cwd=place.folder, text=True,
                         stderr=subprocess.PIPE,
                         env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in (0, 1)
    ]  # fmt: skip
    for one in ranks:
        _, errors = one.communicate(timeout=250)
        assert one.returncode == 0, errors
    (run,) = place.begun()
    stored = place.stored(run)
    assert place.ids() == [run]  # rank 1 opened none
    assert stored.values("loss") == [0.0] * 100
    assert len(list(place.folder.glob(f"logs_{mode}/training_metrics_*.json"))) == 1
    assert len(list(place.folder.glob(f"logs_{mode}/performance_report_*.json"))) == 1
    if mode == "aggregate":
        assert set(stored.values("loss/mean")) == {5.0}
        assert set(stored.values("loss/max")) == {10.0}
        assert len(stored.values("grad_norm/mean")) == 2  # each 50 steps
        assert set(stored.values("loss/max/rank")) == {1.0}


SERVED = """
import json, sys, time, urllib.error, urllib.request
from lapse.compat.monitor import TrainingMonitor
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
monitor = TrainingMonitor({"save_dir": "./logs", "dashboard": {
    "enabled": True, "host": "127.0.0.1", "port": int(sys.argv[1]), "refresh_interval": 5}})
monitor.start_monitoring()
for step in range(30):
    monitor.log_training_step(model, optimizer, 1.0 if step < 20 else float("nan"))
end = time.monotonic() + 30
agent = []
while time.monotonic() < end and not agent:
    agent = monitor.get_monitoring_status()["components"]["alert_system"]["agent"]
    time.sleep(0.1)

def get(what):
    with urllib.request.urlopen(monitor.dashboard + what, timeout=20) as answer:
        return json.load(answer)

def alerts():
    try:
        return get("api/alerts")
    except urllib.error.HTTPError:  # no run yet: the server looks for runs once a second
        return []

while time.monotonic() < end and len(alerts()) < 2:
    time.sleep(0.1)
print("RESULT " + json.dumps({
    "url": monitor.dashboard, "health": get("healthz"), "info": get("api/v1/info"),
    "agent": agent, "alerts": alerts()}), flush=True)
monitor.stop_monitoring()
with open(monitor.report_path) as file:
    print("REPORT " + json.dumps(json.load(file)["alerts"]))
"""


def test_dashboard_and_the_agents_alerts(place):
    """The block `dashboard` is taken; what the agent sees stands beside the rules' own."""
    port = free_port()
    lines = place.run(SERVED, str(port), timeout=250).stdout.splitlines()
    said = json.loads(next(line[7:] for line in lines if line.startswith("RESULT ")))
    assert said["url"] == f"http://127.0.0.1:{port}/"
    assert f"lapse: dashboard: {said['url']}" in lines
    assert said["health"]["status"] == "ok" and said["info"]["refresh_ms"] == 5000
    # A run that the program began itself is there, too.
    assert said["info"]["folders"] == [str(place.runs.resolve())]
    (alert,) = said["agent"]
    assert (alert["alert_type"], alert["severity"]) == ("nan", "critical")
    # What was recorded before the agent was there to watch is over for it.
    assert alert["state"] in ("active", "ended")
    assert alert["acknowledged"] is False and alert["metadata"]["do"]
    assert {"nan", "Loss Is Not A Number"} <= {row["name"] for row in said["alerts"]}
    report = json.loads(next(line[7:] for line in lines if line.startswith("REPORT ")))
    assert report["alerts_by_type"] == {"Loss Is Not A Number": 1}
    assert [row["id"] for row in report["agent"]] == [alert["id"]]
