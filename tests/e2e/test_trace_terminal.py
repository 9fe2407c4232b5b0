# SPDX-License-Identifier: Apache-2.0
"""lapse trace on a terminal: nothing is wider than it, the bar adds up, progress comes
after half a second and goes without a trace, Ctrl-C leaves nothing behind."""
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest

from screen import Screen
from trace_maker import make_trace, write_trace

ESCAPES = re.compile(r"\x1b\[[0-9;]*[mK]")


@pytest.fixture
def one(tmp_path):
    trace = make_trace()
    for event in trace["traceEvents"]:
        if event["name"] == "sm90_gemm":
            event["name"] = "void_at_native_" + 40 * "templates<" + 40 * ">"
    return write_trace(tmp_path / "one.json", trace)


def terminal(columns):
    primary, secondary = pty.openpty()
    ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return primary, secondary


def read_all(fd):
    data = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            piece = b""
        if not piece:
            os.close(fd)
            return data
        data += piece


def show(lapse, columns, *arguments, **env):
    """What a command prints on a terminal, with its escapes."""
    primary, secondary = terminal(columns)
    child = lapse.start("trace", *arguments, stdout=secondary, text=False,
                        env={**lapse.env, "TERM": "xterm-256color", **env})
    os.close(secondary)
    text = read_all(primary).decode()
    assert child.wait() == 0, child.stderr.read()
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("sub", ["summary", "top", "temporal", "idle", "kernels", "launch", "gpu", "score", "ranks"])
def test_nothing_is_wider_than_the_terminal(lapse, one, columns, sub):
    for line in ESCAPES.sub("", show(lapse, columns, sub, one)).splitlines():
        assert len(line) <= columns, line


@pytest.mark.parametrize("columns, width", [(60, 56), (80, 72), (120, 72)])
def test_the_bar_adds_up(lapse, one, columns, width):
    lines = ESCAPES.sub("", show(lapse, columns, one, NO_COLOR="")).splitlines()
    bar = lines[next(i for i, line in enumerate(lines) if line.startswith("Where the time goes")) + 1]
    assert re.fullmatch(r"  [\u2588\u2592\u2591]+", bar) and len(bar.strip()) == width
    lines = show(lapse, columns, one).splitlines()
    bar = lines[next(i for i, line in enumerate(lines) if line.startswith("Where the time goes")) + 1]
    assert re.fullmatch(r"  [CMHNRDSLOP?]+", bar) and len(bar.strip()) == width
    legend = [line for line in lines if re.match(r"  [CMHNRDSLOP?]  \S", line)]
    assert {line[2] for line in legend} >= set(bar.strip())  # less than half a cell is not in the bar
    assert sum(round(float(re.search(r"(\d+\.\d) %", line)[1]) * 10) for line in legend) == 1000


def test_colours_only_where_wanted(lapse, one):
    assert "\x1b[" in show(lapse, 80, one, NO_COLOR="")
    assert "\x1b[" not in show(lapse, 80, one, NO_COLOR="1")
    assert "\x1b[" not in lapse("trace", one).stdout


class Slow:
    """A command that reads a trace from a pipe which the test feeds; stderr is a terminal."""

    def __init__(self, lapse, *arguments, **env):
        self.primary, secondary = terminal(80)
        self.child = lapse.start("trace", *arguments, "-", stdin=subprocess.PIPE, stderr=secondary,
                                 text=False, env={**lapse.env, "TERM": "xterm", **env})
        os.close(secondary)
        self.seen = b""

    def until(self, words):
        end = time.monotonic() + 20
        while words not in self.seen:
            assert time.monotonic() < end, self.seen
            self.seen += os.read(self.primary, 65536)

    def finish(self):
        self.seen += read_all(self.primary)
        return Screen(4, 80).feed(self.seen)


def test_progress_comes_and_goes(lapse, one):
    slow = Slow(lapse, "temporal")
    text = one.read_bytes()
    slow.child.stdin.write(text[:2000])
    slow.child.stdin.flush()
    slow.until(b"Reading")
    slow.child.stdin.write(text[2000:])
    slow.child.stdin.close()
    assert b"Time of the devices" in slow.child.stdout.read()
    assert slow.child.wait() == 0
    assert slow.finish().lines() == [""] * 4


def test_no_progress_when_quiet_or_dumb(lapse, one):
    for arguments, env in ((["--quiet"], {}), ([], {"TERM": "dumb"})):
        slow = Slow(lapse, "temporal", *arguments, **env)
        time.sleep(1)
        slow.child.stdin.write(one.read_bytes())
        slow.child.stdin.close()
        assert slow.child.stdout.read() and slow.child.wait() == 0
        slow.finish()
        assert slow.seen == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing(lapse, one, tmp_path, number):
    spill = tmp_path / "spill"
    spill.mkdir()
    slow = Slow(lapse, "convert", "--output", tmp_path / "new.json.gz", TMPDIR=str(spill))
    slow.child.stdin.write(one.read_bytes()[:2000])
    slow.child.stdin.flush()
    slow.until(b"Reading")
    slow.child.send_signal(number)
    assert slow.child.wait() == 128 + number
    assert slow.finish().lines() == [""] * 4
    assert os.listdir(spill) == [] and sorted(os.listdir(tmp_path)) == ["one.json", "spill"]
