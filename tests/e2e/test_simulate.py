# SPDX-License-Identifier: Apache-2.0
"""`lapse simulate`: what is stored, shown and exported is what the options say.
Expected values come from a second program, the class Reference, which computes
some series in Python's own arithmetic from docs/simulate.md, bit for bit."""
import csv
import io
import json
import math
import os
import re
import signal
import struct
import time
from datetime import datetime, timezone

import pytest

START = 1767323045  # seconds since 1970
AT = ("--start", f"@{START}")
M64 = (1 << 64) - 1


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Reference:
    """Some series of rank 0, from docs/simulate.md."""

    def __init__(self, seed, steps, rate):
        self.steps, self.period = steps, round(1e9 / rate)
        self.key = self.bits(seed, 0)

    @staticmethod
    def bits(key, index):
        """First output of xoshiro256** whose state is splitmix64 of key and index."""
        def splitmix(state):
            z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & M64
            z = (z ^ z >> 27) * 0x94d049bb133111eb & M64
            return z ^ z >> 31
        state = splitmix((index + 0x9e3779b97f4a7c15) & M64) ^ key
        s1 = splitmix((state + 2 * 0x9e3779b97f4a7c15) & M64)
        x = s1 * 5 & M64
        return ((x << 7 | x >> 57) & M64) * 9 & M64

    def bell(self, key, index):
        u = self.bits(key, index)
        return (sum(u >> shift & 0xffff for shift in (0, 16, 32, 48)) - 131070) / 131070.0

    def series_key(self, name, role="trainer", number=0, labels=""):
        h = 0xcbf29ce484222325
        for byte in f"{role} {number} {name} {labels}".encode():
            h = (h ^ byte) * 0x100000001b3 & M64
        h = (h ^ h >> 32) * 0x9e3779b97f4a7c15 & M64
        return self.bits(h ^ h >> 29, self.key)

    def curve(self, step):
        begin, end = self.steps * 3 // 10, self.steps * 4 // 10
        progress = step if step < begin else begin if step < end else step - (end - begin)
        return 1 + 8 / math.sqrt(1 + progress / (self.steps / 100 if self.steps > 100 else 1.0))

    def loss(self, step):
        return f32(self.curve(step) * (1 + 0.06 * self.bell(self.series_key("loss"), step)))

    def grad_norm(self, step):
        return f32(self.curve(step) / 2 *
                   (1 + 0.4 * self.bell(self.series_key("grad_norm"), step)))

    def tokens(self, step):
        return 65536 - self.bits(self.series_key("lapse/step/tokens"), step) % 8192

    def step_ns(self, step):
        base = self.period - self.period // 50
        base -= self.bits(self.key ^ 0x53544550, step) % (self.period // 25 + 1)
        return base + (5 * self.period if step == 0 else 0)

    def begin_ns(self, step):
        """4 periods of evaluation in 20 places, 2 of checkpoint in 10, 5 of warm-up."""
        periods = step + step // (self.steps // 20) * 4 + step // (self.steps // 10) * 2
        return (periods + (5 if step else 0)) * self.period


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def simulate(lapse, *options):
    return lapse.json("simulate", *options)


def series(rows, name, rank="0"):
    return [row for row in rows if row["series"] == name and row["rank"] in (rank, "")]


# ---- values --------------------------------------------------------------------------


def test_values_are_those_of_the_reference(lapse):
    simulate(lapse, "--seed", 42, "--steps", 400, "--rate", 8, *AT)
    rows = rows_of(lapse("export", "--to", "csv", check=True).stdout)
    want = Reference(42, 400, 8)
    for name, of in (("loss", want.loss), ("grad_norm", want.grad_norm),
                     ("lapse/step/tokens", want.tokens)):
        got = series(rows, name)
        assert [int(row["step"]) for row in got] == list(range(400))
        assert [float(row["value"]) for row in got] == [of(k) for k in range(400)], name
        for k, row in enumerate(got):
            assert int(row["time_ns"]) == START * 10**9 + want.begin_ns(k) + want.step_ns(k)
    steps = series(rows, "step")
    assert [int(row["time_ns"]) - START * 10**9 for row in steps] == \
        [want.begin_ns(k) for k in range(400)]
    assert [float(row["value"]) for row in steps] == [want.step_ns(k) for k in range(400)]
    assert [float(row["value"]) for row in series(rows, "throughput")] == \
        [32e9 / want.step_ns(k) for k in range(400)]


@pytest.mark.parametrize("options", [
    (),
    ("--ranks", 3, "--gpus", 2, "--fault", "nan@10%+3", "--fault", "throttling:0.3"),
    ("--steps", 50, "--series", 500, "--hz", 20, "--resume"),
    ("--rate", 0.01, "--steps", 30, "--hz", 0.01),
    ("--rate", 1000000, "--steps", 5000, "--hz", 1000),
    ("--fault", "memory-leak:3", "--seed", 2**63 - 1),
])
def test_stored_is_printed(lapse, options):
    """What --print computes is, to the byte, what a run holds."""
    simulate(lapse, *AT, *options)
    stored = lapse("export", "--to", "csv", "--all-attempts", check=True).stdout
    printed = lapse("simulate", *AT, *options, "--print", "*", check=True).stdout
    assert stored == printed
    assert len(stored.splitlines()) > 1000


def test_the_stored_command_makes_the_same_run(lapse):
    simulate(lapse, "--duration", "20s", "--steps", 300, "--fault", "loss-spike@100:3", "--gpus", 0)
    shown = lapse.json("show")
    first = lapse("export", "--to", "csv", check=True).stdout
    again = lapse(*shown["command"].split()[1:], "--print", "*", check=True).stdout
    assert first == again
    assert shown["start"][:2] == "20"


def test_several_hosts(lapse):
    told = simulate(lapse, *AT, "--ranks", 5, "--hosts", 2, "--steps", 100)
    shown = lapse.json("show")
    assert shown["hosts"] == "node0,node1"
    trainers = [p for p in shown["processes"] if p["role"] == "trainer"]
    assert [(p["rank"], p["local_rank"], p["world_size"]) for p in trainers] == \
        [(0, 0, 5), (1, 1, 5), (2, 2, 5), (3, 0, 5), (4, 1, 5)]
    assert [p["host"] for p in trainers] == ["node0"] * 3 + ["node1"] * 2
    assert len(shown["series"]) == told["series"]
    assert sum(p["attempts"] for p in trainers) == sum(p["stored"] for p in trainers) > 0
    stored = sorted(lapse("export", "--to", "csv", check=True).stdout.splitlines())
    printed = sorted(lapse("simulate", *AT, "--ranks", 5, "--hosts", 2, "--steps", 100,
                           "--print", "*", check=True).stdout.splitlines())
    assert stored == printed


def test_resume_has_a_second_attempt(lapse):
    told = simulate(lapse, *AT, "--resume")
    assert told["steps"] == 1050  # 650, then from 600 to 999
    all_of_it = rows_of(lapse("export", "--to", "csv", "--series", "loss", "--all-attempts",
                              check=True).stdout)
    assert [int(row["step"]) for row in all_of_it] == [*range(650), *range(600, 1000)]
    newest = rows_of(lapse("export", "--to", "csv", "--series", "loss", check=True).stdout)
    assert [int(row["step"]) for row in newest] == list(range(1000))
    report = lapse.json("report")
    assert report["ranks"][0]["begun_again"] == 1
    events = lapse.json("show")["events"]
    assert [e["text"] for e in events if e["kind"] == "resume"] == ["resumed at step 600"]


def test_report_adds_up(lapse):
    simulate(lapse, *AT)
    report = lapse.json("report")
    assert report["step"]["count"] == 1000
    assert report["samples"]["sum"] == 32000
    # 1,000 periods of 0.1 s, 20 x 0.4 s, 10 x 0.2 s, 0.5 s of warm-up
    assert report["duration_s"] == pytest.approx(110.5)
    shares = {p["name"]: p["share"] for p in report["phases"]}
    assert sum(shares[p] for p in ("data", "forward", "backward", "sync", "optimizer")
               if p in shares) == pytest.approx(1, abs=1e-12)
    assert shares["data"] == pytest.approx(0.1, abs=0.02)


def test_series_are_filled_up(lapse):
    assert simulate(lapse, "--steps", 10, "--series", 2000)["series"] == 2000
    shown = lapse.json("show")["series"]
    assert len(shown) == 2000
    assert len({(s["name"], s["labels"], s["rank"]) for s in shown}) == 2000


# ---- faults ----------------------------------------------------------------------------


def truth(lapse, run="last"):
    """What the events say of the planted faults."""
    done = lapse("export", "--to", "json", "--what", "events", run, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row["attrs"] for row in rows if row["type"] == "event" and row["kind"] == "simulate"
            and row["severity"] == "debug"]


def test_truth_is_told(lapse):
    simulate(lapse, *AT, "--fault", "nan@400+100", "--fault", "hot-gpu@20%:95")
    told = truth(lapse)
    assert [(t["fault"], t["strength"], t["first_step"], t["last_step"]) for t in told] == \
        [("hot-gpu", 95, 200, 399), ("nan", 1, 400, 499)]
    assert told[1]["series"] == "loss,grad_norm"
    loss = rows_of(lapse("export", "--to", "csv", "--series", "loss", check=True).stdout)
    assert {row["value"] == "NaN" for row in loss[400:500]} == {True}
    assert [r["value"] for r in loss].count("NaN") == 100
    hot = rows_of(lapse("export", "--to", "csv", "--series", "gpu/temperature", check=True).stdout)
    for row in hot:
        inside = told[0]["start_ns"] <= int(row["time_ns"]) < told[0]["end_ns"]
        assert (row["value"] == "95") == inside


def test_every_listed_fault_works(lapse):
    listed = json.loads(lapse("simulate", "--list-faults", "--json", check=True).stdout)
    assert len(listed) == 17
    text = lapse("simulate", "--list-faults", check=True).stdout
    for fault in listed:
        assert re.search(rf"^{fault['name']}$", text, re.MULTILINE)
        run = simulate(lapse, *AT, "--ranks", 2, "--steps", 60, "--fault", fault["name"])["id"]
        told = truth(lapse, run)
        assert [t["fault"] for t in told] == [fault["name"]]
        names = {s["name"] for s in lapse.json("show", run)["series"]}
        assert set(told[0]["series"].split(",")) <= names, fault["name"]


def test_leak_ends_in_oom(lapse):
    simulate(lapse, *AT, "--fault", "memory-leak@0:2")
    shown = lapse.json("show")
    assert (shown["outcome"], shown["signal"]) == ("oom", "SIGKILL")
    assert shown["duration_s"] == pytest.approx(110.5 / 2)
    used = [s for s in shown["series"] if s["name"] == "memory/used"][0]
    limit = [s for s in shown["series"] if s["name"] == "memory/limit"][0]
    assert 0.98 * limit["last"] < used["max"] <= limit["last"]


# ---- outcomes, time, options --------------------------------------------------------------


@pytest.mark.parametrize("how, outcome, code, sign", [
    ("exited:3", "exited", 3, None), ("signaled:9", "signaled", None, "SIGKILL"),
    ("oom", "oom", None, "SIGKILL"), ("hung", "hung", 1, None), ("lost", "lost", None, None),
    ("running", "running", None, None)])
def test_outcomes(lapse, how, outcome, code, sign):
    simulate(lapse, "--steps", 10, "--outcome", how)
    shown = lapse.json("show")
    assert shown["outcome"] == outcome
    assert shown["signal"] == sign
    if code is not None:
        assert shown["exit_code"] == code
    assert (shown["end"] is None) == (outcome == "running")


def test_ends_now(lapse):
    before = time.time()
    simulate(lapse, "--steps", 100)
    end = lapse.json("show")["end_ns"] / 1e9
    assert before - 1 <= end <= time.time()


def test_names(lapse):
    simulate(lapse, "--steps", 5, "--name", "a b", "--project", "p", "--start",
             "2026-01-02T03:04:05Z")
    shown = lapse.json("show")
    assert (shown["name"], shown["project"], shown["tags"]) == ("a b", "p", "simulated")
    assert shown["start"] == "2026-01-02T03:04:05.000Z"
    assert datetime.fromtimestamp(START, timezone.utc).strftime("%H:%M:%S") == "03:04:05"


def test_live_in_many_times_real_time(lapse):
    """110.5 s of training in 1.1 s, none of it later than now."""
    told = simulate(lapse, "--live", "--speed", 100)
    assert told["seconds"] >= 1.1
    shown = lapse.json("show")
    assert shown["outcome"] == "exited"
    assert shown["end_ns"] <= time.time_ns()
    loss = [s for s in shown["series"] if s["name"] == "loss"][0]
    assert loss["count"] == 1000


def test_live_can_be_watched_and_stopped(lapse, wait_for):
    child = lapse.start("simulate", "--live", "--rate", 100, "--steps", 1000000)

    def watch():
        done = lapse("show", "--json")
        shown = json.loads(done.stdout) if done.returncode == 0 else {"series": []}
        return any(s["name"] == "loss" and s["count"] > 0 for s in shown["series"]) and shown
    shown = wait_for(watch, 20)
    assert shown and shown["outcome"] == "running"
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 128 + signal.SIGINT
    shown = lapse.json("show")
    assert (shown["outcome"], shown["signal"]) == ("signaled", "SIGINT")


@pytest.mark.parametrize("options, why", [
    (("--fault", "slow-rang"), "did you mean slow-rank?"),
    (("--fault", "nan@9999"), "begins at 9999 of 1000 steps, after the last"),
    (("--fault", "slow-rank"), "there must be 2 ranks or more"),
    (("--fault", "hot-gpu", "--gpus", 0), "there must be a GPU"),
    (("--fault", "nan:2"), "out of range: 0 to 1"),
    (("--rate", "fast"), '--rate: "fast" is not a number above 0'),
    (("--rate", "1e7"), "0.01 to 1000000 steps a second"),
    (("--hz", "0"), '--hz: "0" is not a number above 0'),
    (("--hosts", 2), "more hosts (2) than ranks (1)"),
    (("--steps", 5, "--duration", 5, "--rate", 5), "any two of them say it all"),
    (("--speed", 3), "--speed goes with --live"),
    (("--live", *AT), "--live begins now"),
    (("--outcome", "fine"), "--outcome: exited, exited:3"),
    (("--outcome", "exited:x"), "--outcome: exited, exited:3"),
    (("--start", "soon"), '--start: "soon" is not a time'),
    (("--rate", 0.01, "--steps", 30000000), "begun before 1970"),
    (("--steps", 0), "--steps: 0 is out of range"),
    (("--series", 1000001), "--series: 1000001 is out of range"),
    (("extra",), "unexpected argument 'extra'"),
])
def test_wrong_options(lapse, options, why):
    done = lapse("simulate", *options)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert done.stdout == ""
    assert lapse.run_ids() == []


def test_print_needs_a_series(lapse):
    done = lapse("simulate", "--print", "los")
    assert done.returncode == 1
    assert 'no series is named like "los"' in done.stderr


def test_folder_cannot_be_made(lapse):
    done = lapse("simulate", "--dir", "/proc/nowhere")
    assert done.returncode == 1
    assert "cannot make a folder for the run in /proc/nowhere" in done.stderr


def test_files_are_private_and_whole(lapse):
    told = simulate(lapse, "--steps", 10)
    assert sorted(os.listdir(told["dir"])) == ["node0.db", "node0.db.lock"] or \
        os.listdir(told["dir"]) == ["node0.db"]
    assert os.stat(told["dir"]).st_mode & 0o777 == 0o700
    assert os.stat(os.path.join(told["dir"], "node0.db")).st_mode & 0o777 == 0o600
