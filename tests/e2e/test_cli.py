# SPDX-License-Identifier: Apache-2.0
"""The commands that read: ls, show, export, report, help, version, on runs of
known content (tests/unit/cli/make_run.c says what is in them)."""
import csv
import fcntl
import io
import json
import math
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios

import pytest

from conftest import BUILD

PLAIN, RANKS, EVIL = "20260102-030405-gold", "20260103-030405-rank", "20260104-030405-evil"
READERS = [("ls",), ("show", RANKS), ("report", RANKS), ("export", PLAIN, "--to", "csv"),
           ("export", PLAIN, "--to", "json"), ("version",), ("help",), ("show", "--help")]


@pytest.fixture
def runs(lapse):
    """The program, with the three known runs in its folder."""
    subprocess.run([BUILD / "tests" / "unit" / "cli" / "make_run", lapse.runs], check=True)
    return lapse


def on_terminal(lapse, arguments, columns=80, **env):
    """What a command writes to a terminal."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**lapse.env, "TERM": "xterm", **env}
    environment = {k: v for k, v in environment.items() if v is not None}
    process = subprocess.Popen([lapse.program, *arguments], env=environment, stdin=secondary,
                               stdout=secondary, stderr=secondary)
    os.close(secondary)
    text = b""
    while True:
        try:
            part = os.read(primary, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(primary)
    assert process.wait(timeout=30) == 0
    return text.decode()


# ---- terminals ---------------------------------------------------------------


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_no_escape_outside_a_terminal(runs, command):
    runs.env.pop("NO_COLOR")
    done = runs(*command)
    assert done.returncode == 0 and done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_colour_only_where_it_is_wanted(runs):
    assert "\x1b[31m" in on_terminal(runs, ["report", RANKS], NO_COLOR=None)
    assert "\x1b[31m" in on_terminal(runs, ["report", RANKS], NO_COLOR="")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": None},
                {"TERM": None, "NO_COLOR": None}):
        assert "\x1b" not in on_terminal(runs, ["report", RANKS], **env)


@pytest.mark.parametrize("run", [PLAIN, RANKS, EVIL])
@pytest.mark.parametrize("command", ["report", "show"])
def test_fits_80_columns(runs, command, run):
    runs.env["LAPSE_DIR"] = os.path.relpath(runs.runs)  # a long path is the tester's, not ours
    text = on_terminal(runs, [command, run])
    assert "\x1b" not in text  # foreign escape codes neither
    assert max(map(len, text.splitlines())) <= 80, text


def test_ls_fits_the_terminal(runs):
    wide = on_terminal(runs, ["ls"], columns=120)
    assert "2026-01-03 03:04:05" in wide
    narrow = on_terminal(runs, ["ls"], columns=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert RANKS in narrow and "killed SIGSEGV" in narrow


# ---- errors --------------------------------------------------------------------


@pytest.mark.parametrize("arguments,said", [
    (["shwo"], "did you mean show?"),
    (["exprt"], "did you mean export?"),
    (["help", "reprot"], "did you mean report?"),
    (["ls", "--jsno"], "did you mean --json?"),
    (["ls", "-z"], "unknown option -z"),
    (["ls", "--limit", "x"], "not a whole number"),
    (["ls", "--limit", "-1"], "out of range"),
    (["ls", "--limit"], "--limit needs a value"),
    (["ls", "--json=yes"], "takes no value"),
    (["ls", "extra"], "unexpected argument"),
    (["show", "a", "b"], "only one argument"),
    (["version", "x"], "unexpected argument"),
    (["export"], "--to csv, json, tensorboard or prometheus"),
    (["export", "--to", "xml"], "use csv, json"),
    (["export", "--to", "csv", "--what", "sample"], "none of samples"),
    (["export", "--to", "csv", "--what", "samples,events"], "second file"),
    (["export", "--to", "csv", "--what", ""], "empty"),
    (["export", "--to", "csv", "--steps", "5:3"], "range of steps"),
    (["export", "--to", "csv", "--steps", ""], "range of steps"),
    (["export", "--to", "csv", "--steps", "a:b"], "range of steps"),
    (["export", "--to", "csv", "--from", "yesterday"], "not a time"),
    ([], "usage:"),
])
def test_called_wrongly(runs, arguments, said):
    done = runs(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["show", "report", "export --to csv"])
def test_finding_a_run(runs, command):
    name, *options = command.split()
    for what in (PLAIN, "20260102", str(runs.runs / PLAIN)):
        assert runs(name, *options, what).returncode == 0
    done = runs(name, *options, "2026")
    assert done.returncode == 1 and PLAIN in done.stderr and RANKS in done.stderr
    done = runs(name, *options, "none")
    assert done.returncode == 1 and "none" in done.stderr


def test_last_is_the_default(runs):
    assert runs.json("show")["id"] == EVIL
    assert runs.json("report", "last")["id"] == EVIL


def test_a_broken_run_is_a_row(runs):
    broken = runs.runs / "20260105-030405-bust"
    broken.mkdir()
    (broken / "node0.db").write_bytes(b"not a database, " * 1000)
    done = runs("ls")
    assert done.returncode == 0
    assert re.search(r"20260105-030405-bust.*unreadable", done.stdout)
    assert "20260105-030405-bust" in done.stderr
    assert "exited 0" in done.stdout
    rows = runs.json("ls")
    assert [r["id"] for r in rows] == ["20260105-030405-bust", EVIL, RANKS, PLAIN]
    assert rows[0]["error"] and rows[1]["error"] is None
    assert rows[3]["last_step"] == 19 and rows[3]["loss"] == 1.45 and rows[3]["bytes"] > 0
    assert runs("report", "last").returncode == 1
    assert runs("report", PLAIN).returncode == 0


def test_one_broken_host_leaves_the_other(runs):
    (runs.runs / RANKS / "node1.db").write_bytes(b"not a database, " * 1000)
    done = runs("report", RANKS, "--json")
    assert done.returncode == 0
    assert "node1" in done.stderr
    report = json.loads(done.stdout)
    assert "node1" in report["warning"]
    assert report["step"]["count"] == 15


def test_no_runs(lapse):
    done = lapse("ls")
    assert done.returncode == 0 and "lapse run" in done.stderr
    assert lapse.json("ls") == []
    assert lapse("ls", "--dir", "/nonexistent/runs").returncode == 1
    assert lapse("show").returncode == 1


def test_limit(runs):
    done = runs("ls", "--limit", "1")
    assert EVIL in done.stdout and RANKS not in done.stdout
    assert "1 of 3" in done.stderr
    assert len(runs.json("ls", "-n0")) == 3


# ---- output ----------------------------------------------------------------------


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_full_disk(runs, command):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = runs(*command, stdout=full)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_goes_away(runs):
    done = subprocess.run(f"{runs.program} export {PLAIN} --to json | head -n 1", shell=True,
                          env=runs.env, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["type"] == "run"
    assert done.stderr == ""
    read, write = os.pipe()
    os.close(read)
    done = runs("export", PLAIN, "--to", "csv", stdout=write)  # Python ignores SIGPIPE
    os.close(write)
    assert done.returncode != 0 and done.stderr == ""


def test_export_to_a_file(runs, tmp_path):
    target = tmp_path / "out.csv"
    assert runs("export", PLAIN, "--to", "csv", "-o", target).returncode == 0
    assert target.read_text() == runs("export", PLAIN, "--to", "csv").stdout
    assert target.stat().st_mode & 0o777 == 0o600
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    assert runs("export", PLAIN, "--to", "csv", "-s", "loss", "-o", link).returncode == 0
    assert link.is_symlink() and len(target.read_text().splitlines()) == 21
    assert runs("export", PLAIN, "--to", "csv", "-o", "/dev/null").returncode == 0
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    done = runs("export", PLAIN, "--to", "csv", "-o", "/dev/full")
    assert done.returncode == 1 and "/dev/full" in done.stderr
    done = runs("export", PLAIN, "--to", "csv", "-o", tmp_path / "none" / "x.csv")
    assert done.returncode == 1 and "none/x.csv" in done.stderr
    assert runs("export", PLAIN, "--to", "csv", "-o", tmp_path).returncode == 1
    assert sorted(p.name for p in tmp_path.glob("*csv*")) == ["link.csv", "out.csv"]


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_file_is_whole_or_not_there(runs, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("before")
    done = runs("export", PLAIN, "--to", "csv", "-o", target, preexec_fn=small_files)
    assert done.returncode == 1 and "out.csv" in done.stderr
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.glob("out*")] == ["out.csv"]


# ---- content -----------------------------------------------------------------------


def csv_rows(runs, *arguments):
    done = runs("export", *arguments, "--to", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout, newline="")))


def json_lines(runs, *arguments):
    done = runs("export", *arguments, "--to", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


VALUES = [0.1, -0.0, 1e300, 5e-324, math.nan, math.inf, -math.inf, 3.0]


def same(a, b):
    return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))


def test_doubles_come_back(runs):
    rows = csv_rows(runs, EVIL)
    assert len(rows) == len(VALUES)
    assert all(same(float(r["value"]), v) for r, v in zip(rows, VALUES))
    assert {r["series"] for r in rows} == {'q"u,o\nte\ufffd'}
    assert {r["labels"] for r in rows} == {'k="a,b"'}
    assert [int(r["step"]) for r in rows] == list(range(8))
    samples = [o for o in json_lines(runs, EVIL) if o["type"] == "sample"]
    assert all(float(o["value"]) == v or math.isnan(v) for o, v in zip(samples, VALUES))


def test_csv_and_json_say_the_same(runs):
    lines = json_lines(runs, PLAIN)
    assert lines[0]["type"] == "run" and lines[0]["id"] == PLAIN
    names = {o["series"]: o["name"] for o in lines if o["type"] == "series"}
    from_json = [(names[o["series"]], o["time_ns"], o["step"], float(o["value"]))
                 for o in lines if o["type"] == "sample"]
    from_json += [(names[o["series"]], o["time_ns"], o["step"], float(o["duration_ns"]))
                  for o in lines if o["type"] == "span"]
    from_csv = [(r["series"], int(r["time_ns"]), int(r["step"]) if r["step"] else None,
                 float(r["value"]))
                for r in csv_rows(runs, PLAIN) if not r["kind"].startswith("histogram")]
    assert len(from_csv) == 20 * 6 + 3 + 2 + 1 + 6 * 4
    assert sorted(map(repr, from_json)) == sorted(map(repr, from_csv))


@pytest.mark.parametrize("options,steps", [
    (["--steps", "3:5"], [3, 4, 5]),
    (["--steps", "17:"], [17, 18, 19]),
    (["--steps", ":1"], [0, 1]),
    (["--steps", "7"], [7]),
    (["--steps=-5:0"], [0]),
    # Step i of the loss is at 03:04:06 + i x 100 ms.
    (["--from", "2026-01-02T03:04:07.8Z"], [18, 19]),
    (["--until", "2026-01-02 03:04:06.1"], [0, 1]),
    (["--from", "+2.8s", "--until", "+2.9s"], [18, 19]),
    # The run ends at 03:04:08.5.
    (["--from", "-1.65s", "--until", "@1767323047.15"], [9, 10, 11]),
    (["--from", "+1500ms", "--steps", ":6"], [5, 6]),
])
def test_ranges(runs, options, steps):
    rows = csv_rows(runs, PLAIN, "--series", "loss", *options)
    assert [int(r["step"]) for r in rows] == steps


def test_what(runs):
    types = {o["type"] for o in json_lines(runs, PLAIN, "--what", "spans,events")}
    assert types == {"run", "process", "series", "span", "event"}
    events = csv_rows(runs, EVIL, "--what", "events")
    assert [e["severity"] for e in events] == ["warning", "debug"]
    assert json.loads(events[0]["attrs"]) == {"a": [1, 2]}
    assert {r["kind"] for r in csv_rows(runs, PLAIN, "-w", "spans")} == {"span"}


def test_resumed_attempts(runs):
    newest = csv_rows(runs, RANKS, "--series", "train/loss")
    everything = csv_rows(runs, RANKS, "--series", "train/loss", "--all-attempts")
    assert [int(r["step"]) for r in newest] == list(range(10))
    assert len(everything) == 15


def test_report_figures(runs):
    """Worked out by hand in make_run.c."""
    r = runs.json("report", PLAIN)
    assert r["step"] == {"count": 20, "total_s": 1.47, "p50_s": 0.03, "p95_s": 0.039,
                         "p99_s": 0.9, "max_s": 0.9}
    assert r["samples"]["per_s_in_steps"] == pytest.approx(160 / 1.47, rel=1e-12)
    assert r["samples"]["per_s_overall"] == pytest.approx(160 / 1.939, rel=1e-12)
    assert r["tokens"]["sum"] == 2560
    share = {p["name"]: p["share"] for p in r["phases"]}
    assert share["forward"] == pytest.approx(200 / 1470)
    assert share["backward"] == pytest.approx(1270 / 1470)
    assert share["data"] == pytest.approx(9 / 1470)
    assert share["eval"] is None and "epoch" not in share
    assert r["records"]["attempts"] == 150
    r = runs.json("report", RANKS)
    assert [(p["rank"], p["count"], p["p50_s"]) for p in r["ranks"]] == [(0, 15, 0.017),
                                                                        (1, 10, 0.03)]
    assert r["records"] == {"attempts": 111, "stored": 100, "dropped": 7, "overwritten": 3,
                            "broken": 1, "refused": 0}
    assert (r["outcome"], r["signal"], r["core"]) == ("signaled", "SIGSEGV", True)


def test_version(lapse):
    version = lapse.json("version")["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert lapse("--version").stdout.startswith(f"lapse {version} ")
    assert lapse("--version").stdout == lapse("version").stdout


def test_help(lapse):
    text = lapse("help").stdout
    assert lapse("--help").stdout == text
    names = re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)
    assert {"run", "ls", "show", "export", "report", "recover", "agent", "version"} <= set(names)
    for name in set(names) - {"help"}:
        done = lapse(name, "--help")
        assert done.returncode == 0 and done.stderr == ""
        assert done.stdout.startswith(f"usage: lapse {name} ")
        assert "Examples:" in done.stdout
        assert lapse("help", name).stdout == done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 88
