# SPDX-License-Identifier: Apache-2.0
"""The callbacks guide's `_target_: ocr.callbacks…` in a real Hydra application whose
configuration is the guide's, word for word; and a real package `ocr`, which stays as it is."""

import pytest
from conftest import need

pytestmark = pytest.mark.timeout(300)

# configs/callbacks/*.yaml as the guide has them (its epochs and steps made small by the
# command line).
FILES = {
    "throughput_monitor": """
throughput_monitor:
  _target_: ocr.callbacks.throughput_monitor.ThroughputMonitorCallback
  enabled: true                    # Enable/disable monitoring
  log_interval: 1                  # Log every N epochs
  track_memory: true              # Monitor memory usage
  track_timing: true              # Monitor batch timing
""",
    "profiler": """
profiler:
  _target_: ocr.callbacks.profiler.ProfilerCallback
  enabled: false                   # Disabled by default (performance overhead)
  profile_epochs: [1, 5, 10]      # Which epochs to profile
  profile_steps: 100              # Steps to profile per epoch
  warmup_steps: 5                 # Warmup steps before profiling
  activities: ["cpu", "cuda"]     # Profiling activities
  record_shapes: true             # Record tensor shapes
  with_stack: false               # Stack traces (slower but detailed)
  output_dir: "profiler_traces"   # Output directory
  export_chrome_trace: true       # Export Chrome traces
  log_top_k_ops: 15               # Top-k slowest operations to log
""",
    "resource_monitor": """
resource_monitor:
  _target_: ocr.callbacks.resource_monitor.ResourceMonitorCallback
  enabled: true                    # Enable/disable monitoring
  log_interval: 10                 # Log every N batches
  gpu_monitoring: true            # Monitor GPU resources
  cpu_monitoring: true            # Monitor CPU resources
  io_monitoring: true             # Monitor disk I/O
  alert_gpu_underutilization: true # Alert on GPU underuse
  alert_memory_pressure: true     # Alert on high memory usage
  alert_io_bottleneck: true       # Alert on I/O bottlenecks
  gpu_util_threshold: 0.5         # GPU utilization threshold (50%)
  memory_threshold: 0.9           # Memory usage threshold (90%)
  io_wait_threshold: 0.3          # I/O wait threshold (30%)
  export_timeseries: true         # Export time-series data
  timeseries_path: "resource_logs" # CSV export directory
""",
}

APPLICATION = """
import json, os, sys, warnings
import hydra
from hydra.utils import instantiate
import lapse
import lapse.compat.ocr

warnings.simplefilter("ignore")
files = json.loads(sys.argv.pop(1))
os.makedirs("configs/callbacks")
for name, text in files.items():
    open(f"configs/callbacks/{name}.yaml", "w").write(text)
open("configs/train.yaml", "w").write(
    "defaults: [{callbacks: []}, _self_]\\n"
    "hydra: {run: {dir: .}, output_subdir: null, job_logging: {root: {level: ERROR}}}\\n")

before = {}
try:
    import ocr
except ImportError as error:
    before["without"] = str(error)
lapse.compat.ocr.install()
lapse.compat.ocr.install()
before["finders"] = sum(f is lapse.compat.ocr._finder for f in sys.meta_path)
before["imported"] = [m for m in sys.modules if m in ("torch", "lightning", "ocr")]

@hydra.main(config_path=os.path.abspath("configs"), config_name="train", version_base=None)
def main(cfg):
    import lightning.pytorch as pl, torch
    import lapse.lightning
    torch.set_num_threads(1)
    made = [instantiate(entry) for entry in cfg.callbacks.values()]

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
        def training_step(self, batch, index):
            return self.layer(batch).pow(2).mean()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lapse.init(capture=False)
    trainer = pl.Trainer(callbacks=made, max_epochs=2, logger=False, accelerator="cpu",
                         enable_progress_bar=False, enable_model_summary=False,
                         enable_checkpointing=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=2))
    from ocr.callbacks import ProfilerCallback as short
    try:
        from ocr.callbacks.profiler import Nothing
    except ImportError as error:
        missing = str(error)
    lapse.compat.ocr.uninstall()
    gone = [name for name in sys.modules if name.partition(".")[0] == "ocr"]
    print("RESULT " + json.dumps({
        **before, "missing": missing, "gone": gone,
        "ours": [isinstance(c, getattr(lapse.lightning, type(c).__name__)) for c in made],
        "made": [type(c).__name__ for c in made],
        "short": short is lapse.lightning.ProfilerCallback,
        "traces": sorted(f for f in os.listdir("profiler_traces") if f.endswith(".json")),
        "csv": sorted(os.listdir("resource_logs")),
    }))
    lapse.finish()

main()
"""


@pytest.fixture(scope="module")
def application(program):
    import json

    return program(
        APPLICATION, json.dumps(FILES),
        "callbacks=[throughput_monitor,profiler,resource_monitor]",
        "callbacks.throughput_monitor.enabled=true", "callbacks.profiler.enabled=true",
        "callbacks.profiler.profile_epochs=[1]", "callbacks.profiler.profile_steps=5",
        "callbacks.profiler.warmup_steps=1", "callbacks.resource_monitor.enabled=true",
        key="hydra", env={"LAPSE_CONSOLE_STYLE": "classic"},
    )  # fmt: skip


@need("torch", "hydra", "lightning")
def test_the_guides_configuration_trains(application):
    said = application.said
    assert said["made"] == ["ThroughputMonitorCallback", "ProfilerCallback",
                            "ResourceMonitorCallback"]  # fmt: skip
    assert said["ours"] == [True, True, True] and said["short"]
    assert said["traces"] == ["chrome_trace_epoch_1.json"]
    assert said["csv"] == ["epoch_0.csv", "epoch_1.csv"]
    assert any(line.startswith("ThroughputMonitor: Epoch 1 - samples/sec:")
               for line in application.lines)  # fmt: skip


@need("torch", "hydra", "lightning")
def test_nothing_is_loaded_by_installing(application):
    said = application.said
    assert said["without"] == "No module named 'ocr'"
    assert (said["finders"], said["imported"], said["gone"]) == (1, [], [])
    assert "Nothing" in said["missing"]


REAL = """
import importlib, json, os, sys
import lapse.compat.ocr
os.makedirs("ocr/callbacks")
open("ocr/__init__.py", "w").write("mine = 1\\n")
open("ocr/callbacks/__init__.py", "w").write("mine = 2\\n")
open("ocr/callbacks/profiler.py", "w").write("class ProfilerCallback:\\n    mine = 3\\n")
sys.path.insert(0, os.getcwd())
lapse.compat.ocr.install()
import ocr, ocr.callbacks, ocr.callbacks.profiler
added = importlib.import_module("ocr.callbacks.resource_monitor")
found = {"ocr": ocr.mine, "callbacks": ocr.callbacks.mine, "added": added.__all__,
         "profiler": ocr.callbacks.profiler.ProfilerCallback.mine}
for name in ("ocr.models", "ocr.callbacks.other"):
    try:
        importlib.import_module(name)
        found[name] = "there"
    except ImportError as error:
        found[name] = str(error)
lapse.compat.ocr.uninstall()
found["left"] = sorted(name for name in sys.modules if name.partition(".")[0] == "ocr")
print("RESULT " + json.dumps(found))
"""


def test_a_real_package_is_not_hidden(program):
    said = program(REAL, key="real").said
    assert (said["ocr"], said["callbacks"], said["profiler"]) == (1, 2, 3)
    assert said["added"] == ["ResourceMonitorCallback"]  # what it lacks
    assert said["ocr.models"] == "No module named 'ocr.models'"
    assert said["ocr.callbacks.other"] == "No module named 'ocr.callbacks.other'"
    assert said["left"] == ["ocr", "ocr.callbacks", "ocr.callbacks.profiler"]


def test_new_names():
    from lapse.compat.ocr import new_name

    assert new_name("ocr.callbacks.profiler.ProfilerCallback") == "lapse.lightning.ProfilerCallback"
    assert new_name("ocr.callbacks.ResourceMonitorCallback") == (
        "lapse.lightning.ResourceMonitorCallback"
    )
    assert new_name("ocr.models.Model") == "ocr.models.Model"
    assert new_name("ocr.callbacks.profiler.Other") == "ocr.callbacks.profiler.Other"
