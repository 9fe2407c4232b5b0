# SPDX-License-Identifier: Apache-2.0
"""lapse trace with files and options that somebody made up to break it: what is written
where there is no file, numbers that no sum holds, values that are no JSON."""
import json
import os
import signal
import stat
import subprocess
import threading
import time

import pytest

from trace_maker import make_trace, row, write_trace

HUGE = 2**63 - 1
READERS = ["summary", "top", "steps", "temporal", "idle", "kernels", "overlap", "launch", "queue", "bandwidth",
           "annotations", "tables", "gpu", "memory", "critical-path", "sequences", "stacks", "ranks", "score"]
# Subcommands that write through the two ways there are, and what they read.
WRITERS = [["summary"], ["convert"], ["merge"], ["repair"]]


@pytest.fixture
def one(tmp_path):
    return write_trace(tmp_path / "one.json", make_trace())


# ---- where to write ----------------------------------------------------------------------


@pytest.mark.parametrize("command", WRITERS, ids=lambda c: c[0])
def test_a_pipe_is_written_to_not_replaced(lapse, one, tmp_path, command):
    # A device likewise: only root can make one, and no test should risk /dev/null.
    fifo, got = tmp_path / "fifo", bytearray()
    os.mkfifo(fifo)
    # Opened for both, so that nobody waits for ever for the other end.
    fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    os.set_blocking(fd, True)

    def drain():
        while not got.endswith(b"\n end"):
            got.extend(os.read(fd, 65536))

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    done = lapse("trace", *command, "-o", fifo, one)
    os.write(fd, b"\n end")
    thread.join(30)
    os.close(fd)
    assert done.returncode == 0, done.stderr
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode) and len(got) > 500
    assert [p.name for p in tmp_path.iterdir() if "tmp" in p.name] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("command", WRITERS, ids=lambda c: c[0])
def test_a_device_is_written_to_not_replaced(lapse, one, tmp_path, command):
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        os.close(os.open(null, os.O_WRONLY))
    except PermissionError:
        pytest.skip("no devices may be made or opened here")
    assert lapse("trace", *command, "-o", null, one).returncode == 0
    done = lapse("trace", *command, "-o", full, one)
    assert done.returncode == 1 and "No space left" in done.stderr
    assert stat.S_ISCHR(os.lstat(null).st_mode) and stat.S_ISCHR(os.lstat(full).st_mode)


@pytest.mark.parametrize("command", WRITERS, ids=lambda c: c[0])
def test_a_symlink_stays(lapse, one, tmp_path, command):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    assert lapse("trace", *command, "-o", tmp_path / "link", one).returncode == 0
    assert (tmp_path / "link").is_symlink() and len((tmp_path / "target").read_text()) > 500


@pytest.mark.parametrize("command", WRITERS, ids=lambda c: c[0])
def test_no_name_and_a_folder(lapse, one, tmp_path, command):
    done = lapse("trace", *command, "-o", "", one)
    assert done.returncode == 1 and "without a name" in done.stderr
    done = lapse("trace", *command, "-o", tmp_path, one)
    assert done.returncode == 1 and "Is a directory" in done.stderr
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["one.json"]


# ---- numbers -----------------------------------------------------------------------------


def test_an_event_that_lasts_for_centuries_is_set_aside(lapse, tmp_path):
    plain = make_trace()
    trace = make_trace()
    trace["traceEvents"] += [row("cpu_op", "long", 5, HUGE // 1000, 100, 100) for _ in range(3)]
    for phase, ts in (("B", 10), ("E", 3 * 86400 * 10**6)):
        trace["traceEvents"].append({"ph": phase, "cat": "cpu_op", "name": "pair", "pid": 9, "tid": 9, "ts": ts})
    path = write_trace(tmp_path / "long.json", trace)
    document = lapse.json("trace", "top", path)
    [note] = [n for n in document["files"][0]["notes"] if n["kind"] == "far-time"]
    assert note["count"] == 4
    expected = lapse.json("trace", "top", write_trace(tmp_path / "plain.json", plain))
    assert document["sheets"] == expected["sheets"]


def test_memory_events_at_both_ends_of_time(lapse, tmp_path):
    trace = make_trace()
    for i in range(64):
        trace["traceEvents"].append(
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 100,
             "ts": (-1) ** i * (2**63 // 1000 - 64 + i), "args": {"Device Type": 1, "Device Id": 0, "Addr": i,
                                                                  "Bytes": 512, "Total Allocated": 512 * (i + 1)}})
    sheets = lapse.json("trace", "memory", write_trace(tmp_path / "times.json", trace))["sheets"]
    assert json.dumps(sheets).count("32768") >= 1


def test_memory_that_no_machine_has_is_missing(lapse, tmp_path):
    trace = make_trace()
    for i, size in enumerate([4096, HUGE, HUGE, -HUGE, -(2**63), -4096]):
        trace["traceEvents"].append(
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 100, "ts": 200 + i,
             "args": {"Device Type": 1, "Device Id": 0, "Addr": 7 + i % 5, "Bytes": size,
                      "Total Allocated": max(size, 0), "Total Reserved": 8192 if i in (0, 5) else HUGE}})
    path = write_trace(tmp_path / "memory.json", trace)
    document = lapse.json("trace", "memory", path)
    assert {n["kind"] for n in document["files"][0]["notes"]} >= {"bad-number"}
    assert "922337203685" not in json.dumps(document["sheets"])


@pytest.mark.parametrize("number", [HUGE, -(2**63), 2**64, 1e300])
def test_numbers_beyond_all_sums(lapse, tmp_path, number):
    trace = make_trace()
    for i in range(3):
        trace["traceEvents"] += [
            row("kernel", "k", 5 + i, number, 0, 7, device=0, stream=7, correlation=number, bytes=number,
                **{"External id": number, "grid": [number] * 3, "blocks per SM": number}),
            row("cuda_runtime", "cudaLaunchKernel", number, 1, number, number, correlation=number),
            row("user_annotation", f"ProfilerStep#{number:.0f}", 40000, 5, 100, 100)]
    path = write_trace(tmp_path / "huge.json", trace)
    for command in READERS:
        done = lapse("trace", command, "--json", path)
        assert done.returncode == 0, (command, done.stderr)
        json.loads(done.stdout)
    merged = tmp_path / "merged.json"
    assert lapse("trace", "merge", "-o", merged, path, path).returncode == 0
    json.loads(merged.read_bytes())


# ---- what is written is JSON ---------------------------------------------------------------


@pytest.mark.parametrize("value", [b"[E17]", b"[1, \xa0141]", b"[1 2]", b'["a]', b"[NaN]", b'{"a":1,}', b"[01]"])
def test_a_new_file_is_json_whatever_the_arguments_are(lapse, tmp_path, value):
    text = json.dumps(make_trace(steps=1)).encode()
    event = b'{"ph":"X","cat":"cpu_op","name":"odd","pid":100,"tid":100,"ts":1,"dur":1,"args":{"Input Dims":%s}},'
    path, new = tmp_path / "odd.json", tmp_path / "new.json"
    path.write_bytes(text.replace(b'"traceEvents": [', b'"traceEvents": [' + event % value, 1))
    for command in ("convert", "merge", "repair"):
        done = lapse("trace", command, "-o", new, path)
        assert done.returncode == 0, done.stderr
        names = [e.get("name") for e in json.loads(new.read_bytes())["traceEvents"]]
        assert "aten::mm" in names


@pytest.mark.timeout(150)
def test_no_folder_for_what_does_not_fit(lapse, tmp_path):
    # Rows of which none is as the one before: they do not pack.
    rows = [row("cpu_op", f"n{i % 99}", i * 7919 % 10**9, i * 104729 % 10**6, 1, i % 50, **{"External id": i * 31337})
            for i in range(400000)]
    path = write_trace(tmp_path / "large.json", {"traceEvents": rows})
    done = lapse("trace", "top", "--memory", "1M", path, env=dict(lapse.env, TMPDIR=str(tmp_path / "none")))
    assert done.returncode == 1 and "large.json" in done.stderr
    assert f"temporary file in {tmp_path / 'none'}" in done.stderr


# ---- options and ends ----------------------------------------------------------------------


def test_lists_without_a_word(lapse, one):
    for text in ("", ",", " , "):
        done = lapse("trace", "top", "--by", text, one)
        assert done.returncode == 2 and "--by" in done.stderr


def test_an_unknown_sheet_names_each_once(lapse, one):
    done = lapse("trace", "summary", "--sheet", "nosuch", one)
    names = done.stderr.split("there are ")[1].strip().split(", ")
    assert done.returncode == 2 and len(names) == len(set(names)) and "steps" in names


def test_an_interrupted_command_leaves_nothing(lapse, one, tmp_path):
    """The text comes through a pipe that stays open: the command is in the middle of it."""
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    out.mkdir()
    temporary.mkdir()
    text = one.read_bytes()
    for command in WRITERS:
        for number in (signal.SIGINT, signal.SIGTERM):
            process = lapse.start("trace", *command, "-o", out / "x.json", "-", stdin=subprocess.PIPE, text=False,
                                  env=dict(lapse.env, TMPDIR=str(temporary)))
            process.stdin.write(text[:len(text) // 2])
            process.stdin.flush()
            time.sleep(0.1)
            process.send_signal(number)
            process.communicate(timeout=20)
            assert process.returncode in (-number, 128 + number)
            assert list(out.iterdir()) == [] and list(temporary.iterdir()) == []
