# SPDX-License-Identifier: Apache-2.0
"""`lapse top`: a frame as text, and on terminals: start, keys, sizes, leaving."""
import os
import shutil
import signal
import subprocess
import termios
import time

import pytest

from curses_screen import CursesScreen
from launcher_terminal import Terminal


@pytest.fixture
def run(lapse):
    """A finished run of 300 steps with two ranks and two GPUs."""
    lapse("simulate", "--steps", "300", "--ranks", "2", "--gpus", "2", "--name", "tiny", check=True)
    return lapse


class Top(Terminal):
    """`lapse top` on a terminal, and what the terminal shows."""

    def __init__(self, lapse, *arguments, rows=24, columns=80, **env):
        self.lapse, self.size = lapse, (rows, columns)
        environment = {**lapse.env, "TERM": "xterm-256color", **env}
        # A shell waits before it, so that the window has its size from the start.
        super().__init__(["sh", "-c", 'read -r _ && exec "$@"', "sh", lapse.program, "top", *arguments],
                         environment, lapse.folder)
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.fd)
        self.send("\n")
        self.from_here = self.expect("\n")

    def screen(self):
        return CursesScreen(*self.size).feed(self.data[self.from_here:])

    def shows(self, *texts, timeout=20):
        """Wait until all are on the screen; the screen."""
        end = time.monotonic() + timeout
        while True:
            screen = self.screen()
            lines = "\n".join(screen.lines())
            if all(text in lines for text in texts):
                return screen
            assert time.monotonic() < end, f"no {texts} in\n{lines}"
            assert self._read(0.2) is not False, f"it ended:\n{lines}\n{self.data[-300:]!r}"

    def is_restored(self):
        """Are screen, cursor and line settings as before?"""
        modes = self.screen().modes
        # Echo and line mode belong to the terminal, which outlives the program.
        after = termios.tcgetattr(self.fd)
        return (1049 not in modes and 1 not in modes and b"\x1b[?25h" in self.data[-400:]
                and after[:4] == self.before[:4])


def test_once(run):
    done = run("top", "--once")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
    assert "tiny  exited 0" in lines[0] and lines[0].endswith("no run is live: the newest")
    assert lines[1].startswith("step 299/300 ") and " 100 %" in lines[1]
    assert lines[2].startswith("a step ") and "forward" in lines[2] and "backward" in lines[2]
    for text in ("1 Training", "2 GPUs", "3 Machine", "4 Processes", "5 Alerts and events",
                 "trainer           1", "checkpoint-299.pt", "GiB"):
        assert text in done.stdout, text
    assert any("\u2800" < c <= "\u28ff" for c in done.stdout)  # braille
    # As wide as is said; the run that is said.
    run.env["COLUMNS"] = "150"
    done = run("top", "--once", "--filter", "grad*", "last")
    assert 120 < max(map(len, done.stdout.splitlines())) <= 150
    assert "grad_norm" in done.stdout and "loss  2 ranks" not in done.stdout
    assert "no run is live" not in done.stdout


def test_once_in_plain_ascii(run):
    run.env["LC_ALL"] = "C"
    done = run("top", "--once")
    assert done.returncode == 0 and done.stdout.isascii()
    assert "1 Training" in done.stdout and "'" in done.stdout


def test_not_on_a_terminal_is_once(run):
    assert run("top").stdout == run("top", "--once").stdout


def test_wrong_calls(lapse):
    done = lapse("top", "--once")
    assert done.returncode == 1 and done.stderr.startswith("lapse top: ")
    lapse("simulate", "--steps", "10", check=True)
    assert lapse("top", "nothing-like-it").returncode == 1
    assert lapse("top", "a", "b").returncode == 2
    assert lapse("top", "--interval", "1ms").returncode == 2


def test_hostile_name(lapse):
    lapse("simulate", "--steps", "50", "--name", "\x1b]0;owned\x07\x1b[2Jevil\u202e", check=True)
    done = lapse("top", "--once")
    assert "evil" in done.stdout and not any(c in done.stdout for c in "\x1b\x07\u202e")


def test_live_run_comes_first(lapse, wait_for):
    lapse("simulate", "--steps", "50", "--name", "old", check=True)
    live = lapse.start("simulate", "--live", "--rate", "20", "--steps", "100000", "--name", "lives")
    try:
        assert wait_for(lambda: "lives  running" in lapse("top", "--once").stdout, 30)
        with Top(lapse, "--interval", "100ms") as top:
            top.shows("lives  running", "1 Training", "loss")
            first = top.screen().line(1)
            # What is recorded meanwhile is shown.
            end = time.monotonic() + 20
            while top.screen().line(1) == first:
                assert time.monotonic() < end
                top._read(0.2)
            lapse("simulate", "--steps", "50", "--name", "newer", check=True)
            assert "lives  running" in lapse("top", "--once").stdout
            live.terminate()
            live.wait()
            # It ends, and is still looked at.
            top.shows("lives  killed SIGTERM")
            top.send("q")
            assert os.WEXITSTATUS(top.end()) == 0
    finally:
        live.kill()
        live.wait()


def test_keys(run):
    with Top(run, rows=30, columns=100) as top:
        top.shows("1 Training", "loss  2 ranks", "whole run")
        assert top.screen().modes >= {1049}
        top.send("/grad")
        top.shows("filter grad", "/grad", "grad_norm")
        top.send("\r")
        screen = top.shows("filter grad", "q quit")
        assert not any("val/loss" in line for line in screen.lines())
        top.send("\x1b")
        top.shows("val/loss")
        top.send("+")
        top.shows("7 days")
        top.send("el")
        top.shows("smoothed 0.6", ", log")
        top.send("5\r")  # alone
        screen = top.shows("5 Alerts and events", "checkpoint-299.pt", "this run is made up")
        assert not any("1 Training" in line for line in screen.lines())
        top.send("?")
        top.shows("Keys (any key: back)", "leave")
        top.send("x")
        top.send("1\x1b[Z")  # backward tab
        top.send(" ")
        top.shows("PAUSED")
        top.send("q")
        assert os.WEXITSTATUS(top.end()) == 0
        assert top.is_restored()


CLEAR = {"xterm-256color": b"\x1b[H\x1b[2J", "xterm": b"\x1b[H\x1b[2J", "screen": b"\x1b[H\x1b[J"}


@pytest.mark.parametrize("term", CLEAR)
def test_sizes(run, term):
    with Top(run, TERM=term, NO_COLOR="") as top:
        top.shows("1 Training", "q quit")
        for rows, columns in ((50, 160), (10, 40), (3, 9), (1, 1), (24, 80)):
            before = len(top.data)
            top.resize(rows, columns)
            # It is cleared and drawn whole.
            top.size, top.from_here = (rows, columns), top.expect(CLEAR[term], since=before)
            if rows > 3:
                top.shows("1 Training", "q quit")
        top.send("q")
        assert os.WEXITSTATUS(top.end()) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_signals_leave_the_terminal_as_it_was(run, number):
    with Top(run) as top:
        top.shows("q quit")
        os.kill(top.pid, number)
        status = top.end()
        if number == signal.SIGINT:
            assert os.WEXITSTATUS(status) == 0 and not os.WIFSIGNALED(status)
        else:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == number
        assert top.is_restored()


def test_interrupt_by_key(run):
    with Top(run) as top:
        top.shows("q quit")
        top.send("\x03")
        assert os.WEXITSTATUS(top.end()) == 0
        assert top.is_restored()


def test_terminals_that_cannot(run):
    with Top(run, TERM="dumb") as top:
        assert os.WEXITSTATUS(top.end()) == 0
        assert b"1 Training" in top.data and b"\x1b" not in top.data
    with Top(run, TERM="no-such-terminal") as top:
        assert os.WEXITSTATUS(top.end()) == 1
        assert b'does not know the terminal "no-such-terminal"' in top.data
        assert top.before[:4] == termios.tcgetattr(top.fd)[:4]


def test_without_ncurses(run, tmp_path):
    # A file that is no library is found first.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libncursesw.so.6").write_text("none")
    with Top(run, LD_LIBRARY_PATH=str(tmp_path / "lib")) as top:
        assert os.WEXITSTATUS(top.end()) == 1
        assert b"libncursesw.so.6 is not here: install it" in top.data
    assert run("top", "--once", env={**run.env, "LD_LIBRARY_PATH": str(tmp_path / "lib")}).returncode == 0


@pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux here")
def test_in_tmux(run, tmp_path):
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    environment = {**run.env, "SHELL": "/bin/sh"}
    try:
        subprocess.run([*tmux, "-u", "new-session", "-d", "-x", "120", "-y", "40",
                        f"{run.program} top; echo status=$?; sleep 100"], env=environment, check=True)

        def shown():
            return subprocess.run([*tmux, "capture-pane", "-p"], env=environment, stdout=subprocess.PIPE,
                                  text=True, check=True).stdout

        def wait(*texts):
            end = time.monotonic() + 20
            while not all(text in shown() for text in texts):
                assert time.monotonic() < end, shown()
                time.sleep(0.1)

        wait("1 Training", "2 GPUs", "loss")
        subprocess.run([*tmux, "send-keys", "q"], env=environment, check=True)
        wait("status=0")
        assert "1 Training" not in shown()
    finally:
        subprocess.run([*tmux, "kill-server"], env=environment, check=False)
