# SPDX-License-Identifier: Apache-2.0
"""`lapse export --to tensorboard` and `--to prometheus`, afterwards and live, and
what kills do to them. The run is that of tests/unit/export/known_run.h."""
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BUILD

KNOWN = BUILD / "tests" / "unit" / "export" / "make_known"
SETS = ("run=\"known\",project=\"tests\",host=\"node0\",role=\"trainer\",rank=\"0\"")


def make_known(lapse, steps, *part):
    subprocess.run([KNOWN, lapse.runs, str(steps), *map(str, part)], check=True)


def tree(folder):
    """{name: bytes} of the event files under a folder."""
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("events.out.tfevents.*"))}


def metrics(path):
    """{name{labels}: value as text} of a Prometheus file."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


# ---- TensorBoard -------------------------------------------------------------------


def test_folders_and_names(lapse):
    make_known(lapse, 100)
    done = lapse("export", "--to", "tensorboard", "known")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert set(tree(lapse.runs / "known" / "tensorboard")) == {
        "events.out.tfevents.1767323045.known", "rank_1/events.out.tfevents.1767323045.known",
        "host/events.out.tfevents.1767323045.known"}


def test_exporting_again_changes_nothing(lapse):
    make_known(lapse, 100)
    out = lapse.folder / "tb"
    lapse("export", "--to", "tensorboard", "-o", out, check=True)
    before = tree(out)
    lapse("export", "--to", "tensorboard", "-o", out, check=True)
    assert tree(out) == before


@pytest.mark.kill
def test_kills_leave_no_trace(lapse):
    """SIGKILL at random moments until it is done: the files are those of an
    exporter that nobody disturbed."""
    make_known(lapse, 60000)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "straight", check=True)
    chance = random.Random(20261128)
    kills = 0
    for round_ in range(400):
        process = lapse.start("export", "--to", "tensorboard", "-o", lapse.folder / "killed")
        try:
            process.wait(timeout=0.005 + chance.random() * 0.03 * (1 + round_ / 20))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        _, stderr = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, stderr
    assert process.returncode == 0 and kills >= 3
    straight = tree(lapse.folder / "straight")
    assert tree(lapse.folder / "killed") == straight
    assert sum(map(len, straight.values())) > 4000000


def test_follow_ends_with_the_run(lapse, wait_for):
    make_known(lapse, 1000, 0, 500)
    out = lapse.folder / "tb"
    process = lapse.start("export", "--to", "tensorboard", "--follow", "-o", out)
    assert wait_for(lambda: tree(out))
    make_known(lapse, 1000, 500, 1000)
    assert process.wait(timeout=60) == 0
    before = tree(out)
    lapse("export", "--to", "tensorboard", "-o", out, check=True)
    assert tree(out) == before  # it had come to the end


def test_follow_ends_on_sigterm(lapse, wait_for):
    make_known(lapse, 1000, 0, 500)
    out = lapse.folder / "tb"
    process = lapse.start("export", "--to", "tensorboard", "--follow", "-o", out)
    assert wait_for(lambda: tree(out))
    process.terminate()
    assert process.wait(timeout=60) == 0


def test_second_exporter_is_told(lapse, wait_for):
    make_known(lapse, 1000, 0, 500)
    out = lapse.folder / "tb"
    process = lapse.start("export", "--to", "tensorboard", "--follow", "-o", out)
    assert wait_for(lambda: tree(out))
    done = lapse("export", "--to", "tensorboard", "-o", out)
    assert done.returncode == 75 and "another process is exporting" in done.stderr
    process.terminate()
    process.wait(timeout=60)


@pytest.mark.parametrize("arguments, status, words", [
    (["--to", "prometheus"], 2, "--output FILE"),
    (["--to", "tensorboard", "--series", "x"], 2, "for csv and json"),
    (["--to", "csv", "--follow"], 2, "--follow is for"),
    (["--to", "tensorbord"], 2, "no format"),
    (["--to", "tensorboard", "-o", "/proc/none"], 1, "cannot make the folder /proc/none"),
    (["--to", "prometheus", "-o", "/nowhere/x.prom"], 1, "cannot write /nowhere/"),
])
def test_errors(lapse, arguments, status, words):
    make_known(lapse, 20)
    done = lapse("export", *arguments)
    assert done.returncode == status
    assert words in done.stderr and done.stderr.count("\n") == 1


# ---- Prometheus --------------------------------------------------------------------


def test_prometheus_values(lapse):
    """100 steps, resumed at 60 from 50: the last is k = 99. 128 tokens and two spans
    of 2 and 3 ms each k; 5 histogram points of 5 observations."""
    make_known(lapse, 100)
    out = lapse.folder / "run.prom"
    lapse("export", "--to", "prometheus", "-o", out, check=True)
    found = metrics(out)
    assert float(found[f"lapse_loss{{{SETS}}}"]) == 1 / 100
    assert found[f"lapse_val{{{SETS},set=\"a\"}}"] == "90"
    assert found[f"lapse_tokens_total{{{SETS}}}"] == "12800"
    span = f"{{{SETS},span=\"forward\""
    assert found[f"lapse_span_seconds_count{span}}}"] == "200"
    assert float(found[f"lapse_span_seconds_sum{span}}}"]) == pytest.approx(0.5)
    assert found[f"lapse_span_seconds_bucket{span},le=\"0.0025\"}}"] == "100"
    assert found[f"lapse_span_seconds_bucket{span},le=\"0.005\"}}"] == "200"
    assert found[f"lapse_grad_bucket{{{SETS},le=\"-1\"}}"] == "5"
    assert found[f"lapse_grad_bucket{{{SETS},le=\"4\"}}"] == "20"
    assert found[f"lapse_grad_bucket{{{SETS},le=\"+Inf\"}}"] == "25"
    assert found[f"lapse_grad_sum{{{SETS}}}"] == "32.5"
    info = [name for name in found if name.startswith("lapse_run_info")]
    assert len(info) == 1 and 'outcome="exited"' in info[0]
    assert not any("cpu_busy" in name for name in found)  # machine figures end with the run


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus)")
def test_promtool_likes_it(lapse):
    make_known(lapse, 100)
    out = lapse.folder / "run.prom"
    lapse("export", "--to", "prometheus", "-o", out, check=True)
    done = subprocess.run(["promtool", "check", "metrics"], input=out.read_text(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# ---- live --------------------------------------------------------------------------


def exporters(lapse):
    """{pid: format} of the exporters of this test's runs."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[:4] == ["lapse", "export", "--follow", "--to"] and str(lapse.runs) in words[5]:
            found[int(entry)] = words[4]
    return found


def until(path):
    """A command that ends once a file is there."""
    return "sh", "-c", f"while [ ! -e {path} ]; do sleep 0.1; done"


def failures(lapse):
    """What the last run says of exports that failed."""
    return [e["text"] for e in lapse.shown().get("events", ()) if e["kind"] == "export-failed"]


def test_live(lapse, charlm, wait_for):
    prom = lapse.folder / "live.prom"
    done = lapse("run", "--export", "tensorboard", "--export", "prometheus=live.prom", "--",
                 charlm, "--steps", 60)
    assert done.returncode == 0, done.stderr
    assert lapse.settled()
    assert wait_for(lambda: not exporters(lapse))
    run = lapse.runs / lapse.run_ids()[0]
    files = tree(run / "tensorboard")
    assert set(name.rpartition("/")[0] for name in files) == {"", "host"}
    found = metrics(prom)
    assert [v for n, v in found.items() if n.startswith("lapse_span_seconds_count")
            and 'span="step"' in n] == ["60"]
    assert any('outcome="exited"' in name for name in found)


@pytest.mark.kill
def test_killed_exporter_comes_back(lapse, wait_for):
    """An exporter that is killed is started again, an event tells it once, and the
    run does not notice."""
    stop, killed = lapse.folder / "stop", set()
    process = lapse.start("run", "--export", "tensorboard", "--", *until(stop))
    for _ in range(2):
        assert wait_for(lambda: set(exporters(lapse)) - killed)
        (pid,) = set(exporters(lapse)) - killed
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
    assert wait_for(lambda: set(exporters(lapse)) - killed)
    stop.touch()
    assert process.wait(timeout=60) == 0
    assert lapse.settled()
    assert wait_for(lambda: not exporters(lapse))
    events = failures(lapse)
    assert len(events) == 1 and "killed by signal 9" in events[0]
    assert tree(lapse.runs / lapse.run_ids()[0] / "tensorboard")


@pytest.mark.kill
def test_agent_dies_exporter_goes_on(lapse, wait_for):
    stop = lapse.folder / "stop"
    process = lapse.start("run", "--export", "tensorboard", "--", *until(stop))
    assert wait_for(lambda: exporters(lapse))
    first, agent = set(exporters(lapse)), lapse.agent_pid()
    time.sleep(0.5)
    os.kill(agent, signal.SIGKILL)
    assert wait_for(lambda: lapse.agent_pid() not in (None, agent))
    assert first & set(exporters(lapse))
    time.sleep(1)
    stop.touch()
    assert process.wait(timeout=60) == 0
    assert lapse.settled()
    assert wait_for(lambda: not exporters(lapse))
    assert tree(lapse.runs / lapse.run_ids()[0] / "tensorboard")
    assert lapse.shown() and not failures(lapse)


@pytest.mark.parametrize("value, words", [
    ("tensorbord", "no such format"), ("prometheus", "path is needed"),
    ("tensorboard=", "path is needed")])
def test_run_export_errors(lapse, value, words):
    done = lapse("run", "--export", value, "--", "true")
    assert done.returncode == 2 and words in done.stderr and done.stderr.startswith("lapse run: --export ")


def test_output_that_cannot_be_written(lapse, wait_for):
    """The run is recorded all the same, and says so."""
    out = lapse.folder / "no" / "such" / "folder.prom"
    stop = lapse.folder / "stop"
    process = lapse.start("run", "--export", f"prometheus={out}", "--", *until(stop))
    assert wait_for(lambda: failures(lapse))
    stop.touch()
    assert process.wait(timeout=60) == 0
    assert lapse.settled()
    failed = failures(lapse)
    assert len(failed) == 1 and re.search("cannot write .*folder.prom", failed[0])
    lapse.end_agent()
