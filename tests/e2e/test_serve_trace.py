# SPDX-License-Identifier: Apache-2.0
"""Artifacts, files and views of traces over HTTP; where a step's time goes; runs beside each
other. Traces are those of trace_maker.py, and real ones where there are any."""
import contextlib
import csv
import gzip
import json
import os
import select
import shutil
import sqlite3
import struct
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from conftest import BUILD, wait_for
from serving import Serving
from trace_maker import DATA, make_trace, write_trace

TRACE = "profile/rank_0_steps_1-3.pt.trace.json.gz"


@pytest.fixture
def served(lapse):
    """A simulated run of two ranks with a trace, a table, and what is not to be given."""
    assert lapse("simulate", "--steps", 400, "--ranks", 2, "--quiet").returncode == 0
    ids = lapse.run_ids()
    assert lapse("simulate", "--steps", 400, "--seed", 2, "--quiet").returncode == 0
    ids += [one for one in lapse.run_ids() if one not in ids]
    folder = lapse.runs / ids[0]
    (folder / "profile").mkdir()
    write_trace(folder / TRACE, make_trace(steps=3, rank=0))
    write_trace(folder / "profile" / "rank_1_steps_1-3.pt.trace.json.gz", make_trace(steps=3, rank=1, late=500))
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "<b>\u202e\u2026.log").write_text("x")
    (folder / ".secret").write_text("x")
    (folder / "link.csv").symlink_to("/etc/passwd")
    (folder / "out").symlink_to("/etc")
    os.mkfifo(folder / "pipe.csv")
    with Serving(lapse) as server:
        server.ids, server.folder = ids, folder
        yield server


def path(server, *parts, query="", run=0):
    return f"/api/v1/runs/{server.ids[run]}/" + "/".join(quote(p) for p in parts) + query


def code(answer):
    return answer.status, answer.json()["error"]["code"]


def test_artifacts(served):
    found = {a["name"]: a for a in served.get(path(served, "artifacts")).json()["artifacts"]}
    assert set(found) == {TRACE, TRACE.replace("rank_0", "rank_1"), "table.csv", "<b>\u202e\u2026.log"}
    trace = found[TRACE]
    assert (trace["kind"], trace["rank"], trace["step_first"], trace["step_last"]) == ("trace", 0, 1, 3)
    assert trace["bytes"] == (served.folder / TRACE).stat().st_size and trace["is_given"]
    assert found["table.csv"]["kind"] == "csv" and found["table.csv"]["rank"] is None


def test_artifacts_of_a_damaged_run(served):
    """The table of events is damaged; the run itself can be opened."""
    (database,) = served.folder.glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as db:
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'")
        ((size,),) = db.execute("PRAGMA page_size")
    with open(database, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert code(served.get(path(served, "artifacts"))) == (500, "damaged")


def test_files(served):
    answer = served.get(path(served, "files", "table.csv"))
    assert (answer.status, answer.body) == (200, b"a,b\n1,2\n")
    assert answer.head["content-disposition"].startswith('attachment; filename="table.csv"')
    assert answer.head["x-content-type-options"] == "nosniff"
    tag = answer.head["etag"]
    assert served.get(path(served, "files", "table.csv"), If_None_Match=tag).status == 304
    hostile = served.get(path(served, "files", "<b>\u202e\u2026.log"))
    assert hostile.status == 200 and "<" not in hostile.head["content-disposition"].split(";")[1]
    whole = (served.folder / TRACE).read_bytes()
    assert served.get(path(served, "files", TRACE)).body == whole


@pytest.mark.parametrize("asked, status, body, place", [
    ("bytes=2-4", 206, b"b\n1", "bytes 2-4/8"), ("bytes=-3", 206, b",2\n", "bytes 5-7/8"),
    ("bytes=4-", 206, b"1,2\n", "bytes 4-7/8"), ("bytes=8-", 416, None, "bytes */8"),
    ("bytes=0-1,3-4", 200, b"a,b\n1,2\n", None), ("lines=1-2", 200, b"a,b\n1,2\n", None)])
def test_ranges(served, asked, status, body, place):
    answer = served.get(path(served, "files", "table.csv"), Range=asked)
    assert answer.status == status and answer.head.get("content-range") == place
    assert body is None or answer.body == body


def test_range_of_another_version(served):
    answer = served.get(path(served, "files", "table.csv"), Range="bytes=2-4", If_Range='"old"')
    assert (answer.status, len(answer.body)) == (200, 8)


@pytest.mark.parametrize("name", [
    "link.csv", "out/passwd", "pipe.csv", ".secret", "../x", "profile/../table.csv", "profile",
    "profile//x", "none.csv", "/etc/passwd", "@0123456789abcdef/passwd", "@/x", "node0.db", "..%2f..%2fx"])
def test_what_is_not_given(served, name):
    for route in ("files", "trace/summary"):
        if route != "files" and name == "profile":
            continue  # a folder of traces is one view
        assert code(served.get(path(served, *route.split("/"), *name.split("/")))) == (404, "no-such-file"), route


def test_listed_elsewhere(lapse, tmp_path):
    """Files that a run lists: those of a kind that people look at are given, others are not."""
    good, key = tmp_path / "elsewhere.csv", tmp_path / "key.pem"
    good.write_text("1\n")
    key.write_text("secret")
    hidden = tmp_path / ".ssh" / "x.csv"
    hidden.parent.mkdir()
    hidden.write_text("secret")
    program = ("import ctypes, json\nlib = ctypes.CDLL(%r)\nassert lib.lapse_open(None) == 0\n"
               "for p in %r: lib.lapse_event(1, b'artifact', p.encode(), json.dumps({'path': p}).encode())\n"
               % (str(BUILD / "src" / "record" / "liblapse.so"), [str(p) for p in (good, key, hidden)]))
    assert lapse("run", "--quiet", "--", sys.executable, "-c", program).returncode == 0
    assert lapse.settled()
    with Serving(lapse) as server:
        at = f"/api/v1/runs/{lapse.run_ids()[0]}/"
        found = {a["file"]: a for a in server.get(at + "artifacts").json()["artifacts"]}
        assert {f: a["is_given"] for f, a in found.items()} == {"elsewhere.csv": True, "key.pem": False,
                                                                "x.csv": False}
        answers = {f: server.get(at + "files/" + a["name"]).status for f, a in found.items()}
        assert answers == {"elsewhere.csv": 200, "key.pem": 404, "x.csv": 404}


def test_views_are_the_commands(served, lapse):
    for view in ("summary", "top", "idle", "kernels", "memory", "gpu", "score"):
        answer = served.get(path(served, "trace", view, *TRACE.split("/")))
        assert answer.status == 200, answer.body
        done = lapse("trace", view, "--json", "./" + TRACE, cwd=served.folder)
        assert answer.json() == json.loads(done.stdout), view
    for view, option in (("memory", "--timeline"), ("gpu", "--timeline"), ("queue", "--points")):
        answer = served.get(path(served, "trace", view, *TRACE.split("/"), query="?points=1"))
        done = lapse("trace", view, option, "--json", "./" + TRACE, cwd=served.folder)
        assert answer.json() == json.loads(done.stdout), view
    assert code(served.get(path(served, "trace", "idle", *TRACE.split("/"), query="?points=1"))) == (400, "bad-parameter")
    again = served.get(path(served, "trace", "top", *TRACE.split("/")))
    assert served.get(path(served, "trace", "top", *TRACE.split("/")), If_None_Match=again.head["etag"]).status == 304


def test_views_of_a_job(served):
    names = TRACE.split("/")
    other = quote(TRACE.replace("rank_0", "rank_1"))
    for answer in (served.get(path(served, "trace", "ranks", "profile")),
                   served.get(path(served, "trace", "ranks", *names, query="?with=" + other))):
        assert [f["rank"] for f in answer.json()["files"]] == [0, 1]


def test_a_changed_file_is_read_again(served):
    where = path(served, "trace", "steps", *TRACE.split("/"))
    before = served.get(where)
    write_trace(served.folder / TRACE, make_trace(steps=5, rank=0))
    after = served.get(where)
    assert before.head["etag"] != after.head["etag"]
    assert (len(before.json()["sheets"]["steps"]), len(after.json()["sheets"]["steps"])) == (3, 5)


def test_flame(served):
    names = TRACE.split("/")
    scope = served.get(path(served, "trace", "flame", *names)).json()
    assert scope["$schema"].endswith("file-format-schema.json")
    folded = served.get(path(served, "trace", "flame", *names, query="?format=folded"))
    assert folded.head["content-type"].startswith("text/plain") and b"aten::mm" in folded.body
    svg = served.get(path(served, "trace", "flame", *names, query="?format=svg&device=1"))
    assert svg.head["content-disposition"].startswith("attachment") and b"<svg" in svg.body


def columns(data):
    """The binary form of a timeline, from docs/http.md: head, rows, {column: numbers}, names."""
    assert data[:4] == b"LTL2"
    head_len, bars, rows, names, texts = struct.unpack_from("<5I", data, 4)
    at = 24 + head_len
    head = json.loads(data[24:at])
    lanes = [struct.unpack_from("<4I", data, at + 16 * i) for i in range(rows)]
    at += 16 * rows
    out = {}
    for name, kind, size in (("start", "d", 8), ("dur", "f", 4), ("name", "I", 4), ("count", "I", 4),
                             ("event", "I", 4), ("category", "B", 1)):
        assert at % 8 == 0
        out[name] = array(kind, data[at:at + size * bars]).tolist()
        at += (size * bars + 7) // 8 * 8
    offsets = struct.unpack_from(f"<{names + 1}I", data, at)
    at += (4 * (names + 1) + 7) // 8 * 8
    assert at + texts == len(data)
    text = data[at:]
    return head, lanes, out, [text[a:b].decode() for a, b in zip(offsets, offsets[1:])]


def test_timeline(served):
    answer = served.get(path(served, "trace", "timeline", *TRACE.split("/")))
    assert answer.head["content-type"] == "application/vnd.lapse.timeline"
    head, rows, column, names = columns(answer.body)
    all_of_it = make_trace(steps=3, rank=0)["traceEvents"]
    events = [e for e in all_of_it if e["ph"] == "X"]
    first = min(e["ts"] for e in events)
    got = sorted((names[n], round(s * 1000 + first, 3), round(d * 1000, 2))
                 for n, s, d in zip(column["name"], column["start"], column["dur"]))
    assert got == sorted((e["name"], e["ts"], e["dur"]) for e in events)
    assert [all_of_it[i]["name"] for i in column["event"]] == [names[n] for n in column["name"]]
    assert len(set(column["event"])) == len(events)
    assert head["events"] == len(events) and head["merged_ms"] == 0 and head["left_out"] == 0
    assert [s[0] for s in head["steps"]] == [1, 2, 3]
    assert {lane["kind"] for lane in head["lanes"]} == {"host", "device"}
    for lane, depth, at, n in rows:
        assert depth < head["lanes"][lane]["depths"]
        for i in range(at, at + n - 1):
            assert column["start"][i] + column["dur"][i] <= column["start"][i + 1] + 1e-6
    inside = dict(zip((names[n] for n in column["name"]), column["category"]))
    kinds = head["categories"]
    assert kinds[inside["aten::mm"]] == "operator" and kinds[inside["ncclDevKernel_AllReduce"]] == "communication"


def test_one_event(served):
    events = make_trace(steps=3, rank=0)["traceEvents"]
    kernel, launch = next((k, c) for k, e in enumerate(events) for c, f in enumerate(events)
                          if e.get("cat") == "kernel" and f.get("cat") == "cuda_runtime"
                          and e["args"]["correlation"] == f["args"]["correlation"])
    answer = served.get(path(served, "trace", "timeline", *TRACE.split("/"), query=f"?event={kernel}"))
    assert answer.head["content-type"] == "application/json"
    one = answer.json()
    assert (one["event"], one["name"], one["kind"]) == (kernel, events[kernel]["name"], "device")
    assert {a["key"]: json.loads(a["value"]) for a in one["args"]} == events[kernel]["args"]
    [link] = one["links"]
    assert (link["role"], link["event"], link["name"]) == ("launch", launch, events[launch]["name"])


def test_timeline_of_a_part(served):
    names = TRACE.split("/")
    step = columns(served.get(path(served, "trace", "timeline", *names, query="?steps=2")).body)[0]
    part = columns(served.get(path(served, "trace", "timeline", *names, query="?from=10.0&to=20")).body)[0]
    assert step["events"] == part["events"] > 0
    assert (part["from_ms"], part["to_ms"]) == (10, 20)


def test_timeline_is_merged(served):
    rows = [{"ph": "X", "cat": "cpu_op", "name": f"op{i % 7}", "pid": 1, "tid": 1, "ts": i * 10, "dur": 4 + i % 3,
             "args": {}} for i in range(5000)]
    write_trace(served.folder / "many.trace.json", {"traceEvents": rows})
    head, _, column, _ = columns(served.get(path(served, "trace", "timeline", "many.trace.json",
                                                 query="?events=1000")).body)
    assert 0 < head["bars"] <= 1000 and head["events"] == sum(column["count"]) == 5000
    assert max(d for d, n in zip(column["dur"], column["count"]) if n > 1) <= head["merged_ms"] * 1.0001


@pytest.mark.parametrize("view, query, want", [
    ("summary", "?from=1", (400, "bad-parameter")), ("timeline", "?sort=x", (400, "bad-parameter")),
    ("timeline", "?from=-1", (400, "bad-parameter")), ("timeline", "?from=nan", (400, "bad-parameter")),
    ("timeline", "?events=9", (400, "bad-parameter")), ("timeline", "?event=x", (400, "bad-parameter")),
    ("timeline", "?event=-1", (400, "bad-parameter")), ("timeline", "?event=4294967295", (422, "no-trace")),
    ("timeline", "?event=1&from=2", (400, "bad-parameter")), ("timeline", "?event=0&events=1000", (400, "bad-parameter")),
    ("timeline", "?to=1&event=0", (400, "bad-parameter")), ("timeline", "?event=0&steps=1:2", (400, "bad-parameter")),
    ("summary", "?event=1", (400, "bad-parameter")), ("top", "?steps=--help", (400, "bad-parameter")),
    ("top", "?sort=nonsense", (422, "no-trace")), ("idle", "?rule=plugin", (400, "bad-parameter")),
    ("idle", "?rule=hta", None), ("convert", "", (404, "no-such-route")), ("stacks", "", (404, "no-such-route"))])
def test_parameters(served, view, query, want):
    answer = served.get(path(served, "trace", view, *TRACE.split("/"), query=query))
    assert (code(answer) if want else answer.status) == (want or 200)


def test_what_is_no_trace(served):
    answer = served.get(path(served, "trace", "summary", "table.csv"))
    assert code(answer) == (422, "no-trace") and "table.csv is no trace" in answer.json()["error"]["message"]
    (served.folder / "bomb.trace.json.gz").write_bytes(gzip.compress(b"[" + b" " * 50_000_000))
    assert served.get(path(served, "trace", "timeline", "bomb.trace.json.gz")).status in (200, 422)
    assert served.get("/healthz").status == 200


class Child:
    """What runs in place of `lapse trace`: a script, which writes its pid down first. $real is
    lapse itself, and $go a file that is not there before go()."""

    def __init__(self, folder, program):
        self.real, self.asked, self.flag = program, folder / "asked", folder / "go"
        self.program = folder / "lapse"
        shutil.copy(program, self.program)

    def becomes(self, script):
        new = self.program.with_name("new")
        new.write_text(f"#!/bin/sh\nreal={self.real} go={self.flag}\necho $$ >> {self.asked}\n{script}\n")
        new.chmod(0o755)
        new.replace(self.program)

    def pids(self):
        return self.asked.read_text().split() if self.asked.exists() else []

    def go(self):
        self.flag.touch()


@pytest.fixture
def child(lapse, tmp_path):
    folder = tmp_path / "child"
    folder.mkdir()
    one = Child(folder, lapse.program)
    lapse.program = str(one.program)
    return one


@pytest.fixture
def held(child, served):
    """Views are made only when child.go() was called."""
    child.becomes('while [ ! -e "$go" ]; do sleep 0.05; done; exec "$real" "$@"')
    yield child
    child.go()


def line(server, number):
    """One of many questions that have different answers."""
    return path(server, "trace", "timeline", *TRACE.split("/"), query=f"?events={1000 + number}")


def sockets(server):
    """How many the server has open: listening ones, and one of each client whose answer is not over."""
    found = 0
    for one in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(one).startswith("socket:")
    return found


def test_many_views_leave_room(held, served):
    """Two are made, four wait, all others are told at once; all else is answered."""
    with ThreadPoolExecutor(14) as pool:
        asked = [pool.submit(served.get, line(served, i), timeout=100) for i in range(14)]
        try:
            assert wait_for(lambda: sum(a.done() for a in asked) >= 8, 30)
            assert served.get("/api/v1/info").status == 200
            assert served.get(path(served, "artifacts")).status == 200
            refused = [a for a in asked if a.done()]
            assert len(refused) == 8
        finally:
            held.go()
    for answer in (a.result() for a in refused):
        assert code(answer) == (503, "busy") and int(answer.head["retry-after"]) > 0
    assert [a.result().status for a in asked if a not in refused] == [200] * 6
    assert served.get(line(served, 99)).status == 200


def test_who_has_gone_is_not_worked_for(held, served):
    """The process ends, places are free again, and those who waited are given none."""

    def ask(number):
        connection = served.connect()
        connection.sendall(f"GET {line(served, number)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    idle = sockets(served)
    for turn in range(2):
        made = [ask(10 * turn + i) for i in range(2)]
        assert wait_for(lambda: len(held.pids()) == 2 * turn + 2, 30)
        wait = [ask(10 * turn + i) for i in range(2, 7)]
        told, _, _ = select.select(wait, [], [], 30)
        assert len(told) == 1 and told[0].recv(12) == b"HTTP/1.1 503"
        for connection in wait + made:
            connection.close()
        assert wait_for(lambda: sockets(served) == idle, 30)
        assert wait_for(lambda: not any(Path("/proc", pid).exists() for pid in held.pids()), 30)
    held.go()
    assert served.get(line(served, 99)).status == 200
    assert len(held.pids()) == 5


def test_a_view_that_breaks(child, served):
    """Asking again would not help: that is not called busy."""
    child.becomes("kill -SEGV $$")
    answer = served.get(line(served, 0))
    assert code(answer) == (500, "trace-failed") and "signal 11" in answer.json()["error"]["message"]
    assert "retry-after" not in answer.head
    child.program.unlink()
    answer = served.get(line(served, 0))
    assert code(answer) == (500, "trace-failed") and "cannot be run" in answer.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["data_bound", "launch_bound"])
def test_real(served, kind):
    source = DATA / "h100" / kind / "rank0.pt.trace.json.gz"
    if not source.exists():
        pytest.skip("the real traces are not there")
    shutil.copy(source, served.folder / "real.pt.trace.json.gz")
    head, rows, column, _ = columns(served.get(path(served, "trace", "timeline", "real.pt.trace.json.gz")).body)
    assert head["events"] == len(column["start"]) > 10000 and sum(n for *_, n in rows) == head["bars"]
    summary = served.get(path(served, "trace", "summary", "real.pt.trace.json.gz")).json()
    assert summary["sheets"]["verdict"][0]["bound"] == kind.split("_", maxsplit=1)[0]


def test_verdict(served, lapse):
    verdict = served.get(path(served, "verdict", query="?slowest=3&bins=5")).json()
    assert (verdict["steps"]["first"], verdict["steps"]["last"], verdict["steps"]["count"]) == (10, 399, 780)
    assert sum(p["permille"] for p in verdict["parts"]) == 1000
    assert all(sum(r["permille"]) == 1000 for r in verdict["ranks"]) and len(verdict["ranks"]) == 2
    assert [p["role"] for p in verdict["parts"]][-1] == "other" and verdict["why_not"] is None
    # The report knows the same phases, over all steps.
    phases = {p["name"]: p["share"] for p in lapse.json("report", served.ids[0])["phases"]}
    for part in verdict["parts"][:-1]:
        assert part["share"] == pytest.approx(phases[part["name"]], abs=0.01)
    assert verdict["bound"]["kind"] == "compute" and verdict["bound"]["sentence"]
    seconds = [s["seconds"] for s in verdict["slowest"]]
    assert len(seconds) == 3 and seconds == sorted(seconds, reverse=True)
    assert sum(verdict["histogram"]["counts"]) == 780 and sum(verdict["bins"]["count"]) == 780
    tag = served.get(path(served, "verdict")).head["etag"]
    assert served.get(path(served, "verdict"), If_None_Match=tag).status == 304


@pytest.mark.parametrize("query", ["?rank=9", "?from=100000", "?from=50&to=20"])
def test_verdict_of_nothing(served, query):
    verdict = served.get(path(served, "verdict", query=query)).json()
    assert verdict["steps"] is None and "in what was asked for" in verdict["why_not"]


def test_verdict_names_the_trace(served):
    verdict = served.get(path(served, "verdict", query="?from=1&to=3&slowest=50")).json()
    assert {s["step"]: [a["name"] for a in s["artifacts"]] for s in verdict["slowest"]} == {
        s["step"]: [TRACE.replace("rank_0", f"rank_{s['rank']}")] for s in verdict["slowest"]}
    assert sorted(s["step"] for s in verdict["slowest"]) == [1, 2, 3]


def test_verdict_slowest_of_ranks(served, lapse):
    """Each step once, as of the rank that waited least for the other."""
    verdict = served.get(path(served, "verdict", query="?slowest=200")).json()
    steps = {s["step"]: s for s in verdict["slowest"]}
    assert len(steps) == len(verdict["slowest"]) == 200
    export = lapse("export", "--to", "csv", "--series", "sync", served.ids[0], check=True).stdout
    waited = {}
    for row in csv.DictReader(export.splitlines()):
        if int(row["step"]) in steps:
            waited.setdefault(int(row["step"]), {})[int(row["rank"])] = int(row["value"])
    assert {n: min(w, key=w.get) for n, w in waited.items()} == {n: s["rank"] for n, s in steps.items()}


def test_verdict_without_steps(lapse):
    assert lapse("run", "--quiet", "--", "true").returncode == 0
    assert lapse.settled()
    with Serving(lapse) as server:
        verdict = server.get(f"/api/v1/runs/{lapse.run_ids()[0]}/verdict").json()
    assert verdict["steps"] is None and verdict["parts"] == [] and "lapse.step()" in verdict["why_not"]
    assert verdict["bound"]["kind"] == "unknown"


def test_verdict_is_kept(served):
    """The same answer for the same question of the same data, with the version of it."""
    first = served.get(path(served, "verdict", query="?slowest=2"))
    again = served.get(path(served, "verdict", query="?slowest=2"))
    assert first.body == again.body and first.head["etag"] == again.head["etag"]
    assert again.head["content-type"] == first.head["content-type"] == "application/json"
    assert first.json()["version"] > 0 and len(first.json()["slowest"]) == 2
    assert len(served.get(path(served, "verdict", query="?slowest=3")).json()["slowest"]) == 3


def test_verdict_of_many_steps(lapse):
    """The newest 40,000 steps of all ranks, unless all are asked for."""
    run = lapse.json("simulate", "--steps", 25_000, "--rate", 1000, "--ranks", 2)["id"]
    with Serving(lapse) as server:
        newest, every = (server.get(f"/api/v1/runs/{run}/verdict{query}").json()["steps"]
                         for query in ("", "?steps=all"))
        assert server.get(f"/api/v1/runs/{run}/verdict?steps=some").status == 400
    assert [newest[k] for k in ("first", "last", "count", "of", "most", "is_cut")] == [
        5000, 24_999, 40_000, 50_000, 40_000, True]
    assert [every[k] for k in ("first", "last", "count", "of", "most", "is_cut")] == [
        10, 24_999, 49_980, 50_000, 400_000, False]


def test_slow_rank(lapse):
    assert lapse("simulate", "--steps", 300, "--ranks", 4, "--fault", "slow-rank@0", "--quiet").returncode == 0
    with Serving(lapse) as server:
        verdict = server.get(f"/api/v1/runs/{lapse.run_ids()[0]}/verdict").json()
    own = {r["rank"]: r["own_s"] for r in verdict["ranks"]}
    assert verdict["bound"]["kind"] == "straggler"
    assert f"rank {max(own, key=own.get)} " in verdict["bound"]["sentence"]


def test_compare(served):
    a, b = served.ids
    answer = served.get(f"/api/v1/compare?run={a}&run={a}&run={b}")
    said = answer.json()
    assert served.get(f"/api/v1/compare?run={a}&run={a}&run={b}").body == answer.body
    assert [r["id"] for r in said["runs"]] == [a, a, b] and said["confidence"] == 0.95
    metrics = {(m["name"], m["labels"]): m for m in said["metrics"]}
    step = metrics["step", ""]
    assert step["values"][0]["n"] == 2 * 390 and step["unit"] == "s" and step["direction"] == -1
    assert [v["ranks"] for v in step["values"]] == [2, 2, 1] and step["ranks"] == "mean"
    assert {"data", "forward", "backward", "optimizer", "sync"} <= {name for name, _ in metrics}
    same = step["differences"][1]
    assert (same["verdict"], same["absolute"]) == ("same", 0) and same["low"] <= 0 <= same["high"]
    keys = {d["key"]: d["values"] for d in said["attributes"]}
    assert keys["simulate.seed"] == ["1", "1", "2"] and said["same"] > 0
    assert [d["key"] for d in said["about"]] == ["command"]


def test_compare_says_why(served):
    a, b = served.ids
    said = served.get(f"/api/v1/compare?run={a}&run={a}&run={b}").json()
    unclear = ("few-points", "level-changes", "wide")
    differences = [d for m in said["metrics"] for d in m["differences"][1:] if d]
    assert len(differences) > 10
    for difference in differences:
        assert difference["low"] is None or difference["low"] <= difference["high"]
        assert difference["verdict"] in ("same", "better", "worse", "differs", "not-enough")
        assert (difference["verdict"] == "not-enough") == (difference["reason"] in unclear)


def test_compare_adds_rates_of_ranks_up(served, lapse):
    """A rate is the run's whole, as in the report; a time is the mean of its ranks."""
    a, b = served.ids
    said = served.get(f"/api/v1/compare?run={a}&run={b}&metric=lapse/step/samples&metric=forward").json()
    metrics = {m["name"]: m for m in said["metrics"]}
    rate, forward = metrics["lapse/step/samples"], metrics["forward"]
    assert rate["ranks"] == "sum" and forward["ranks"] == "mean"
    assert [v["ranks"] for v in rate["values"]] == [2, 1]
    report = json.loads(lapse("report", a, "--json").stdout)
    assert rate["values"][0]["median"] == pytest.approx(report["samples"]["per_s_in_steps"], rel=0.15)
    medians = [v["median"] for v in forward["values"]]
    assert medians[0] == pytest.approx(medians[1], rel=0.3)


def test_compare_one_metric(served):
    a, b = served.ids
    said = served.get(f"/api/v1/compare?run={a}&run={b}&metric=gpu/*&metric=forward&confidence=80").json()
    assert {m["name"].split("/")[0] for m in said["metrics"]} == {"gpu", "forward"}
    assert said["confidence"] == 0.8


@pytest.mark.parametrize("query, want", [
    ("run={0}", (400, "bad-parameter")), ("", (400, "bad-parameter")), ("run={0}&run=none", (404, "no-such-run")),
    ("run={0}&run={1}&metric=none", (404, "no-such-series")), ("run={0}&run={1}&confidence=100", (400, "bad-parameter")),
    ("&".join(["run={0}"] * 21), (400, "bad-parameter"))])
def test_compare_refuses(served, query, want):
    assert code(served.get("/api/v1/compare?" + query.format(*served.ids))) == want
