# SPDX-License-Identifier: Apache-2.0
"""lapse query: patterns, ranges, groups, formats, errors, on runs of known content
(tests/unit/cli/make_run.c says what is in them) and on one that is being written."""
import csv
import io
import json
import math
import subprocess
import time

import pytest

from conftest import BUILD
from test_cli import PLAIN, RANKS, on_terminal


@pytest.fixture
def runs(lapse):
    subprocess.run([BUILD / "tests" / "unit" / "cli" / "make_run", lapse.runs], check=True)
    return lapse


def answer(lapse, *arguments):
    done = lapse("query", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(lapse, *arguments):
    done = lapse("query", *arguments, "--csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_first_argument_is_a_run_or_a_pattern(runs):
    # The newest run is the one of evil names; it has no "loss" that PLAIN has.
    listed = runs("query", PLAIN)
    assert listed.returncode == 0 and listed.stdout.startswith("SERIES")
    assert len(json.loads(runs("query", PLAIN, "--json").stdout)) == 18
    by_run = answer(runs, PLAIN, "loss")
    assert by_run["run"] == PLAIN and len(by_run["series"][0]["buckets"]) == 20
    newest = runs("query", "no such series")
    assert newest.returncode == 1 and 'no series matches "no such series"' in newest.stderr


def test_points_and_buckets(runs):
    raw = answer(runs, PLAIN, "loss")["series"][0]
    assert raw["raw"] and [b["last"] for b in raw["buckets"]][:3] == [2, 1.95, 1.9]
    few = answer(runs, PLAIN, "loss", "--points", "4")["series"][0]
    assert not few["raw"] and [b["count"] for b in few["buckets"]] == [5] * 4
    for i, bucket in enumerate(few["buckets"]):
        part = [b["last"] for b in raw["buckets"]][5 * i:5 * i + 5]
        assert (bucket["min"], bucket["max"]) == (min(part), max(part))
        assert math.isclose(bucket["mean"], sum(part) / 5)


def test_ranges_are_those_of_export(runs):
    for part in (["--steps", "3:5"], ["--from", "+1.3s"], ["--until", "+1.3s"], ["--steps", "17:"]):
        exported = runs("export", PLAIN, "--to", "csv", "--series", "loss", *part)
        expected = [float(r["value"]) for r in csv.DictReader(io.StringIO(exported.stdout))]
        assert expected and [float(r["last"]) for r in rows(runs, PLAIN, "loss", *part)] == expected


def test_newest_attempt_unless_all_are_asked_for(runs):
    assert len(rows(runs, RANKS, "train/loss")) == 10
    every = rows(runs, RANKS, "train/loss", "--all-attempts")
    assert len(every) == 15 and {r["segment"] for r in every} == {"0", "1"}
    raw = runs("query", RANKS, "train/loss", "--raw", "--all-attempts").stdout.splitlines()
    assert len(raw) == 16 and raw[0] == "series,host,process,rank,time_ns,step,value,segment"


def test_rates(runs):
    raw = rows(runs, PLAIN, "lapse/step/samples")
    rate = rows(runs, PLAIN, "rate(lapse/step/samples)")
    assert len(rate) == len(raw) - 1
    for before, now, r in zip(raw, raw[1:], rate):
        seconds = (int(now["time_min_ns"]) - int(before["time_min_ns"])) / 1e9
        assert math.isclose(float(r["mean"]), float(now["last"]) / seconds)
    # By step: what a step added.
    steps = rows(runs, PLAIN, "rate(lapse/step/samples)", "--axis", "step")
    assert [float(r["mean"]) for r in steps] == [float(r["last"]) for r in raw[1:]]


def test_groups(runs):
    got = answer(runs, PLAIN, "memory/*", "--group-by", "host", "--points", "1")
    assert {g["group"] for g in got["groups"]} == {f'memory/{n}{{host="node0"}}'
                                                   for n in ("used", "total", "limit")}
    alone = answer(runs, PLAIN, "memory/used", "--points", "1")["series"][0]["buckets"]
    band = next(g for g in got["groups"] if g["group"].startswith("memory/used"))["bands"][0]
    assert band["series"] == 1 and band["low"] == min(b["min"] for b in alone)
    assert band["min_series"] == "memory/used"


@pytest.mark.parametrize("arguments, status, text", [
    ((PLAIN, "loss{"), 2, "character 6"),
    ((PLAIN, "loss{host}"), 2, '"=" and a value are missing'),
    ((PLAIN, "rate(loss)"), 2, "only counters have rates"),
    ((PLAIN, "lozz"), 1, "no series matches"),
    ((PLAIN, "loss", "--axis", "epoch"), 2, "time or step"),
    ((PLAIN, "loss", "--points", "0"), 2, "--points"),
    ((PLAIN, "loss", "--points", "65537"), 2, "--points"),
    ((PLAIN, "loss", "--csv", "--json"), 2, "one of them"),
    ((PLAIN, "loss", "--raw", "--json"), 2, "--raw"),
    ((PLAIN, "--csv"), 2, "needs a pattern"),
    ((PLAIN, "loss", "--group-by", ""), 2, "label"),
    ((PLAIN, "loss", "--steps", "5:3"), 2, "range of steps"),
    ((PLAIN, "loss", "--from", "+2s", "--until", "+1s"), 2, "before --from"),
    ((PLAIN, "rate(lapse/step/samples)", "--raw"), 1, "rate is not stored"),
])
def test_says_what_is_wrong(runs, arguments, status, text):
    done = runs("query", *arguments)
    assert done.returncode == status and text in done.stderr
    assert "series," not in done.stdout or "--raw" in arguments


def test_a_pattern_without_series_does_not_hide_the_others(runs):
    done = runs("query", PLAIN, "lozz", "loss", "--csv")
    assert done.returncode == 1 and 'no series matches "lozz"' in done.stderr
    assert done.stdout == runs("query", PLAIN, "loss", "--csv").stdout


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_fits_the_terminal(runs, columns):
    text = on_terminal(runs, ["query", PLAIN, "*loss", "memory/*"], columns=columns, NO_COLOR="1")
    lines = text.replace("\r", "").splitlines()
    assert len(lines) == 6
    assert any("\u2588" in line for line in lines)
    if columns >= 80:
        assert max(map(len, lines)) <= columns


def test_charts_in_ascii(runs):
    runs.env["LC_ALL"] = "C"
    done = runs("query", PLAIN, "loss")
    assert done.stdout.isascii() and "#" in done.stdout and "_" in done.stdout


def test_a_run_that_is_being_written(lapse):
    run = lapse.start("run", "--name", "live", "--", "sleep", "8")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done = lapse("query", "last", "cpu/busy", "--json")
        if done.returncode == 0 and json.loads(done.stdout)["series"][0]["buckets"]:
            break
        time.sleep(0.2)
    else:
        pytest.fail(done.stderr)
    run.terminate()
    run.wait(timeout=30)
