# SPDX-License-Identifier: Apache-2.0
"""Lightning's callbacks without a fit: options and defaults, intervals, lines and advice of the
guide."""


import pytest
from conftest import missing, need

pytestmark = [need("torch"), pytest.mark.timeout(300)]


# ---- without a fit ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes():
    if missing("lightning"):
        pytest.skip("not installed: lightning")
    import lapse.lightning

    return lapse.lightning


def test_options_and_defaults_are_the_documents(classes):
    import inspect

    documented = {
        "ThroughputMonitorCallback": {"enabled": True, "log_interval": 1, "track_memory": True,
                                          "track_timing": True},
        "ProfilerCallback": {"enabled": False, "profile_epochs": (1, 5, 10), "profile_steps": 100,
                                 "warmup_steps": 5, "activities": ("cpu", "cuda"),
                                 "record_shapes": True,
                                 "with_stack": False, "output_dir": "profiler_traces",
                                 "export_chrome_trace": True, "log_top_k_ops": 15},
        "ResourceMonitorCallback": {"enabled": True, "log_interval": 10, "gpu_monitoring": True,
                                        "cpu_monitoring": True, "io_monitoring": True,
                                        "alert_gpu_underutilization": True,
                                        "alert_memory_pressure": True, "alert_io_bottleneck": True,
                                        "gpu_util_threshold": 0.5, "memory_threshold": 0.9,
                                        "io_wait_threshold": 0.3, "export_timeseries": True,
                                        "timeseries_path": "resource_logs"},
    }  # fmt: skip
    for name, options in documented.items():
        signature = inspect.signature(getattr(classes, name))
        found = {p.name: p.default for p in signature.parameters.values()
                 if p.kind is p.POSITIONAL_OR_KEYWORD}  # fmt: skip
        assert found == options, name


def test_intervals(classes):
    from lapse.lightning._throughput import interval

    assert interval(2) == ("epochs", 2) and interval("3 epochs") == ("epochs", 3)
    assert interval("100 batches") == ("batches", 100) and interval("30s") == ("seconds", 30)
    assert interval("2 min") == ("seconds", 120)
    for wrong in (0, -1, "x", True, "1.5", "2.5 batches"):
        with pytest.raises(ValueError, match="log_interval"):
            interval(wrong)


def test_gpu_lines_and_alert_of_the_guide(classes):
    """The guide's own figures."""
    callback = classes.ResourceMonitorCallback(console_style="classic")

    class Machine:
        gpus = ("0",)

        def get(self, name):
            return {"memory_total_mb": 32 * 1024.0}[name]

    callback._machine = Machine()
    callback.last = {
        "gpu_0_util": 0.85, "gpu_0_memory_used_mb": 6.2 * 1024, "gpu_0_memory_total_mb": 8192.0,
        "gpu_0_temp_c": 72.0, "cpu_percent": 45.0, "memory_system_mb": 12.3 * 1024,
    }  # fmt: skip
    assert callback._classic() == [
        "ResourceMonitor: GPU 0 - Util: 85%, Mem: 6.2/8.0GB, Temp: 72°C",
        "ResourceMonitor: CPU - Usage: 45%, Memory: 12.3/32GB",
    ]
    from lapse._resource_alerts import _alert

    alert = _alert("gpu_underutilization", "0", 0.2, 0.5, 30)
    assert callback._alert_line(alert) == (
        "ResourceMonitor: ALERT - GPU utilization below 50% for 30 batches"
    )


def test_wrong_options_raise_at_once(classes):
    with pytest.raises(ValueError, match="console_style"):
        classes.ThroughputMonitorCallback(console_style="x")
    with pytest.raises(ValueError, match="log_interval"):
        classes.ResourceMonitorCallback(log_interval=0)
    with pytest.raises(ValueError, match="neither of"):
        classes.of("torch")


def test_advice_of_the_guide_once(classes):
    """Slow, uneven, and full: the guide's three readings."""

    class Trainer:
        is_global_zero, said = True, []

        def print(self, line):
            self.said.append(line)

    class Machine:
        def get(self, name):
            return {"memory_total_mb": 1000.0}[name]

    callback, trainer = classes.ThroughputMonitorCallback(console_style="lapse"), Trainer()
    callback._machine = Machine()
    callback.last = {"samples_per_second": 30.0, "batch_load_time_ms_p50": 10.0,
                     "batch_load_time_ms_p99": 20.0, "memory_peak_mb": 900.0}  # fmt: skip
    callback._advise(trainer)
    assert trainer.said == [], "at the limits"
    callback.last = {"samples_per_second": 29.0, "batch_load_time_ms_p50": 10.0,
                     "batch_load_time_ms_p99": 21.0, "memory_peak_mb": 901.0}  # fmt: skip
    callback._advise(trainer)
    callback._advise(trainer)
    assert len(trainer.said) == 3
    for word, line in zip(("data loader", "augmentation", "preprocess"), trainer.said):
        assert word in line


def test_samples_of_a_batch(classes):
    import torch

    from lapse.lightning._common import batch_size

    tensor = torch.ones(7, 3)
    dicts = {"x": tensor}, (1, {"y": [tensor]}), {"n": "text", "x": tensor}
    for batch in (tensor, [tensor], *dicts):
        assert batch_size(batch) == 7
    assert batch_size("text") is None and batch_size([]) is None
