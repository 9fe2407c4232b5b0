#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trace_hta - the tables of Holistic Trace Analysis: it and `lapse trace tables --hta` on the
same file in the same run, each on one core, by the CPU time that it takes.

Prints one JSON object a figure, as the other benchmarks do. HTA is timed from the file to its
eight tables, its import left out; lapse from the start of the program to the files of its
tables. The traces are what `bench_trace --write` gives: one of 54 MB, and ten times that.
HTA comes from build/venv-hta, made of requirements-hta.txt; where it cannot be installed, or
there is no trace, that is said and nothing is measured.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from bench_python import BUILD, HERE, figure

VENV = os.path.join(BUILD, "venv-hta")
LAPSE = os.path.join(BUILD, "lapse")
ROUNDS = 5  # of lapse, half of them before HTA and half after it
TRACES = (("small", 1, 3), ("large", 10, 1))  # name, copies, rounds of HTA
TABLES = ("get_temporal_breakdown", "get_idle_time_breakdown", "get_gpu_kernel_breakdown",
          "get_comm_comp_overlap", "get_cuda_kernel_launch_stats", "get_queue_length_summary",
          "get_memory_bw_summary", "get_gpu_user_annotation_breakdown")  # fmt: skip


# ---- HTA, in its environment -----------------------------------------------------


def hta(path):
    """Its tables of a file; prints seconds of CPU and of the clock."""
    from hta.trace_analysis import TraceAnalysis

    begin, cpu = time.perf_counter(), time.process_time()
    analysis = TraceAnalysis(trace_files={0: path})
    for name in TABLES:
        table = getattr(analysis, name)
        table() if name.endswith("_summary") else table(visualize=False)
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - begin]))


def environment():
    """HTA's Python; None after saying why there is none."""
    python = os.path.join(VENV, "bin", "python")
    requirements = os.path.join(HERE, "requirements-hta.txt")
    stamp = os.path.join(VENV, "requirements.txt")
    with open(requirements, encoding="utf-8") as file:
        text = file.read()
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == text:
                return python
    for command in ([sys.executable, "-m", "venv", "--clear", VENV],
                    [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
                     "--no-deps", "-r", requirements]):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"not measured: Holistic Trace Analysis cannot be installed: "
                  f"{(done.stderr or done.stdout).strip()[-500:]}", file=sys.stderr)  # fmt: skip
            return None
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(text)
    return python


def time_hta(python, path):
    done = subprocess.run(
        [python, os.path.abspath(__file__), "--hta", path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"trace_hta: HTA failed on {path}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# ---- lapse -----------------------------------------------------------------------


def time_lapse(path, folder):
    """Seconds of CPU and of the clock."""
    command = [LAPSE, "trace", "tables", "--quiet", "--hta", "-o", folder, path]
    null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    begin = time.perf_counter()
    pid = os.posix_spawn(LAPSE, command, os.environ, file_actions=null)
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"trace_hta: {' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin


def median(pairs):
    """Of CPU and of the clock, each its own."""
    return [sorted(values)[len(values) // 2] for values in zip(*pairs, strict=True)]


def compare(python, name, path, rounds, folder):
    time_lapse(path, folder)  # reads the disk
    ours = [time_lapse(path, folder) for _ in range(ROUNDS // 2)]
    theirs = [time_hta(python, path) for _ in range(rounds)]
    ours += [time_lapse(path, folder) for _ in range(ROUNDS - len(ours))]
    (cpu, wall), (hta_cpu, hta_wall) = median(ours), median(theirs)
    peer = "Holistic Trace Analysis 0.6.1"
    figure(f"trace.tables_{name}", cpu, "s of CPU", peer, hta_cpu)
    figure(f"trace.tables_{name}_wall", wall, "s", peer, hta_wall)
    figure(f"trace.tables_{name}_speed", hta_cpu / cpu, "times HTA", goal=("value", ">=", 100))


def main():
    trace = os.path.join(BUILD, "bench", "bench_trace")
    for program in (LAPSE, trace):
        if not os.path.exists(program):
            sys.exit(f"trace_hta: {program} is missing; run make")
    python = environment()
    if not python:
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="lapse-bench-", dir="/var/tmp") as folder:
        for name, copies, rounds in TRACES:
            path = os.path.join(folder, name + ".json")
            with open(path, "wb") as file:
                subprocess.run([trace, "--write", str(copies)], stdout=file, check=True)
            if os.path.getsize(path) == 0:
                return  # bench_trace has said why
            compare(python, name, path, rounds, os.path.join(folder, "tables"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hta"]:
        hta(sys.argv[2])
    else:
        main()
