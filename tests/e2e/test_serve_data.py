# SPDX-License-Identifier: Apache-2.0
"""What the server says of a run's data is what the commands say: series, values as JSON and
binary, figures, events, exports, metrics for Prometheus and the documents' addresses."""
import csv
import gzip
import io
import json
import math
import shutil
import struct
import subprocess
from urllib.parse import quote, urlencode

import pytest

from conftest import BUILD, wait_for
from serving import Serving
from test_cli import PLAIN, RANKS

KNOWN = BUILD / "tests" / "unit" / "export" / "make_known"
MAKE_RUN = BUILD / "tests" / "unit" / "cli" / "make_run"
START_MS = 1767323045000  # of the known run


@pytest.fixture
def served(lapse):
    """The runs of tests/unit/cli/make_run.c and the one of known_run.h, served."""
    subprocess.run([MAKE_RUN, lapse.runs], check=True)
    subprocess.run([KNOWN, lapse.runs, "1000"], check=True)
    with Serving(lapse) as server:
        server.lapse = lapse
        yield server


def path(run, what, *pairs):
    return f"/api/v1/runs/{quote(run)}/{what}?{urlencode(pairs)}"


def ask(server, run, what, *pairs, status=200):
    answer = server.get(path(run, what, *pairs))
    assert answer.status == status, answer.body
    assert answer.head["content-type"] == "application/json"
    return answer.json()


def wrong(server, run, what, *pairs, status=400, code="bad-parameter"):
    """The sentence of a refusal."""
    error = ask(server, run, what, *pairs, status=status)["error"]
    assert error["code"] == code
    return error["message"]


def decode(data):
    """The binary form, from docs/http.md: [(head, {column: numbers})]."""
    assert data[:4] == b"LPC1"
    (n,) = struct.unpack_from("<I", data, 4)
    at, parts = 8, []
    for _ in range(n):
        length, zero = struct.unpack_from("<II", data, at)
        assert zero == 0 and length % 8 == 0
        head = json.loads(data[at + 8:at + 8 + length])
        at += 8 + length
        rows, columns = struct.unpack_from("<II", data, at)
        at += 8
        assert at % 8 == 0
        arrays = []
        for _ in range(columns):
            arrays.append(struct.unpack_from(f"<{rows}d", data, at))
            at += 8 * rows
        names = head.get("columns", [])
        assert len(names) == columns
        parts.append((head, dict(zip(names, arrays))))
    assert at == len(data)
    return parts


def number(value):
    """Of a JSON value."""
    return math.nan if value is None else float(value)


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


# ---- series ------------------------------------------------------------------------------


def test_series_are_those_of_the_command(served):
    for run in (PLAIN, RANKS, "known"):
        told = ask(served, run, "series")
        listed = served.lapse.json("query", run)
        assert told["run"] == run and told["total"] == len(listed)
        for one, other in zip(told["series"], listed):
            assert other.items() <= (one | {"points": one["count"]}).items()
    gpus = ask(served, "known", "series", ("match", "val{set=a}"), ("match", "cpu/*"))["series"]
    assert [(s["name"], s["label"]) for s in gpus] == [("val", {"set": "a"}), ("cpu/busy", {})]
    limited = ask(served, "known", "series", ("limit", "2"))
    assert len(limited["series"]) == 2 and limited["total"] > 2


# ---- values ------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [3, 40, 8192])
@pytest.mark.parametrize("axis", ["time", "step"])
@pytest.mark.parametrize("attempts", ["last", "all"])
def test_values_are_those_of_the_command(served, points, axis, attempts):
    patterns = ["loss", "tokens", "rate(tokens)", "forward", "grad", "val", "early"]
    told = ask(served, "known", "query", *(("series", p) for p in patterns), ("points", points),
               ("axis", axis), ("attempts", attempts))
    options = ["--all-attempts"] if attempts == "all" else []
    expected = served.lapse.json("query", "known", *patterns, "--points", points, "--axis", axis,
                                 *options)
    assert [s["id"] for s in told["series"]] == [s["id"] for s in expected["series"]]
    for one, other in zip(told["series"], expected["series"]):
        assert (one["raw"], one["rate"], one["lost"]) == (other["raw"], other["rate"], other["lost"])
        assert {len(one[c]) for c in one["columns"]} == {len(other["buckets"])}
        for i, bucket in enumerate(other["buckets"]):
            if one["raw"]:
                x = bucket["step_min"] if axis == "step" else bucket["time_min_ns"] / 1e6
                assert math.isclose(one["x"][i], x, rel_tol=1e-15)
                assert same(number(one["y"][i]), number(bucket["mean"]))
                continue
            low, high = (bucket[k] for k in (("step_min", "step_max") if axis == "step" else
                                             ("time_min_ns", "time_max_ns")))
            scale = 1 if axis == "step" else 1e6
            assert math.isclose(one["x"][i], (low + high) / 2 / scale, rel_tol=1e-12)
            for key in ("min", "mean", "max", "last"):
                assert same(number(one[key][i]), number(bucket[key])), key
            assert one["nan"][i] == bucket["nan"]
            if one["kind"] != "histogram":  # there the command counts points
                assert one["count"][i] == bucket["count"]


def test_binary_says_what_json_says(served):
    for pairs in ([("series", "*"), ("points", "50"), ("also", "place"), ("also", "segment")],
                  [("series", "*"), ("points", "8192"), ("axis", "relative")],
                  [("series", "loss"), ("series", "nothing"), ("group", "rank"), ("axis", "step")],
                  [("series", "*"), ("points", "20"), ("grid", "1")]):
        told = ask(served, "known", "query", *pairs)
        answer = served.get(path("known", "query", *pairs, ("format", "binary")))
        assert answer.head["content-type"] == "application/vnd.lapse.columns"
        (head, nothing), *parts = decode(answer.body)
        assert nothing == {}
        rows = told.pop("groups" if "group" in dict(pairs) else "series")
        assert head == told and len(rows) == len(parts)
        for row, (part_head, columns) in zip(rows, parts):
            assert {k: v for k, v in row.items() if k not in columns} == part_head
            for name, values in columns.items():
                assert all(same(number(a), b) for a, b in zip(row[name], values)), name


def test_ends_are_included_and_in_the_units_of_x(served):
    """loss of rank 0 at t(k) = start + 1 s + 10 ms k; what came back as x can be asked with."""
    def steps(*pairs):
        told = ask(served, "known", "query", ("series", "loss{rank=0}"), ("attempts", "all"),
                   ("also", "place"), *pairs)
        return told["series"][0]["x"], told["series"][0]["step"]

    x, step = steps(("from", START_MS + 1100), ("to", START_MS + 1200))
    assert step == list(range(10, 21)) and x[0] == START_MS + 1100
    assert steps(("from", x[1]), ("to", x[1])) == ([x[1]], [11])
    assert steps(("axis", "relative"), ("from", "1100"), ("to", "1110.000001"))[0] == [1100, 1110]
    assert steps(("axis", "step"), ("from", "3"), ("to", "5"))[0] == [3, 4, 5]
    x, step = steps(("axis", "step"), ("from", "550"), ("to", "551"))
    assert x == [550, 550, 551, 551] == step


def test_groups(served):
    told = ask(served, "known", "query", ("series", "loss"), ("group", "none"), ("points", "10"))
    expected = served.lapse.json("query", "known", "loss", "--group-by", "project", "--points", 10)
    (one,), (other,) = told["groups"], expected["groups"]
    assert told["grid"]["n"] <= 10 and [m["rank"] for m in told["members"]] == [0, 1]
    assert [number(v) for v in one["mean"]] == [b["mean"] for b in other["bands"]]
    assert [number(v) for v in one["low"]] == [b["low"] for b in other["bands"]]
    assert one["series"] == [b["series"] for b in other["bands"]]
    # 2 / (1 + k) is above 1 / (1 + k) everywhere; rank 0 has a hole, what it did twice.
    assert set(one["max_of"]) == {1}
    assert {m for m, n in zip(one["min_of"], one["series"]) if n == 2} == {0}
    ranks = ask(served, "known", "query", ("series", "loss"), ("group", "rank"))["groups"]
    assert [g["group"] for g in ranks] == ['loss{rank="0"}', 'loss{rank="1"}']


def test_percentiles_of_histograms(served):
    """Of five observations one is -1, three begin at 1.0, one is 4 (known_run.h)."""
    (one,) = ask(served, "known", "query", ("series", "grad"), ("points", "5"))["series"]
    assert one["columns"][-3:] == ["p50", "p95", "p99"] and set(one["p95"]) == {4}
    assert all(1 <= v <= 1.0625 for v in one["p50"]) and set(one["last"]) == {None}
    (stats,) = ask(served, "known", "stats", ("series", "grad"))["series"]
    assert stats["percentiles"] == "within 7%" and stats["p99"] == 4 and 1 <= stats["p50"] <= 1.0625


def test_a_run_that_went_bad(lapse):
    """NaN from the first step: they count, they are marked, and nothing else is made of them."""
    lapse("simulate", "-n", "300", "--fault", "nan@0", "-q", check=True)
    run = lapse.run_ids()[0]
    with Serving(lapse) as server:
        (one,) = ask(server, run, "query", ("series", "loss"), ("points", "10"))["series"]
        assert one["nan"] == one["count"] and sum(one["count"]) == 300
        assert set(one["min"] + one["mean"] + one["max"]) == {None} and set(one["last"]) == {"NaN"}
        (raw,) = ask(server, run, "query", ("series", "loss"))["series"]
        assert raw["raw"] and set(raw["y"]) == {"NaN"}
        _, (_, columns) = decode(server.get(path(run, "query", ("series", "loss"), ("points", "10"),
                                                 ("format", "binary"))).body)
        assert all(map(math.isnan, columns["mean"])) and sum(columns["nan"]) == 300
        (stats,) = ask(server, run, "stats", ("series", "loss"))["series"]
        assert (stats["count"], stats["nan"], stats["mean"], stats["min"]) == (300, 300, None, None)
        assert stats["last"] == "NaN" and stats["p50"] is None and stats["percentiles"] is None
        rows = server.get(f"/api/training_metrics?run={run}").json()
        assert {r["loss"] for r in rows if r["phase"] == "train"} == {"NaN"}


def test_names_that_are_meant_to_hurt(served):
    run = served.lapse.run_ids()[-1]
    for run in served.lapse.run_ids():
        for one in ask(served, run, "series")["series"]:
            told = ask(served, run, "query", ("id", one["id"]))["series"]
            assert [(s["id"], s["name"], s["labels"]) for s in told] == \
                [(one["id"], one["name"], one["labels"])]
        assert served.get(path(run, "events")).status == 200
    unmatched = ask(served, "known", "query", ("series", "loss"), ("series", "<script>é"))
    assert unmatched["unmatched"] == ["<script>é"]


def test_a_thousand_series(lapse):
    lapse("simulate", "-n", "50", "--series", "1000", "-q", check=True)
    run = lapse.run_ids()[0]
    with Serving(lapse) as server:
        series = ask(server, run, "series")["series"]
        assert len(series) >= 1000
        message = wrong(server, run, "query", ("series", "*"), code="too-many-series")
        assert str(len(series)) in message and "128" in message and "4096" in message
        message = wrong(server, run, "query", ("series", "*"), ("group", "none"), code="too-many-series")
        assert f"{len(series)} series make" in message and "128" in message and "4096" in message
        wrong(server, run, "stats", ("series", "*"), code="too-many-series")
        some = [("id", s["id"]) for s in series[-128:]]
        assert len(ask(server, run, "query", *some)["series"]) == 128
        largest = ask(server, run, "query", ("points", "8192"), ("id", "x/1"), *some)
        assert largest["unmatched"] == ["x/1"] and len(largest["series"]) == 128


def test_a_band_of_many_ranks(lapse):
    """A line that is made of more series than lines may be asked for: those of every rank."""
    run = lapse.json("simulate", "-n", 30, "--ranks", 160, "--hosts", 4, "--gpus", 8)["id"]
    export = lapse("export", "--to", "csv", "--series", "loss", run, check=True).stdout
    values = {}
    for row in csv.DictReader(export.splitlines()):
        values.setdefault(int(row["step"]), {})[int(row["rank"])] = float(row["value"])
    assert len(values) == 30 and all(len(of) == 160 for of in values.values())
    with Serving(lapse) as server:
        asked = [("series", "loss"), ("axis", "step"), ("points", "8192")]
        assert "group" in wrong(server, run, "query", *asked, code="too-many-series")
        told = ask(server, run, "query", *asked, ("group", "none"))
        (band,), members = told["groups"], told["members"]
        assert len(members) == 160 and told["grid"]["width"] == 1
        assert band["x"] == sorted(values) and set(band["series"]) == {160}
        for i, of in enumerate(values[step] for step in sorted(values)):
            assert (band["min"][i], band["max"][i]) == (min(of.values()), max(of.values()))
            assert math.isclose(band["mean"][i], math.fsum(of.values()) / 160, rel_tol=1e-12)
            assert of[members[band["min_of"][i]]["rank"]] == min(of.values())
            assert of[members[band["max_of"][i]]["rank"]] == max(of.values())
        # All members' buckets are held at once: no more than of 128 series by themselves.
        by_time = ask(server, run, "query", ("series", "loss"), ("points", "8192"), ("group", "none"))
        assert 3000 < by_time["grid"]["n"] <= 128 * 8192 // 160
        # A line a rank would be too many; those of hosts are not.
        message = wrong(server, run, "query", *asked, ("group", "rank"), code="too-many-series")
        assert "160 series make 160 groups" in message
        hosts = ask(server, run, "query", *asked, ("group", "host"))["groups"]
        assert [set(g["series"]) for g in hosts] == [{40}] * 4


# ---- what is asked wrongly -----------------------------------------------------------------


@pytest.mark.parametrize("what,pairs,text", [
    ("query", [], "series"),
    ("query", [("series", "loss{")], "character 6"),
    ("query", [("series", "rate(loss)")], "only counters have rates"),
    ("query", [("series", "loss"), ("points", "0")], "points"),
    ("query", [("series", "loss"), ("points", "8193")], "8192"),
    ("query", [("series", "loss"), ("axis", "epoch")], "axis"),
    ("query", [("series", "loss"), ("from", "yesterday")], "from"),
    ("query", [("series", "loss"), ("from", "2"), ("to", "1")], "before from"),
    ("query", [("series", "loss"), ("axis", "step"), ("to", "1.5")], "to"),
    ("query", [("series", "loss"), ("attempts", "first")], "attempts"),
    ("query", [("series", "loss"), ("also", "colour")], "also"),
    ("query", [("series", "loss"), ("group", "")], "group"),
    ("query", [("series", "loss"), ("point", "5")], "points"),
    ("query", [("series", "loss"), ("points", "5"), ("points", "6")], "points"),
    ("series", [("match", "loss{a")], "match"),
    ("stats", [("series", "rate(tokens)")], "counter"),
    ("events", [("after", "me")], "after"),
    ("events", [("severity", "bad")], "severity"),
    ("events", [("limit", "5001")], "5000"),
    ("events", [("from", "x")], "from"),
    ("export", [("format", "xlsx")], "format"),
    ("export", [("what", "samples"), ("what", "events")], "events"),
    ("export", [("axis", "step"), ("from", "a")], "from"),
])
def test_says_what_is_wrong(served, what, pairs, text):
    assert text in wrong(served, "known", what, *pairs)


def test_what_is_not_there(served):
    assert "lozz" in wrong(served, "known", "query", ("series", "lozz"), status=404,
                           code="no-such-series")
    wrong(served, "known", "stats", ("id", "node0/9999"), status=404, code="no-such-series")
    wrong(served, "known", "export", ("series", "lozz"), status=404, code="no-such-series")
    for what in ("series", "query", "stats", "events", "export"):
        wrong(served, "20260101-000000-none", what, status=404, code="no-such-run")


# ---- the protocol --------------------------------------------------------------------------


def test_an_unchanged_run_is_not_sent_again(served):
    url = path("known", "query", ("series", "loss"))
    first = served.get(url)
    again = served.get(url, If_None_Match=first.head["etag"])
    assert (again.status, again.body) == (304, b"")
    other = served.get(path("known", "query", ("series", "loss"), ("points", "5")),
                       If_None_Match=first.head["etag"])
    assert other.status == 200
    subprocess.run([KNOWN, served.lapse.runs, "1100", "1000", "1100"], check=True)
    grown = served.get(url, If_None_Match=first.head["etag"])
    assert grown.status == 200 and grown.head["etag"] != first.head["etag"]


def test_gzip(served):
    url = path("known", "query", ("series", "loss"), ("format", "binary"))
    plain, packed = served.get(url), served.get(url, Accept_Encoding="gzip")
    assert "content-encoding" not in plain.head and packed.head["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body)


# ---- figures and events -------------------------------------------------------------------


def test_figures(served):
    (one,) = ask(served, "known", "stats", ("series", "loss{rank=0}"), ("attempts", "all"))["series"]
    values = sorted(1 / (1 + k) for k in range(1000))
    assert (one["count"], one["nan"], one["lost"]) == (1000, 0, 0)
    assert (one["min"], one["max"], one["last"]) == (values[0], values[-1], values[0])
    assert (one["min_step"], one["max_step"], one["last_step"]) == (899, 0, 899)
    assert math.isclose(one["sum"], math.fsum(values)) and math.isclose(one["mean"],
                                                                        math.fsum(values) / 1000)
    # Nearest rank: the 500th, 950th and 990th of a thousand.
    assert [one[k] for k in ("p50", "p95", "p99")] == [values[499], values[949], values[989]]
    assert one["percentiles"] == "exact"
    assert one["first_time_ns"] == (START_MS + 1000) * 10**6
    (part,) = ask(served, "known", "stats", ("series", "loss{rank=0}"), ("axis", "step"),
                  ("from", "10"), ("to", "19"))["series"]
    assert (part["count"], part["max"], part["p50"]) == (10, 1 / 11, 1 / 16)


def test_events_page_by_page(lapse):
    subprocess.run([KNOWN, lapse.runs, "20000"], check=True)
    with Serving(lapse) as server:
        whole = ask(server, "known", "events")
        assert whole["total"] == 40 and whole["next"] is None
        assert [e["text"] for e in whole["events"]] == [f"at {k}" for k in
                                                        range(19500, -1, -500)]
        assert whole["kinds"] == {"note": 40} and whole["by_severity"]["info"] == 40
        pages, after = [], []
        while True:
            page = ask(server, "known", "events", ("limit", "7"), *after)
            pages.append(page["events"])
            if page["next"] is None:
                break
            after = [("after", page["next"])]
        assert [len(p) for p in pages] == [7] * 5 + [5]
        assert sum(pages, []) == whole["events"]
        assert len({e["id"] for e in whole["events"]}) == 40
        some = ask(server, "known", "events", ("text", "AT 195"), ("severity", "info"),
                   ("kind", "crash"), ("kind", "note"))
        assert [e["text"] for e in some["events"]] == ["at 19500"]
        assert ask(server, "known", "events", ("severity", "warning"))["total"] == 0
        at = whole["events"][3]["time_ns"]
        one = ask(server, "known", "events", ("from", f"{at // 10**6}"), ("to", f"{at // 10**6}"))
        assert [e["id"] for e in one["events"]] == [whole["events"][3]["id"]]


# ---- exports ------------------------------------------------------------------------------


@pytest.mark.parametrize("form,pairs,options", [
    ("csv", [], []),
    ("json", [], []),
    ("csv", [("what", "events")], ["--what", "events"]),
    ("json", [("what", "histograms"), ("what", "spans")], ["--what", "histograms,spans"]),
    ("csv", [("series", "loss")], ["--series", "loss"]),
    ("csv", [("series", "loss"), ("attempts", "all")], ["--series", "loss", "--all-attempts"]),
    ("csv", [("axis", "step"), ("from", "100"), ("to", "200")], ["--steps", "100:200"]),
    ("csv", [("from", START_MS + 2000), ("to", START_MS + 3000)],
     ["--from", "+2s", "--until", "+3s"]),
])
def test_exports_are_those_of_the_command(served, form, pairs, options):
    answer = served.get(path("known", "export", ("format", form), *pairs))
    done = served.lapse("export", "known", "--to", form, *options)
    assert answer.status == 200 and answer.body.decode() == done.stdout != ""
    ending = {"csv": ".csv", "json": ".jsonl"}[form]
    events = "-events" if ("what", "events") in pairs else ""
    assert answer.head["content-disposition"] == f'attachment; filename="known{events}{ending}"'


def test_exports_go_no_faster_than_they_are_taken(lapse):
    """Four that nobody reads are all there may be; when their clients go there is room again,
    and the server ends at once although one is under way."""
    subprocess.run([KNOWN, lapse.runs, "150000"], check=True)
    with Serving(lapse) as server:
        stuck = []
        for _ in range(4):
            one = server.connect()
            one.sendall(f"GET {path('known', 'export')} HTTP/1.1\r\nHost: localhost:{server.port}"
                        "\r\n\r\n".encode())
            assert one.recv(15) == b"HTTP/1.1 200 OK"
            stuck.append(one)
        busy = server.get(path("known", "export"))
        assert busy.status == 503 and busy.json()["error"]["code"] == "busy"
        assert server.get(path("known", "series")).status == 200
        for one in stuck[1:]:
            one.close()
        assert wait_for(lambda: server.get(path("known", "export", ("series", "val"))).status == 200,
                        30)
        head = server.ask("HEAD", path("known", "export"))
        assert (head.status, head.body) == (200, b"")
        assert server.end() == 0
        stuck[0].close()


# ---- Prometheus ---------------------------------------------------------------------------


def values(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


@pytest.mark.timeout(150)
def test_metrics_of_live_runs(lapse, charlm):
    with Serving(lapse) as server:
        nothing = server.get("/metrics")
        assert nothing.status == 200 and nothing.body == b""
        runs = [lapse.start("run", "--quiet", "--", charlm, "--seconds", "100") for _ in range(2)]
        try:
            wanted = ["lapse_cpu_busy{", "lapse_loss", "lapse_records_total{"]
            assert wait_for(lambda: all(
                server.get("/metrics").body.decode().count(f"\n{w}") >= 2 for w in wanted), 60)
            plain = server.get("/metrics")
            open_metrics = server.get("/metrics", Accept="application/openmetrics-text")
        finally:
            for run in runs:
                run.terminate()
            for run in runs:
                run.wait(30)
        assert plain.head["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = plain.body.decode()
        assert {f'run="{r}"' in text for r in lapse.run_ids()} == {True}
        heads = [line for line in text.splitlines() if line.startswith("# TYPE ")]
        assert len(heads) == len({line.split()[2] for line in heads})
        for other, value in values(text).items():
            float(value)
            assert other.startswith("lapse_")
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                  capture_output=True)
            assert (done.returncode, done.stderr) == (0, "")
        said = open_metrics.body.decode()
        assert open_metrics.head["content-type"].startswith("application/openmetrics-text; version=1")
        assert said.endswith("# EOF\n") and "# TYPE lapse_run info\n" in said
        assert "# TYPE lapse_records counter\n" in said and "\nlapse_records_total{" in said
        assert wait_for(lambda: server.get("/metrics").body == b"", 20)


# ---- the documents' addresses ---------------------------------------------------------------


@pytest.fixture
def simulated(lapse):
    """A run of 400 steps in 80 s, served."""
    lapse("simulate", "-n", "400", "--rate", "5", "-q", check=True)
    with Serving(lapse) as server:
        server.lapse, server.run = lapse, lapse.run_ids()[0]
        yield server


def last(server, pattern, *options):
    """What the command says of the one series: value by bucket."""
    told = server.lapse.json("query", server.run, pattern, "--points", "8000", *options)["series"]
    return [b["last"] for b in told[0]["buckets"]]


def test_the_training_table(simulated):
    rows = simulated.get("/api/training_metrics?limit=50").json()
    assert len(rows) == 50 and {r["phase"] for r in rows} == {"train", "val"}
    assert rows[0]["accuracy"] is None
    checks = [r["loss"] for r in rows if r["phase"] == "val"]
    assert checks == last(simulated, "val/loss", "--axis", "step")[-len(checks):]
    rows = [r for r in rows if r["phase"] == "train"]
    n = len(rows)
    assert [r["step"] for r in rows] == list(range(400 - n, 400))
    assert [r["loss"] for r in rows] == last(simulated, "loss", "--axis", "step")[-n:]
    assert [r["batch_time"] for r in rows] == \
        [v / 1e9 for v in last(simulated, "step", "--axis", "step")[-n:]]
    assert len(simulated.get("/api/training_metrics").json()) == 100


def test_the_system_table(simulated):
    rows = simulated.get(f"/api/system_metrics?run={simulated.run}&limit=5").json()
    assert [r["cpu_usage_percent"] for r in rows] == \
        [100 * v for v in last(simulated, "cpu/busy")[-5:]]
    assert rows[-1]["gpu_memory_mb"] == last(simulated, "gpu/memory/used")[-1] / 2**20
    read = last(simulated, "rate(disk/read)")[-1] / 2**20
    assert math.isclose(rows[-1]["disk_read_mb_s"], read)
    assert rows[-1]["cpu_temperature"] is None


def test_statistics(simulated):
    figures = simulated.get("/api/statistics").json()
    values_of = last(simulated, "loss", "--axis", "step")
    loss = figures["training"]["loss"]
    assert figures["run"] == simulated.run and loss["count"] == len(values_of) == 400
    assert math.isclose(loss["mean"], sum(values_of) / 400)
    assert (loss["min"], loss["max"], loss["latest"]) == \
        (min(values_of), max(values_of), values_of[-1])
    assert figures["alerts"]["total"] == len(simulated.get("/api/alerts").json())


def test_the_documents_exports(lapse):
    lapse("simulate", "-n", "100", "-q", check=True)
    run = lapse.run_ids()[0]
    with Serving(lapse) as server:
        whole = server.get("/export?type=all&format=json")
        assert whole.head["content-disposition"] == f'attachment; filename="{run}-all.json"'
        assert whole.json()["training"] == server.get("/api/training_metrics?limit=10000").json()
        assert whole.json()["system"] == server.get("/api/system_metrics?limit=10000").json()
        assert server.get("/export?type=alerts").json() == whole.json()["alerts"]
        table = server.get("/export?type=training&format=csv")
        assert table.head["content-disposition"] == f'attachment; filename="{run}-training.csv"'
        rows = list(csv.DictReader(io.StringIO(table.body.decode())))
        assert [float(r["loss"]) for r in rows] == [r["loss"] for r in whole.json()["training"]]
        both = server.get("/export?type=all&format=csv").body.decode().splitlines()
        assert [line.split(",")[0] for line in both].count("system") == len(whole.json()["system"])
        assert server.get("/export?type=everything").status == 400


def test_no_runs_at_all(lapse):
    lapse.runs.mkdir()
    with Serving(lapse) as server:
        for address in ("/api/training_metrics", "/api/system_metrics", "/api/alerts",
                        "/api/statistics", "/export"):
            answer = server.get(address)
            assert answer.status == 404 and answer.json()["error"]["code"] == "no-such-run"
