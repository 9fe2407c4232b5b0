#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""comparepaths.py - our critical paths, kernel sequences, trace differences and stragglers
against those that Holistic Trace Analysis 0.6.1 printed for the same files.

    comparepaths.py PROGRAM [NAME...]

PROGRAM is paths (paths.c). $LAPSE_TRACE_DATA, or ../shared/data beside the project, holds
folders of traces, each with expected/VARIANT. Counts, names and graphs are equal; so are
times in whole us. With HTA's rounding off its times are doubles of us since the epoch or
boot: each is some ns off (half a unit in the last place at either end), so a sum of n of
them may differ from our whole ns by n units in the last place of the latest time.

Ends with 77 (skipped) without that folder.
"""
import csv
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys

csv.field_size_limit(1 << 26)
RULES = {"default": ("hta", "0"), "include_last": ("hta", "1"),
         "no_ns_rounding": ("hta_exact", "0")}
HERE = pathlib.Path(__file__).resolve().parent
program = ""
failures = []
equal = 0


def ours(rule, keep, mode, a, b, *files):
    out = subprocess.run([program, rule, keep, mode, str(a), str(b), *map(str, files)],
                         stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)


def table(path):
    opened = gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="")
    with opened as f:
        return list(csv.DictReader(f))


def verdict(what, problem):
    global equal
    if problem:
        failures.append(f"{what}: {problem}")
        print(f"not equal: {what}: {problem}")
    else:
        equal += 1


def same_time(got, want, terms, got_all, variant):
    want = float(want)
    if variant != "no_ns_rounding":
        return float(got) == want
    return abs(float(got) - want) <= 0.0005 + terms * math.ulp(float(got_all["latest"]))


def compare_critical(folder, variant, tables, traces):
    want = table(tables / "critical_path.csv")[0]
    trace = traces[int(want["rank"])]
    got = ours(*RULES[variant], "critical", want["annotation"], want["instance_id"], trace)
    what = f"{folder.name}/{variant} critical path"
    for key in ("nodes", "graph_nodes", "edges", "cp_nodes"):
        if got.get(key) != int(want[key]):
            return verdict(what, f"{key} {got.get(key)}, HTA {want[key]}")
    if got["ok"] != (want["success"] == "True"):
        return verdict(what, f"ok {got['ok']}")
    if not same_time(got["cp_weight"], want["cp_weight"], got["cp_nodes"], got, variant):
        return verdict(what, f"length {got['cp_weight']}, HTA {want['cp_weight']}")
    verdict(what, None)

    rows = table(tables / "critical_path_breakdown_by_bound.csv")
    problem = None
    if {r["bound_by"] for r in rows} != set(got["bounds"]):
        problem = f"{sorted(got['bounds'])}"
    for r in rows:
        b = got["bounds"].get(r["bound_by"], {"count": -1, "sum": -1})
        if b["count"] != int(r["count"]) or not same_time(b["sum"], r["sum"], b["count"], got,
                                                          variant):
            problem = f"{r['bound_by']} {b}, HTA {r['count']} {r['sum']}"
    verdict(what + ", breakdown", problem)

    total = sum(b["sum"] for b in got["bounds"].values())
    problem = None
    for r in table(tables / "critical_path_summary.csv"):
        b = got["bounds"].get(r["bound_by"], {"sum": -1, "count": 0})
        part = b["sum"] / total * 100
        off = 0.0
        if variant == "no_ns_rounding":
            off = 100 / total * (0.0005 + (b["count"] + got["cp_nodes"] * part / 100) *
                                 math.ulp(got["latest"]))
        if abs(part - float(r["duration"])) > off:
            problem = f"{r['bound_by']} {part} %, HTA {r['duration']}"
    verdict(what + ", summary", problem)


def compare_sequences(folder, variant, tables, traces):
    rows = table(tables / "frequent_cuda_kernel_sequences.csv")
    if not rows:
        return
    # Not told for which rank: the first of the folder.
    trace = traces[min(traces)]
    got = ours(*RULES[variant], "sequences", rows[0]["operator_name"],
               rows[0]["min_pattern_len"], trace)
    problem = None if len(rows) == len(got["patterns"]) else f"{len(got['patterns'])} patterns"
    for g, r in zip(got["patterns"], rows):
        if g["pattern"] != r["pattern"] or g["count"] != int(r["count"]):
            problem = f"{g['count']} of {g['pattern'][:80]}, HTA {r['count']} of " \
                      f"{r['pattern'][:80]}"
        if not same_time(g["kernels"], r["GPU kernel duration (us)"], g["count"] * g["length"],
                         got, variant) or \
           not same_time(g["operators"], r["CPU op duration (us)"], g["count"], got, variant):
            problem = f"times of {g['pattern'][:80]}: {g['kernels']} {g['operators']}"
    verdict(f"{folder.name}/{variant} sequences", problem)


def first(folder, name):
    for suffix in ("", ".gz"):
        if (folder / (name + suffix)).exists():
            return folder / (name + suffix)
    return None


def compare_diff(root):
    tables = root / "traces/diff-hta-control-test/expected/default"
    if not tables.is_dir():
        return
    files = [next((root / f"traces/hta-diff-{n}").glob("rank*.json*")) for n in ("control", "test")]
    for device in ("all", "cpu", "gpu"):
        for short in (0, 1):
            name = f"compare_traces_{device}{'_short' if short else ''}.csv"
            rows = table(first(tables, name))
            got = {g["name"]: g for g in ours("hta", "1", "diff", device, short, *files)["rows"]}
            problem = None if len(rows) == len(got) else f"{len(got)} names, HTA {len(rows)}"
            for r in rows:
                g = got.get(r["short_name" if short else "name"])
                if g is None or [g["control_counts"], g["test_counts"], g["control_us"],
                                 g["test_us"]] != [float(r["Control_counts"]),
                                                   float(r["Test_counts"]),
                                                   float(r["Control_total_duration"]),
                                                   float(r["Test_total_duration"])]:
                    problem = f"{g}, HTA {r}"
            verdict(f"diff {name}", problem)
        path = first(tables, f"ops_diff_{device}.json")
        with (gzip.open(path, "rt") if path.suffix == ".gz" else open(path)) as f:
            want = json.load(f)
        rows = ours("hta", "1", "diff", device, 0, *files)["rows"]
        lists = {k: {r["name"] for r in rows if r["change"] == k} for k in want}
        bad = [k for k in want if lists[k] != set(want[k])]
        verdict(f"diff ops_diff_{device}", f"{bad}" if bad else None)


def compare_stragglers(folder, variant, tables, traces):
    if not (tables / "straggler_metric.csv").exists():
        return
    files = [traces[r] for r in sorted(traces)]
    got = ours(*RULES[variant], "stragglers", 2, "-", *files)
    want = [int(r["rank"]) for r in table(tables / "potential_stragglers.csv")]
    verdict(f"{folder.name} stragglers", None if got["ranks"] == want else f"{got['ranks']}")
    rows = table(tables / "straggler_metric.csv")
    problem = None if len(rows) == len(got["rows"]) else "rows"
    for g, r in zip(got["rows"], rows):
        for key, value in r.items():
            if (g[key] != value) if key == "name" else (float(g[key]) != float(value)):
                problem = f"rank {r['rank']}, {key}: {g[key]}, HTA {value}"
    verdict(f"{folder.name} straggler metric", problem)


def check_planted(root):
    """One rank of two sleeps 30 ms a step in one of two jobs."""
    jobs = {n: sorted((root / "h100" / n).glob("rank*.json*")) for n in ("ddp", "ddp_straggler")}
    if not all(len(f) == 2 for f in jobs.values()):
        return
    for name, files in jobs.items():
        got = ours("exact", "0", "ranks", "-", "-", *files)
        named = [g for g in got["late"] if not g["is_lag"]]
        if name == "ddp":
            verdict("ranks of ddp", f"{named}" if named else None)
            continue
        good = len(named) == 1 and named[0]["rank"] == 1 and named[0]["why"] == "host" and \
            named[0]["cause"] == "slow_rank_work" and 29 < named[0]["cost_ms"] < 32
        verdict("ranks of ddp_straggler", None if good else f"{named}")


def check_all_exact(root):
    """The exact rule has an answer or a reason for every trace, and steps add up."""
    for trace in sorted(root.glob("**/rank*.pt.trace.json*")):
        got = ours("exact", "0", "critical", "", 0, trace)
        good = got["error"] == 0 and (got["ok"] or got["why"])
        if good and got["ok"]:
            good = got["cp_weight"] >= 0 and got["cp_nodes"] >= 1
        verdict(f"exact critical path of {trace.parent.name}/{trace.name}",
                None if good else f"{got}")
    files = sorted((root / "traces/param-dlrm-8ranks").glob("rank*.json*"))
    for r in ours("exact", "0", "ranks", "-", "-", *files)["ranks"] if files else []:
        verdict(f"parts of steps of DLRM rank {r['rank']}",
                None if abs(r["parts"] - r["step"]) < 0.01 else f"{r}")


def main():
    global program
    program = sys.argv[1]
    root = pathlib.Path(os.environ.get("LAPSE_TRACE_DATA", HERE.parents[3] / "shared" / "data"))
    if not root.is_dir():
        print(f"skipped: no real traces ({root} is not a folder; LAPSE_TRACE_DATA names one)")
        return 77
    folders = sorted(p.parent for p in root.glob("*/*/expected"))
    for folder in folders:
        if len(sys.argv) > 2 and folder.name not in sys.argv[2:]:
            continue
        traces = {int(p.name[4:].split(".")[0]): p for p in folder.glob("rank*.json*")
                  if p.name[4:].split(".")[0].isdigit() and "trace" in p.name}
        for variant in RULES:
            tables = folder / "expected" / variant
            for name, fn in (("critical_path.csv", compare_critical),
                             ("frequent_cuda_kernel_sequences.csv", compare_sequences),
                             ("straggler_metric.csv", compare_stragglers)):
                if traces and (tables / name).exists():
                    fn(folder, variant, tables, traces)
    if len(sys.argv) == 2:
        compare_diff(root)
        check_planted(root)
        check_all_exact(root)
    print(f"{equal} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
