# SPDX-License-Identifier: Apache-2.0
"""The configuration file: which layer goes before which, what the launcher hands
on, and what is said of a bad file (docs/config.md)."""
import json
import os
import stat

import pytest

# pylint: disable=redefined-outer-name # pytest fixtures
from launcher_harness import launcher, lines_of, script, wait_for  # noqa: F401
from test_cli import on_terminal


@pytest.fixture
def file(tmp_path):
    """Write a configuration file; its path."""
    def write(text, name="lapse.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path
    return write


def run_file(launcher):
    (only,) = launcher.files("run").values()
    return only


# ---- layers ------------------------------------------------------------------


@pytest.mark.parametrize("option", [None, "option"])
@pytest.mark.parametrize("variable", [None, "", "variable"])
@pytest.mark.parametrize("setting", [None, "file"])
def test_precedence_of_run(launcher, file, option, variable, setting):
    options = ["--config", file(f"run: {{project: {setting or '~'}}}\n")]
    if option:
        options += ["--project", option]
    if variable is not None:
        launcher.env["LAPSE_PROJECT"] = variable
    assert launcher.run("true", options=options).returncode == 0
    assert run_file(launcher)["project"] == (option or variable or setting or "")


def test_all_settings_of_run(launcher, file):
    del launcher.env["LAPSE_DIR"]
    path = file("run:\n  dir: elsewhere\n  name: n\n  project: p\n  tags: [a, b]\n"
                "  notes: some\n  tee_stderr: true\n  stall_after: 1m30s\n")
    done = launcher.run("sh", "-c", "echo kept >&2", options=["-c", path])
    assert (done.returncode, done.stderr) == (0, b"kept\n")
    run = run_file(launcher)
    assert (run["name"], run["project"], run["tags"], run["notes"]) == ("n", "p", "a,b", "some")
    assert run["stall_after_ms"] == "90000"
    assert os.path.dirname(run["dir"]) == str(launcher.folder / "elsewhere")
    assert launcher.outcome()["stderr_tail"] == "kept%0A"


def test_stall_after_zero_is_never(launcher, file):
    launcher.run("true", options=["-c", file("run: {stall_after: 0}\n")])
    assert run_file(launcher)["stall_after_ms"] == "-1"


def test_option_goes_before_variable_for_the_file(launcher, file):
    launcher.env["LAPSE_CONFIG"] = str(file("run: {name: variable}\n", "v.yaml"))
    launcher.run("true")
    assert run_file(launcher)["name"] == "variable"
    launcher.run("true", options=["-c", file("run: {project: option}\n", "o.yaml")])
    runs = sorted(launcher.files("run").values(), key=lambda run: int(run["start_ns"]))
    assert (runs[1]["name"], runs[1]["project"]) == ("true", "option")  # never both files


# ---- what is handed on ---------------------------------------------------------


def test_the_command_gets_the_absolute_path(launcher, file):
    file("run: {name: n}\n", "here.yaml")
    done = launcher.run("sh", "-c", "echo $LAPSE_CONFIG", options=["-c", "here.yaml"])
    assert done.stdout.decode() == f"{launcher.folder / 'here.yaml'}\n"
    launcher.env["LAPSE_CONFIG"] = "./here.yaml"
    done = launcher.run("sh", "-c", "echo $LAPSE_CONFIG")
    assert done.stdout.decode() == f"{launcher.folder / 'here.yaml'}\n"
    del launcher.env["LAPSE_CONFIG"]
    done = launcher.run("sh", "-c", "echo ${LAPSE_CONFIG-none}")
    assert done.stdout == b"none\n"


@pytest.mark.parametrize("text,idle", [("agent: {idle_exit: 5m}", "300"),
                                       ("agent: {idle_exit: 0}", "0"),
                                       ("agent: {idle_exit: 1.5s}", "1500000000ns"),
                                       ("run: {name: n}", "60")])
def test_the_agent_gets_it(launcher, file, text, idle):
    told = launcher.folder / "told"
    launcher.env["LAPSE_AGENT"] = str(script(
        launcher.folder, "agent", f'#!/bin/sh\necho "$* $LAPSE_CONFIG" >{told}.tmp\n'
                                  f"mv {told}.tmp {told}\n"))
    path = file(text + "\n")
    launcher.run("true", options=["-c", path.name])
    assert wait_for(told.exists)
    assert lines_of(told) == [f"agent --rendezvous {launcher.rendezvous} --idle-exit {idle} {path}"]


def test_no_agent(launcher, file):
    told = launcher.folder / "told"
    launcher.env["LAPSE_AGENT"] = str(script(launcher.folder, "agent", f"#!/bin/sh\n>{told}\n"))
    launcher.run("sleep", "0.3", options=["-c", file("run: {agent: false}\n")])
    assert not told.exists()


def test_agent_leaves_when_the_file_says(lapse, file, wait_for):
    path = file("agent: {idle_exit: 200ms, verbose: true}\n")
    with lapse.start("agent", "--config", path) as agent:
        assert agent.wait(60) == 0
    with lapse.start("agent", "--config", path, "--idle-exit", "1h") as agent:
        assert wait_for(lambda: lapse.agent_pid() == agent.pid)
        with pytest.raises(Exception, match="timed out"):
            agent.wait(1)
        agent.terminate()
        assert agent.wait(60) == 0


# ---- bad files ---------------------------------------------------------------


WRONG = "run:\n  project: x\n  nmae: y\n"
SENTENCE = '3:3: unknown key "run.nmae"; did you mean "run.name"?'


def test_bad_file_by_option(lapse, file):
    path, ran = file(WRONG), lapse.folder / "ran"
    done = lapse("run", "--config", path, "--", "touch", ran)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"lapse run: --config: {path}:{SENTENCE}\n"
    assert not ran.exists() and lapse.run_ids() == []
    done = lapse("agent", "--config", path)
    assert (done.returncode, done.stderr) == (2, f"lapse agent: --config: {path}:{SENTENCE}\n")
    done = lapse("run", "--config", lapse.folder / "absent.yaml", "--", "true")
    assert done.returncode == 2
    assert done.stderr.endswith("absent.yaml: No such file or directory\n")


def test_bad_file_by_variable(launcher, file):
    path = launcher.env["LAPSE_CONFIG"] = str(file(WRONG))
    done = launcher.run("sh", "-c", "echo $LAPSE_CONFIG")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, path + "\n", b"")
    assert run_file(launcher)["project"] == ""  # nothing of it


def test_bad_file_by_variable_is_told_on_a_terminal(lapse, file):
    path = lapse.env["LAPSE_CONFIG"] = str(file(WRONG))
    text = on_terminal(lapse, ["run", "--no-agent", "--", "true"])
    assert f"lapse: LAPSE_CONFIG: {path}:{SENTENCE}; the file is left out" in text
    assert "LAPSE_CONFIG" not in on_terminal(lapse, ["run", "--no-agent", "-q", "--", "true"])


def test_bad_file_by_variable_is_in_the_agents_log(lapse, file):
    lapse.env["LAPSE_CONFIG"] = str(file(WRONG))
    assert lapse("agent", "--idle-exit", "100ms").returncode == 0
    assert SENTENCE in (lapse.rendezvous / "agent.log").read_text()


def test_notes_on_a_terminal(lapse, file):
    path = file("analysis: {trend_analysis: true}\n")
    text = on_terminal(lapse, ["run", "-c", str(path), "--no-agent", "--", "true"])
    assert f"lapse: {path}:1:12: analysis.trend_analysis: has no effect in this version, " \
        "where it is false\r\n" in text
    done = lapse("run", "-c", path, "--no-agent", "--", "true")
    assert done.stderr == ""


# ---- lapse config -------------------------------------------------------------


def rows(done):
    """{setting: (value, from)} of what `lapse config` printed."""
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["SETTING", "VALUE", "FROM"]
    return {line[0]: (" ".join(line[1:-1]), line[-1]) for line in lines[1:]}


def test_config_shows_where_from(lapse, file):
    path = file("run:\n  project: p\n  name: n\n")
    lapse.env["LAPSE_NAME"] = "m"
    done = lapse("config", path)
    assert (done.returncode, done.stderr) == (0, "")
    shown = rows(done)
    assert shown["run.project"] == ("p", f"{path}:2")
    assert shown["run.name"] == ("m", "LAPSE_NAME")
    assert shown["run.dir"] == (str(lapse.runs), "LAPSE_DIR")
    assert shown["run.quiet"] == ("false", "default")
    assert shown["run.notes"] == ("-", "default")
    lapse.env["LAPSE_CONFIG"] = str(path)
    assert lapse("config").stdout == done.stdout
    del lapse.env["LAPSE_CONFIG"]
    assert rows(lapse("config"))["run.project"] == ("-", "default")


def test_config_json(lapse, file):
    path = file("run: {tags: [a, b], stall_after: 10m}\n"
                "python: {config: {lr: 1e-3, api_key: hush, deep: {n: [1, no]}}}\n")
    document = lapse.json("config", path)
    keys = {key["path"]: key for key in document["keys"]}
    assert document["file"] == str(path) and document["notes"] == []
    assert keys["run.tags"]["value"] == ["a", "b"]
    assert (keys["run.stall_after"]["value"], keys["run.stall_after"]["line"]) == (600, 1)
    assert keys["python.config"]["value"] == {"lr": 0.001, "api_key": "hush",
                                              "deep": {"n": [1, "no"]}}
    assert "value" not in keys["save_dir"] and keys["save_dir"]["same_as"] == "run.dir"
    assert "hush" not in lapse("config", path).stdout


def test_config_of_a_bad_file(lapse, file):
    path = file(WRONG)
    for arguments in ((path,), (path, "--json")):
        done = lapse("config", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"lapse config: {path}:{SENTENCE}\n"
    lapse.env["LAPSE_CONFIG"] = str(path)
    assert lapse("config").returncode == 1
    assert lapse("config", path, path).returncode == 2


def test_config_of_what_is_no_file(lapse):
    pipe = lapse.folder / "pipe"
    os.mkfifo(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    for path in (pipe, lapse.folder, "/dev/zero"):
        done = lapse("config", path)
        assert done.returncode == 1
        assert done.stderr == f"lapse config: {path} is no regular file\n"


def test_a_bomb_is_refused_at_once(lapse, file):
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n"
        for i in range(9))
    done = lapse("config", file(text), timeout=40)
    assert done.returncode == 1
    assert ":1:4: anchors (&) and aliases (*) are not taken" in done.stderr


def test_notes_of_config_are_on_stderr(lapse, file):
    path = file("analysis:\n  trend_analysis: true\nmonitoring: {metrics: [cpu]}\n"
                "alerting: {enabled: false}\n")
    done = lapse("config", path)
    assert done.stderr == f"lapse config: {path}:2:3: analysis.trend_analysis: has no effect " \
                          "in this version, where it is false\n"
    assert lapse("config", path, "--json").stderr == ""
    assert len(json.loads(lapse("config", path, "--json").stdout)["notes"]) == 1


def test_options_of_the_table_exist(lapse):
    keys = [key for key in lapse.json("config")["keys"] if key["option"]]
    assert len(keys) >= 10
    for key in keys:
        command, option = key["option"].split()
        shown = lapse(command, "--help").stdout.split()
        assert option in shown, key["path"]
