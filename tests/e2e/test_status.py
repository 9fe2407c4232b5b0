# SPDX-License-Identifier: Apache-2.0
"""`lapse run --status`: the line at the bottom of the terminal, and that the
terminal is given back whenever somebody else has it."""
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from launcher_terminal import Terminal
from screen import Screen

# Prints at once and whenever it gets SIGUSR1; ends when the file named appears.
TALK = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"again\\n"))
for i in range(30):
    print("line", i, flush=True)
sys.stdout.write("no end of line: ")
sys.stdout.flush()
end = time.monotonic() + 40
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


# An escape sequence or a character of UTF-8 that is not whole, or nothing.
CUT_OFF = re.compile(rb"(?:\x1b(?:\[[0-9;?]*)?|[\xc0-\xff][\x80-\xbf]?|[\xf0-\xff][\x80-\xbf]{2}|)\Z")


class Seen:
    """A terminal with what it shows."""

    def __init__(self, terminal):
        self.terminal, self.screen, self.fed = terminal, Screen(), 0

    def now(self):
        """The screen; what a read has cut off in the middle of a sequence is left for later."""
        data = self.terminal.data
        whole = len(data) - len(CUT_OFF.search(data, self.fed)[0])
        self.screen.feed(data[self.fed:whole])
        self.fed = whole
        return self.screen

    def until(self, question, timeout=20):
        """Read on until the screen is as asked."""
        end = time.monotonic() + timeout
        while not question(self.now()):
            assert time.monotonic() < end, "\n".join(self.screen.lines())
            self.terminal._read(0.1)  # pylint: disable=protected-access
        return self.screen

    def resize(self, rows, columns):
        self.now().resize(rows, columns)
        self.terminal.resize(rows, columns)


@pytest.fixture(name="talk")
def talk_fixture(lapse):
    path = lapse.folder / "talk.py"
    path.write_text(TALK)
    lapse.env.update(TERM="xterm")
    lapse.stop = lapse.folder / "stop"
    return [sys.executable, str(path), str(lapse.stop)]


def run(lapse, *command, options=("--status",)):
    return Terminal([lapse.program, "run", *options, "--", *command], lapse.env, lapse.folder)


def has_bar(screen):
    return ":0" in screen.line(screen.rows - 1)[:8] and screen.region == (0, screen.rows - 2)


def has_none(screen):
    return screen.region == (0, screen.rows - 1) and \
        not any("0:00:" in line for line in screen.lines())


def test_line_is_below_what_the_command_writes(lapse, talk):
    with run(lapse, *talk) as terminal:
        seen = Seen(terminal)
        screen = seen.until(lambda s: has_bar(s) and "mem " in s.line(23)
                            and s.line(22).startswith("no end"))
        # The command's lines scroll above it, and its cursor is where it left it.
        assert screen.line(22) == "no end of line:" and screen.line(21) == "line 29"
        assert screen.line(0) == "line 8"
        assert (screen.row, screen.column) == (22, len("no end of line: "))
        lapse.stop.touch()
        assert os.WEXITSTATUS(terminal.end(30)) == 0
        screen = seen.now()
    assert has_none(screen)
    text = "\n".join(screen.lines())
    assert "line 29\nno end of line:" in text and "exited 0 after" in text


def test_resize(lapse, talk):
    with run(lapse, *talk) as terminal:
        seen = Seen(terminal)
        seen.until(has_bar)
        seen.resize(12, 40)
        screen = seen.until(has_bar)
        assert len(screen.line(11)) < 40
        # Too small for it: everything is the command's.
        seen.resize(3, 40)
        seen.until(lambda s: s.region == (0, 2))
        seen.resize(24, 80)
        seen.until(has_bar)
        lapse.stop.touch()
        assert os.WEXITSTATUS(terminal.end(30)) == 0
        assert seen.now().region == (0, 23)


def test_stop_and_continue(lapse, talk):
    """The shell gets the terminal as it was; after fg the line is back, after bg not."""
    with Terminal(["bash", "--norc", "--noprofile", "-i"],
                  dict(lapse.env, PS1="SHELL> "), lapse.folder) as terminal:
        seen = Seen(terminal)
        terminal.expect("SHELL> ")
        terminal.send(" ".join([lapse.program, "run", "--status", "--", *talk]) + "\n")
        seen.until(has_bar)
        terminal.send(b"\x1a")
        screen = seen.until(lambda s: s.line(s.row).startswith("SHELL>"))
        assert has_none(screen)
        at = len(terminal.data)
        time.sleep(2.2)
        terminal.send("echo mine\n")
        terminal.expect("mine\r\n", since=at + len("echo mine"))
        assert has_none(seen.now())
        terminal.send("fg\n")
        seen.until(has_bar)
        terminal.send(b"\x1a")
        seen.until(lambda s: has_none(s) and s.line(s.row).startswith("SHELL>"))
        terminal.send("bg\n")
        at = len(terminal.data)
        time.sleep(2.2)
        terminal.send("echo back\n")
        terminal.expect("back\r\n", since=at + len("echo back"))
        assert has_none(seen.now())
        lapse.stop.touch()
        terminal.send("wait; exit\n")
        terminal.end(30)
        assert has_none(seen.now())


def test_line_is_gone_when_the_launcher_is_killed(lapse, talk):
    with run(lapse, *talk) as terminal:
        seen = Seen(terminal)
        seen.until(has_bar)
        child = int(subprocess.run(["pgrep", "-P", str(terminal.pid), "-f", "talk.py"],
                                   capture_output=True, text=True, check=True).stdout.split()[0])
        os.kill(terminal.pid, signal.SIGKILL)
        seen.until(has_none)
        os.kill(child, signal.SIGKILL)


def test_ctrl_c(lapse, talk):
    with run(lapse, *talk) as terminal:
        seen = Seen(terminal)
        seen.until(has_bar)
        terminal.send(b"\x03")
        status = terminal.end(30)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
        assert has_none(seen.now())


def test_program_that_reads_single_keys_is_left_alone(lapse):
    """An editor or pager has the screen for itself."""
    path = lapse.folder / "raw.py"
    path.write_text("import sys, time, tty\ntty.setraw(0)\nsys.stdout.write('raw\\r\\n')\n"
                    "sys.stdout.flush()\ntime.sleep(3)\n")
    lapse.env.update(TERM="xterm")
    with run(lapse, sys.executable, str(path)) as terminal:
        at = terminal.expect("raw\r\n")
        at = len(terminal.data)
        terminal.end(30)
    # In 3 s it would have been drawn three times; once it may be cleared at the end.
    assert terminal.data[at:].count(b"\x1b[2K") <= 1


@pytest.mark.parametrize("how", ["dumb", "quiet", "pipe", "off"])
def test_no_line(lapse, talk, how):
    lapse.stop.touch()
    options = ["--status"]
    argv = [lapse.program, "run", "--", "sleep", "1.5"]
    if how == "dumb":
        lapse.env["TERM"] = "dumb"
    elif how == "quiet":
        options.append("--quiet")
    elif how == "off":
        options = []
    argv[2:2] = options
    if how == "pipe":
        argv = ["sh", "-c", " ".join(argv) + " 2>err"]
    del talk
    with Terminal(argv, lapse.env, lapse.folder) as terminal:
        assert os.WEXITSTATUS(terminal.end(30)) == 0
    assert b"\x1b7" not in terminal.data and b"\x1b[1;" not in terminal.data
    if how == "pipe":
        assert (lapse.folder / "err").read_bytes() == b""


def test_progress(lapse, charlm):
    """Step, loss, speed and what is left; total steps by option, by configuration."""
    lapse.env.update(TERM="xterm")
    (lapse.folder / "c.yaml").write_text("run: {status: true, total_steps: 100000}\n")
    with run(lapse, charlm, "--seconds", "50", "--threads", "1",
             options=["--config", "c.yaml"]) as terminal:
        seen = Seen(terminal)
        seen.resize(24, 120)
        screen = seen.until(lambda s: all(word in s.line(23).split() for word in (
            "step", "loss", "steps/s", "ETA", "mem")), 40)
        words = screen.line(23).split()
        step, total = words[words.index("step") + 1].split("/")
        assert int(step) > 0 and total == "100000"
        assert 0 < float(words[words.index("loss") + 1]) < 10
        assert float(words[words.index("steps/s") - 1]) > 0
        assert "mem" in words
        terminal.send(b"\x03")
        terminal.end(30)


def test_a_store_that_hangs_holds_nobody(lapse, talk):
    """Whoever opens a pipe waits for its other end: the line's clock goes on, so does all else."""
    lapse.env["LAPSE_AGENT"] = "/bin/false"  # so there is no store but the one made here
    with run(lapse, *talk) as terminal:
        seen = Seen(terminal)
        seen.until(lambda s: has_bar(s) and "waiting for data" in s.line(23))
        os.mkfifo(lapse.runs / lapse.run_ids()[0] / "host.db")
        first = seen.until(has_bar).line(23).split()[0]
        clocks = {first}
        end = time.monotonic() + 30
        while len(clocks) < 5 and time.monotonic() < end:
            clocks.add(seen.now().line(23).split()[0])
            terminal._read(0.2)  # pylint: disable=protected-access
        assert len(clocks) == 5
        lapse.stop.touch()
        assert os.WEXITSTATUS(terminal.end(30)) == 0
        assert has_none(seen.now())
