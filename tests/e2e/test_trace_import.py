# SPDX-License-Identifier: Apache-2.0
"""lapse trace import: a small file of each kind, made by the tool itself where Python has it,
else written here as the tool's documentation says; what the tables say of it, and whether the
trace or the stacks that come out of it say the same to the other subcommands."""

import cProfile
import gzip
import json
import pickle
import pstats
import re
import sqlite3
import tracemalloc

import pytest
from trace_maker import ROOT

KERNEL, COPY, SET, CALL = (
    "CUPTI_ACTIVITY_KIND_" + n for n in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")
)
PID, TID = 1234, 1240


def documented():
    """{sheet: keys} of docs/trace.md."""
    part = (
        (ROOT / "docs" / "trace.md")
        .read_text()
        .partition("\n## lapse trace import\n")[2]
        .partition("\n## ")[0]
    )
    return {
        name: re.findall(r"`(\w+)`", keys)
        for name, keys in re.findall(r"^- sheet `(\w+)`: (.*)$", part, re.M)
    }


def imported(lapse, *arguments):
    sheets = lapse.json("trace", "import", *arguments)["sheets"]
    known = documented()
    for name, rows in sheets.items():
        for row in rows:
            assert list(row) == known[name], name
    return sheets


def written(lapse, file, name="out.json"):
    """The file imported into a trace: the path of that, and its events by phase."""
    out = lapse.folder / name
    done = lapse("trace", "import", "-q", "-o", out, file)
    assert done.returncode == 0, done.stderr
    text = gzip.decompress(out.read_bytes()) if name.endswith(".gz") else out.read_bytes()
    events = {}
    for event in json.loads(text)["traceEvents"]:
        events.setdefault(event["ph"], []).append(event)
    return out, events


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


# ---- nsys ------------------------------------------------------------------------------


def nsys_tables(name):
    """{table: columns} of Nsight Systems' documentation, some of them; name: type of names."""
    return {
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
        "TARGET_INFO_GPU": "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, "
        "computeMinor INTEGER",
        "ENUM_CUDA_MEM_KIND": "id INTEGER PRIMARY KEY, name TEXT, label TEXT",
        "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
        KERNEL: "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
        "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName "
        + name
        + " NOT NULL, shortName "
        + name
        + ", gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, "
        "blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, staticSharedMemory INTEGER, "
        "dynamicSharedMemory INTEGER",
        COPY: "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, "
        "dstKind INTEGER",
        SET: "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER",
        CALL: "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, "
        "nameId INTEGER, returnValue INTEGER",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
        "syncType INTEGER, eventId INTEGER",
        "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, "
        "globalTid INTEGER, textId INTEGER",
        "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER",
    }


def nsys_rows(old):
    """Two launches with their kernels, a copy, a set, a wait, NVTX ranges, a system call."""
    strings = {
        1: "void gemm<float>(float *)",
        2: "gemm",
        3: "cudaLaunchKernel_v7000",
        4: "cudaMemcpyAsync_v3020",
        5: "forward",
        6: "poll",
        7: "python",
        8: "cuLaunchKernelEx",
    }
    gpid, gtid = PID << 24, PID << 24 | TID
    return {
        "StringIds": list(strings.items()),
        "TARGET_INFO_SESSION_START_TIME": [(1700000000000000000, "", "")],
        "TARGET_INFO_GPU": [(0, "Test GPU", 8 << 30, 100, 9, 0)],
        "ENUM_CUDA_MEM_KIND": [(1, "PINNED", "Pinned"), (2, "DEVICE", "Device")],
        "ThreadNames": [(7, 0, gtid)],
        KERNEL: [
            (
                5000,
                9000,
                0,
                1,
                7,
                11,
                gpid,
                strings[1] if old else 1,
                strings[2] if old else 2,
                4,
                2,
                1,
                128,
                1,
                1,
                32,
                16,
                48,
            ),
            (
                10000,
                12000,
                0,
                1,
                7,
                12,
                gpid,
                strings[1] if old else 1,
                strings[2] if old else 2,
                4,
                2,
                1,
                128,
                1,
                1,
                32,
                16,
                48,
            ),
            (
                20000,
                19000,
                0,
                1,
                7,
                13,
                gpid,
                strings[1] if old else 1,
                strings[2] if old else 2,
                1,
                1,
                1,
                1,
                1,
                1,
                32,
                0,
                0,
            ),
        ],  # ends before it begins
        COPY: [(13000, 14000, 0, 1, 7, 14, gpid, 4000, 1, 1, 2)],
        SET: [(14000, 14500, 0, 1, 7, 15, gpid, 0, 64)],
        CALL: [
            (1000, 2000, 0, gtid, 11, 3, 0),
            (2000, 3000, 0, gtid, 12, 8, 0),
            (3000, 3500, 0, gtid, 14, 4, 0),
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [(4000, 12000, 0, 1, 7, 16, gpid, 3, 0)],
        "NVTX_EVENTS": [
            (500, 15000, 59, "ProfilerStep#1", gtid, None),
            (900, 3600, 60, None, gtid, 5),
            (700, None, 34, "mark", gtid, None),
            (800, None, 59, "never ended", gtid, None),
        ],
        "OSRT_API": [(100, 400, gtid, 1, 6)],
    }


def make_nsys(path, drop=(), old=False):
    db = sqlite3.connect(path)
    tables, rows = nsys_tables("TEXT" if old else "INTEGER"), nsys_rows(old)
    for table, columns in tables.items():
        if table in drop:
            continue
        db.execute(f"CREATE TABLE {table} ({columns})")
        for row in rows[table]:
            db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    db.commit()
    db.close()
    return path


@pytest.mark.parametrize("old", [False, True])
def test_nsys(lapse, tmp_path, old):
    file = make_nsys(tmp_path / "report.sqlite", old=old)
    sheet = imported(lapse, file)
    kinds = {r["category"]: (r["rows"], r["time_ns"], r["skipped"]) for r in sheet["kinds"]}
    assert kinds == {
        "kernels": (2, 6000, 1),
        "copies": (1, 1000, 0),
        "sets": (1, 500, 0),
        "CUDA calls": (3, 2500, 0),
        "synchronisation": (1, 8000, 0),
        "NVTX ranges": (2, 17200, 1),
        "system calls": (1, 300, 0),
    }
    assert {
        "category": "kernels",
        "time_ns": 6000,
        "calls": 2,
        "name": "void gemm<float>(float *)",
    }.items() <= next(r for r in sheet["names"] if r["category"] == "kernels").items()
    assert sheet["imported"][0]["begin_ns"] == 1700000000000000100
    out, events = written(lapse, file, "nsys.json.gz")
    rows = {(e["cat"], e["name"]): e for e in events["X"]}
    kernel = rows["kernel", "void gemm<float>(float *)"]
    assert kernel["args"]["grid"] == [4, 2, 1] and kernel["args"]["shared memory"] == 64
    assert (kernel["pid"], kernel["tid"], kernel["args"]["registers per thread"]) == (0, 7, 32)
    assert (
        rows["gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"]["args"]["memory bandwidth (GB/s)"] == 4
    )
    assert rows["cuda_runtime", "cudaLaunchKernel"]["tid"] == TID
    assert ("cuda_driver", "cuLaunchKernelEx") in rows and ("cuda_sync", "Stream Sync") in rows
    assert rows["user_annotation", "forward"]["dur"] == 2.7
    # The other subcommands read it: launches find their kernels, the step is a step.
    top = lapse.json("trace", "top", out)["sheets"]["kernels"]
    assert {r["name"]: r["self_device_ns"] for r in top}["void gemm<float>(float *)"] == 6000
    launches = lapse.json("trace", "launch", "--pairs", out)["sheets"]
    assert any(rows for rows in launches.values())
    document = lapse.json("trace", "temporal", out)
    assert document["files"][0]["base_ns"] == 1700000000000000000
    assert document["inputs"]["views"][0]["steps"] == 1
    assert document["sheets"]["temporal"][0]["compute_ns"] == 6000


@pytest.mark.parametrize(
    "drop",
    [
        [KERNEL],
        [CALL, "NVTX_EVENTS"],
        ["StringIds"],
        [COPY, SET, "OSRT_API"],
        ["TARGET_INFO_GPU", "TARGET_INFO_SESSION_START_TIME", "ENUM_CUDA_MEM_KIND", "ThreadNames"],
    ],
)
def test_nsys_without_some_tables(lapse, tmp_path, drop):
    file = make_nsys(tmp_path / "report.sqlite", drop=drop)
    kinds = {r["table"]: r for r in imported(lapse, file)["kinds"]}
    for table, row in kinds.items():
        assert row["has_table"] == (table not in drop)
        assert (row["rows"] > 0) == (table not in drop)
    out, events = written(lapse, file)
    assert events["X"] and lapse("trace", "summary", out).returncode == 0


def test_nsys_of_two_processes(lapse, tmp_path):
    """Correlations are those of a process: equal ones of two are not taken for one."""
    file = make_nsys(tmp_path / "report.sqlite")
    db = sqlite3.connect(file)
    db.execute(f"INSERT INTO {CALL} VALUES (1100, 1300, 0, ?, 11, 3, 0)", (77 << 24 | 78,))
    db.commit()
    db.close()
    _, events = written(lapse, file)
    launches = [e for e in events["X"] if e["name"] == "cudaLaunchKernel"]
    assert sorted(e["pid"] for e in launches) == [77, PID]
    assert len({e["args"]["correlation"] for e in launches}) == 2


def test_nsys_hostile(lapse, tmp_path):
    """A view in the place of a table is not run; a database of something else is refused; so is one
    that is cut off; a compressed one is read."""
    file = tmp_path / "a.sqlite"
    db = sqlite3.connect(file)
    db.execute(f"CREATE VIEW {KERNEL} AS SELECT 1 AS start, 2 AS end")
    db.commit()
    db.close()
    done = lapse("trace", "import", file)
    assert done.returncode == 1 and "none of the tables" in done.stderr
    whole = make_nsys(tmp_path / "b.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    done = lapse("trace", "import", "-o", tmp_path / "out.json", tmp_path / "cut.sqlite")
    assert (
        done.returncode == 1
        and "cut.sqlite" in done.stderr
        and not (tmp_path / "out.json").exists()
    )
    (tmp_path / "b.sqlite.gz").write_bytes(gzip.compress(whole))
    assert (
        imported(lapse, tmp_path / "b.sqlite.gz")["kinds"]
        == imported(lapse, tmp_path / "b.sqlite")["kinds"]
    )


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
