# SPDX-License-Identifier: Apache-2.0
"""Small traces with known numbers, as PyTorch's profiler writes them, for the tests of
`lapse trace`; and where the real ones are."""
import gzip
import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("LAPSE_TRACE_DATA") or ROOT.parent / "shared" / "data")
STEP = 10000  # us

# One step: what the host does and the devices do, us after its begin.
HOST = [("cpu_op", "aten::mm", 100, 1900), ("cuda_runtime", "cudaLaunchKernel", 500, 100),
        ("cpu_op", "nccl:all_reduce", 620, 60), ("cuda_runtime", "cudaLaunchKernel", 630, 40),
        ("cuda_runtime", "cudaMemcpyAsync", 800, 50)]
GPU = [("kernel", "sm90_gemm", 1000, 2000, 7), ("kernel", "ncclDevKernel_AllReduce", 2000, 2000, 20),
       ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 4500, 500, 7)]


def row(cat, name, ts, dur, pid, tid, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step_rows(number, begin, correlation, late=0):
    """Rows of one step; `late` us are lost before anything is launched."""
    rows = [row("user_annotation", f"ProfilerStep#{number}", begin, STEP, 100, 100)]
    calls = 0
    for cat, name, ts, dur in HOST:
        args = {"External id": correlation + calls}
        if cat == "cuda_runtime":
            args["correlation"] = correlation + calls
            calls += 1
        rows.append(row(cat, name, begin + late + ts, dur, 100, 100, **args))
    for i, (cat, name, ts, dur, stream) in enumerate(GPU):
        args = {"device": 0, "stream": stream, "correlation": correlation + i,
                "External id": correlation + i, "blocks per SM": 2.0, "est. achieved occupancy %": 50}
        if cat == "gpu_memcpy":
            args.update(bytes=1000000, **{"memory bandwidth (GB/s)": 2.0})
        rows.append(row(cat, name, begin + late + ts, dur, 0, stream, **args))
    return rows


def make_trace(steps=3, rank=None, late=0, first=1):
    rows = []
    for i in range(steps):
        rows += step_rows(first + i, i * STEP, 10 * (i + 1), late)
    trace = {"schemaVersion": 1, "deviceProperties": [
        {"id": 0, "name": "Test GPU", "totalGlobalMem": 8 << 30, "computeMajor": 9, "computeMinor": 0,
         "numSms": 100, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048}]}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    trace["traceEvents"] = rows
    return trace


def write_trace(path, trace):
    text = json.dumps(trace).encode()
    path.write_bytes(gzip.compress(text) if str(path).endswith(".gz") else text)
    return path
