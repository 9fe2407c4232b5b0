#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_tb.py - our tables of profiler traces against those of torch-tb-profiler 0.4.3 and of
PyTorch's key_averages() for the same files, number by number.

    compare_tb.py PROGRAM [NAME...]

PROGRAM is tb_tables (tb_tables.c). $LAPSE_TRACE_DATA, or ../shared/data beside the project,
holds the traces with what the references wrote; NAMEs are folders (default: all of them).
Numbers of the plugin are equal as doubles, to the last digit, where it wrote all digits, and
by its own rounding where it rounded. key_averages() is equal in counts, and in times to the ns
that they are sums of. Differences stand in EXPLAINED with their reason.

Ends with 77 (skipped) without that folder.
"""
import collections
import csv
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

csv.field_size_limit(1 << 26)

ROLES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CpuOp", "Other",
         "Total")
OVERVIEW = ("computation", "communication", "overlap", "other")
# 16 of its operators that belong to the backward pass, and their kernels, are missing in the
# plugin's tables: where a trace has nn.Module calls and arrows from forward to backward it
# moves backward operators below modules and drops those that it finds no module for. The file
# holds 6 FusedRmsNormBackward0, the plugin shows 4. Ours shows what the file holds.
MOVED = "the plugin drops backward operators that it finds no module for"
EXPLAINED = {
    ("tl-normalization", "operators"): MOVED,
    ("tl-normalization", "kernel_ops"): MOVED,
    ("tl-normalization", "memory_operators"): MOVED,
}


def opened(path):
    zipped = path.with_name(path.name + ".gz")
    if zipped.exists():
        return gzip.open(zipped, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="") if path.exists() else None


def read_csv(path):
    f = opened(path)
    if not f:
        return None
    with f:
        return list(csv.DictReader(f))


def read_json(path):
    f = opened(path)
    if not f:
        return None
    with f:
        return json.load(f)


def yes(v):
    return "Yes" if v else "No"


def listed(v):
    return v if isinstance(v, str) else str(v)


def floats(row, texts):
    return [v if k in texts else float(v) for k, v in row.items()]


class Comparison:
    def __init__(self):
        self.count = collections.Counter()
        self.bad = []

    def check(self, name, table, ours, theirs):
        equal = ours == theirs
        if not equal and (name, table) in EXPLAINED:
            self.count[table, "explained"] += 1
            return
        self.count[table, equal] += 1
        if not equal:
            self.bad.append((name, table, difference(ours, theirs)))


def difference(ours, theirs):
    """The first few items that only one side has."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return f"ours {str(ours)[:300]} theirs {str(theirs)[:300]}"
    a, b = collections.Counter(map(str, ours)), collections.Counter(map(str, theirs))
    return f"only ours {list(a - b)[:2]} only theirs {list(b - a)[:2]}"[:1500]


def check_overview(c, name, ours, theirs):
    def costs(row):
        return [float(row["CPU Exec" if k == "CpuOp" and "CpuOp" not in row else k])
                for k in ROLES]
    c.check(name, "steps", [[s["step"], *costs(s)] for s in ours["steps"]],
            [[int(s["step"]), *costs(s)] for s in theirs["steps"]])
    c.check(name, "average", costs(ours["avg"]), costs(theirs["avg"]))
    c.check(name, "overlap", [[float(s[k]) for k in OVERVIEW] for s in ours["steps"]],
            [[float(s[k]) for k in OVERVIEW] for s in theirs["comm_overlap"]])
    gpu = {d: {k: v for k, v in g.items() if k not in ("line", "sm")}
           for d, g in ours["gpu"].items()}
    c.check(name, "gpu", gpu, theirs["gpu"])
    for key in ("tc_used_ratio", "tc_eligible_ops_kernel_ratio", "recommendations"):
        c.check(name, key, ours[key], theirs[key])


def check_operators(c, name, ours, theirs):
    names = list(theirs[0]) if theirs else []
    rows = []
    for o in ours["operators"]:
        row = {k: o[k] if k in ("name", "calls") else
               yes(o[k]) if k == "tc_eligible" else
               round(o[k], 2) if k.endswith("ratio") else round(o[k]) for k in names}
        rows.append(floats(row, ("name", "tc_eligible")))
    c.check(name, "operators", sorted(rows),
            sorted(floats(r, ("name", "tc_eligible")) for r in theirs))


def metrics(ours, k):
    return [round(k[key], 2) for key in ("blocks", "occupancy") if ours["has_" + key]]


def check_kernels(c, name, ours, theirs):
    rows = [[k["name"], yes(k["tc_used"]), k["calls"], round(k["total"]), round(k["mean"]),
             round(k["max"]), round(k["min"]), *metrics(ours, k)] for k in ours["kernels"]]
    c.check(name, "kernels", sorted(rows),
            sorted(floats(r, ("Name", "Tensor Cores Used")) for r in theirs))


def check_kernel_ops(c, name, ours, theirs):
    texts = ("Name", "Operator", "Grid", "Block", "Register Per Thread", "Shared Memory",
             "Kernel Uses Tensor Cores", "Op is Tensor Cores eligible")
    rows = [[k["name"], k["op"], listed(k["grid"]), listed(k["block"]), str(k["registers"]),
             str(k["shared_memory"]), yes(k["tc_used"]), yes(k["op_tc_eligible"]), k["calls"],
             k["total"], round(k["mean"]), k["max"], k["min"], *metrics(ours, k)]
            for k in ours["kernel_ops"]]
    c.check(name, "kernel_ops", sorted(rows), sorted(floats(r, texts) for r in theirs))


def check_memory(c, name, ours, theirs):
    # The plugin knows device types 0 and 1; AMD's is 6 and has no name there.
    peaks = {f"{d['type'] if d['type'] in (0, 1) else None}:{d['id']}": d["peak"]
             for d in ours["memory"] if d["peak"] >= 0}
    c.check(name, "memory_peaks", peaks, theirs["peak"])
    c.check(name, "memory_operators",
            {d["name"]: d["operators"] for d in ours["memory"] if d["operators"]},
            theirs["stats"])
    if theirs["peak"]:
        c.check(name, "allocator_peaks", sorted(a["peak"] for a in ours["allocator"]),
                sorted(theirs["peak"].values()))


def check_modules(c, name, ours, theirs):
    columns = ("depth", "name", "id", "occurences", "operators", "host_duration",
               "self_host_duration", "device_duration", "self_device_duration", "avg_duration")
    c.check(name, "modules", [[r[1], *map(float, r[:1] + r[2:])] for r in ours["modules"]],
            [[r["name"], *(float(r[k]) for k in columns if k != "name")] for r in theirs])


def run(program, *args):
    out = subprocess.run([program, *map(str, args)], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def check_trace(c, program, folder, trace, suffix):
    expected = folder / "expected/default"
    overview = read_json(expected / f"tb_overview{suffix}.json")
    if overview is None:
        return
    ours = run(program, "plugin", trace)
    name = folder.name
    check_overview(c, name, ours, overview)
    for table, check, read in (
            ("operators.csv", check_operators, read_csv),
            ("kernels.csv", check_kernels, read_csv),
            ("kernel_ops.csv", check_kernel_ops, read_csv),
            ("memory.json", check_memory, read_json),
            ("modules.csv", check_modules, read_csv)):
        stem, kind = table.split(".")
        theirs = read(expected / f"tb_{stem}{suffix}.{kind}")
        if theirs is not None:
            check(c, name, ours, theirs)


def check_distributed(c, program, folder):
    theirs = read_json(folder / "expected/default/tb_distributed.json")
    if theirs is None:
        return
    ranks = run(program, "ranks", *sorted(folder.glob("rank*.pt.trace.json*")))
    workers = sorted(theirs["comm_ops"]["data"])
    for worker, rank in zip(workers, ranks):
        rows = [[n, calls, size, round(size / calls), total, round(total / calls), real,
                 round(real / calls)] for n, calls, size, total, real in rank["operators"]]
        c.check(folder.name, "collectives", rows, theirs["comm_ops"]["data"][worker]["rows"])
        waits = {str(s): [real, total - real] for s, total, real in rank["waits"]}
        c.check(folder.name, "waits", waits,
                {s: by[worker] for s, by in theirs["steps_to_wait"]["data"].items()
                 if s != "all"})
        steps = {str(s["step"]): [s["computation"] - s["overlap"], s["overlap"],
                                  s["communication"] - s["overlap"], s["other"]]
                 for s in rank["steps"]}
        c.check(folder.name, "overlaps", steps,
                {s: by[worker] for s, by in theirs["steps_to_overlap"]["data"].items()
                 if s != "all"})


def check_plugin_tests(c, program, folder):
    """The plugin's own test of its GPU counters. Its expected file is of an older version of
    it: utilisation was in percent then and the input's SM efficiency ten times as large."""
    wanted = read_json(folder / "gpu_metrics_expected.json")
    if wanted is None:
        return
    gpu = run(program, "plugin", folder / "gpu_metrics_input.json")["gpu"]["0"]
    theirs = collections.defaultdict(list)
    for e in wanted["traceEvents"]:
        if e["ph"] == "C":
            theirs[e["name"]].append([e["ts"], round(*(list(e["args"].values()) + [9]))])
    line = [[ts, round(v * 100, 9)] for ts, v in gpu["line"]]
    c.check(folder.name, "utilisation_line", line, theirs["GPU 0 Utilization"][2:])
    sm = [p for ts, end, v in gpu["sm"] for p in ([ts, round(min(v * 10, 1), 9)], [end, 0])]
    c.check(folder.name, "sm_line", sm, theirs["GPU 0 Est. SM Efficiency"][2:])
    check_page(c, program, folder)


def check_page(c, program, folder):
    """The plugin's own result for its sample with no loader workers: steps, operators."""
    trace = folder.parent / "kineto-resnet50-nw0/rank0.pt.trace.json.gz"
    page = folder / "result_check_file.txt"
    if not trace.exists() or not page.exists():
        return
    overview, _, operators = (json.loads(x) for x in page.read_text().split("\n")[:3])
    ours = run(program, "plugin", trace)
    shown = ("Kernel", "Memcpy", "Memset", "Runtime", "DataLoader", "CPU Exec", "Other")
    c.check(folder.name, "page_steps",
            [[str(s["step"]), *(s[k] for k in shown)] for s in ours["steps"]],
            [[v for v in r if not isinstance(v, str) or len(v) < 9]
             for r in overview["steps"]["rows"]])
    keys = ("name", "calls", "device_self_duration", "device_total_duration",
            "host_self_duration", "host_total_duration")
    c.check(folder.name, "page_operators",
            sorted([o[k] for k in keys] for o in ours["operators"]),
            sorted([o[k] for k in keys] for o in operators["data"]))


SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def check_averages(c, program, folder):
    theirs = read_json(folder / "key_averages.json")
    if theirs is None:
        return
    ours = run(program, "averages", folder / "rank0.pt.trace.json.gz")

    def row(key, count, *us):
        return [key, count, *(round(v * 1000) for v in us)]
    c.check(folder.name, "key_averages", sorted(r[:6] for r in ours["rows"]),
            sorted(row(r["key"], r["count"], r["self_cpu_us"], r["cpu_us"], r["self_dev_us"],
                       r["dev_us"]) for r in theirs))
    table = (folder / "table.txt").read_text().splitlines()
    for line, key in ((table[-2], "self_host"), (table[-1], "self_device")):
        ms = re.search(r"([0-9.]+)ms$", line).group(1)
        c.check(folder.name, "table_" + key, f"{ours[key] / 1e6:.3f}", ms)
    check_memory_columns(c, folder.name, ours["rows"], table)


def check_memory_columns(c, name, ours, table):
    if "CPU Mem" not in table[1]:
        return
    shown = []
    for line in table[3:-3]:
        cells = re.split(r" {2,}", line.strip())
        shown.append([cells[0].removesuffix("..."), *cells[-5:-1], int(cells[-1])])

    def size(v):
        for unit in ("GB", "MB", "KB"):
            if abs(v) >= SIZES[unit]:
                return f"{v / SIZES[unit]:.2f} {unit}"
        return f"{v} B"
    for row in shown:
        same = [r for r in ours if r[0].startswith(row[0]) and r[1] == row[-1] and
                [size(v) for v in r[6:10]] == row[1:5]]
        c.check(name, "table_memory", bool(same), True)


def main(args):
    beside = pathlib.Path(__file__).resolve().parents[3].parent / "shared/data"
    program, data = args[0], pathlib.Path(os.environ.get("LAPSE_TRACE_DATA", beside))
    if not data.is_dir():
        print(f"no folder of traces at {data} (LAPSE_TRACE_DATA names one): nothing compared")
        return 77
    c = Comparison()
    folders = sorted(f for f in [*data.glob("traces/*"), *data.glob("h100/*")] if f.is_dir())
    for folder in folders:
        if args[1:] and folder.name not in args[1:]:
            continue
        traces = sorted(folder.glob("rank*.pt.trace.json*"))
        many = (folder / "expected/default/tb_distributed.json").exists()
        for trace in traces:
            rank = re.match(r"rank(\d+)", trace.name).group(1)
            check_trace(c, program, folder, trace, f".worker{rank}_step_12" if many else "")
        check_distributed(c, program, folder)
        check_averages(c, program, folder)
        if folder.name == "tb-plugin-tests":
            check_plugin_tests(c, program, folder)
    for item in c.bad:
        print("DIFFERENT", *item)
    for table in sorted({t for t, _ in c.count}):
        print(f"{table}: {c.count[table, True]} equal, {c.count[table, False]} different, "
              f"{c.count[table, 'explained']} explained")
    equal = sum(n for (_, kind), n in c.count.items() if kind is True)
    print(f"all: {equal} equal of {sum(c.count.values())}")
    return 1 if c.bad or not equal else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
