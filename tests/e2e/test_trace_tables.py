# SPDX-License-Identifier: Apache-2.0
"""lapse trace tables: all tables of HTA at once, as the subcommands give them; what is
written and what is missing."""
import csv
import io
import json

import pytest

from trace_maker import make_trace, write_trace
from trace_sheets import job, one, sheets  # noqa: F401

# Whose tables `tables` has.
TABLES = ["temporal", "idle", "kernels", "overlap", "launch", "queue", "bandwidth", "annotations"]


# ---- all tables of HTA at once -----------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [[], ["--hta"], ["--hta", "--include-last", "--no-rounding"], ["--steps", "2:3"]]
)
def test_tables_are_those_of_the_subcommands(lapse, one, job, tmp_path, rule):
    for files in ([one], [job], [one, job]):
        want = {}
        for sub in TABLES:
            for name, rows in sheets(lapse, sub, *rule, *files).items():
                want[name] = rows
                text = lapse("trace", sub, *rule, "--csv", "--sheet", name, *files).stdout
                done = lapse("trace", "tables", *rule, "-o", tmp_path / "tables", *files)
                assert done.returncode == 0 and done.stderr == ""
                assert (tmp_path / "tables" / f"{name}.csv").read_text() == text, name
        assert sheets(lapse, "tables", *rule, *files) == want
        assert {p.name for p in (tmp_path / "tables").iterdir()} == {f"{name}.csv" for name in want}
    assert sum(len(rows) for rows in want.values()) > 20


def test_tables_by_hand(lapse, one, tmp_path):
    folder = tmp_path / "new" / "tables"
    document = json.loads(lapse("trace", "tables", "--json", "-o", folder, one).stdout)
    assert document["sheets"] == {
        "written": [
            {"output": f"{folder}/{name}.csv", "rows": rows}
            for name, rows in (
                ("temporal", 1),
                ("idle", 6),
                ("types", 4),
                ("kernels", 3),
                ("overlap", 1),
                ("launch", 1),
                ("queue", 2),
                ("bandwidth", 1),
                ("annotations", 0),
                ("work", 0),
            )
        ]
    }
    assert [n["key"] for n in document["notes"]] == ["no-annotations"]
    [row] = csv.DictReader(io.StringIO((folder / "temporal.csv").read_text()))
    assert (row["total_ns"], row["compute_ns"], row["rank"]) == ("24000000", "6000000", "")
    [row] = csv.DictReader(io.StringIO((folder / "overlap.csv").read_text()))
    assert (row["communication_ns"], row["both_ns"]) == ("6000000", "3000000")


def test_one_table_is_written(lapse, one, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "idle.csv").write_text("old")
    (tmp_path / "tables" / "mine.txt").write_text("mine")
    done = lapse("trace", "tables", "--sheet", "idle", "-o", tmp_path / "tables", one)
    assert done.returncode == 0 and f"{tmp_path}/tables/idle.csv" in done.stdout
    assert {p.name for p in (tmp_path / "tables").iterdir()} == {"idle.csv", "mine.txt"}
    assert (tmp_path / "tables" / "idle.csv").read_text().startswith("file,rank,stream,")
    done = lapse("trace", "tables", "--sheet", "none", "-o", tmp_path / "other", one)
    assert (
        done.returncode == 2
        and "there are temporal, idle" in done.stderr
        and not (tmp_path / "other").exists()
    )


def test_tables_that_cannot_be_written(lapse, one, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = lapse("trace", "tables", "-o", tmp_path / "file", one)
    assert done.returncode == 1 and "cannot make the folder" in done.stderr and done.stdout == ""
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "tables" / "queue.csv").mkdir(parents=True)
    done = lapse("trace", "tables", "-o", tmp_path / "tables", one)
    assert done.returncode == 1 and "queue.csv" in done.stderr and done.stdout == ""


def test_what_is_missing_is_told_once(lapse, tmp_path):
    trace = make_trace()
    trace["traceEvents"] = [
        e for e in trace["traceEvents"] if e.get("cat") not in ("kernel", "gpu_memcpy")
    ]
    path = write_trace(tmp_path / "host.json", trace)
    notes = [n["key"] for n in lapse.json("trace", "tables", path)["notes"]]
    assert notes.count("no-gpu") == 1
    assert lapse("trace", "tables", path).stdout.count("No GPU rows") == 1
