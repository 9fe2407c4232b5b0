# SPDX-License-Identifier: Apache-2.0
"""Settings from a YAML file: precedence, errors, and that the program's table and
the package's are the same."""

import os
import warnings

import pytest

from lapse import _file, _program, _settings

CLEAR = dict.fromkeys(_settings.SETTINGS)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for variable, _, _ in _settings.SETTINGS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("LAPSE_CONFIG", raising=False)


@pytest.fixture
def file(tmp_path):
    def write(text, name="lapse.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_the_tables_are_the_same():
    keys = {k["python"]: k for k in _file.document()["keys"] if k["python"]}
    assert set(keys) == set(_settings.SETTINGS)
    for name, (variable, read, default) in _settings.SETTINGS.items():
        key = keys[name]
        assert key["environment"] == variable
        assert "python" in key["read_by"]
        if name != "dir":  # the record library has that default
            assert (key["default"] and read(key["default"])) == default, name


PRECEDENCE = [
    ("a", "e", "s", "f", "a", "argument"),
    (None, "e", "s", "f", "e", "environment"),
    (None, None, "s", "f", "s", "settings"),
    (None, "", "s", "f", "s", "settings"),
    (None, None, None, "f", "f", "file"),
    (None, None, None, None, None, "default"),
]


@pytest.mark.parametrize("layers", PRECEDENCE)
def test_precedence(monkeypatch, file, layers):
    argument, environment, setting, in_file, expected, source = layers
    if environment is not None:
        monkeypatch.setenv("LAPSE_PROJECT", environment)
    path = file(f"run: {{project: {in_file or '~'}}}\n")
    values, sources = _settings.merge(
        {**CLEAR, "project": argument}, {"project": setting}, _file.read(path)
    )
    assert (values["project"], sources["project"]) == (expected, source)


def test_a_bad_variable_leaves_the_file(monkeypatch, file):
    monkeypatch.setenv("LAPSE_RING_KIB", "many")
    read = _file.read(file("record: {ring_kib: 512}\n"))
    with pytest.warns(RuntimeWarning, match="LAPSE_RING_KIB"):
        assert _settings.merge(CLEAR, None, read)[0]["ring_kib"] == 512


def test_every_setting(file):
    read = _file.read(
        file(
            "run: {dir: d, name: 1, project: p, tags: [a, 'b c'], notes: no}\n"
            "record: {ring_kib: 1024, lanes: 3}\n"
            "python: {capture: [git, exit], start_agent: off, role: r}\n"
        )
    )
    values, _ = _settings.merge(CLEAR, None, read)
    assert values == {
        "dir": "d",
        "name": "1",
        "project": "p",
        "tags": "a,b c",
        "notes": "no",
        "ring_kib": 1024,
        "lanes": 3,
        "capture": {"git", "exit"},
        "start_agent": False,
        "role": "r",
    }
    off = _file.read(file("python: {capture: false}\n"))
    assert _settings.merge(CLEAR, None, off)[0]["capture"] == frozenset()


def test_a_bad_file_by_argument(file):
    path = file("run:\n  projet: x\n")
    with pytest.raises(ValueError) as caught:
        _settings.read_file(path, True)
    assert str(caught.value) == (
        f'lapse.init(): settings: {path}:2:3: unknown key "run.projet"; '
        'did you mean "run.project"?'
    )
    with pytest.raises(ValueError, match="No such file"):
        _settings.read_file(str(path) + ".absent", True)


def test_a_bad_file_by_variable(monkeypatch, file):
    monkeypatch.setenv("LAPSE_CONFIG", str(file("run: [\n")))
    with pytest.warns(RuntimeWarning, match=r"LAPSE_CONFIG: .*lapse.yaml:2:1: .*left out"):
        assert _settings.read_file(None, True) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _settings.read_file(None, False) is None  # the run has begun
        assert _settings.read_file({}, False) is None


def test_the_argument_goes_before_the_variable(monkeypatch, file):
    monkeypatch.setenv("LAPSE_CONFIG", str(file("run: {name: v}\n", "v.yaml")))
    assert _settings.read_file({"name": "s"}, True).values == {"name": "v"}
    given = file("run: {project: a}\n", "a.yaml")
    assert _settings.read_file(given, True).values == {"project": "a"}


def test_names_that_look_like_options(monkeypatch, file, tmp_path):
    file("run: {name: n}\n", "--json")
    monkeypatch.chdir(tmp_path)
    assert _file.read("--json").values == {"name": "n"}


@pytest.mark.parametrize("program", ["/nonexistent/lapse", "/bin/false", "/bin/echo", None])
def test_a_program_that_cannot_be_asked(monkeypatch, file, program):
    monkeypatch.setattr(_program, "find", lambda: program)
    path = file("run: {name: n}\n")
    with pytest.warns(RuntimeWarning, match="it is left out"):
        assert _settings.read_file(path, True) is None


@pytest.mark.parametrize("settings", [5, ["a"], True])
def test_settings_of_a_wrong_type(settings):
    with pytest.raises(TypeError, match="a dict or the path of a YAML file"):
        _settings.as_mapping(settings)


# ---- through a run -------------------------------------------------------------

FILE = """
run: {project: ocr, name: base, tags: [a, b], notes: from the file}
python:
  capture: false
  config: {lr: 1e-3, api_key: hush, model: {layers: 2, sizes: [1, 2]}}
"""


def check(place, project="ocr", lr="0.001"):
    info, attrs = place.stored().info, place.attrs()
    assert (info["project"], info["name"], info["tags"]) == (project, "base", "a,b")
    assert info["notes"] == "from the file"
    assert attrs["config/lr"] == lr
    assert attrs["config/api_key"] == "REDACTED"
    assert attrs["config/model/layers"] == "2"
    assert attrs["config/model/sizes"] == "[1, 2]"
    assert "env/python" not in attrs


def test_a_run_by_argument(place, file):
    path = file(FILE)
    place.run(f"""
        import lapse
        run = lapse.init(settings={str(path)!r}, config={{"lr": 0.5}})
        assert run.recording, run.error
        assert run.config == {{"lr": 0.5, "api_key": "hush",
                              "model": {{"layers": 2, "sizes": [1, 2]}}}}
    """)
    check(place, lr="0.5")


def test_a_run_by_variable(place, file):
    place.env["LAPSE_CONFIG"] = str(file(FILE))
    place.run("""
        import lapse
        run = lapse.init(project="argument", config={"lr": 2})
        assert lapse.init() is run and run.config["lr"] == 2  # the file is read once
    """)
    check(place, project="argument", lr="2")


def launched(place, *options):
    import subprocess
    import sys

    script = place.folder / "script.py"
    script.write_text("import lapse\nrun = lapse.init()\nassert run.recording, run.error\n")
    lapse = os.path.join(os.path.dirname(sys.executable), "lapse")
    done = subprocess.run(
        [lapse, "run", *options, "--", sys.executable, str(script)],
        env=place.env,
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_inside_lapse_run(place, file):
    launched(place, "--config", file(FILE).name)
    check(place)


def test_an_option_of_lapse_run_stays(place, file):
    file(FILE)
    place.env["LAPSE_PROJECT"] = "environment"
    launched(place, "--config", "lapse.yaml", "--project", "option")
    check(place, project="option")


def test_a_bad_file_harms_nobody(place, file):
    place.env["LAPSE_CONFIG"] = str(file("run: {name: &x n}\n"))
    done = place.run("""
        import lapse
        run = lapse.init(name="all the same")
        assert run.recording, run.error
    """)
    assert "RuntimeWarning: lapse.init(): LAPSE_CONFIG:" in done.stderr
    assert "script.py:3" in done.stderr  # the line of the call
    assert place.stored().info["name"] == "all the same"
