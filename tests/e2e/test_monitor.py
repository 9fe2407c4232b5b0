# SPDX-License-Identifier: Apache-2.0
"""`lapse monitor`: this machine until it is told to end, and a simulated run; the
options of the script that it stands in for."""
import contextlib
import json
import os
import random
import re
import signal
import socket
import time
import urllib.request

import pytest

from conftest import PATIENCE
from launcher_terminal import Terminal


def free_port(host="127.0.0.1"):
    """Below those that are given to who asks for any: no test beside this one takes it."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind((host, port))
            return port


def start(lapse, *options):
    """The process once its run is recorded for two seconds."""
    process = lapse.start("monitor", *options)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        done = lapse("query", "last", "--json")
        if done.returncode == 0 and '"memory/used"' in done.stdout and \
                '"cpu/busy"' in done.stdout:
            return process
        time.sleep(0.2)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_machine_until_interrupted(lapse, how):
    process = start(lapse)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "recording this machine to" in errors and "lapse report" in errors
    assert lapse.settled()
    report = lapse.json("report", "last")
    assert (report["outcome"], report["exit_code"], report["name"]) == ("exited", 0, "monitor")
    assert report["machines"][0]["cpu_busy"]["count"] > 0
    # There is no process that it is about.
    assert report["process_usage"] == []
    assert report["machines"][0]["tree_rss_bytes"]["count"] == 0


def test_killed_is_lost(lapse):
    process = start(lapse)
    process.kill()
    process.communicate(timeout=60)
    assert lapse.settled()
    assert lapse.json("show", "last")["outcome"] == "lost"


def test_options_of_the_script(lapse, wait_for):
    """Underscores as documented, hyphens too; what is not here is said, once each."""
    port = free_port("0.0.0.0")
    process = start(lapse, "--save_dir", lapse.folder / "runs", "--tensorboard-dir", "tb",
                    "--enable_dashboard", f"--dashboard_port={port}", "--dashboard_host", "0.0.0.0",
                    "--visualization_dir", "pictures", "--disable_alerts", "--no_track_gradients")
    address = lapse.rendezvous / "http"
    assert wait_for(address.exists)
    assert re.fullmatch(rf"http://[0-9.]+:{port}/\?token=[a-z2-7]{{26}}\n", address.read_text())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    notes = [line for line in errors.splitlines() if ": note: " in line]
    assert [re.search("visualization|alerts|gradients", n)[0] for n in notes] == [
        "visualization", "alerts", "gradients"]
    assert not (lapse.folder / "pictures").exists()
    assert lapse.settled()
    assert wait_for(lambda: any((lapse.folder / "tb").rglob("events.out.tfevents.*")))


def test_what_is_switched_off_is_not_mentioned(lapse):
    process = start(lapse, "--tensorboard_dir", "tb", "--disable_tensorboard",
                    "--enable_dashboard", "--disable_dashboard",
                    "--visualization_dir", "p", "--disable_visualization")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "note:" not in errors and not (lapse.folder / "tb").exists()


def test_configuration_of_the_script(lapse):
    (lapse.folder / "monitoring.yaml").write_text(
        "monitoring:\n  save_dir: ./elsewhere\ndashboard:\n  enabled: true\n"
        f"  port: {free_port()}\n")
    del lapse.env["LAPSE_DIR"]  # the environment comes before the file
    done = lapse("monitor", "--config", "monitoring.yaml", "--simulate", "--simulate_steps", "5")
    assert done.returncode == 0, done.stderr
    assert len(list((lapse.folder / "elsewhere").iterdir())) == 1


def ask(url, what=""):
    with urllib.request.urlopen(url + what, timeout=20) as answer:
        return answer.read().decode()


def test_dashboard(lapse, wait_for):
    """At the port that was asked for, with the run of the machine, told on stderr."""
    port = free_port()
    process = start(lapse, "--enable_dashboard", "--dashboard_port", port)
    url = f"http://127.0.0.1:{port}/"
    assert wait_for((lapse.rendezvous / "http").exists)
    assert json.loads(ask(url, "healthz"))["status"] == "ok"
    assert "<title>" in ask(url)
    run = lapse.run_ids()[0]
    assert json.loads(ask(url, f"api/v1/runs/{run}"))["live"]
    said = f"lapse: dashboard: {url}#/run/{run}\n"
    assert said in iter(process.stderr.readline, "")  # told at the next look, once a second
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_dashboard_of_a_simulated_run_is_as_configured(lapse, wait_for):
    """It is a server of its own, which ends with the run."""
    port = free_port()
    (lapse.folder / "m.yaml").write_text(
        f"dashboard: {{enabled: true, port: {port}, refresh_interval: 5, title: Ours}}\n")
    del lapse.env["LAPSE_DASHBOARD"]  # the environment comes before the file
    process = lapse.start("monitor", "--config", "m.yaml", "--simulate", "--simulate_steps", "600")
    url = f"http://127.0.0.1:{port}/"
    assert url in map(str.strip, iter(process.stderr.readline, ""))
    info = json.loads(ask(url, "api/v1/info"))
    assert (info["refresh_ms"], info["title"]) == (5000, "Ours")
    assert wait_for(lambda: json.loads(ask(url, "api/training_metrics")))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    with pytest.raises(OSError):
        ask(url, "healthz")


def test_simulated(lapse):
    done = lapse("monitor", "--simulate", "--simulate_steps", "20", "--tensorboard_dir", "tb")
    assert done.returncode == 0, done.stderr
    show = lapse.json("show", "last")
    assert show["outcome"] == "exited" and "simulated" in show["tags"]
    steps = next(s for s in show["series"] if s["name"] == "step")
    assert steps["count"] == 20
    assert any((lapse.folder / "tb").rglob("events.out.tfevents.*"))
    # In real time: twenty steps of a tenth of a second, and what lies between them.
    assert 1.9 < show["duration_s"] < 20


def test_line_every_ten_seconds(lapse):
    done = lapse("monitor", "--simulate", "--simulate_steps", "120")
    assert done.returncode == 0
    assert re.search(r"^lapse: 0:00:1\d  step \d+/120  loss \d\S*  \S+ steps/s ", done.stderr,
                     re.MULTILINE), done.stderr


def test_line_on_a_terminal(lapse):
    env = dict(lapse.env, TERM="xterm")
    with Terminal([lapse.program, "monitor", "--simulate", "--simulate_steps", "60"], env,
                  lapse.folder) as terminal:
        terminal.expect("steps/s", timeout=30)
        terminal.send(b"\x03")
        assert os.WEXITSTATUS(terminal.end(30)) == 0
    assert re.search(rb"\r\x1b\[K0:00:\d\d  step \d+/60 ", terminal.data)
    # The line is gone before the last word.
    assert terminal.data.rstrip().rsplit(b"\r\x1b[K", 1)[1].startswith(b"lapse: recorded")
    assert lapse.json("show", "last")["outcome"] == "signaled"


@pytest.mark.parametrize("options,words", [
    (["--no_monitor_system"], "nothing would be recorded"),
    (["--simulate_steps", "3"], "goes with --simulate"),
    (["--simulate", "--simulate_steps", "0"], "out of range"),
    (["--enable_dashbord"], "did you mean --enable_dashboard?"),
    (["--dashboard_port", "http"], "is not"),
    (["extra"], "unexpected argument"),
    (["--config", "missing.yaml"], "missing.yaml"),
])
def test_called_wrongly(lapse, options, words):
    done = lapse("monitor", *options)
    assert done.returncode == 2 and words in done.stderr
    assert lapse.run_ids() == []
