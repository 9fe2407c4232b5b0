# SPDX-License-Identifier: Apache-2.0
"""lapse trace convert and merge: events that are no rows (counters, instants, arrows from forward
to backward, async events) stay in the files that are written."""
import gzip
import json

import pytest

from trace_maker import DATA, STEP, make_trace, write_trace


def others(number, begin):
    """Of one step: a counter, an instant, an arrow within it, an async pair."""
    return [
        {"ph": "C", "name": "load", "pid": 100, "ts": begin + 10, "args": {"value": number}},
        {"ph": "i", "s": "t", "name": "mark", "pid": 100, "tid": 100, "ts": begin + 20.125},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 100, "tid": 100, "ts": begin + 110},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": number, "bp": "e", "pid": 100, "tid": 101,
         "ts": begin + 900},
        {"ph": "b", "cat": "a", "name": "async", "id": "0x1f", "pid": "loader", "tid": 1, "ts": begin + 30},
        {"ph": "e", "cat": "a", "name": "async", "id": "0x1f", "pid": "loader", "tid": 1, "ts": begin + 40},
    ]


def with_others(rank=None):
    trace = make_trace(rank=rank)
    for i in range(3):
        trace["traceEvents"] += others(i + 1, i * STEP)
    # From the first step to the second; and an arrow of the profiler from a launch to its work.
    trace["traceEvents"] += [
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 70, "pid": 100, "tid": 100, "ts": 500},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 70, "bp": "e", "pid": 100, "tid": 101, "ts": STEP + 500},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 10, "pid": 100, "tid": 100, "ts": 500},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 10, "bp": "e", "pid": 0, "tid": 7, "ts": 1000},
    ]
    return trace


def kept(path):
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]
    return [e for e in events if e["ph"] not in "XBEM" and e.get("name") != "[memory]"]


def convert(lapse, *arguments):
    out = lapse.folder / "out.json"
    done = lapse("trace", "convert", "--json", "-o", out, *arguments)
    assert done.returncode == 0, done.stderr
    return kept(out), json.loads(done.stdout)["sheets"]["written"][0]


def without_launches(events):
    return [e for e in events if e.get("cat") != "ac2g"]


def test_all_are_kept(lapse, tmp_path):
    trace = with_others()
    file = write_trace(tmp_path / "in.json", trace)
    events, row = convert(lapse, file)
    want = [e for e in trace["traceEvents"] if e["ph"] not in "XM" and e.get("cat") != "ac2g"]
    assert without_launches(events) == want
    assert (row["others"], row["not_held"]) == (len(want), 0)
    # The profiler's arrows are drawn anew, once: nine launches lead to work.
    assert row["flows"] == 9 and sum(e["ph"] == "f" and e["cat"] == "ac2g" for e in events if "cat" in e) == 9
    # And again: nothing is lost the second time.
    (tmp_path / "again.json").write_bytes((tmp_path / "out.json").read_bytes())
    again, second = convert(lapse, tmp_path / "again.json")
    assert sorted(map(json.dumps, without_launches(again))) == sorted(map(json.dumps, want))
    assert second["others"] == row["others"]


def test_a_window(lapse, tmp_path):
    file = write_trace(tmp_path / "in.json.gz", with_others())
    events, row = convert(lapse, "--steps", "2", file)
    # Of the arrow that comes from the first step nothing.
    assert without_launches(events) == others(2, STEP) and row["others"] == 6 and row["not_held"] == 0
    events, _ = convert(lapse, "--steps", "1:3", file)
    assert sorted(e["id"] for e in events if e.get("cat") == "fwdbwd") == [1, 1, 2, 2, 70, 70]
    events, _ = convert(lapse, "--no-flows", file)
    assert {e["ph"] for e in events} == {"C", "i", "b", "e"}


def test_without_time_and_from_a_pipe(lapse, tmp_path):
    trace = make_trace()
    trace["traceEvents"] += [{"ph": "i", "name": "no time", "pid": 1, "tid": 1}]
    file = write_trace(tmp_path / "in.json", trace)
    events, row = convert(lapse, file)
    assert [e["name"] for e in events if e["ph"] == "i"] == ["no time"] and row["not_held"] == 0
    _, row = convert(lapse, "--steps", "2", file)
    assert row["others"] == 0 and row["not_held"] == 1
    with open(file, "rb") as stdin:
        done = lapse("trace", "convert", "--json", "-o", tmp_path / "out.json", "-", stdin=stdin)
    assert json.loads(done.stdout)["sheets"]["written"][0]["not_held"] == 1
    assert "a pipe is read once" in done.stdout


def test_merge_keeps_them_apart(lapse, tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    for rank in (0, 1):
        write_trace(job / f"rank{rank}.json", with_others(rank))
    out = tmp_path / "job.json"
    done = lapse("trace", "merge", "--json", "-o", out, job)
    assert done.returncode == 0, done.stderr
    events = without_launches(kept(out))
    want = without_launches(e for e in with_others()["traceEvents"] if e["ph"] not in "XM")
    assert len(events) == 2 * len(want) == json.loads(done.stdout)["sheets"]["written"][0]["others"]
    flows = [e for e in events if e.get("cat") == "fwdbwd"]
    assert len({(e["id"], e["ph"]) for e in flows}) == len(flows)
    assert {e["pid"] for e in events if e["ph"] == "C"} == {100, 10000100}
    assert {e["pid"] for e in events if e["ph"] == "b"} == {"rank 0 loader", "rank 1 loader"}
    assert {e["id"] for e in events if e["ph"] == "b"} == {"rank 0 0x1f", "rank 1 0x1f"}
    assert lapse("trace", "validate", out).returncode in (0, 1)


def test_a_broken_event_does_not_cost_the_others(lapse, tmp_path):
    trace = with_others()
    text = json.dumps(trace).replace('"name": "mark"', '"name": "ma"rk"', 1)
    (tmp_path / "in.json").write_text(text)
    events, row = convert(lapse, tmp_path / "in.json")
    assert row["others"] == 20 and sum(e["name"] == "ma\"rk" for e in events) == 1


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", ["hta-amd-mi250/rank0.pt.trace.json.gz", "hta-diff-test/rank1.pt.trace.json.gz",
                                  "kineto-resnet50-nw0/rank0.pt.trace.json.gz"])
def test_of_real_ones(lapse, tmp_path, name):
    """Every event of the file that is neither a row nor an arrow to the device is there."""
    file = DATA / "traces" / name
    if not file.exists():
        pytest.skip(f"{file} is not here: it is not part of the project")
    launches = {"ac2g", "async_cpu_to_gpu", "async", "async_gpu"}
    want = [e for e in kept(file) if e.get("cat") not in launches]
    events, row = convert(lapse, file)
    assert [e for e in events if e.get("cat") not in launches] == want
    assert (row["others"], row["not_held"]) == (len(want), 0)
