# SPDX-License-Identifier: Apache-2.0
"""lapse trace import of Nsight Systems' databases: made here as its documentation says, of
several versions, without some tables, of two processes, hostile."""

import gzip
import sqlite3

import pytest
from trace_imported import imported, written

KERNEL, COPY, SET, CALL = (
    "CUPTI_ACTIVITY_KIND_" + n for n in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")
)
PID, TID = 1234, 1240


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
