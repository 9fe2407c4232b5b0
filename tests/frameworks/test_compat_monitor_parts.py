# SPDX-License-Identifier: Apache-2.0
"""Parts of lapse.compat.monitor by themselves: rules, thresholds, configuration, files,
advice, and figures of several GPUs. No framework is needed."""

import csv
import json
import os
import sqlite3
import threading
import time
import warnings

import pytest

from lapse import _core, _machine
from lapse.compat.monitor import (
    PRESETS,
    AlertSystem,
    Recommendation,
    SystemMetrics,
    SystemMonitor,
    TrainingMetrics,
    TrainingMonitor,
)
from lapse.compat.monitor import _advice as advice
from lapse.compat.monitor._cap import Cap
from lapse.compat.monitor._database import TABLES, MetricsDatabase, write_csv, write_json
from lapse.compat.monitor._settings import settings

# ---- rules ----------------------------------------------------------------------------------


def alerts_without_built_in():
    found = AlertSystem({})
    found.remove_alert_rule("Loss Is Not A Number")
    assert found.alert_rules == []
    return found


def names(alerts):
    return [alert["type"] for alert in alerts]


def test_documented_rule():
    """The guide's own example, word for word."""
    threshold = 3.0
    system = alerts_without_built_in()
    system.add_alert_rule(
        name="High Loss Spike",
        condition=lambda metrics: metrics.loss > threshold,
        severity="warning",
        message="Loss spike detected: {loss:.2f}",
        cooldown_seconds=300,
    )
    assert system.evaluate_rules(TrainingMetrics(loss=2.0)) == []
    (alert,) = system.evaluate_rules(TrainingMetrics(loss=4.125))
    assert (alert["type"], alert["severity"]) == ("High Loss Spike", "warning")
    assert alert["message"] == "Loss spike detected: 4.12"
    assert system.get_alert_statistics() == {
        "total_alerts": 1,
        "alerts_by_severity": {"warning": 1},
        "alerts_by_type": {"High Loss Spike": 1},
    }


def test_target_loss_is_no_metric():
    """The guide's second example: {target_loss} must be given."""
    target_loss = 0.5

    def custom_condition(metrics):
        return metrics.loss > target_loss * 2

    system = alerts_without_built_in()
    rule = {
        "name": "Target Loss Not Met",
        "condition": custom_condition,
        "severity": "warning",
        "message": "Loss is {loss:.2f}, target was {target_loss:.2f}",
    }
    with pytest.raises(ValueError, match=r"\{target_loss\} is no figure.*add target_loss=\.\.\."):
        system.add_alert_rule(**rule)
    assert system.alert_rules == []
    system.add_alert_rule(**rule, target_loss=target_loss)
    (alert,) = system.evaluate_rules(TrainingMetrics(loss=2.0))
    assert alert["message"] == "Loss is 2.00, target was 0.50"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"message": "{cpu_usage:.1f}%"}, "did you mean {cpu_usage_percent}"),
        ({"message": "{loss:.2q}"}, "Unknown format code 'q'"),
        ({"message": "{loss"}, "expected '}'"),
        ({"severity": "bad"}, "info, warning, critical, not 'bad'"),
        ({"condition": "training.loss > 5.0"}, "conditions as text are not in this version"),
        ({"name": ""}, "name is empty"),
        ({"cooldown_seconds": -1}, "cooldown_seconds=-1"),
        ({"on": "host"}, "training, system, both, not 'host'"),
    ],
)
def test_bad_rules_are_refused_when_added(change, says):
    system = alerts_without_built_in()
    rule = {"name": "a", "condition": lambda m: m.cpu_usage_percent > 1, "severity": "info",
            "message": ""}  # fmt: skip
    with pytest.raises(ValueError) as raised:
        system.add_alert_rule(**{**rule, **change})
    assert says in str(raised.value)


def test_rules_see_what_they_are_about():
    """T-21: a rule about the machine is not asked about training, nor the other way."""
    system = alerts_without_built_in()
    asked = []

    def rule(name, condition, **more):
        def noted(metrics):
            asked.append((name, type(metrics).__name__))
            return condition(metrics)

        return system.add_alert_rule(name, noted, "info", more.pop("message", ""), 0, **more)

    cpu = rule("cpu", lambda m: True, message="{cpu_usage_percent:.0f}")
    loss = rule("loss", lambda m: True, message="{loss:.0f}")
    both = system.add_alert_rule(
        "both", lambda m: m.loss > 1 and m.cpu_usage_percent > 50, "info",
        "{loss} {cpu_usage_percent}", 0,
    )  # fmt: skip
    by_code = system.add_alert_rule("code", lambda m: m.swap_usage_percent > 5, "info", "swap", 0)
    said = rule("said", lambda m: True, on="system")
    assert [r.on for r in (cpu, loss, both, by_code, said)] == [
        "system", "training", "both", "system", "system"]  # fmt: skip
    first = system.evaluate_rules(TrainingMetrics(loss=2.0))
    assert names(first) == ["loss"]  # of the machine nothing is known: "both" cannot hold
    second = system.evaluate_rules(system_metrics=SystemMetrics(cpu_usage_percent=60.0))
    assert names(second) == ["cpu", "said"]
    assert second[0]["message"] == "60"
    third = system.evaluate_rules(TrainingMetrics(loss=2.0))
    assert names(third) == ["loss", "both"] and third[1]["message"] == "2.0 60.0"
    assert asked == [("loss", "TrainingMetrics"), ("cpu", "SystemMetrics"),
                     ("said", "SystemMetrics"), ("loss", "TrainingMetrics")]  # fmt: skip
    assert all(not one.error for one in system.alert_rules)


def test_unknown_figures_trip_nothing():
    """What is not known is neither high nor low."""
    system = AlertSystem(PRESETS["strict"], hold=1)
    for _ in range(20):
        assert system.evaluate_rules(TrainingMetrics()) == []
        assert system.evaluate_rules(system_metrics=SystemMetrics()) == []
    assert SystemMetrics().to_dict()["gpu_temperature"] is None
    assert TrainingMetrics(loss=float("nan")).to_dict()["loss"] is not None


def test_cooldown_and_hold(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    system = alerts_without_built_in()
    system.add_alert_rule("a", lambda m: m.loss > 1, "info", "{loss}", 300, hold=2)
    high, low = TrainingMetrics(loss=2.0), TrainingMetrics(loss=0.0)
    fired = []
    for seconds, metrics in ((0, high), (1, low), (2, high), (3, high), (4, high), (301, high),
                             (303, high), (304, high)):  # fmt: skip
        now[0] = 100.0 + seconds
        if system.evaluate_rules(metrics):
            fired.append(seconds)
    assert fired == [3, 303]


def test_a_condition_that_fails_is_said_and_does_no_harm():
    system = alerts_without_built_in()
    broken = system.add_alert_rule("broken", lambda m: m.loss / 0 > 1, "info", "x", 0)
    system.add_alert_rule("fine", lambda m: m.loss > 1, "info", "y", 0)
    assert names(system.evaluate_rules(TrainingMetrics(loss=2.0))) == ["fine"]
    assert broken.error == "ZeroDivisionError: float division by zero"


def test_custom_metrics_in_rules():
    system = alerts_without_built_in()
    system.add_alert_rule(
        "slow", lambda m: m.custom_metrics.get("throughput", 1e9) < 10, "info",
        "{custom_metrics[throughput]:.1f} and {half:.1f}", 0,
        half=lambda m: m.custom_metrics["throughput"] / 2,
    )  # fmt: skip
    assert system.evaluate_rules(TrainingMetrics()) == []
    (alert,) = system.evaluate_rules(TrainingMetrics(custom_metrics={"throughput": 5.0}))
    assert alert["message"] == "5.0 and 2.5"


def of_system(**figures):
    return {"system_metrics": SystemMetrics(**figures)}


def of_training(**figures):
    return {"training_metrics": TrainingMetrics(**figures)}


@pytest.mark.parametrize(
    ("quiet", "loud", "name", "severity", "message"),
    [
        (of_system(cpu_usage_percent=90.0), of_system(cpu_usage_percent=90.5), "High CPU Usage",
         "warning", "High CPU usage detected: 90.5%"),
        (of_system(memory_usage_percent=85.0), of_system(memory_usage_percent=86.0),
         "High Memory Usage", "warning", "High memory usage detected: 86.0%"),
        (of_system(gpu_memory_utilization=90.0), of_system(gpu_memory_utilization=91.0),
         "High GPU Memory Usage", "warning", "High GPU memory usage detected: 91.0%"),
        (of_system(gpu_temperature=80.0), of_system(gpu_temperature=81.0), "High GPU Temperature",
         "warning", "High GPU temperature detected: 81.0°C"),
        (of_system(disk_usage_percent=90.0), of_system(disk_usage_percent=95.0), "High Disk Usage",
         "warning", "High disk usage detected: 95.0%"),
        (of_training(grad_norm=10.0), of_training(grad_norm=10.5), "Gradient Explosion",
         "critical", "Gradient explosion detected: 10.5"),
        (of_training(learning_rate=1e-8), of_training(learning_rate=1e-9), "Learning Rate Too Low",
         "warning", "Learning rate too low: 1.00e-09"),
        (of_training(learning_rate=0.5), of_training(learning_rate=2.0), "Learning Rate Too High",
         "warning", "Learning rate too high: 2.00e+00"),
        (of_training(loss=2.0), of_training(loss=50.0), "Training Loss Spike", "critical",
         "Training loss spike detected: 50.00"),
        (of_training(loss=2.0), of_training(loss=float("nan")), "Loss Is Not A Number", "critical",
         "Loss is nan at step 0"),
    ],
)  # fmt: skip
def test_built_in_alerts(quiet, loud, name, severity, message):
    """Below its limit a figure says nothing, however long; above it once in the cooldown."""
    system = AlertSystem()
    for _ in range(15):
        assert system.evaluate_rules(**quiet) == []
    found = [alert for _ in range(15) for alert in system.evaluate_rules(**loud)]
    assert [(one["type"], one["severity"], one["message"]) for one in found] == [
        (name, severity, message)]  # fmt: skip


def test_cooldowns_are_the_guides():
    found = {rule.name: rule.cooldown_seconds for rule in AlertSystem().alert_rules}
    assert [found[name] for name in ("High CPU Usage", "High Memory Usage", "Gradient Explosion",
                                     "Training Loss Spike", "High GPU Temperature")] == [
        300, 300, 60, 180, 300]  # fmt: skip
    assert min(rule.hold for rule in AlertSystem().alert_rules if rule.on == "system") == 3


def test_rules_of_the_guides_file():
    system = AlertSystem({})
    system.add_source_rules()
    assert names(system.evaluate_rules(TrainingMetrics(phase="val", loss=6.0))) == [
        "High Validation Loss"]  # fmt: skip
    assert system.evaluate_rules(TrainingMetrics(loss=6.0)) == []
    (slow,) = system.evaluate_rules(TrainingMetrics(batch_time=11.0))
    assert slow["message"] == "Training step taking longer than expected: 11.0s"
    (leak,) = system.evaluate_rules(system_metrics=SystemMetrics(memory_usage_percent=96.0))
    assert leak["severity"] == "critical"


def test_presets_grow_stricter():
    limits = PRESETS["monitor"]
    assert (limits["cpu_usage_percent"], limits["memory_usage_percent"]) == (90.0, 85.0)
    assert (limits["grad_norm_exploded"], limits["learning_rate_too_low"]) == (10.0, 1e-8)
    assert PRESETS["quick_start"]["cpu_usage_percent"] == 85.0
    assert PRESETS["quick_start"]["memory_usage_percent"] == 80.0
    for name in ("cpu_usage_percent", "memory_usage_percent"):
        row = [PRESETS[preset][name] for preset in ("strict", "monitor", "default", "relaxed")]
        assert row == sorted(row) and row[0] < row[-1]


# ---- configuration --------------------------------------------------------------------------

DOCUMENTED = """
save_dir: ./logs_of_this
dashboard:
  enabled: true
  host: "0.0.0.0"  # Bind to all interfaces
  port: 8080
  refresh_interval: 5  # seconds
alert_system:
  thresholds:
    cpu_usage_percent: 91.0
    memory_usage_percent: 85.0
    grad_norm_exploded: 10.0
    learning_rate_too_low: 1e-8
performance_tuning:
  high_frequency_mode: true
  batch_metrics_collection: true
  max_events_per_second: 1000
  flush_interval: 10.0
  use_memory_maps: true
  auto_cleanup: true
  max_database_size_gb: 100.0
metrics_collection:
  buffer_size: 500
"""


def test_nested_yaml_is_read(tmp_path, monkeypatch):
    """T-17: a path is a path, and what is nested is read."""
    monkeypatch.setenv("LAPSE_DIR", "elsewhere")
    path = tmp_path / "monitoring_config.yaml"
    path.write_text(DOCUMENTED)
    found = settings(path)
    assert found.save_dir == "./logs_of_this"
    assert found.thresholds["cpu_usage_percent"] == 91.0
    assert found.thresholds["gpu_temperature_celsius"] == 80.0
    assert (found.max_events, found.flush_interval) == (1000, 10.0)
    assert found.missing == {}
    assert found.dashboard and found.dashboard_port == 8080
    assert "ring_kib" not in found.run  # 500 records are a least: ours holds more


def test_dict_with_flat_keys():
    found = settings({
        "save_dir": "x", "enable_performance_monitor": True, "enable_metrics_collector": True,
        "enable_visualizations": True, "monitor_system": False, "track_gradients": False,
        "buffer_size": 500, "flush_interval": 2.0, "tensorboard_dir": "./logs",
        "visualization_dir": "./visualizations", "enable_dashboard": True,
        "dashboard_host": "127.0.0.1", "dashboard_port": 8080, "enable_alerts": True,
        "alert_thresholds": {"cpu_usage": 85.0, "memory_usage": 80.0, "grad_norm_exploded": 5.0},
        "gradient_monitoring": {"track_layers": ["encoder"]},
    })  # fmt: skip
    assert (found.save_dir, found.tensorboard_dir, found.flush_interval) == ("x", "./logs", 2.0)
    assert not found.system and not found.gradients
    assert found.thresholds["cpu_usage_percent"] == 85.0
    assert found.thresholds["grad_norm_exploded"] == 5.0
    assert sorted(found.missing) == ["visualizations"]
    assert (found.dashboard, found.dashboard_host, found.dashboard_port) == (
        True, "127.0.0.1", 8080)  # fmt: skip


def test_what_has_no_effect_is_said():
    found = settings({"performance_tuning": {"high_frequency_mode": False},
                      "metrics_collection": {"save_interval": 100},
                      "visualization": {"grafana": True}})  # fmt: skip
    assert sorted(found.missing) == [
        "metrics_collection.save_interval", "performance_tuning.high_frequency_mode",
        "visualization.grafana",
    ]  # fmt: skip
    assert all("has no effect" in text for text in found.missing.values())


def test_nothing_at_all(monkeypatch):
    monkeypatch.delenv("LAPSE_CONFIG", raising=False)
    found = settings(None)
    assert (found.save_dir, found.gradients, found.system, found.missing) == (
        "./monitoring_logs", True, True, {})  # fmt: skip


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"dashbord": {"port": 1}}, "did you mean"),
        ({"alert_thresholds": {"cpu_usge": 1}}, "did you mean 'cpu_usage'"),
        ({"dashboard": {"port": "eighty"}}, "dashboard.port"),
        ({"monitor_system": "yes"}, "monitor_system is true or false"),
        ({"flush_interval": "soon"}, "flush_interval is a time above 0 seconds, not 'soon'"),
        ({"flush_interval": -1}, "flush_interval is a time above 0 seconds, not -1"),
    ],
)
def test_what_is_wrong_is_said(config, says):
    with pytest.raises(ValueError) as raised:
        settings(config)
    assert "TrainingMonitor: " in str(raised.value) and says in str(raised.value)


def test_dashboard_that_cannot_be_is_told_and_does_not_fail(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPSE_RENDEZVOUS", str(tmp_path / "meet"))
    monitor = TrainingMonitor({"save_dir": str(tmp_path), "dashboard": {"enabled": True}})
    monkeypatch.setenv("LAPSE_BIN", str(tmp_path / "nowhere"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        monitor._serve()
    assert len(said) == 1 and said[0].category is RuntimeWarning
    assert "no dashboard: " in str(said[0].message)
    assert monitor.dashboard is None and monitor.missing == {}


def test_unknown_preset():
    with pytest.raises(ValueError, match="did you mean 'strict'"):
        TrainingMonitor(thresholds="strickt")


# ---- files ----------------------------------------------------------------------------------


def test_nothing_is_lost_whatever_the_buffer(tmp_path):
    """T-24: far more rows than the original's deque holds, from two threads."""
    base = MetricsDatabase(str(tmp_path / "new" / "metrics.db"), flush_interval=0.01)

    def put(start):
        for i in range(start, 20000, 2):
            base.add("training_metrics", {"timestamp": 1.0 + i, "global_step": i, "loss": i / 2})

    threads = [threading.Thread(target=put, args=(start,)) for start in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    rows = list(base.rows("training_metrics"))
    assert [row["global_step"] for row in rows] == list(range(20000))  # in order of time
    assert rows[7]["loss"] == 3.5 and base.lost == 0
    base.close()
    assert base.flushes < 20000  # not a commit each


def test_tables_are_the_guides(tmp_path):
    base = MetricsDatabase(str(tmp_path / "metrics.db"))
    base.add("alerts", {"timestamp": 2.0, "alert_type": "a", "severity": "info", "message": "m",
                        "metadata": {"threshold": 1}, "acknowledged": 0})  # fmt: skip
    base.close()
    with sqlite3.connect(tmp_path / "metrics.db") as file:
        rows = file.execute("SELECT name FROM sqlite_master WHERE type='table'")
        tables = {name for (name,) in rows}
        assert tables >= set(TABLES)
        assert file.execute("SELECT alert_type, metadata FROM alerts").fetchall() == [
            ("a", '{"threshold": 1}')]  # fmt: skip
    second = MetricsDatabase(str(tmp_path / "metrics.db"))
    second.add("alerts", {"timestamp": 3.0, "alert_type": "b", "severity": "info", "message": "m"})
    assert [row["alert_type"] for row in second.rows("alerts")] == ["b"]  # of this session
    assert [row["alert_type"] for row in second.rows("alerts", all=True)] == ["a", "b"]
    second.close()


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, no folder")
    base = MetricsDatabase(str(blocked / "metrics.db"), flush_interval=1000)
    for i in range(5):
        base.add("system_metrics", {"timestamp": float(i)})
    base.flush()
    assert base.reason and base.lost == 0
    blocked.unlink()
    assert len(list(base.rows("system_metrics"))) == 5 and base.reason == ""
    base.close()


class Strange:
    def __float__(self):
        return 0.5


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no")


def test_whatever_a_row_holds_the_others_are_written(tmp_path):
    """A thread that ended at the first odd value took the rows of its flush with it."""
    base = MetricsDatabase(str(tmp_path / "metrics.db"), flush_interval=0.01)
    alert = {"timestamp": 1.0, "alert_type": "a", "severity": "info", "message": "half \ud800"}
    inside = {}
    inside["itself"] = inside
    odd = [{"number": Strange(), "set": {"b", "a"}, "no": Unspeakable()}, {(1, 2): 3}, inside]
    for metadata in odd:
        base.add("alerts", {**alert, "metadata": metadata})
    for step, loss in ((1, Strange()), (2, 1 << 70), (3, 2.0)):
        base.add("training_metrics", {"timestamp": float(step), "global_step": step, "loss": loss})
    base.add("alerts", {**alert, "message": None})  # the table does not allow it
    end = time.monotonic() + 30
    while base.flushes < 3 and time.monotonic() < end:
        time.sleep(0.01)
    assert base._thread.is_alive() and base.reason == ""
    base.add("training_metrics", {"timestamp": 4.0, "global_step": 4, "loss": 3.0})
    rows = list(base.rows("training_metrics"))
    assert [row["loss"] for row in rows] == [0.5, float(1 << 70), 2.0, 3.0]
    alerts = list(base.rows("alerts"))
    assert [row["message"] for row in alerts] == ["half ?"] * 3
    assert alerts[0]["metadata"] == {"number": 0.5, "set": ["a", "b"], "no": "a Unspeakable"}
    assert base.lost == 1, "and it is counted"
    base.close()


def test_exports_make_their_folder(tmp_path):
    """T-23."""
    rows = [{"a": 1, "b": None}, {"a": 2, "c": {"x": float("inf")}}]
    write_json(str(tmp_path / "x" / "y" / "r.json"), iter(rows))
    assert json.loads((tmp_path / "x" / "y" / "r.json").read_text()) == [
        {"a": 1, "b": None}, {"a": 2, "c": {"x": "inf"}}]  # fmt: skip
    write_csv(str(tmp_path / "z" / "r.csv"), iter(rows))
    with open(tmp_path / "z" / "r.csv", newline="") as file:
        assert next(csv.DictReader(file)) == {"a": "1", "b": "", "c": ""}
    assert not [name for name in os.listdir(tmp_path / "z") if name.endswith(".part")]


def test_cap_folds_what_is_beyond_it(monkeypatch):
    """max_events_per_second: nothing is left out silently."""
    logged = []
    monkeypatch.setattr(_core, "log", lambda *args: logged.append(args))
    cap = Cap(2)
    second = 1_000_000_000
    frames = [(0, 10.0), (1, 20.0), (2, 1.0), (3, 5.0), (4, 3.0)]
    took = [cap.takes({"loss": v}, step, 7 * second + step) for step, v in frames]
    assert took == [True, True, False, False, False] and cap.folded == 3
    assert cap.takes({"loss": 9.0}, 5, 8 * second)  # the next second: the sums come first
    assert logged == [({"loss/min": 1.0, "loss/max": 5.0, "loss/mean": 3.0, "loss/count": 3},
                       4, 7 * second + 4)]  # fmt: skip
    cap.flush()
    assert len(logged) == 1
    assert all(Cap(None).takes({}, i, 0) for i in range(100))


# ---- advice ---------------------------------------------------------------------------------


def advised(training=(), system=()):
    seen = advice.Seen()
    for figures in training:
        seen.training(TrainingMetrics(**figures))
    for figures in system:
        seen.system(SystemMetrics(**figures))
    return advice.recommend(seen)


FALLING = [{"loss": 2.0 - 0.01 * i, "grad_norm": 1.0, "batch_time": 0.1} for i in range(50)]
HEALTHY = [{"cpu_usage_percent": 60.0, "memory_usage_percent": 40.0, "gpu_utilization": 85.0}] * 25


@pytest.mark.parametrize(
    ("training", "system", "title", "seen"),
    [
        ([], [{"cpu_usage_percent": 40.0}], "CPU utilization is low", "40.0 %"),
        ([], [{"memory_usage_percent": 81.0}], "High memory usage", "81.0 %"),
        ([], [{"gpu_utilization": 95.0}], "High GPU utilization", "95.0 %"),
        ([], [{"gpu_utilization": 45.0}], "Low GPU utilization", "45.0 %"),
        ([{"grad_norm": 6.0}], [], "High gradient norms", "6"),
        ([{"grad_norm": 0.0005}], [], "Very low gradient norms", "0.0005"),
        ([{"batch_time": 6.0}], [], "Slow training", "6.0 s"),
        ([{"batch_time": 1.0, "data_load_time": 0.6}], [], "Data loading bottleneck", "60%"),
        ([{"loss": 0.0}] * 10 + [{"loss": 4.0}] * 10, [], "Training instability", "variance"),
        ([{"loss": 1.0 + 0.01 * (i % 2)} for i in range(20)], [], "High learning rate", "turn"),
        ([], [{"memory_usage_percent": 40 + 0.2 * i} for i in range(25)], "Potential memory leak",
         "0.20 %"),
    ],
)  # fmt: skip
def test_each_recommendation(training, system, title, seen):
    (found,) = advised(training, system)
    assert isinstance(found, Recommendation)
    assert found.title == title and seen in found.rationale
    assert found.category in ("training", "system", "resource")
    assert found.priority in ("high", "medium", "low")
    assert found.implementation_effort in ("low", "medium", "high")
    assert found.impact_estimate and found.description and found.metrics_affected


def test_no_advice_where_all_is_well():
    assert advised(FALLING, HEALTHY) == []
    assert advised() == []


def test_the_urgent_come_first():
    found = advised([{"grad_norm": 9.0}], [{"cpu_usage_percent": 10.0, "gpu_utilization": 10.0}])
    assert [one.priority for one in found] == ["high", "medium", "low"]


def test_oscillation_and_slope():
    assert advice.oscillation([1, 2, 1, 2, 1]) == 0.75  # 3 turns in 4 changes
    assert advice.slope([1.0, 3.0, 5.0]) == pytest.approx(2.0)


# ---- the machine ----------------------------------------------------------------------------


class TwoGpus:
    """What the agent would have stored of a machine with two GPUs."""

    version = 1

    def __init__(self):
        self.gpus, self.gpu_uuid = ["0", "1"], {}

    def row(self, columns, seconds, gpus):
        assert columns == "monitor"
        found = {"cpu_usage_percent": 12.5, "process_memory_mb": 100.0, "cpu_memory_mb": 100.0,
                 "cpu_temperature": None}  # fmt: skip
        for gpu in gpus:
            n = int(gpu)
            found.update({f"gpu_{gpu}_utilization": 40.0 + 20 * n,
                          f"gpu_{gpu}_memory_utilization": 10.0 + n,
                          f"gpu_{gpu}_memory_mb": 1000.0, f"gpu_{gpu}_temperature": 60.0 + n,
                          f"gpu_{gpu}_power_watts": 200.0 + n})  # fmt: skip
        return found

    def absent(self, columns):
        return {"cpu_temperature": "no sensor"}


def test_every_gpu_survives(monkeypatch):
    """T-18: each GPU for itself, and figures of all."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(_machine, "share", TwoGpus)
    monkeypatch.setattr(_machine, "give_back", lambda: None)
    monitor = SystemMonitor(update_interval=60.0)
    seen = []
    monitor.callbacks.append(seen.append)
    monitor.start_monitoring()
    assert monitor.absent() == {"cpu_temperature": "no sensor"}
    monitor.stop_monitoring()  # looks once more
    (metrics,) = seen
    assert metrics is monitor.get_latest_metrics()
    assert metrics.gpus["0"]["utilization"] == 40.0 and metrics.gpus["1"]["utilization"] == 60.0
    assert (metrics.gpu_utilization, metrics.gpu_temperature) == (50.0, 61.0)
    assert (metrics.gpu_memory_mb, metrics.gpu_power_watts) == (2000.0, 401.0)
    assert metrics.cpu_usage_percent == 12.5 and metrics.to_dict()["cpu_temperature"] is None


def test_chosen_gpus(monkeypatch):
    monkeypatch.setattr(_machine, "share", TwoGpus)
    monkeypatch.setattr(_machine, "give_back", lambda: None)
    monitor = SystemMonitor(device_ids=[1], update_interval=60.0)
    monitor.start_monitoring()
    monitor.stop_monitoring()
    assert list(monitor.get_latest_metrics().gpus) == ["1"]
    with pytest.raises(ValueError, match="update_interval"):
        SystemMonitor(update_interval=0)
