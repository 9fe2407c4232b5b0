# SPDX-License-Identifier: Apache-2.0
"""lapse doctor, completion scripts and manual pages."""
import json
import os
import shutil
import socket
import subprocess
import sys

import pytest


def findings(lapse, *options, **env):
    lapse.env.update(env)
    done = lapse("doctor", "--json", *options)
    found = json.loads(done.stdout)
    return done.returncode, found["findings"], {g["name"]: g for g in found["groups"]}


def of(found, area):
    return [f for f in found if f["area"] == area]


def test_a_sound_machine(lapse):
    status, found, groups = findings(lapse, "--python", sys.executable)
    assert status == 0
    assert not [f for f in found if f["state"] == "broken"]
    assert of(found, "rendezvous")[0]["text"] == str(lapse.rendezvous)
    assert ".".join(map(str, sys.version_info[:3])) in of(found, "python")[0]["text"]
    assert groups["memory"]["open"] and groups["tree"]["of_run"]
    total = {m["name"]: m for m in groups["memory"]["metrics"]}["memory/total"]
    with open("/proc/meminfo") as text:
        kib = int(text.readline().split()[1])
    assert total["value"] == kib * 1024 and total["known"] == 1


def test_every_metric_is_known_or_says_why(lapse):
    _, _, groups = findings(lapse, "--no-python")
    for group in groups.values():
        assert group["open"] or group["why"], group["name"]
        for metric in group["metrics"]:
            if group["open"] and not metric["known"] and metric["instances"]:
                assert metric["why"], metric["name"]


def test_a_folder_that_cannot_be_written(lapse):
    blocker = lapse.folder / "file"
    blocker.write_text("")
    status, found, _ = findings(lapse, "--no-python", "--dir", str(blocker / "runs"))
    assert status == 1 or os.geteuid() == 0
    lapse.env["LAPSE_RENDEZVOUS"] = str(blocker)
    done = lapse("doctor", "--no-python")
    assert done.returncode == 1 and "broken" in done.stdout and "what helps" in done.stdout


def test_no_interpreter(lapse):
    status, found, _ = findings(lapse, "--python", "/nowhere/python")
    assert status == 0
    assert of(found, "python")[0]["state"] == "warning"
    assert "--python" in of(found, "python")[0]["remedy"]


def test_who_holds_a_port(lapse):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", 8050))
        except OSError:
            pytest.skip("port 8050 is held")
        server.listen()
        _, found, _ = findings(lapse, "--no-python")
        mine = [f for f in of(found, "ports") if "8050" in f["text"]]
        assert mine and f"process {os.getpid()}" in mine[0]["text"]


def test_settings_that_name_no_group(lapse):
    config = lapse.folder / "c.yaml"
    config.write_text("probe:\n  off: [memory, presure]\n  every: [cpu=1ms]\n")
    _, found, groups = findings(lapse, "--no-python", "--config", str(config))
    text = " ".join(f["text"] for f in of(found, "settings"))
    assert 'did you mean "pressure"?' in text and "cpu=1ms" in text
    assert not groups["memory"]["open"] and "switched off" in groups["memory"]["why"]


# ---- completion -------------------------------------------------------------------


def test_bash_completion(lapse):
    script = lapse("completion", "bash").stdout
    for line, want in ((("lapse", "ru"), "run"), (("lapse", "run", "--na"), "--name"),
                       (("lapse", "help", "repo"), "report")):
        words = " ".join(f"'{w}'" for w in line)
        done = subprocess.run(
            ["bash", "-c", f"eval \"$1\"; COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; "
             "_lapse; echo \"${COMPREPLY[@]}\"", "-", script], capture_output=True, text=True)
        assert done.stdout.split() == [want], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_it(lapse, shell):
    script = lapse("completion", shell).stdout
    assert "attach" in script and "--name" in script or "-l name" in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n" if shell == "zsh" else "--no-execute", "/dev/stdin"],
                              input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_unknown_shell(lapse):
    done = lapse("completion", "bsh")
    assert done.returncode == 2 and "did you mean bash?" in done.stderr


@pytest.mark.timeout(240)
def test_manual_pages(lapse):
    names = [line.split()[0] for line in lapse("help").stdout.splitlines()
             if line.startswith("  ") and line[2].isalpha()]
    names = [n for n in names if n not in ("help", "lapse")]
    assert len(names) > 15
    for name in names:
        page = lapse("help", "--man", name)
        assert page.returncode == 0 and page.stdout.startswith(f".TH LAPSE-{name.upper()} 1")
        if shutil.which("man") and shutil.which("groff"):
            done = subprocess.run(["man", "--warnings=w", "-l", "-"], input=page.stdout, text=True,
                                  capture_output=True, env={**os.environ, "MAN_KEEP_STDERR": "1"})
            assert done.returncode == 0 and not done.stderr, (name, done.stderr)
    assert "lapse\\-run" in lapse("help", "--man").stdout
