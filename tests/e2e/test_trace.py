# SPDX-License-Identifier: Apache-2.0
"""lapse trace: subcommands, their forms of output, the schema in docs/trace.md, what is
said about files that are missing, broken or poor. Numbers are worked out by hand from
trace_maker's steps."""
import csv
import gzip
import io
import json
import os
import re

import pytest

from trace_maker import DATA, ROOT, make_trace, write_trace
from trace_sheets import job, one, sheets  # noqa: F401

SUBCOMMANDS = ["summary", "top", "steps", "temporal", "idle", "kernels", "overlap", "launch", "queue",
               "bandwidth", "annotations", "tables", "gpu", "memory", "critical-path", "sequences", "stacks",
               "score", "validate", "ranks"]
# Whose tables `tables` has.
TABLES = ["temporal", "idle", "kernels", "overlap", "launch", "queue", "bandwidth", "annotations"]


# ---- numbers ---------------------------------------------------------------------------


def test_temporal_by_hand(lapse, one):
    # Rows of the device in each step: 1 to 4 ms and 4.5 to 5 ms; of it 1 to 3 ms computed.
    [row] = sheets(lapse, "temporal", one)["temporal"]
    assert row == {"file": 0, "rank": None, "total_ns": 24000000, "idle_ns": 13500000, "idle_pct": 56.25,
                   "compute_ns": 6000000, "compute_pct": 25.0, "non_compute_ns": 4500000,
                   "non_compute_pct": 18.75, "rows": 9, "rows_computation": 3, "rows_communication": 3,
                   "rows_memory": 3, "rows_other": 0, "rows_negative": 0}


def test_temporal_as_hta(lapse, one):
    # Without the last step: 1 to 15 ms.
    document = lapse.json("trace", "temporal", "--hta", one)
    [row] = document["sheets"]["temporal"]
    assert (row["total_ns"], row["idle_ns"], row["compute_ns"]) == (14000000, 7000000, 4000000)
    assert document["inputs"]["rule"] == "hta" and document["inputs"]["views"][0]["dropped_last"]
    [row] = sheets(lapse, "temporal", "--hta", "--include-last", one)["temporal"]
    assert row["total_ns"] == 24000000


def test_temporal_of_steps(lapse, one):
    [row] = sheets(lapse, "temporal", "--steps", "2:3", one)["temporal"]
    assert (row["total_ns"], row["compute_ns"]) == (4000000, 2000000)
    assert sheets(lapse, "temporal", "--steps", "2", one)["temporal"] == [row]


def test_idle_by_hand(lapse, one):
    # Stream 7: 3 to 4.5 ms in each step (the copy was launched long before), 5 to 11 ms between steps.
    rows = {(r["stream"], r["category"]): r for r in sheets(lapse, "idle", one)["idle"]}
    assert rows[7, "host_wait"]["idle_ns"] == 12000000 and rows[7, "host_wait"]["gaps"] == 2
    assert rows[7, "other"]["idle_ns"] == 4500000
    assert rows[20, "host_wait"]["idle_ns"] == 16000000


def test_overlap_by_hand(lapse, one):
    [row] = sheets(lapse, "overlap", one)["overlap"]
    assert (row["communication_ns"], row["both_ns"], row["overlap_pct"]) == (6000000, 3000000, 50.0)


def test_kernels_by_hand(lapse, one):
    found = sheets(lapse, "kernels", one)
    assert {r["type"]: r["time_ns"] for r in found["types"]} == {
        "COMPUTATION": 3000000, "COMMUNICATION": 3000000, "COMPUTATION overlapping COMMUNICATION": 3000000,
        "MEMORY": 1500000}
    gemm = next(r for r in found["kernels"] if r["name"] == "sm90_gemm")
    assert (gemm["type"], gemm["sum_ns"], gemm["calls"], gemm["mean_us"]) == ("computation", 6000000, 3, 2000.0)


def test_launch_by_hand(lapse, one):
    found = sheets(lapse, "launch", "--pairs", one)
    [row] = found["launch"]
    assert (row["calls"], row["work"], row["cpu_ns"], row["gpu_ns"]) == (9, 9, 570000, 13500000)
    # From the call's end to the work's begin: 400, 1330 and 3650 us in each step.
    assert sorted(r["delay_ns"] for r in found["pairs"]) == [400000] * 3 + [1330000] * 3 + [3650000] * 3
    assert row["delay_max_ns"] == 3650000 and row["slow_calls"] == 3


def test_bandwidth_by_hand(lapse, one):
    [row] = sheets(lapse, "bandwidth", one)["bandwidth"]
    assert (row["kind"], row["copies"], row["bytes"], row["time_ns"]) == ("Memcpy HtoD", 3, 3000000, 1500000)
    assert row["max_gbps"] == 2.0


def test_top_by_hand(lapse, one):
    found = sheets(lapse, "top", one)
    mm = next(r for r in found["operators"] if r["name"] == "aten::mm")
    # The all-reduce and three calls of the runtime lie in it.
    assert (mm["calls"], mm["host_ns"]) == (3, 5700000)
    assert mm["self_host_ns"] == 3 * (1900 - 100 - 60 - 50) * 1000
    assert found["kernels"][0]["self_device_ns"] == 6000000


def test_shares_add_up(lapse, one, job):
    for arguments in ([one], [job]):
        document = lapse.json("trace", *arguments)
        for verdict in document["sheets"]["verdict"]:
            mine = [s for s in document["sheets"]["shares"] if s["file"] == verdict["file"]]
            assert round(sum(10 * s["pct"] for s in mine)) == 1000
            assert sum(s["time_ns"] for s in mine) == verdict["wall_ns"]


def test_diff_of_itself(lapse, one, tmp_path):
    slower = make_trace()
    for event in slower["traceEvents"]:
        if event["name"] == "sm90_gemm":
            event["dur"] += 400
    other = write_trace(tmp_path / "slower.json", slower)
    assert {r["verdict"] for r in sheets(lapse, "diff", one, one)["changes"]} == {"same"}
    gemm = next(r for r in sheets(lapse, "diff", one, other)["changes"] if r["name"] == "sm90_gemm")
    assert (gemm["before_us"], gemm["after_us"], gemm["delta_pct"]) == (2000.0, 2400.0, 20.0)
    assert gemm["verdict"] == "slower"


# ---- forms ------------------------------------------------------------------------------


def test_csv_and_json_agree(lapse, one):
    for sub in SUBCOMMANDS:
        for name, rows in sheets(lapse, sub, one).items():
            done = lapse("trace", sub, "--csv", "--sheet", name, one)
            read = list(csv.DictReader(io.StringIO(done.stdout)))
            assert len(read) == len(rows), (sub, name)
            for got, want in zip(read, rows):
                assert list(got) == list(want), (sub, name)
                for key, value in want.items():
                    if value is None:
                        assert got[key] == ""
                    elif isinstance(value, str):
                        assert got[key] == value
                    else:
                        assert float(got[key]) == float(value)


def test_csv_of_several_tables(lapse, one):
    parts = lapse("trace", "kernels", "--csv", one).stdout.split("\n\n")
    assert [p.splitlines()[0].split(",")[0] for p in parts] == ["type", "file"]


def test_limit_is_for_people(lapse, one):
    text = lapse("trace", "kernels", "-n", "1", one).stdout
    assert "2 more (--limit 0 shows all)" in text
    assert len(sheets(lapse, "kernels", "-n", "1", one)["kernels"]) == 3


def test_sheet_that_is_none(lapse, one):
    done = lapse("trace", "idle", "--sheet", "temporal", one)
    assert done.returncode == 2 and "there are idle" in done.stderr and done.stdout == ""


def test_output_file(lapse, one, tmp_path):
    target = tmp_path / "out.json"
    done = lapse("trace", "idle", "--json", "--output", target, one)
    assert done.returncode == 0 and done.stdout == ""
    assert json.loads(target.read_text())["command"] == "trace idle"
    assert sorted(p.name for p in tmp_path.iterdir() if "tmp" in p.name) == []


def test_output_that_cannot_be_written(lapse, one, tmp_path):
    done = lapse("trace", "idle", "--output", tmp_path / "none" / "x", one)
    assert done.returncode == 1 and "cannot write" in done.stderr


# ---- calling -----------------------------------------------------------------------------


def test_summary_is_meant_without_a_subcommand(lapse, one):
    plain = lapse("trace", one)
    assert plain.returncode == 0 and plain.stdout == lapse("trace", "summary", one).stdout
    assert "Bound by:" in plain.stdout
    for arguments in ((["--json", one]), ([one, "--json"])):
        assert json.loads(lapse("trace", *arguments).stdout)["command"] == "trace summary"


@pytest.mark.parametrize("arguments, status, words", [
    ([], 2, "this needs a trace"),
    (["sumary"], 2, "did you mean summary?"),
    (["idle", "--delai", "1us", "x"], 2, "did you mean --delay?"),
    (["temporal", "--json", "--csv", "{one}"], 2, "do not go together"),
    (["temporal", "--hta", "--steps", "1:2", "{one}"], 2, "--steps and --hta"),
    (["temporal", "--include-last", "{one}"], 2, "belong to --hta"),
    (["temporal", "--steps", "5:2", "{one}"], 2, "is not FROM:TO"),
    (["temporal", "--rank", "x", "{one}"], 2, "not a list of numbers"),
    (["temporal", "--rank", "7", "{one}"], 1, "none of these traces is of rank 7"),
    (["temporal", "none.json"], 1, "none.json"),
    (["temporal", "--memory", "1k", "{one}"], 2, "out of range"),
    (["top", "--sort", "self_cuda_time", "{one}"], 2, "did you mean self_cuda_time_total?"),
    (["top", "--by", "color", "{one}"], 2, "not a list of name, shape and stack"),
    (["diff", "{one}"], 2, "this needs 2 traces; there is 1"),
    (["stacks", "--to", "png", "{one}"], 2, "none of svg, folded, speedscope"),
    (["convert", "{one}"], 2, "--output FILE says where to"),
    (["convert", "--steps", "7:8", "-o", "x.json", "{one}"], 1, "has none of these steps: it has 1 to 3"),
    (["critical-path", "--annotation", "forward", "{one}"], 1, "forward"),
    (["repair", "{one}"], 2, "--output FILE says where to"),
])
def test_called_wrongly(lapse, one, arguments, status, words):
    done = lapse("trace", *[a.format(one=one) for a in arguments])
    assert done.returncode == status and words in done.stderr, done.stderr
    assert done.stdout == ""


def test_help_of_subcommands(lapse):
    names = re.findall(r"^  ([a-z-]+) +", lapse("trace", "--help").stdout.partition("Subcommands:\n")[2]
                       .partition("\n\n")[0], re.M)
    assert set(SUBCOMMANDS) < set(names) and len(names) == 26
    for name in names:
        done = lapse("trace", name, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: lapse trace {name} ")
        assert lapse("help", "trace", name).stdout == done.stdout


# ---- several files ------------------------------------------------------------------------


def test_folder_is_ordered_by_rank(lapse, job):
    document = lapse.json("trace", "temporal", job)
    assert [f["rank"] for f in document["files"]] == [0, 1]
    assert [r["rank"] for r in document["sheets"]["temporal"]] == [0, 1]
    assert "RANK" in lapse("trace", "temporal", job).stdout
    [row] = sheets(lapse, "temporal", "--rank", "1", job)["temporal"]
    assert row["rank"] == 1


def test_files_without_rank_are_told_apart(lapse, one, tmp_path):
    other = write_trace(tmp_path / "other.json", make_trace(steps=2))
    text = lapse("trace", "temporal", other, one).stdout
    assert re.search(r"^ +0 +- .*other\.json$", text, re.M) and "FILE" in text
    assert [r["total_ns"] for r in sheets(lapse, "temporal", other, one)["temporal"]] == [14000000, 24000000]


def test_other_files_of_a_folder_are_passed_over(lapse, job):
    (job / "trace_notes.json").write_text('{"a": 1}')
    done = lapse("trace", "temporal", "--json", job)
    assert done.returncode == 0 and done.stderr == ""
    files = json.loads(done.stdout)["files"]
    assert [f["error"] is None for f in files] == [True, True, False]


def test_a_named_file_that_fails(lapse, one, tmp_path):
    (tmp_path / "bad.json").write_text("nothing of it")
    done = lapse("trace", "temporal", tmp_path / "bad.json", one)
    assert done.returncode == 1 and "bad.json" in done.stderr and "Time of the devices" in done.stdout


def test_folder_without_traces(lapse, tmp_path):
    (tmp_path / "empty").mkdir()
    done = lapse("trace", tmp_path / "empty")
    assert done.returncode == 1 and "no trace in this folder" in done.stderr


def test_standard_input(lapse, one):
    want = lapse.json("trace", "temporal", one)["sheets"]
    done = lapse("trace", "temporal", "--json", "-", input=one.read_text())
    assert json.loads(done.stdout)["sheets"] == want


def test_ranks_say_who_is_late(lapse, tmp_path):
    # Rank 1 begins 4 ms later in each step; the collectives end together.
    folder = tmp_path / "late"
    folder.mkdir()
    early, late = make_trace(rank=0, steps=5), make_trace(rank=1, steps=5, late=4000)
    for event in early["traceEvents"]:
        if event["name"].startswith("nccl") and event["cat"] == "kernel":
            event["dur"] += 4000
    write_trace(folder / "r0.trace.json", early)
    write_trace(folder / "r1.trace.json", late)
    ranks = {r["rank"]: r for r in sheets(lapse, "ranks", folder)["ranks"]}
    assert ranks[0]["wait_ns"] == 4000000 and ranks[1]["late_ns"] == 4000000


# ---- what is wrong and what is missing ----------------------------------------------------------


@pytest.fixture
def broken(tmp_path, one):
    text = one.read_text().replace('"aten::mm"', '"say "mm""', 1)
    path = tmp_path / "broken.json"
    path.write_text(text[:-30])
    return path


def test_broken_file_is_told(lapse, broken):
    done = lapse("trace", "temporal", broken)
    assert done.returncode == 0 and "unescaped-quote: 2, the first at byte" in done.stderr
    assert lapse("trace", "temporal", "--quiet", broken).stderr == ""
    [file] = lapse.json("trace", "temporal", broken)["files"]
    assert not file["complete"]
    kinds = {n["kind"]: n for n in file["notes"]}
    assert kinds["unescaped-quote"]["offset"] > 0 and kinds["unescaped-quote"]["done"]


def test_validate_and_repair(lapse, one, broken, tmp_path):
    assert lapse("trace", "validate", one).returncode == 0
    done = lapse("trace", "validate", broken)
    assert done.returncode == 1 and "unescaped-quote" in done.stdout and done.stderr == ""
    target = tmp_path / "mended.json.gz"
    document = json.loads(lapse("trace", "repair", "--json", "-o", target, broken).stdout)
    assert document["mended"] == 1 and {m["kind"] for m in document["mends"]} >= {"quote", "truncated"}
    with gzip.open(target, "rt") as file:
        assert 'say "mm"' in {e["name"] for e in json.load(file)["traceEvents"]}
    # A cut-off event is lost for good: its launch has no work. The file itself is in order.
    found = json.loads(lapse("trace", "validate", "--json", target).stdout)["sheets"]["findings"]
    assert {f["grade"] for f in found} <= {"note", "warning"}


def without(trace, **drop):
    keep = [e for e in trace["traceEvents"] if e["cat"] not in drop.get("cats", ())
            and not e["name"].startswith(drop.get("name", "\0"))]
    return {**trace, "traceEvents": keep}


def test_poor_traces_are_answered(lapse, tmp_path):
    """No steps, no GPU rows, no host rows: every subcommand answers and says what is missing."""
    gpu = ("kernel", "gpu_memcpy")
    poor = {"no-steps": without(make_trace(), name="ProfilerStep"),
            "no-gpu": without(make_trace(), cats=gpu),
            "no-host": without(make_trace(), cats=("cpu_op", "cuda_runtime", "user_annotation")),
            "empty": {"traceEvents": []}}
    for key, trace in poor.items():
        path = write_trace(tmp_path / f"{key}.json", trace)
        for sub in SUBCOMMANDS:
            done = lapse("trace", sub, path)
            assert done.returncode in ((0, 1) if sub == "validate" else (0,)), (key, sub, done.stderr)
            assert done.stdout and done.stderr == "", (key, sub)
    keys = {n["key"] for n in lapse.json("trace", "idle", tmp_path / "no-gpu.json")["notes"]}
    assert "no-gpu" in keys
    text = lapse("trace", "idle", tmp_path / "no-gpu.json").stdout
    assert "though the host called the runtime 9 times" in text
    assert "Call prof.step()" in lapse("trace", "steps", tmp_path / "no-steps.json").stdout
    assert "ProfilerActivity.CPU" in lapse("trace", "launch", tmp_path / "no-host.json").stdout
    assert "profile_memory=True" in lapse("trace", "memory", tmp_path / "no-gpu.json").stdout


def test_what_does_not_fit_is_told(lapse, tmp_path):
    """More rows than memory for them: whole steps in the middle are looked at, and it says so."""
    path = write_trace(tmp_path / "long.json", make_trace(steps=400))
    document = lapse.json("trace", "summary", "--memory", "1M", path)
    [note] = [n["text"] for n in document["notes"] if n["key"] == "part"]
    first, last = map(int, re.search(r"only steps (\d+) to (\d+) ", note).groups())
    assert 1 < first < last < 400 and "3600 rows" in note
    view = document["inputs"]["views"][0]
    assert (view["step_first"], view["step_last"], view["steps"]) == (first, last, last - first + 1)
    assert note in lapse("trace", "--memory", "1M", path).stdout
    # Steps that are asked for fit, and are what they are in the whole.
    chosen = ["temporal", "--steps", "100:110", path]
    assert sheets(lapse, *chosen, "--memory", "1M") == sheets(lapse, *chosen)
    assert not [n for n in lapse.json("trace", "summary", path)["notes"] if n["key"] == "part"]


# ---- written files ---------------------------------------------------------------------------------


def test_convert_cuts_steps(lapse, one, tmp_path):
    target = tmp_path / "cut.json.zst"
    [row] = json.loads(lapse("trace", "convert", "--json", "--steps", "2:3", "-o", target, one).stdout)[
        "sheets"]["written"]
    assert row["rows"] == 9 and row["left_out"] == 18
    [part] = sheets(lapse, "temporal", target)["temporal"]
    assert part == sheets(lapse, "temporal", "--steps", "2:3", one)["temporal"][0]
    text = lapse("trace", "convert", "--begin", "10ms", "--end", "20ms", "-o", "-", one).stdout
    assert {e["name"] for e in json.loads(text)["traceEvents"] if e["name"].startswith("ProfilerStep")} \
        == {"ProfilerStep#2"}


def test_merge_keeps_ranks_apart(lapse, job, tmp_path):
    target = tmp_path / "job.json"
    done = lapse("trace", "merge", "-o", target, job)
    assert done.returncode == 0, done.stderr
    events = [e for e in json.loads(target.read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(events) == 54 and len({e["pid"] for e in events}) == 4


def test_stacks_write_files(lapse, one, tmp_path):
    for end, words in ((".svg", "<svg"), (".folded", "aten::mm;cudaLaunchKernel 300000"),
                       (".json", "speedscope.app/file-format-schema.json")):
        target = tmp_path / f"flame{end}"
        done = lapse("trace", "stacks", "--no-threads", "-o", target, one)
        assert done.returncode == 0 and done.stdout == "" and words in target.read_text()
    text = lapse("trace", "convert", "--to", "folded", "-o", "-", one).stdout
    assert "aten::mm;cudaLaunchKernel 300000" in text
    assert "sm90_gemm 6000000" in lapse("trace", "stacks", "--device", "--to", "folded", one).stdout


# ---- the schema ---------------------------------------------------------------------------------------


SHEET = re.compile(r"^- sheet `(\w+)`(?: \(`(--[a-z]+)`\))?: (.*?)\s*$")


def schema():
    """{subcommand: {option or "": {sheet: keys}}} of docs/trace.md."""
    found, current = {}, None
    for line in (ROOT / "docs" / "trace.md").read_text().splitlines():
        head = re.match(r"^## lapse trace ([a-z-]+)$", line)
        if head:
            current = found.setdefault(head[1], {"": {}})
        sheet = SHEET.match(line)
        if sheet:
            current.setdefault(sheet[2] or "", {})[sheet[1]] = re.findall(r"`(\w+)`", sheet[3])
    for sub in TABLES:
        found["tables"][""].update(found[sub][""])
    return found


def test_schema_is_what_is_printed(lapse, one, job, tmp_path):
    arguments = {"diff": [one, one], "ranks": [job], "convert": [one, "-o", tmp_path / "c.json"],
                 "merge": [job, "-o", tmp_path / "m.json"]}
    known = schema()
    assert set(known) == set(SUBCOMMANDS) | {"diff", "convert", "merge", "repair", "timeline", "import"}
    del known["import"]  # of other files: test_trace_import.py
    del known["timeline"]  # bytes for the dashboard: test_serve_trace.py
    del known["repair"]  # has a document of its own: test_validate_and_repair
    for sub, options in known.items():
        for option, want in options.items():
            call = ["trace", sub, *arguments.get(sub, [one]), *([option] if option else [])]
            document = json.loads(lapse(*call, "--json").stdout)
            printed = set(document["sheets"])
            assert printed >= set(want), (sub, option)
            assert printed <= set(want) | set(options[""]), (sub, option)
            for name, keys in want.items():
                head = lapse(*call, "--csv", "--sheet", name).stdout.splitlines()[0]
                assert head.split(",") == keys, (sub, name)
                for entry in document["sheets"][name]:
                    assert list(entry) == keys, (sub, name)


def test_document_around_the_sheets(lapse, one, tmp_path):
    (tmp_path / "bad.json").write_text("x")
    document = json.loads(lapse("trace", "idle", "--json", one, tmp_path / "bad.json").stdout)
    assert list(document) == ["command", "files", "inputs", "sheets", "notes"]
    keys = ["path", "rank", "rank_from", "world_size", "rows", "bytes", "complete", "base_ns", "error", "notes"]
    assert [list(f) for f in document["files"]] == [keys, keys]
    assert list(document["inputs"]) == ["rule", "steps", "views", "cuts"]
    assert list(document["inputs"]["views"][0]) == [
        "file", "rows", "left_out", "steps", "step_first", "step_last", "first_ns", "last_ns", "origin_ns",
        "rounded", "dropped_last"]
    page = (ROOT / "docs" / "trace.md").read_text()
    for key in keys + list(document["inputs"]["views"][0]):
        assert f"`{key}`" in page, key


# ---- real traces ----------------------------------------------------------------------------------------


REAL = ["h100/data_bound", "h100/with_stack", "h100/ddp", "traces/kineto-old-array", "traces/tl-mi300-bert",
        "traces/hta-cpu-only-rank34", "traces/param-dlrm-8ranks", "traces/hta-cp-event-sync"]


def real(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no real traces in {DATA}; LAPSE_TRACE_DATA names their folder")
    return DATA / name


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", REAL)
def test_real_traces_are_answered(lapse, name):
    folder = real(name)
    for sub in SUBCOMMANDS:
        if sub == "stacks":
            continue
        done = lapse("trace", sub, "--json", folder)
        assert done.returncode in ((0, 1) if sub == "validate" else (0,)), (sub, done.stderr)
        document = json.loads(done.stdout)
        assert set(document["sheets"]) >= set(schema()[sub][""]), sub
        for sheet, rows in document["sheets"].items():
            for entry in rows:
                assert list(entry) == schema()[sub][""][sheet]


@pytest.mark.parametrize("name", ["hta-df-index", "kineto-resnet50-nw0", "param-dlrm-8ranks", "hta-neg-queue"])
def test_temporal_equals_hta(lapse, name):
    folder = real(f"traces/{name}")
    found = {r["rank"]: r for r in sheets(lapse, "temporal", "--hta", folder)["temporal"]}
    with open(folder / "expected" / "default" / "temporal_breakdown.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            mine = found[int(row["rank"])]
            assert mine["idle_ns"] / 1000 == float(row["idle_time(us)"])
            assert mine["compute_ns"] / 1000 == float(row["compute_time(us)"])
            assert mine["non_compute_ns"] / 1000 == float(row["non_compute_time(us)"])
            assert mine["total_ns"] / 1000 == float(row["kernel_time(us)"])
            assert mine["idle_pct"] == float(row["idle_time_pctg"])


@pytest.mark.parametrize("name, bound", [("compute_bound", "compute"), ("data_bound", "data"),
                                         ("launch_bound", "launch"), ("ddp_straggler", "straggler")])
def test_planted_causes_are_named(lapse, name, bound):
    document = lapse.json("trace", real(f"h100/{name}"))
    assert bound in {v["behind"] for v in document["sheets"]["verdict"]}
    assert any(f["rule"] == f"bound-{bound}" for f in document["sheets"]["findings"])


@pytest.mark.timeout(150)
def test_budget_is_kept(lapse, tmp_path):
    """A trace of more events than the budget holds gives the same answer."""
    path = real("traces/hta-df-index") / "rank1.pt.trace.json.gz"
    env = {**lapse.env, "TMPDIR": str(tmp_path)}
    whole, small = tmp_path.parent / "whole.json", tmp_path.parent / "small.json"
    for file, more in ((whole, []), (small, ["--memory", "1M"])):
        done = lapse("trace", "convert", "-o", file, *more, path, env=env)
        assert done.returncode == 0, done.stderr
    assert small.read_bytes() == whole.read_bytes()
    assert os.listdir(tmp_path) == []
