#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py - our tables of profiler traces against those that Holistic Trace Analysis
0.6.1 printed for the same files, number by number.

    compare.py PROGRAM [NAME...]

PROGRAM is tables (tables.c). $LAPSE_TRACE_DATA, or ../shared/data beside the project, holds
folders of traces, each with expected/VARIANT; NAMEs are folders (default: all of them). All
numbers are equal as doubles, but for times that our analyses keep in whole ns: these are
equal if both are nearest to the same ns.

The exact rule is held against the same tables where HTA leaves out no step (it has no
variant without), with its rounding off. HTA's doubles of us since the epoch or boot are some
ns apart (math.ulp of the first time), so a time there may differ by that for each row of the
device; everything else is equal, or stands in EXPLAINED with its reason.

Ends with 77 (skipped) without that folder.
"""
import collections
import csv
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from fractions import Fraction

csv.field_size_limit(1 << 26)
VARIANTS = ("default", "include_last", "no_ns_rounding")

# Columns: k key, n time in us, d any other number, 2 a number that HTA rounds to 2 decimals.
DESCRIBE = "ddddddd"
TABLES = {
    "loaded_events": ("kkdndnndd", None),
    "temporal_breakdown": ("knnnnddd", None),
    "idle_time_breakdown": ("kkk22", None),
    "idle_interval_stats": ("kkkd2222222", None),
    "kernel_type_breakdown": ("knd", "types"),
    "kernel_breakdown": ("knnnddkk", None),
    "kernel_breakdown_all": ("knnnddkk", None),
    "comm_comp_overlap": ("kd", None),
    "cuda_kernel_launch_stats": ("knnnk", "list"),
    "cuda_kernel_launch_stats_summary": ("kdnnnndddd", None),
    "queue_length_time_series": ("nkkkdk", "series"),
    "queue_length_summary": ("kkd" + DESCRIBE, None),
    "queue_length_full_queue": ("kknd", None),
    "memory_bw_time_series": ("nkkdk", "series"),
    "memory_bw_summary": ("kkd" + DESCRIBE, None),
    "gpu_user_annotation_breakdown": ("knnnddk", None),
    "user_annotation_breakdown": ("knnnddk", None),
    "aten_op_kernels_and_delay": ("kkddd", None),
    "gpu_kernels_with_user_annotations": ("kdnk", "marked"),
    "kernel_time_by_user_annotation": ("kdn", None),
}

# Of the exact rule. Series and their statistics depend on the order of equal times (HTA's is
# that of an unstable sort): there the number of points is compared.
EXACT = ("temporal_breakdown", "idle_time_breakdown", "kernel_type_breakdown",
         "kernel_breakdown_all", "comm_comp_overlap", "cuda_kernel_launch_stats",
         "queue_length_time_series", "memory_bw_time_series",
         "gpu_user_annotation_breakdown", "user_annotation_breakdown")
EXPLAINED = {
    ("hta-cp-event-sync", "temporal_breakdown"): "HTA counts cuda_sync rows as work",
    ("hta-cp-event-sync-multi", "temporal_breakdown"): "HTA counts cuda_sync rows as work",
    ("hta-cp-simple-add", "temporal_breakdown"): "HTA counts cuda_sync rows as work",
    ("hta-large-integer", "kernel_type_breakdown"): "a kernel without args.stream",
    ("hta-large-integer", "kernel_breakdown_all"): "a kernel without args.stream",
    ("hta-large-integer", "comm_comp_overlap"): "a kernel without args.stream",
    ("hta-inference-rank1", "queue_length_time_series"): "HTA knows no graph launch",
    ("tl-h100-bert", "kernel_type_breakdown"): "HTA cuts each piece to whole us",
    ("tl-h100-qwen", "kernel_type_breakdown"): "HTA cuts each piece to whole us",
    ("tl-h100-timesformer", "kernel_type_breakdown"): "HTA cuts each piece to whole us",
    ("tl-h100-bert", "cuda_kernel_launch_stats"): "HTA knows no cuLaunchKernel",
    ("tl-h100-qwen", "cuda_kernel_launch_stats"): "HTA knows no cuLaunchKernel",
    ("tl-h100-timesformer", "cuda_kernel_launch_stats"): "HTA knows no cuLaunchKernel",
    # Checked by a walk over the events: 17356 us and 1500.603 us of host_wait are right.
    ("param-dlrm-8ranks", "idle_time_breakdown"):
        "64 rows without a launch: HTA takes event 0 of the file for it (17449 us)",
    ("tl-h100-qwen", "idle_time_breakdown"):
        "509 rows without a launch: HTA takes event 0 of the file for it (1509.72 us)",
}

# Today's names of categories before PyTorch 1.13.
OLD_CATS = {"Operator": "cpu_op", "Kernel": "kernel", "Memcpy": "gpu_memcpy",
            "Memset": "gpu_memset", "Runtime": "cuda_runtime", "Python": "python_function"}


def read_table(path):
    """Rows of a CSV as lists of texts, without the head; None if there is no such file."""
    for name, opener in ((path, open), (path.with_name(path.name + ".gz"), gzip.open)):
        if name.exists():
            with opener(name, "rt", newline="", encoding="utf-8", errors="surrogateescape") as f:
                return list(csv.reader(f))[1:]
    return None


def number(text):
    return float(text) if text not in ("", "nan", "-nan") else math.nan


def same_double(theirs, ours):
    a, b = number(theirs), number(ours)
    return a == b or (a != a and b != b)


def same_time(theirs, ours):
    """Equal as doubles of us, or to the ns."""
    a, b = number(theirs), number(ours)
    if a != a or b != b:
        return a != a and b != b
    return a == b or round(Fraction(a) * 1000) == round(Fraction(b) * 1000)


def same(kind, theirs, ours):
    if kind == "n":
        return same_time(theirs, ours)
    if kind == "d":
        return same_double(theirs, ours)
    if kind == "2":
        return same_double(theirs, repr(round_numpy(number(ours))))
    return theirs == ours


def round_numpy(x):
    """To 2 decimals as numpy rounds."""
    return float(round(x * 100)) / 100 if math.isfinite(x) else x


def keyed(rows, kinds):
    table = {}
    for row in rows:
        key = tuple(cell for kind, cell in zip(kinds, row) if kind == "k")
        table.setdefault(key, []).append(row)
    return table


def compare_keyed(kinds, theirs, ours):
    """The first difference as a text; None: equal."""
    a, b = keyed(theirs, kinds), keyed(ours, kinds)
    for key in a.keys() | b.keys():
        x, y = a.get(key, []), b.get(key, [])
        if len(x) != len(y):
            return f"{key}: {len(x)} of theirs, {len(y)} of ours: {x[:1]} {y[:1]}"
        for p, q in zip(x, y):
            for column, kind in enumerate(kinds):
                if kind != "k" and not same(kind, p[column], q[column]):
                    return f"{key} column {column}: theirs {p[column]}, ours {q[column]}"
    return None


def compare_list(kinds, theirs, ours):
    """Rows in any order: both sorted by what they hold."""
    def value(row):
        return [c if k == "k" else number(c) for k, c in zip(kinds, row)]
    a = sorted(value(r) for r in theirs)
    b = sorted(value(r) for r in ours)
    if a == b:
        return None
    for x, y in zip(a, b):
        if x != y:
            return f"theirs {x}, ours {y}; {len(a)} and {len(b)} rows"
    return f"{len(a)} and {len(b)} rows"


def compare_series(kinds, theirs, ours):
    if len(theirs) != len(ours):
        return f"{len(theirs)} rows of theirs, {len(ours)} of ours"
    for i, (p, q) in enumerate(zip(theirs, ours)):
        for column, kind in enumerate(kinds):
            if not same(kind, p[column], q[column]):
                return f"row {i} column {column}: theirs {p}, ours {q}"
    return None


def compare(name, theirs, ours, variant):
    kinds, how = TABLES[name]
    if name == "loaded_events":
        theirs = [[r[0], OLD_CATS.get(r[1], r[1])] + r[2:] for r in theirs]
    if how == "types":  # rows of no time come by chance
        theirs = [r for r in theirs if number(r[1])]
    if how == "marked":  # index, ts, dur and annotation of those that have one
        theirs = [r[:3] + [r[8]] for r in theirs if r[8]]
    if how == "list":
        return compare_list(kinds, theirs, ours)
    if how == "series":
        return compare_series(kinds, theirs, ours)
    return compare_keyed(kinds, theirs, ours)


def exact_reference(data, folder):
    """The variant that the exact rule should equal; None: HTA has none for this job."""
    default = json.loads((folder / "expected/default/run.json").read_text())
    steps = {s for of_rank in (default.get("iterations") or {}).values() for s in of_rank}
    if len(steps) > 1 or "load_error" in default or folder.name in ("hta-compare-base",
                                                                   "hta-compare-test"):
        return None  # a step was left out (in the last two: of two steps)
    if (folder / "expected/no_ns_rounding").is_dir():
        return "no_ns_rounding"
    index = (data / "traces/INDEX.tsv").read_text().splitlines()
    rounded = any(r.startswith(folder.name + "\t") and "fractional ts" in r for r in index)
    return None if rounded else "default"


def is_near(kind, theirs, ours, bound):
    a, b = number(theirs), number(ours)
    if a == b or (a != a and b != b):
        return True
    if kind == "d" and math.isclose(a, b, rel_tol=1e-12):
        return True  # a spread: HTA adds in the order of the file, exact in that of time
    if kind == "2" or (kind == "d" and bound):  # rounded, or made of such times
        return abs(a - b) <= max(0.01 + 1e-9, bound)
    return kind == "n" and abs(a - b) <= bound


def compare_exact(name, theirs, ours, ulp, rows):
    kinds, how = TABLES[name]
    bound = ulp * rows
    if how == "series":
        same_number = len(theirs) == len(ours)
        return None if same_number else f"{len(theirs)} points, ours {len(ours)}"
    if name == "idle_time_breakdown" or how == "types":  # kinds of no time
        column = 3 if name == "idle_time_breakdown" else 1
        theirs = [r for r in theirs if number(r[column])]
        ours = [r for r in ours if number(r[column])]
    if how == "list":
        if bound:
            return compare_near_list(kinds, theirs, ours, ulp)
        return compare_list(kinds, theirs, ours)
    a, b = keyed(theirs, kinds), keyed(ours, kinds)
    if a.keys() != b.keys():
        return f"{sorted(a.keys() ^ b.keys())[:3]} is in one of them"
    for key in a:
        for column, kind in enumerate(kinds):
            p, q = a[key][0][column], b[key][0][column]
            if kind != "k" and not is_near(kind, p, q, bound):
                return f"{key} column {column}: theirs {p}, ours {q}"
    return None


def compare_near_list(kinds, theirs, ours, ulp):
    """Rows by their key; a time is off by half of ulp at each end."""
    if len(theirs) != len(ours):
        return f"{len(theirs)} rows, ours {len(ours)}"
    for p, q in zip(sorted(theirs, key=lambda r: int(r[0])), sorted(ours, key=lambda r: int(r[0]))):
        for column, kind in enumerate(kinds):
            if kind == "n" and abs(number(p[column]) - number(q[column])) > 2 * ulp + 1e-3:
                return f"theirs {p}, ours {q}"
    return None


def check_exact(data, folder, target, count, bad):
    variant = exact_reference(data, folder)
    if not variant:
        return
    expected = folder / "expected" / variant
    start = json.loads((expected / "run.json").read_text()).get("min_ts", 0)
    ulp = math.ulp(start) if variant == "no_ns_rounding" else 0
    rows = sum(int(r[7]) for r in read_table(expected / "loaded_events.csv"))  # on a stream
    for name in EXACT:
        theirs = read_table(expected / f"{name}.csv")
        if theirs is None:
            continue
        ours = read_table(pathlib.Path(target) / f"{name}.csv") or []
        problem = compare_exact(name, theirs, ours, ulp, rows)
        why = EXPLAINED.get((folder.name, name))
        if problem and not why:
            bad.append((folder.name, "exact", name, problem))
        elif why and not problem:
            bad.append((folder.name, "exact", name, "equal, but EXPLAINED says: " + why))
        count["exact", "explained" if why else not problem] += 1


def jobs(data, names):
    for folder in sorted(data.glob("traces/*")) + sorted(data.glob("h100/*")):
        files = sorted(folder.glob("rank*.pt.trace.json*"))
        if files and (not names or folder.name in names):
            yield folder, files


def run(program, variant, files, target):
    subprocess.run([program, target, variant, *files], check=True)


def data_folder():
    beside = pathlib.Path(__file__).resolve().parents[3].parent / "shared/data"
    return pathlib.Path(os.environ.get("LAPSE_TRACE_DATA", beside))


def main(args):
    program, data = args[0], data_folder()
    if not data.is_dir():
        print(f"no folder of traces at {data} (LAPSE_TRACE_DATA names one): nothing compared")
        return 77
    count = collections.Counter()
    bad = []
    for folder, files in jobs(data, args[1:]):
        for variant in VARIANTS:
            expected = folder / "expected" / variant
            if not expected.is_dir():
                continue
            with tempfile.TemporaryDirectory() as target:
                run(program, variant, files, target)
                for name in TABLES:
                    theirs = read_table(expected / f"{name}.csv")
                    if theirs is None:
                        count["absent"] += 1
                        continue
                    ours = read_table(pathlib.Path(target) / f"{name}.csv") or []
                    problem = compare(name, theirs, ours, variant)
                    count[name, not problem] += 1
                    count["equal" if not problem else "different"] += 1
                    if problem:
                        bad.append((folder.name, variant, name, problem))
                wanted = json.loads((expected / "run.json").read_text()).get("iterations")
                if wanted is not None:
                    got = collections.defaultdict(set)
                    for rank, step in read_table(pathlib.Path(target) / "iterations.csv"):
                        got[rank].add(int(step))
                    ok = all(set(s) == got[r] for r, s in wanted.items())
                    count["iterations", ok] += 1
                    if not ok:
                        bad.append((folder.name, variant, "iterations", f"{wanted} {dict(got)}"))
        with tempfile.TemporaryDirectory() as target:
            run(program, "exact", files, target)
            check_exact(data, folder, target, count, bad)
    for item in bad:
        print("DIFFERENT", *item)
    for name in list(TABLES) + ["iterations"]:
        print(f"{name}: {count[name, True]} equal of {count[name, True] + count[name, False]}")
    print(f"tables: {count['equal']} equal, {count['different']} different")
    print(f"exact rule: {count['exact', True]} equal, {count['exact', False]} different, "
          f"{count['exact', 'explained']} explained")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
