# SPDX-License-Identifier: Apache-2.0
"""lapse trace import: a small file of each kind, made by the tool itself where Python has it,
else written here as the tool's documentation says; what the tables say of it, and whether the
trace or the stacks that come out of it say the same to the other subcommands."""

import cProfile
import gzip
import json
import pickle
import pstats
import tracemalloc

import pytest
from trace_imported import imported, written


def frames_of(lapse, trace):
    return {r["frame"]: r for r in lapse.json("trace", "stacks", trace)["sheets"]["stacks"]}


# ---- stacks ----------------------------------------------------------------------------


def test_collapsed(lapse, tmp_path):
    file = tmp_path / "py-spy.raw"
    file.write_text("main;f;g 12\nmain;f 3\nmain;f;f 2\nno weight\nmain;h 5\n")
    sheet = imported(lapse, file)
    [row] = sheet["imported"]
    assert (row["kind"], row["entries"], row["total"], row["skipped"], row["first_skipped"]) == (
        "collapsed",
        4,
        22,
        1,
        4,
    )
    rows = {r["frame"]: r for r in sheet["frames"]}
    assert (rows["f"]["self"], rows["f"]["total"], rows["f"]["stacks"]) == (5, 17, 3)
    assert (rows["main"]["self"], rows["main"]["total_pct"]) == (0, 100)
    out, events = written(lapse, file)
    # One pair for what stays open: main, f, g, the inner f, h.
    assert [e["name"] for e in events["B"]] == ["main", "f", "g", "f", "h"]
    by_frame = frames_of(lapse, out)
    assert by_frame["g"]["self_ns"] == 12000 and by_frame["main"]["total_ns"] == 22000
    folded = tmp_path / "out.folded"
    assert lapse("trace", "import", "-o", folded, file).returncode == 0
    assert folded.read_text() == "main;f;g 12\nmain;f 3\nmain;f;f 2\nmain;h 5\n"


def test_speedscope(lapse, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(
        json.dumps(
            {
                "$schema": "https://www.speedscope.app/file-format-schema.json",
                "shared": {"frames": [{"name": "main"}, {"name": "a"}]},
                "profiles": [
                    {
                        "type": "sampled",
                        "name": "t",
                        "unit": "milliseconds",
                        "startValue": 0,
                        "endValue": 3,
                        "samples": [[0, 1], [0]],
                        "weights": [2, 0.5],
                    }
                ],
            }
        )
    )
    sheet = imported(lapse, file)
    assert (
        sheet["imported"][0]["kind"] == "speedscope"
        and sheet["imported"][0]["unit"] == "milliseconds"
    )
    out, _ = written(lapse, file)
    rows = frames_of(lapse, out)
    assert (rows["a"]["self_ns"], rows["main"]["self_ns"]) == (2000000, 500000)


def test_pytorch_stacks(lapse, tmp_path):
    # As torch.profiler's export_stacks() writes: frames, the root first, and whole us.
    file = tmp_path / "stacks.txt"
    file.write_text("train.py(9): <module>;train.py(4): step;aten::mm 150\n")
    out, _ = written(lapse, file)
    assert frames_of(lapse, out)["aten::mm"]["self_ns"] == 150000


def test_cprofile(lapse, tmp_path):
    def inner(n):
        return sum(range(n))

    profile = cProfile.Profile()
    profile.enable()
    for _ in range(7):
        inner(2000)
    profile.disable()
    file = tmp_path / "x.prof"
    profile.dump_stats(file)
    expected = {
        f"{f}({line}): {name}": v for (f, line, name), v in pstats.Stats(str(file)).stats.items()
    }
    rows = {r["function"]: r for r in imported(lapse, file)["functions"]}
    assert set(rows) == set(expected)
    for name, (primitive, calls, own, total, callers) in expected.items():
        row = rows[name]
        assert (row["primitive_calls"], row["calls"], row["callers"]) == (
            primitive,
            calls,
            len(callers),
        )
        assert (row["self_ns"], row["total_ns"]) == (round(own * 1e9), round(total * 1e9))
    out, _ = written(lapse, file, "out.json.gz")
    frames = frames_of(lapse, out)
    name = next(n for n in expected if n.endswith(": inner"))
    assert abs(frames[name]["self_ns"] - expected[name][2] * 1e9) <= 1
    done = lapse("trace", "import", "-o", tmp_path / "x.folded", file)
    assert (
        done.returncode == 2
        and "has no stacks" in done.stderr
        and not (tmp_path / "x.folded").exists()
    )


def test_tracemalloc(lapse, tmp_path):
    file = tmp_path / "snapshot"
    tracemalloc.start(4)
    kept = [bytearray(1000) for _ in range(20)]
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    snapshot.dump(file)
    assert kept
    [row] = imported(lapse, file)["imported"]
    assert row["kind"] == "tracemalloc" and row["unit"] == "bytes"
    assert row["total"] == sum(t.size for t in snapshot.traces) and row["entries"] == len(
        snapshot.traces
    )
    folded = tmp_path / "out.folded"
    assert lapse("trace", "import", "-o", folded, file).returncode == 0
    again = imported(lapse, folded)["imported"][0]
    assert again["kind"] == "collapsed" and again["total"] == row["total"]
    out, _ = written(lapse, file)
    assert lapse.json("trace", "stacks", out)["sheets"]["stacks"]


# ---- memory and counters ---------------------------------------------------------------


def test_memory_snapshot(lapse, tmp_path):
    frame = [
        {"filename": "a.py", "line": 3, "name": "f"},
        {"filename": "a.py", "line": 9, "name": "<module>"},
    ]
    events = [
        {
            "action": "segment_alloc",
            "addr": 4096,
            "size": 8192,
            "stream": 0,
            "time_us": 1000000010,
            "frames": [],
        },
        {
            "action": "alloc",
            "addr": 4096,
            "size": 1024,
            "stream": 0,
            "time_us": 1000000011,
            "frames": frame,
        },
        {
            "action": "alloc",
            "addr": 5120,
            "size": 2048,
            "stream": 0,
            "time_us": 1000000012,
            "frames": frame,
        },
        {
            "action": "free_requested",
            "addr": 5120,
            "size": 2048,
            "stream": 0,
            "time_us": 1000000020,
            "frames": [],
        },
        {
            "action": "free_completed",
            "addr": 5120,
            "size": 2048,
            "stream": 0,
            "time_us": 1000000021,
            "frames": [],
        },
    ]
    blocks = [
        {
            "size": 1024,
            "requested_size": 1000,
            "state": "active_allocated",
            "address": 4096,
            "frames": frame,
        },
        {"size": 7168, "requested_size": 0, "state": "inactive", "address": 5120, "frames": []},
    ]
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(
        pickle.dumps(
            {
                "segments": [
                    {
                        "device": 0,
                        "address": 4096,
                        "total_size": 8192,
                        "stream": 0,
                        "blocks": blocks,
                    }
                ],
                "device_traces": [events],
            },
            protocol=4,
        )
    )
    sheet = imported(lapse, file)
    [row] = sheet["devices"]
    assert (row["reserved_bytes"], row["allocated_bytes"], row["peak_bytes"]) == (8192, 1024, 3072)
    assert (row["allocations"], row["frees"], row["largest_free_bytes"]) == (2, 1, 7168)
    assert sheet["frames"][0]["frame"] == "a.py:3 f" and sheet["frames"][0]["self"] == 1024
    out, found = written(lapse, file)
    seen = [
        (e["ts"], e["args"]["Bytes"], e["args"]["Total Allocated"], e["args"]["Total Reserved"])
        for e in found["i"]
    ]
    assert seen == [(0, 1024, 1024, 8192), (1, 2048, 3072, 8192), (9, -2048, 1024, 8192)]
    memory = lapse.json("trace", "memory", out)["sheets"]
    assert any(
        r.get("peak_bytes") == 3072 or r.get("peak_allocated_bytes") == 3072
        for rows in memory.values()
        for r in rows
    ), memory
    folded = tmp_path / "live.folded"
    assert lapse("trace", "import", "-o", folded, file).returncode == 0
    assert folded.read_text() == "a.py:9 <module>;a.py:3 f 1024\n"


def test_memory_timeline(lapse, tmp_path):
    # [time, action, bytes, category]: what lived before has time -1.
    file = tmp_path / "memory.raw.json.gz"
    file.write_bytes(
        gzip.compress(json.dumps([[-1, 0, 100, 0], [1000, 1, 35, 4], [3000, 2, -35, 4]]).encode())
    )
    sheet = imported(lapse, file)
    rows = {r["category"]: r for r in sheet["categories"]}
    assert (rows["Activation"]["peak_bytes"], rows["Activation"]["last_bytes"]) == (35, 0)
    assert (rows["Parameter"]["at_peak_bytes"], sheet["imported"][0]["total"]) == (100, 135)
    _, events = written(lapse, file)
    assert [(e["ts"], e["args"]["Activation"], e["args"]["Parameter"]) for e in events["C"]] == [
        (0, 0, 100),
        (0, 35, 100),
        (2, 0, 100),
    ]
    page = tmp_path / "memory.html"
    page.write_text(
        "<!DOCTYPE html><html><body><img src='data:image/png;base64,AAAA'></body></html>"
    )
    done = lapse("trace", "import", page)
    assert done.returncode == 1 and "memory_timeline.raw.json.gz" in done.stderr


def test_mprof(lapse, tmp_path):
    file = tmp_path / "mprofile_1.dat"
    file.write_text(
        "CMDLINE python x.py\nMEM 10.5 1700000000.1000\nMEM 20.5 1700000000.2000\n"
        "CHLD 77 4.0 1700000000.2000\nFUNC x.f 10.5 1700000000.1000 20.5 1700000000.2000\nMEM what\n"
    )
    sheet = imported(lapse, file)
    rows = {r["process"]: r for r in sheet["processes"]}
    assert (rows["program"]["samples"], rows["program"]["most_bytes"]) == (2, int(20.5 * 2**20))
    assert rows["child 77"]["mean_bytes"] == 4 * 2**20
    assert sheet["imported"][0]["skipped"] == 1 and sheet["imported"][0]["first_skipped"] == 6
    assert sheet["calls"][0]["function"] == "x.f"
    assert abs(sheet["calls"][0]["duration_ns"] - 100000000) < 1000
    out, events = written(lapse, file)
    assert len(events["C"]) == 3 and [e["name"] for e in events["X"]] == ["x.f"]
    assert "x.f" in frames_of(lapse, out)


def test_nvidia_smi(lapse, tmp_path):
    file = tmp_path / "gpu.csv"
    file.write_text(
        "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
        "2026/11/27 23:11:01.000, 0, 10 %, 100 MiB\n"
        "2026/11/27 23:11:01.000, 1, [N/A], 300 MiB\n"
        "2026/11/27 23:11:02.000, 0, 30 %, 200 MiB\n"
    )
    rows = {r["column"]: r for r in imported(lapse, file)["columns"]}
    assert (rows["utilization.gpu"]["mean"], rows["utilization.gpu"]["missing"]) == (20, 1)
    assert (rows["memory.used"]["least"], rows["memory.used"]["most"]) == (100, 300)
    out, events = written(lapse, file)
    assert [(e["pid"], e["ts"], e["name"], e["args"]) for e in events["C"]][:3] == [
        (1, 0, "utilization.gpu", {"%": 10}),
        (1, 0, "memory.used", {"MiB": 100}),
        (2, 0, "memory.used", {"MiB": 300}),
    ]
    assert lapse("trace", "summary", out).returncode == 0


# ---- the command -----------------------------------------------------------------------


def test_several_files_and_forced_kind(lapse, tmp_path):
    a, b = tmp_path / "a.txt", tmp_path / "b.dat"
    a.write_text("main;f 3\n")
    b.write_text("MEM 1.0 1700000000.5\n")
    sheet = imported(lapse, a, b)
    assert [r["kind"] for r in sheet["imported"]] == ["collapsed", "mprof"]
    assert [r["file"] for r in sheet["processes"]] == [1]
    # "MEM 1.0 1700000000.5" is a collapsed stack too, if one says so.
    [row] = imported(lapse, "--from", "collapsed", b)["imported"]
    assert (row["kind"], row["total"]) == ("collapsed", 1700000000.5)
    csv = lapse("trace", "import", "--csv", "--sheet", "frames", a).stdout.splitlines()
    assert (
        csv[0] == "file,self,self_pct,total,total_pct,stacks,frame"
        and csv[1] == "0,3,100,3,100,1,f"
    )
    assert "main" in lapse("trace", "import", a).stdout


@pytest.mark.parametrize(
    "arguments,status,word",
    [
        ([], 2, "takes files"),
        (["--from", "what", "a"], 2, "none of"),
        (["-o", "x.json", "a", "b"], 2, "one file"),
        (["missing"], 1, "missing"),
        (["--from", "pstats", "a"], 1, "a: "),
        (["--from", "nsys", "a"], 1, "no SQLite"),
        (["unknown"], 1, "no kind that is known"),
        (["trace.json"], 2, "a trace already"),
    ],
)
def test_refused(lapse, arguments, status, word):
    (lapse.folder / "a").write_text("main;f 3\n")
    (lapse.folder / "unknown").write_text("hello\n")
    (lapse.folder / "trace.json").write_text('{"traceEvents": []}')
    done = lapse("trace", "import", *arguments)
    assert done.returncode == status and word in done.stderr, done.stderr
    assert not (lapse.folder / "x.json").exists()


def test_one_bad_file_does_not_stop_the_others(lapse, tmp_path):
    (tmp_path / "a").write_text("main;f 3\n")
    (tmp_path / "bad").write_text("hello\n")
    done = lapse("trace", "import", "--json", tmp_path / "bad", tmp_path / "a")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert len(document["sheets"]["imported"]) == 1 and document["files"][0]["error"]
