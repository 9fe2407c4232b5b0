# SPDX-License-Identifier: Apache-2.0
"""`lapse edit`: what is shown of a run afterwards."""
import signal

START = 1767323045


def simulate(lapse):
    return lapse.json("simulate", "--steps", 20, "--start", f"@{START}")["id"]


def shown(lapse, run):
    run = lapse.json("show", run)
    return run["name"], run["project"], run["tags"], run["notes"]


def test_edit(lapse):
    run = simulate(lapse)
    assert shown(lapse, run) == ("simulated", "", "simulated", "")
    files = sorted((lapse.runs / run).iterdir())
    databases = {f: f.read_bytes() for f in files}
    assert lapse("edit", run, "--tags", "+good,a b", "--name", "x").returncode == 2
    assert shown(lapse, run)[0] == "simulated"
    text = "two\nlines, 100 % \u00e4 \x01"
    done = lapse("edit", run, "--tags", "+good,+best", "--notes", text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shown(lapse, run) == ("simulated", "", "simulated,good,best", text)
    assert lapse("edit", "last", "--name", "base", "--tags", "-good").returncode == 0
    assert shown(lapse, run) == ("base", "", "simulated,best", text)
    assert lapse("edit", run, "--notes", "", "--project", "p", "--tags", "").returncode == 0
    assert shown(lapse, run) == ("base", "p", "", "")
    assert lapse.json("ls")[0]["name"] == "base"
    assert {f: f.read_bytes() for f in files} == databases
    edit = lapse.runs / run / "run.edit"
    assert edit.stat().st_mode & 0o777 == 0o600


def test_edit_called_wrongly(lapse):
    run = simulate(lapse)
    assert lapse("edit", run).returncode == 2
    assert lapse("edit", "--name", "x").returncode == 2
    assert lapse("edit", "nosuch", "--name", "x").returncode == 1
    long = lapse("edit", run, "--name", "x" * 256)
    assert long.returncode == 2 and "255 bytes" in long.stderr
    assert lapse("edit", run, "--name", "x" * 255).returncode == 0


def test_damaged_edit_is_told(lapse):
    run = simulate(lapse)
    assert lapse("edit", run, "--name", "other").returncode == 0
    edit = lapse.runs / run / "run.edit"
    edit.write_text(edit.read_text()[:-5])
    done = lapse("show", run)
    assert "run.edit: line" in done.stderr and "simulated" in done.stdout
    assert lapse("edit", run, "--name", "again").returncode == 0
    assert shown(lapse, run)[0] == "again"


def test_live_run(lapse, wait_for):
    live = lapse.start("simulate", "--live", "--speed", "10", "--steps", "100000")
    try:
        assert wait_for(lambda: any(run.get("name") for run in lapse.json("ls")))
        assert lapse("edit", "last", "--name", "renamed").returncode == 0
        assert lapse.json("ls")[0]["name"] == "renamed"
    finally:
        live.send_signal(signal.SIGINT)
        live.communicate()
    assert lapse.json("ls")[0]["name"] == "renamed"
