# SPDX-License-Identifier: Apache-2.0
"""The config group `callbacks` in a real Hydra application, called by the guide's own
command lines; adapted only where Hydra refuses them."""

from pathlib import Path

import pytest
from conftest import need

pytestmark = [
    need("torch", "hydra", "lightning"),
    pytest.mark.timeout(300),
]

# runners/train.py: an application that knows nothing of lapse but lapse.hydra.callbacks().
APPLICATION = """
import json, os, sys
import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
import lapse.hydra

os.makedirs("configs/data")
open("configs/data/canonical.yaml", "w").write("name: canonical\\n")
open("configs/train.yaml", "w").write('''
defaults:
  - data: canonical
  - callbacks: []
  - _self_
project_name: none
exp_name: none
hydra: {run: {dir: .}, output_subdir: null, job_logging: {root: {level: ERROR}}}
''')
open("configs/bare.yaml", "w").write(
    "defaults: [_self_]\\nhydra: {run: {dir: .}, output_subdir: null}\\n")
os.makedirs("own/callbacks")
open("own/callbacks/profiler.yaml", "w").write("profiler: {mine: true}\\n")
open("own/train.yaml", "w").write(
    "defaults: [{callbacks: profiler}, _self_]\\nhydra: {run: {dir: .}, output_subdir: null}\\n")

def run(line, config="train", path="configs", act=None):
    seen = {}
    @hydra.main(config_path=os.path.abspath(path), config_name=config, version_base=None)
    def main(cfg):
        seen["cfg"] = OmegaConf.to_container(cfg)
        made = lapse.hydra.callbacks(cfg)
        seen["made"] = [type(c).__name__ for c in made]
        if act is not None:
            act(cfg, made, seen)
    sys.argv = ["train.py", *line.split()]
    GlobalHydra.instance().clear()
    error = sys.stderr
    try:
        sys.stderr = open("stderr", "w")
        main()
    except SystemExit as stop:
        seen["status"] = stop.code
    finally:
        sys.stderr.close()
        sys.stderr = error
    seen["stderr"] = open("stderr").read()
    return seen

def fit(cfg, made, seen):
    import lightning.pytorch as pl, torch, warnings
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
        def training_step(self, batch, index):
            return self.layer(batch).pow(2).mean()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    trainer = pl.Trainer(callbacks=made, max_epochs=2, logger=False, accelerator="cpu",
                         enable_progress_bar=False, enable_model_summary=False,
                         enable_checkpointing=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=2))
    seen["files"] = sorted(os.listdir("profiler_traces")) + sorted(os.listdir("resource_logs"))

import lapse
lapse.init(capture=False)
lines = json.loads(sys.argv[1])
out = {name: run(line) for name, line in lines.items() if name != "combined"}
out["bare"] = run("+callbacks=resource_monitor callbacks.resource_monitor.log_interval=5", "bare")
out["own"] = run("", path="own")
out["combined"] = run(lines["combined"], act=fit)
print("RESULT " + json.dumps(out))
lapse.finish()
"""

# From the guide, after `uv run python runners/train.py`. The last has brackets: without
# them Hydra takes the commas for a sweep and refuses it outside of --multirun.
LINES = {
    "throughput": """
        data=canonical
        callbacks=throughput_monitor
        callbacks.throughput_monitor.enabled=true
        callbacks.throughput_monitor.log_interval=1
        project_name=OCR_Training
        exp_name=throughput_monitoring_test""",
    "profiler": """
        data=canonical
        callbacks=profiler
        callbacks.profiler.enabled=true
        callbacks.profiler.profile_epochs=[1,5]
        callbacks.profiler.profile_steps=50
        project_name=OCR_Training
        exp_name=profiling_test""",
    "resource": """
        data=canonical
        callbacks=resource_monitor
        callbacks.resource_monitor.enabled=true
        callbacks.resource_monitor.log_interval=10
        project_name=OCR_Training
        exp_name=resource_monitoring_test""",
    "combined": """
        data=canonical
        callbacks=[throughput_monitor,profiler,resource_monitor]
        callbacks.throughput_monitor.enabled=true
        callbacks.profiler.enabled=true
        callbacks.profiler.profile_epochs=[1]
        callbacks.resource_monitor.enabled=true
        project_name=OCR_Training
        exp_name=comprehensive_monitoring""",
    "without brackets": "callbacks=throughput_monitor,profiler,resource_monitor",
    "default": "callbacks=lapse_default",
    "typo": "callbacks=throughput_monitr",
}


@pytest.fixture(scope="module")
def said(program):
    import json

    return program(APPLICATION, json.dumps(LINES)).said


def test_throughput(said):
    cfg = said["throughput"]["cfg"]
    assert cfg["callbacks"] == {"throughput_monitor": {
        "_target_": "lapse.lightning.ThroughputMonitorCallback", "enabled": True,
        "log_interval": 1, "track_memory": True, "track_timing": True}}  # fmt: skip
    assert cfg["exp_name"] == "throughput_monitoring_test"
    assert said["throughput"]["made"] == ["ThroughputMonitorCallback"]


def test_profiler(said):
    (entry,) = said["profiler"]["cfg"]["callbacks"].values()
    assert entry == {
        "_target_": "lapse.lightning.ProfilerCallback", "enabled": True,
        "profile_epochs": [1, 5], "profile_steps": 50, "warmup_steps": 5,
        "activities": ["cpu", "cuda"], "record_shapes": True, "with_stack": False,
        "output_dir": "profiler_traces", "export_chrome_trace": True, "log_top_k_ops": 15,
    }  # fmt: skip
    assert said["profiler"]["made"] == ["ProfilerCallback"]


def test_resource(said):
    (entry,) = said["resource"]["cfg"]["callbacks"].values()
    assert entry == {
        "_target_": "lapse.lightning.ResourceMonitorCallback", "enabled": True,
        "log_interval": 10, "gpu_monitoring": True, "cpu_monitoring": True,
        "io_monitoring": True, "alert_gpu_underutilization": True,
        "alert_memory_pressure": True, "alert_io_bottleneck": True, "gpu_util_threshold": 0.5,
        "memory_threshold": 0.9, "io_wait_threshold": 0.3, "export_timeseries": True,
        "timeseries_path": "resource_logs",
    }  # fmt: skip
    assert said["resource"]["made"] == ["ResourceMonitorCallback"]


def test_combined_trains(said):
    combined = said["combined"]
    assert combined["made"] == [
        "ThroughputMonitorCallback", "ProfilerCallback", "ResourceMonitorCallback",
    ]  # fmt: skip
    assert combined["cfg"]["callbacks"]["profiler"]["profile_epochs"] == [1]
    assert combined["files"] == ["analysis", "chrome_trace_epoch_1.json", "epoch_0.csv",
                                 "epoch_1.csv"]  # fmt: skip


def test_hydra_refuses_commas_without_brackets(said):
    refused = said["without brackets"]
    assert refused["status"] == 1 and "To use it as a list" in refused["stderr"]


def test_default_has_all_and_the_profiler_off(said):
    assert list(said["default"]["cfg"]["callbacks"]) == [
        "lapse", "throughput_monitor", "profiler", "resource_monitor",
    ]  # fmt: skip
    assert said["default"]["made"] == [
        "LapseCallback", "ThroughputMonitorCallback", "ResourceMonitorCallback",
    ]  # fmt: skip


def test_unknown_name_is_refused_with_those_that_there_are(said):
    assert said["typo"]["status"] == 1 and "resource_monitor" in said["typo"]["stderr"]


def test_an_application_without_the_group(said):
    assert said["bare"]["made"] == ["ResourceMonitorCallback"]
    assert said["bare"]["cfg"]["callbacks"]["resource_monitor"]["log_interval"] == 5


def test_the_applications_own_goes_first(said):
    assert said["own"]["cfg"]["callbacks"] == {"profiler": {"mine": True}}


def test_yaml_defaults_are_those_of_the_classes():
    """The group and the classes say the same."""
    import inspect

    import yaml

    import lapse.hydra.conf
    import lapse.lightning

    folder = Path(lapse.hydra.conf.__file__).parent / "callbacks"
    for name in ("throughput_monitor", "profiler", "resource_monitor"):
        ((key, entry),) = yaml.safe_load((folder / f"{name}.yaml").read_text()).items()
        assert key == name
        kind = getattr(lapse.lightning, entry.pop("_target_").rpartition(".")[2])
        parameters = inspect.signature(kind).parameters.values()
        defaults = {p.name: list(p.default) if isinstance(p.default, tuple) else p.default
                    for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}  # fmt: skip
        assert entry == defaults
