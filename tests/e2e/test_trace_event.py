# SPDX-License-Identifier: Apache-2.0
"""lapse trace timeline --event: all about one event, from events written by hand; docs/http.md,
"timeline", says what is expected."""
import json

import pytest

# Places are those of traceEvents; one event a line, as text: keys twice and large numbers are kept.
EVENTS = [
    '{"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}}',
    '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 10, "dur": 100, "args": '
    '{"Sequence number": 5, "big": 12345678901234567890, "a": "x\\u00e9\\n", "a": [1, {"b": null}], "Fwd thread id": 0}}',
    '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 20, "dur": 8, '
    '"args": {"correlation": 3}}',
    '{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40.5, "dur": 30, '
    '"args": {"stream": 7, "device": 0, "correlation": 3}}',
    '{"ph": "X", "cat": "cpu_op", "name": "MmBackward0", "pid": 7, "tid": 8, "ts": 300, "dur": 50, '
    '"args": {"Sequence number": 5, "Fwd thread id": 1}}',
]


def write(path, events):
    path.write_text('{"traceEvents": [\n' + ",\n".join(events) + "\n]}\n")
    return path


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "hand.trace.json", EVENTS)


def event(lapse, n, *files, **more):
    done = lapse("trace", "timeline", "--event", n, *files, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_operator(lapse, trace):
    assert event(lapse, 1, trace) == {
        "event": 1, "name": "aten::mm", "category": "operator", "process": "python 7", "thread": "thread 7",
        "kind": "host", "start_ms": 0, "dur_ns": 100000, "self_ns": 92000, "cat": "cpu_op",
        "args": [
            {"key": "Sequence number", "value": "5"}, {"key": "big", "value": "12345678901234567890"},
            {"key": "a", "value": "x\u00e9\n"}, {"key": "a", "value": '[1, {"b": null}]'},
            {"key": "Fwd thread id", "value": "0"}],
        "args_left_out": 0,
        "links": [{"role": "backward", "event": 4, "name": "MmBackward0", "category": "operator",
                   "process": "python 7", "thread": "thread 8", "kind": "host", "start_ms": 0.29, "dur_ns": 50000}],
        "links_left_out": 0}


def test_arrows_lead_both_ways(lapse, trace):
    for one, role, other in ((2, "work", 3), (3, "launch", 2), (4, "forward", 1), (1, "backward", 4)):
        [link] = event(lapse, one, trace)["links"]
        assert (link["role"], link["event"]) == (role, other)
    assert event(lapse, 3, trace)["start_ms"] == 0.0305


def test_written_to_a_file(lapse, trace, tmp_path):
    done = lapse("trace", "timeline", "--event", 2, "-o", tmp_path / "one.json", trace)
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "one.json").read_text()) == event(lapse, 2, trace)


def test_of_a_pipe(lapse, trace):
    """It cannot be read again: what the model holds is told."""
    one = event(lapse, 1, "-", input=trace.read_text())
    assert (one["name"], one["self_ns"]) == ("aten::mm", 92000)
    assert {"key": "Sequence number", "value": "5"} in one["args"]
    assert not any(a["key"] == "big" for a in one["args"])


def test_long_texts_are_cut(lapse, tmp_path):
    """At 16 KiB and 512 bytes, between characters and not within an escape."""
    args = {"k" * 600: 1, "plain": "e" * 20000, "two": "\u00e9" * 10000, "list": list(range(10000))}
    head = '{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": '
    escapes = '{"esc": "' + "\\u00e9" * 5000 + '"}}'
    trace = write(tmp_path / "long.json", [head + json.dumps(args, ensure_ascii=False) + "}", head + escapes])
    key, plain, two, numbers = event(lapse, 0, trace)["args"]
    assert key == {"key": "k" * 512, "value": "1"}
    assert plain == {"key": "plain", "value": "e" * 16384, "bytes": 20000}
    assert two == {"key": "two", "value": "\u00e9" * 8192, "bytes": 20000}
    whole = json.dumps(args["list"])
    assert numbers == {"key": "list", "value": whole[:16384], "bytes": len(whole)}
    [escaped] = event(lapse, 1, trace)["args"]
    assert escaped == {"key": "esc", "value": "\u00e9" * (16384 // 6), "bytes": 30000}


def test_many_arguments_are_counted(lapse, tmp_path):
    args = json.dumps({f"a{i}": i for i in range(250)})
    row = f'{{"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {args}}}'
    one = event(lapse, 0, write(tmp_path / "many.json", [row]))
    assert [a["key"] for a in one["args"]] == [f"a{i}" for i in range(200)]
    assert one["args_left_out"] == 50 and one["cat"] is None


def test_what_is_not_there(lapse, trace):
    for n in (0, 5):
        done = lapse("trace", "timeline", "--event", n, trace)
        assert done.returncode == 1 and done.stdout == ""
        assert f"there is no event with a begin and an end at place {n}" in done.stderr


@pytest.mark.parametrize("more", [["--begin", "1ms"], ["--end", "1ms"], ["--steps", "1:2"], ["--events", 5000]])
def test_options_that_do_not_go_together(lapse, trace, more):
    done = lapse("trace", "timeline", "--event", 1, *more, trace)
    assert done.returncode == 2 and "--event does not go with" in done.stderr


def test_numbers_out_of_range(lapse, trace):
    for n in (-1, 1 << 32, "x"):
        assert lapse("trace", "timeline", "--event", n, trace).returncode == 2
