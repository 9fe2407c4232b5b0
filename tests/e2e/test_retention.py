# SPDX-License-Identifier: Apache-2.0
"""Making room: `lapse gc`, `lapse rm`, and the agent's own limits."""
import json
import os
import random
import signal
import sqlite3
import time

import pytest

START = 1767323045  # seconds since 1970


def simulate(lapse, steps=60000, start=START, **options):
    """A run that was made up; its id."""
    arguments = [x for k, v in options.items() for x in (f"--{k}", v)]
    return lapse.json("simulate", "--steps", steps, "--rate", 100, "--start", f"@{start}",
                      *arguments)["id"]


def points(lapse, run, series="loss"):
    """Steps of a series' points as exported."""
    done = lapse("export", run, "--to", "csv", "--series", series)
    assert done.returncode == 0, done.stderr
    return [int(line.split(",")[9]) for line in done.stdout.splitlines()[1:]]


def step_column(lapse, run):
    done = lapse("export", run, "--to", "csv", "--series", "loss")
    return done.stdout.splitlines()[0].split(",").index("step")


def size(lapse, run):
    return sum(f.stat().st_size for f in (lapse.runs / run).iterdir())


def test_gc_drops_the_oldest_points(lapse):
    run = simulate(lapse)
    assert step_column(lapse, run) == 9
    before, bytes_before = points(lapse, run), size(lapse, run)
    assert before == list(range(60000))
    said = lapse.json("gc", "--keep-raw", "1d", "--dry-run")
    assert said["dry_run"] and said["runs"][0]["points"] > 0 and size(lapse, run) == bytes_before
    done = lapse.json("gc", "--keep-raw", "1d")
    assert done["runs"][0] == {**said["runs"][0], "bytes_after": done["runs"][0]["bytes_after"]}
    after = points(lapse, run)
    assert 0 < len(after) <= 8192 and after == before[-len(after):]
    assert size(lapse, run) < bytes_before / 2
    shown = {s["name"]: s for s in lapse.json("show", run)["series"]}
    assert shown["loss"]["lost"] == 60000 - len(after)
    assert lapse.json("gc", "--keep-raw", "1d")["runs"][0]["points"] == 0


def test_gc_keeps_what_is_young_enough(lapse):
    """60,000 steps in 600 s and more: chunks end about each 82 s."""
    run = simulate(lapse, start=int(time.time()) - 3600)
    lapse.json("gc", "--keep-raw", "1h")
    first = points(lapse, run)[0]
    assert first == 0
    lapse.json("gc", "--keep-raw", f"{3600 - 300}s")
    first = points(lapse, run)[0]
    assert first % 8192 == 0 and 8192 <= first <= 8192 * 3


def test_gc_total_takes_from_the_oldest_run(lapse):
    runs = [simulate(lapse, start=START + 10000 * i) for i in range(3)]
    total = lapse.json("gc", "--max-total", "1T")["bytes_after"]
    done = lapse.json("gc", "--max-total", total - 200000)
    assert [r["points"] > 0 for r in done["runs"]] == [True, False, False]
    assert done["bytes_after"] <= total - 200000
    few = lapse("gc", "--max-total", 100000)
    assert few.returncode == 1 and "--remove-runs" in few.stderr
    assert lapse.run_ids() == runs
    lapse.json("gc", "--max-total", 800000, "--remove-runs")
    assert lapse.run_ids() == runs[1:] or lapse.run_ids() == runs[2:]


def test_gc_older_than(lapse):
    old, new = simulate(lapse, 100), simulate(lapse, 100, start=int(time.time()) - 3600)
    assert lapse("gc", "--older-than", "1d").returncode == 2
    assert lapse("gc", "--remove-runs").returncode == 2
    done = lapse("gc", "--older-than", "1d", "--remove-runs", "--dry-run")
    assert done.returncode == 0 and "would be removed" in done.stdout and old in done.stdout
    assert lapse.run_ids() == [old, new]
    assert lapse("gc", "--older-than", "1d", "--remove-runs").returncode == 0
    assert lapse.run_ids() == [new]


def test_gc_tells_a_corrupt_run_and_goes_on(lapse):
    bad, good = simulate(lapse), simulate(lapse, start=START + 10000)
    file = next((lapse.runs / bad).glob("*.db"))
    data = bytearray(file.read_bytes())
    data[5 * 1024:60 * 1024] = bytes(55 * 1024)
    file.write_bytes(data)
    os.utime(file, (START, START))
    done = lapse("gc", "--keep-raw", "1d", "--json")
    assert done.returncode == 1 and bad in done.stderr
    assert json.loads(done.stdout)["runs"][1]["points"] > 0
    assert [f.name for f in (lapse.runs / bad).iterdir()] == [file.name]
    assert lapse.run_ids() == [bad, good]


@pytest.mark.kill
@pytest.mark.parametrize("seed", range(4))
def test_gc_killed_leaves_a_sound_file(lapse, seed):
    run = simulate(lapse, 120000)
    before = points(lapse, run)
    rng = random.Random(seed)
    for _ in range(4):
        gc = lapse.start("gc", "--keep-raw", "1d")
        time.sleep(rng.random() * 0.08)
        gc.kill()
        gc.communicate()
        after = points(lapse, run)
        assert after == before[-len(after):]
    assert lapse("gc", "--keep-raw", "1d").returncode == 0
    database = sqlite3.connect(next((lapse.runs / run).glob("*.db")))
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT count(*) FROM pack WHERE id NOT IN "
                            "(SELECT pack FROM chunk)").fetchone() == (0,)


def test_live_runs_are_left_alone(lapse, wait_for):
    live = lapse.start("simulate", "--live", "--speed", "100", "--steps", "1000000")
    assert wait_for(lambda: lapse.run_ids() and lapse.json("ls")[0].get("name"), 30)
    run = lapse.run_ids()[0]
    try:
        done = lapse("gc", "--keep-raw", "1s", "--max-total", "1", "--remove-runs", "--json")
        assert done.returncode == 1
        one = json.loads(done.stdout)["runs"][0]
        assert one["state"] == "live" and one["points"] == 0 and not one["removed"]
        for options in ([], ["--force"]):
            removed = lapse("rm", *options, run)
            assert removed.returncode == 1 and "is being recorded" in removed.stderr
    finally:
        live.send_signal(signal.SIGINT)
        live.communicate()
    assert lapse.run_ids() == [run]
    assert lapse("rm", run).returncode == 0
    assert lapse.run_ids() == []


@pytest.mark.timeout(600)
def test_agent_keeps_its_limits(lapse, charlm, tmp_path):
    """The file of a run is not larger; the points that are gone are the oldest."""
    config = tmp_path / "lapse.yaml"
    steps, sizes, left = 50000, [], []
    for text in ("store: {}\n", "store: {max_size: 768K}\n",
                 "performance_tuning: {max_database_size_gb: 0.000732421875, auto_cleanup: false}\n"):
        config.write_text(text)
        done = lapse("run", "--config", config, "--", charlm, "--steps", steps, "--dim", 4,
                     "--heads", 1, "--layers", 1, "--batch", 4, "--context", 4, "--threads", 1,
                     "--eval-every", steps, "--log-every", steps, "--sample", 0, timeout=180)
        assert done.returncode == 0, done.stderr
        assert lapse.settled(60)
        lapse.end_agent()
        run = lapse.run_ids()[-1]
        sizes.append(size(lapse, run))
        left.append(points(lapse, run))
    assert left[0][0] == left[2][0] == 1
    assert sizes[1] <= 768 << 10 < min(sizes[0], sizes[2])
    assert left[1] == list(range(left[1][0], steps + 1)) and left[1][0] > 8000


def test_rm(lapse, tmp_path):
    one, two = simulate(lapse, 50), simulate(lapse, 50, start=START + 5)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (lapse.runs / one / "tensorboard").mkdir()
    (lapse.runs / one / "tensorboard" / "file").write_text("x")
    (lapse.runs / one / "link").symlink_to(outside)
    assert lapse("rm", one).returncode == 0
    assert lapse.run_ids() == [two] and (outside / "kept").exists()
    assert not [p for p in lapse.runs.iterdir() if p.name.startswith(".")]
    (lapse.runs / "20260101-000000-link").symlink_to(lapse.runs / two)
    done = lapse("rm", "20260101-000000-link")
    assert done.returncode == 1 and "link" in done.stderr
    (lapse.runs / "notes").mkdir()
    done = lapse("rm", "notes")
    assert done.returncode == 1 and "does not look like a run" in done.stderr
    assert lapse("rm", "--force", "notes").returncode == 1
    (lapse.runs / "20260101-000000-empt").mkdir()
    assert lapse("rm", "20260101-000000-empt").returncode == 1
    assert lapse("rm", "--force", "20260101-000000-empt").returncode == 0
    assert lapse("rm").returncode == 2
    assert lapse("rm", "nosuch").returncode == 1
    assert lapse("rm", outside).returncode == 1 and (outside / "kept").exists()
    assert lapse("rm", lapse.runs / two).returncode == 0


def test_rm_names_what_is_stuck_and_is_finished_later(lapse):
    if os.getuid() == 0:
        pytest.skip("root deletes everything")
    run = simulate(lapse, 50)
    stuck = lapse.runs / run / "deep"
    stuck.mkdir()
    (stuck / "file").write_text("x")
    stuck.chmod(0o500)
    done = lapse("rm", run)
    assert done.returncode == 1 and '"file"' in done.stderr and lapse.run_ids() == []
    left = lapse.runs / f".{run}.removed"
    (left / "deep").chmod(0o700)
    other = simulate(lapse, 50)
    assert lapse("rm", other).returncode == 0
    assert list(lapse.runs.iterdir()) == []


@pytest.mark.kill
@pytest.mark.parametrize("seed", range(3))
def test_rm_killed_leaves_no_half_run(lapse, seed):
    run = simulate(lapse, 50)
    for i in range(3000):
        (lapse.runs / run / f"file{i}").write_text("x")
    rm = lapse.start("rm", run)
    time.sleep(random.Random(seed).random() * 0.03)
    rm.kill()
    rm.communicate()
    if lapse.run_ids() == [run]:
        assert points(lapse, run) == list(range(50))
    assert lapse.json("ls") == [] or lapse.run_ids() == [run]
    lapse.json("gc", "--max-total", "1T")
    assert [p.name for p in lapse.runs.iterdir()] in ([], [run])
