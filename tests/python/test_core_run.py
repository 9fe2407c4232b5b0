# SPDX-License-Identifier: Apache-2.0
"""init(), its settings and configuration; events, attributes, artifacts."""

import argparse
import dataclasses
import json
import os
import stat
import warnings
from decimal import Decimal
from fractions import Fraction

import pytest

from lapse import _config, _events, _redact, _run, _settings

CLEAR = dict.fromkeys(_settings.SETTINGS)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for variable, _, _ in _settings.SETTINGS.values():
        monkeypatch.delenv(variable, raising=False)


def test_precedence(monkeypatch):
    def project(argument, environment, setting):
        if environment:
            monkeypatch.setenv("LAPSE_PROJECT", environment)
        else:
            monkeypatch.delenv("LAPSE_PROJECT", raising=False)
        return _settings.merge({**CLEAR, "project": argument}, {"project": setting})[0]["project"]

    assert project("a", "e", "s") == "a"
    assert project(None, "e", "s") == "e"
    assert project(None, None, "s") == "s"
    assert project(None, None, None) is None


def test_defaults():
    values, sources = _settings.merge(CLEAR, None)
    assert set(sources.values()) == {"default"}
    assert values["start_agent"] is True
    assert values["capture"] == {
        "environment",
        "git",
        "exceptions",
        "warnings",
        "faulthandler",
        "exit",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 6), (False, 0), ("git", 1), (["git", "exit"], 2), ({"warnings"}, 1), ("0", 0)],
)
def test_capture(value, expected):
    assert len(_settings.merge({**CLEAR, "capture": value}, None)[0]["capture"]) == expected


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"projet": "x"}, "did you mean 'project'"),
        ({"zzz": 1}, "there are project"),
        ({"ring_kib": "many"}, "settings\\['ring_kib'\\]"),
        ({"ring_kib": -1}, "negative"),
        ({"ring_kib": float("inf")}, "infinity"),
        ({"lanes": 300}, "more than 256"),
        ({"start_agent": "perhaps"}, "neither true nor false"),
        ({"capture": "git,tig"}, "'tig' is none of"),
    ],
)
def test_bad_settings(settings, said):
    with pytest.raises(ValueError, match=said):
        _settings.merge(CLEAR, settings)


@pytest.mark.parametrize("value", ["many", "-1", "inf", "17000000", "9" * 30, "9" * 5000])
def test_a_bad_variable_is_left_out(monkeypatch, value):
    monkeypatch.setenv("LAPSE_RING_KIB", value)
    with pytest.warns(RuntimeWarning, match="LAPSE_RING_KIB"):
        assert _settings.merge(CLEAR, {"ring_kib": 512})[0]["ring_kib"] == 512


def test_numbers_that_are_too_large_end_no_program(place):
    """Each is said once, and the default taken."""
    place.env.update(LAPSE_LANES="300", LAPSE_RING_KIB="9" * 30)
    run = place.script("""
        import lapse
        for _ in range(2):
            lapse.init(capture=False)
        lapse.log({"a": 1})
    """)
    assert run.values("a") == [1]
    for name in ("LAPSE_LANES", "LAPSE_RING_KIB"):
        assert run.stderr.count(name) == 1, run.stderr


def test_configurations():
    @dataclasses.dataclass
    class Model:
        layers: int = 2
        name: str = "net"

    config = {
        "lr": 1e-3,
        "flag": True,
        "none": None,
        "list": [1, 2],
        "model": Model(),
        "stages": [{"a": 1}, {"a": 2}],
        3: argparse.Namespace(x="y"),
        "object": set(),
    }
    assert dict(_config.leaves(config)) == {
        "config/lr": "0.001",
        "config/flag": "true",
        "config/none": "null",
        "config/list": "[1, 2]",
        "config/model/layers": "2",
        "config/model/name": "net",
        "config/stages/0/a": "1",
        "config/stages/1/a": "2",
        "config/3/x": "y",
        "config/object": "set()",
    }


class Broken:
    """Nothing can be said of it."""

    def __repr__(self):
        raise OSError("no repr")

    __str__ = __repr__


class Missing(dict):
    """As a DictConfig of OmegaConf whose value is to come."""

    def __getitem__(self, key):
        if key == "to_come":
            raise type("MissingMandatoryValue", (Exception,), {})
        return super().__getitem__(key)


def test_a_value_that_cannot_be_read_harms_no_other():
    model = Missing(a=1, to_come=2, b=3)
    config = {"bad": Broken(), "model": model, Broken(): 1, "last": [Broken()]}
    assert dict(_config.leaves(config)) == {
        "config/bad": "<OSError>",
        "config/model/a": "1",
        "config/model/to_come": "???",
        "config/model/b": "3",
        "config/<OSError>": "1",
        "config/last": "<OSError>",
    }
    assert list(_config.items(model)) == [("a", 1, ""), ("to_come", None, "???"), ("b", 3, "")]


def test_a_large_configuration_takes_no_time(monkeypatch):
    """The environment is looked through once, not for each leaf."""
    looked = []
    real = _redact._environment
    monkeypatch.setattr(_redact, "_environment", lambda: looked.append(1) or real())
    monkeypatch.setattr(_run._core, "attr", lambda *_: None, raising=False)
    _run._take_config(_run.Run(), {str(n): "some text" for n in range(300)})
    assert len(looked) == 1


def test_a_configuration_without_end():
    config = {"a": 1}
    config["self"] = config
    leaves = list(_config.leaves(config))
    assert len(leaves) == 17  # "a" of each level, and the last as it is
    assert len(list(_config.leaves({i: i for i in range(5000)}))) == 4097


def test_what_a_run_is_called(place):
    place.run("""
        import lapse
        run = lapse.init(project="ocr", name="first", tags=["a", "b"], notes="n\\0o \\udc80",
                         config={"lr": 0.1, "api_key": "sekrit!", "m": {"n": 2}})
        assert run.recording and run.error == "" and run.config["lr"] == 0.1
        again = lapse.init(config={"lr": 0.2, "more": 1}, notes="changed")
        assert again is run and run.config["lr"] == 0.2 and run.config["m"] == {"n": 2}
        assert repr(run) == f"<lapse.Run {run.id}, recording>"
        lapse.attr("optimizer", "adamw")
        lapse.rank(3, world_size=8)
    """)
    info = place.stored().info
    assert (info["name"], info["project"], info["tags"]) == ("first", "ocr", "a,b")
    assert info["notes"] == "changed"
    attrs = place.attrs()
    assert attrs["config/lr"] == "0.2"
    assert attrs["config/m/n"] == "2"
    assert attrs["config/api_key"] == "REDACTED"
    assert attrs["optimizer"] == "adamw"
    (process,) = place.stored().processes()
    assert (process["rank"], process["world_size"], process["role"]) == (3, 8, "trainer")


def test_the_default_name_is_the_script(place):
    assert place.script("import lapse; lapse.init()").info["name"] == "script.py"


def test_ranks_of_init_and_of_the_environment(place):
    place.env.update(RANK="1", LOCAL_RANK="0", WORLD_SIZE="2")
    run = place.script("import lapse; lapse.init()")
    assert [p["rank"] for p in run.processes()] == [1]
    run = place.script("import lapse; lapse.init(rank=5, local_rank=1, world_size=6)")
    assert [(p["rank"], p["local_rank"]) for p in run.processes()] == [(5, 1)]


def test_events_and_artifacts(place):
    (place.folder / "file.bin").write_bytes(b"123")
    run = place.script("""
        import lapse, math
        class Float:
            def __float__(self): return 0.5
        lapse.init(capture=False)
        with lapse.step(7):
            lapse.event("eval", "went well", top=Float(), n=3, bad=math.nan, deep={"a": [math.inf]},
                        odd=object)
        lapse.event("plain")
        lapse.event("cut", "x" * 20000, severity="error")
        lapse.artifact("file.bin", kind="checkpoint", name="best")
        lapse.artifact("missing.bin")
    """)
    (eval_,) = run.events("eval")
    assert (eval_["text"], eval_["step"], eval_["severity"]) == ("went well", 7, "info")
    attrs = eval_["attrs"]
    assert (attrs["top"], attrs["n"], attrs["bad"]) == (0.5, 3, "nan")
    assert attrs["deep"] == {"a": ["inf"]}
    assert len(run.events("plain")) == 1
    assert 16000 < len(run.events("cut")[0]["text"]) <= 16384
    best, missing = run.events("artifact")
    assert best["attrs"]["bytes"] == 3
    assert (best["attrs"]["kind"], best["attrs"]["name"]) == ("checkpoint", "best")
    assert best["attrs"]["path"] == str(place.folder / "file.bin")
    assert (missing["severity"], "No such file" in missing["text"]) == ("warning", True)


class Number:
    """A scalar of numpy or torch."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __int__(self):
        return int(self.value)


class Whole(Number):
    def __index__(self):
        return int(self.value)


def test_attributes_of_events_keep_their_numbers():
    cycle = {"a": 1}
    cycle["self"] = [cycle]
    attrs = {
        "acc": Number(0.93), "n": Whole(7), "nan": Number(float("nan")), "half": Fraction(1, 2),
        "money": Decimal("1.5"), "bad": Broken(), "raw": b"12", "c": 1 + 2j, "keys": {(1, 2): 3},
        "cycle": cycle, "list": [Number(0.5)],
    }  # fmt: skip
    one_by_one = {k: json.loads(_events._json({k: v}, "x"))[k] for k, v in attrs.items()}
    assert one_by_one == json.loads(_events._json(attrs, "x"))
    assert one_by_one == {
        "acc": 0.93, "n": 7, "nan": "nan", "half": 0.5, "money": 1.5, "bad": "<Broken>",
        "raw": "b'12'", "c": "(1+2j)", "keys": {"(1, 2)": 3}, "cycle": {"a": 1, "self": ["..."]},
        "list": [0.5],
    }  # fmt: skip
    assert isinstance(one_by_one["n"], int)
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert "..." in _events._json({"deep": deep}, "x")


def test_bad_events(recording):
    with pytest.raises(ValueError, match="severity"):
        recording.event("x", severity="fatal")
    with pytest.raises(ValueError, match="empty"):
        recording.event("")
    with pytest.raises(ValueError, match="empty"):
        recording.attr("", "x")
    with pytest.warns(RuntimeWarning, match="left out"):
        recording.event("large", attrs="x" * 9000)
    with pytest.raises(TypeError):
        recording.init(config=[1])


def test_nothing_raises_when_nothing_can_be_recorded(place):
    """A rendezvous folder that is not ours alone is not used."""
    place.rendezvous.chmod(stat.S_IRWXU | stat.S_IRWXG)
    out = place.run("""
        import lapse
        run = lapse.init(project="p", config={"a": 1}, rank=0)
        assert not run.recording and "0700" in run.error, run.error
        with lapse.step(), lapse.span("s"):
            lapse.log({"a": 1})
        lapse.metric("m").set(1)
        lapse.event("e"); lapse.attr("k", "v"); lapse.heartbeat(); lapse.rank(0)
        assert lapse.now() == 0
        lapse.finish()
        lapse.finish()
        print("fine")
    """).stdout
    assert out == "fine\n"


def test_switched_off(place):
    place.env["LAPSE_DISABLE"] = "1"
    out = place.run("import lapse; print(lapse.init().error)").stdout
    assert "LAPSE_DISABLE" in out


def test_calls_before_init(place):
    place.run("""
        import lapse
        lapse.log({"a": 1}); lapse.event("e"); lapse.heartbeat()
        with lapse.step(), lapse.span("s"): pass
        lapse.finish()
        lapse.init()
        lapse.log({"a": 2})
    """)
    assert place.stored().values("a") == [2]


def test_a_run_as_a_context_manager(place, wait_for):
    place.run("""
        import lapse
        with lapse.init() as run:
            lapse.log({"a": 1})
        assert not run.recording and repr(run).endswith("finished>")
        lapse.log({"a": 2})
        assert lapse.stats()["dropped"] == 1
        try:
            with lapse.init() as second:
                raise ZeroDivisionError("in the block")
        except ZeroDivisionError:
            pass
        assert second.id != run.id
    """)
    assert wait_for(lambda: len(place.ids()) == 2)
    first, second = place.ids()
    by_values = {run: place.stored(run) for run in (first, second)}
    assert sorted(len(s.of("sample", "a")) for s in by_values.values()) == [0, 1]
    found = [e for s in by_values.values() for e in s.events("exception")]
    assert len(found) == 1
    assert "in the block" in found[0]["text"]


def test_again_and_again_in_one_process(place):
    """A notebook: the cell with init() runs again."""
    out = place.run("""
        import lapse, os
        for i in range(4):
            run = lapse.init(name=f"try{i}")
            same = lapse.init()
            assert same is run
            lapse.log({"i": i})
            lapse.finish()
            print(run.id)
        assert "LAPSE_RUN" not in os.environ and "LAPSE_BIN" not in os.environ
    """).stdout.split()
    assert len(set(out)) == 4
    for i, run in enumerate(out):
        stored = place.stored(run)
        assert stored.values("i") == [i]
        assert stored.info["name"] == f"try{i}"


def test_finish_tells_the_status(place):
    run = place.script("import lapse, os; lapse.init(); lapse.finish(7); os.kill(os.getpid(), 9)",
                       check=-9)  # fmt: skip
    assert run.info["exit_code"] == 7


def test_stats(recording):
    before = recording.stats()
    recording.log({"counted": 1})
    after = recording.stats()
    assert after["attempts"] - before["attempts"] == 1
    assert set(after) == {
        "attempts",
        "accepted",
        "dropped",
        "definitions",
        "refused",
        "ring_bytes",
    }


def test_help_says_what_costs(recording):
    for name in ("log", "metric", "span", "init", "event", "finish", "now", "epoch"):
        assert getattr(recording, name).__doc__, name


def test_the_program_is_found(monkeypatch, tmp_path):
    from lapse import _program

    monkeypatch.delenv("LAPSE_BIN", raising=False)
    found = _program.find()
    assert os.access(found, os.X_OK)
    assert os.path.basename(found) == "lapse"
    monkeypatch.setenv("LAPSE_BIN", str(tmp_path / "other"))
    assert _program.find() == str(tmp_path / "other")


def test_import_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        __import__("lapse")
