# SPDX-License-Identifier: Apache-2.0
"""lapse.configure(): a file, a dict, the environment and arguments, in which order, and
what is said of wrong and of foreign keys; lapse.torch.from_config(): the helpers."""

import warnings

import pytest
from conftest import need

import lapse


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    import os

    for name in os.environ:
        if name.startswith("LAPSE_"):
            monkeypatch.delenv(name)


def configure(*arguments, **keys):
    """(the plan, the warnings' texts)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = lapse.configure(*arguments, **keys)
    return plan, [str(w.message) for w in caught]


def test_nothing_asked_for():
    plan, said = configure()
    assert (plan.helpers, plan.profile, plan.every, plan.ranks) == ((), None, 10, "all")
    assert said == []


LAYERS = {"monitoring": {"interval": 5}, "torch": {"helpers": ["gc"], "every": 3}}


@pytest.mark.parametrize("file", [None, "file"])
@pytest.mark.parametrize("variable", [None, "", "variable"])
@pytest.mark.parametrize("argument", [None, "argument"])
def test_precedence(tmp_path, monkeypatch, file, variable, argument):
    names = {"file": ("gc", 3), "variable": ("allocator", 4), "argument": ("compile", 5)}
    path = tmp_path / "lapse.yaml"
    path.write_text("torch: {helpers: [gc], every: 3}\n" if file else "torch: {}\n")
    if variable is not None:
        monkeypatch.setenv("LAPSE_TORCH_HELPERS", names[variable][0] if variable else "")
        monkeypatch.setenv("LAPSE_TORCH_EVERY", str(names[variable][1]) if variable else "")
    given = {"helpers": [names[argument][0]], "every": names[argument][1]} if argument else {}
    plan, _ = configure(path, **given)
    winner = argument or variable or file
    assert (plan.helpers, plan.every) == (
        ((names[winner][0],), names[winner][1]) if winner else ((), 10)
    )


def test_dict_and_file_are_read_alike(tmp_path):
    document = {"torch": {"helpers": True, "layers": ["encoder", "head.*"], "ranks": "zero"},
                "profile": {"enabled": True, "wait": 10, "dir": "t"}}  # fmt: skip
    path = tmp_path / "lapse.yaml"
    path.write_text("torch: {helpers: true, layers: [encoder, 'head.*'], ranks: zero}\n"
                    "profile: {enabled: yes, wait: 10, dir: t}\n")  # fmt: skip
    one, two = configure(document)[0], configure(path)[0]
    assert one.to_dict() == two.to_dict()
    assert " ".join(one.helpers) == (
        "gradients histograms optimizer allocator gc tracemalloc compile"
    )
    assert one.layers == ("encoder", "head.*") and one.ranks == "zero"
    assert one.profile == {"dir": "t", "wait": 10, "warmup": 2, "active": 3, "repeat": 1}
    assert configure(**one.to_dict())[0].to_dict() == one.to_dict()


def test_file_of_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "lapse.yaml"
    path.write_text("torch: {helpers: [gc]}\n")
    monkeypatch.setenv("LAPSE_CONFIG", str(path))
    assert configure()[0].helpers == ("gc",)
    path.write_text("torch: {helper: [gc]}\n")
    plan, said = configure()
    assert plan.helpers == ()
    (text,) = said
    assert "LAPSE_CONFIG" in text and 'did you mean "torch.helpers"' in text and "left out" in text


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"track_gradient": True}, 'unknown key "track_gradient"; did you mean "track_gradients"?'),
        ({"torch": {"evry": 3}}, 'unknown key "torch.evry"; did you mean "torch.every"?'),
        ({"torch": {"helpers": ["gradient"]}}, "did you mean gradients?"),
        ({"torch": {"every": 0}}, "torch.every"),
        ({"torch": {"ranks": "zeros"}}, "ranks: no 'zeros'; did you mean 'zero'?"),
        ({"gradient_monitoring": {"track_layer": ["a"]}},
         'did you mean "gradient_monitoring.track_layers"?'),
        ({"profile": {"wait": "long"}}, "profile.wait"),
    ],
)  # fmt: skip
def test_wrong_keys_and_values(config, what):
    with pytest.raises(ValueError) as error:
        lapse.configure(config)
    assert what in str(error.value)
    assert "/tmp" not in str(error.value)  # a dict has no file


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"helpers": "gradient"}, "did you mean 'gradients'?"),
        ({"ranks": "none"}, "there are all, zero, aggregate"),
        ({"every": 0}, "from 1 on"),
        ({"profile": {"waits": 1}}, "did you mean 'wait'?"),
    ],
)
def test_wrong_arguments(arguments, what):
    with pytest.raises(ValueError) as error:
        lapse.configure(**arguments)
    assert what in str(error.value)


# ---- the documents' own, as they stand ---------------------------------------------------

QUICK_START = {
    "save_dir": "./monitoring_logs",
    "enable_dashboard": True,
    "dashboard_port": 8080,
    "enable_alerts": True,
}
FILES = {
    "quick start": """
dashboard:
  enabled: true
  host: "127.0.0.1"
  port: 8080

alert_system:
  enabled: true
  thresholds:
    cpu_usage_percent: 85.0
    memory_usage_percent: 80.0
""",
    "all interfaces": """
dashboard:
  enabled: true
  host: "0.0.0.0"  # Bind to all interfaces
  port: 8080
  refresh_interval: 5  # seconds
""",
    "thresholds": """
alert_system:
  thresholds:
    cpu_usage_percent: 90.0
    memory_usage_percent: 85.0
    grad_norm_exploded: 10.0
    learning_rate_too_low: 1e-8
""",
    "optimization": """
performance_tuning:
  high_frequency_mode: false
  buffer_size: 1000
  flush_interval: 10.0
""",
    "fast loops": """
performance_tuning:
  high_frequency_mode: true
  batch_metrics_collection: true
  max_events_per_second: 1000
""",
    "large data": """
performance_tuning:
  use_memory_maps: true
  auto_cleanup: true
  max_database_size_gb: 100.0
""",
    "low memory": """
metrics_collection:
  buffer_size: 500
  flush_interval: 5.0
""",
}
ADVANCED = """
monitoring:
  enabled: true
  interval: 10  # seconds

  metrics:
    - training_loss
    - gpu_memory
    - cpu_usage
    - training_speed
    - model_parameters
    - gradient_norms
    - learning_rate

  visualization:
    tensorboard: true
    dashboard: true
    prometheus: true
    grafana: true

  alerting:
    enabled: true
    email_notifications: true
    slack_notifications: true
    thresholds:
      loss_increase: 0.05
      gpu_memory: 0.85
      cpu_usage: 0.9
      training_speed: 0.7

  analysis:
    trend_analysis: true
    anomaly_detection: true
    performance_regression: true
"""


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_documents(tmp_path, name):
    """Taken as they stand; what has no meaning here is told, with its line."""
    path = tmp_path / "monitoring_config.yaml"
    path.write_text(FILES[name])
    plan, said = configure(path)
    assert (plan.helpers, plan.profile) == ((), None)
    assert [text.partition(": ")[2] for text in said] == list(plan.notes)
    without = {"quick start": 2, "all interfaces": 0, "thresholds": 4, "optimization": 2,
               "fast loops": 1, "large data": 0, "low memory": 1}  # fmt: skip
    assert len(said) == without[name]
    assert all("has no effect in this version" in text and str(path) in text for text in said)


def test_metrics_of_the_advanced_file(tmp_path):
    path = tmp_path / "advanced.yaml"
    path.write_text(ADVANCED)
    plan, said = configure(path)
    assert plan.helpers == ("gradients", "histograms", "optimizer")
    keys = [text.split(": ")[2] for text in said]
    assert "alerting.email_notifications" in keys
    assert not [k for k in keys if k.startswith("monitoring.")]
    path.write_text(ADVANCED.replace("enabled: true\n  interval", "enabled: false\n  interval"))
    assert configure(path)[0].helpers == ()


@pytest.mark.parametrize(
    ("config", "expected", "notes"),
    [
        (QUICK_START, {}, []),
        ({"tensorboard_dir": "./logs", "enable_performance_monitor": True}, {},
         ["tensorboard_dir"]),
        ({"track_gradients": True,
          "gradient_monitoring": {"track_layers": ["encoder", "decoder", "classifier"]}},
         {"helpers": ("gradients",), "layers": ("encoder", "decoder", "classifier")}, []),
        ({"distributed_monitoring": True, "track_rank_0_only": True}, {"ranks": "zero"}, []),
        ({"distributed_monitoring": True}, {"ranks": "all"}, []),
        ({"gradient_monitoring": {"compute_layer_stats": True, "detect_gradient_explosion": False}},
         {"helpers": ("gradients",), "layer_stats": True, "exploding": False}, []),
    ],
)  # fmt: skip
def test_dicts_of_the_documents(config, expected, notes):
    plan, said = configure(config)
    for name, value in expected.items():
        assert getattr(plan, name) == value
    assert [text.split(": ")[1] for text in said] == notes


def test_the_plan_opens_the_run_of_its_file(place):
    """save_dir of the document is the folder of the runs."""
    (place.folder / "m.yaml").write_text("save_dir: ./monitoring_logs\nrun: {project: p}\n")
    del place.env["LAPSE_DIR"]
    place.run("""
        import lapse, sys, warnings
        warnings.simplefilter("ignore")
        run = lapse.configure("m.yaml").init(name="n")
        assert run.recording, run.error
        lapse.log({"a": 1})
    """)
    place.runs = place.folder / "monitoring_logs"
    place.env["LAPSE_DIR"] = str(place.runs)
    stored = place.stored()
    assert stored.values("a") == [1]
    assert (stored.info["name"], stored.info["project"]) == ("n", "p")


def test_a_rank_that_does_not_record_opens_no_run(place):
    place.env.update(RANK="1", WORLD_SIZE="2")
    done = place.run("""
        import lapse
        for ranks in ("zero", "aggregate"):
            run = lapse.configure(ranks=ranks).init()
            print(run.recording, run.error)
    """)
    assert done.stdout.splitlines() == [
        'False ranks="zero": rank 0 alone records', 'False ranks="aggregate": rank 0 alone records',
    ]  # fmt: skip
    assert place.ids() == []


# ---- helpers ---------------------------------------------------------------------------


@need("torch")
def test_helpers_of_a_configuration(place):
    """One of each in a small loop: each has left its series."""
    done = place.script("""
        import torch, lapse, lapse.torch, warnings
        torch.set_num_threads(1)
        lapse.init()
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        config = {"torch": {"helpers": ["gradients", "optimizer", "gc"], "every": 2,
                            "layers": ["0"]}}
        with lapse.torch.from_config(config, model, optimizer) as watch:
            for step in range(4):
                with lapse.step(step):
                    optimizer.zero_grad()
                    model(torch.ones(2, 4)).sum().backward()
                    optimizer.step()
                    watch.step()
            print(sorted(watch.helpers), watch.missing)
            print(watch.helpers["gradients"].total > 0, sorted(watch.helpers["gradients"].layers))
        without = lapse.torch.from_config(config)
        print(sorted(without.missing))
    """)
    lines = done.stdout.splitlines()
    assert lines[0] == "['gc', 'gradients', 'optimizer'] {}"
    assert lines[1].startswith("True ['0'")
    assert lines[2] == "['gradients', 'optimizer']"
    recorded = done.recorded()
    assert [value for _, value in recorded["optimizer/lr"]] == [0.25, 0.25]
    assert len(recorded["gradients/norm"]) == 4  # in total and of layer 0, twice
