# SPDX-License-Identifier: Apache-2.0
"""`lapse run` on a terminal, and --tee-stderr: the same dialogue with and
without lapse, keys that make signals, job control."""
import os
import re
import signal
import subprocess
import time

import pytest

# pylint: disable=redefined-outer-name # pytest fixtures
from launcher_harness import (
    COUNTER, LIMIT, PYTHON, launcher, process_state, script, unescape, wait_for)
from launcher_terminal import Terminal


# ---- terminal ------------------------------------------------------------------


def dialogue(argv, env, cwd, lines):
    with Terminal(argv, env, cwd) as terminal:
        at = 0
        for prompt, line in lines:
            at = terminal.expect(prompt, since=at)
            terminal.send(line)
        status = terminal.end()
        return terminal.data, status


def test_interactive_python_is_byte_identical(launcher):
    env = dict(launcher.env, TERM="xterm", PYTHONSTARTUP="", PYTHONHISTFILE="/dev/null")
    python = [PYTHON, "-q", "-I"]
    lines = [(">>> ", "1+1\n"), (">>> ", "import os; os.isatty(0), os.isatty(1), os.isatty(2)\n"),
             (">>> ", "import sys; sys.stderr.write('e\\n')\n"),
             (">>> ", "os.get_terminal_size(2), os.tcgetpgrp(0) == os.getpgrp()\n"),
             (">>> ", b"x = 'typ\x7fpo'\n"), (">>> ", "raise SystemExit(6)\n")]
    bare = dialogue(python, env, launcher.folder, lines)
    ours = dialogue(launcher.argv(*python, options=["--quiet"]), env, launcher.folder, lines)
    assert b"(True, True, True)" in bare[0] and b"columns=80" in bare[0]
    assert os.WEXITSTATUS(bare[1]) == 6
    assert ours == bare


def test_lines_on_a_terminal(launcher):
    with Terminal(launcher.argv("echo", "hello"), launcher.env, launcher.folder) as terminal:
        assert os.WEXITSTATUS(terminal.end()) == 0
    lines = terminal.data.decode().replace("\r\n", "\n").split("\n")
    run = next(iter(launcher.files("run")))
    assert lines[0] == f"lapse: recording to runs/{run} (lapse show {run})"
    assert "hello" in lines
    # Without --quiet, but stderr elsewhere: nothing.
    with Terminal(["sh", "-c", f"{launcher.program} run -- echo hello 2>/dev/null"],
                  launcher.env, launcher.folder) as terminal:
        terminal.end()
    assert terminal.data == b"hello\r\n"


def test_missing_agent_is_said(launcher):
    env = dict(launcher.env, LAPSE_AGENT="/nonexistent/agent")
    with Terminal(launcher.argv("echo", "hello"), env, launcher.folder) as terminal:
        assert os.WEXITSTATUS(terminal.end()) == 0
    assert b"no agent can be started (/nonexistent/agent: No such file or directory)" \
        in terminal.data
    assert b"lapse recover" in terminal.data and b"hello\r\n" in terminal.data


def count_line(launcher, *options):
    program = script(launcher.folder, "count.py", COUNTER)
    return launcher.argv(PYTHON, program, launcher.folder / "stop", int(signal.SIGINT),
                         options=["--quiet", *options])


@pytest.mark.parametrize("options", [[], ["--tee-stderr"]])
def test_one_ctrl_c_is_one_sigint(launcher, options):
    with Terminal(count_line(launcher, *options), launcher.env, launcher.folder) as terminal:
        at = terminal.expect("ready")
        for _ in range(2):
            terminal.send(b"\x03")
            at = terminal.expect("got SIGINT", since=at)
            time.sleep(0.3)
        (launcher.folder / "stop").touch()
        terminal.expect("[('SIGINT', 2)]")
        assert os.WEXITSTATUS(terminal.end()) == 0


def test_ctrl_c_kills_as_without(launcher):
    with Terminal(launcher.argv("sh", "-c", "echo ready; exec sleep 20", options=["--quiet"]),
                  launcher.env, launcher.folder) as terminal:
        terminal.expect("ready")
        terminal.send(b"\x03")
        status = terminal.end()
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT


def test_ctrl_c_reaches_a_command_in_another_group(launcher):
    """`timeout` makes a group of its own unless it is the leader."""
    with Terminal(launcher.argv("timeout", "100", "sh", "-c", "echo ready; exec sleep 100",
                                options=["--quiet"]),
                  launcher.env, launcher.folder) as terminal:
        terminal.expect("ready")
        terminal.send(b"\x03")
        assert terminal.end() is not None


SHELL = ["bash", "--norc", "--noprofile", "-i"]


def shell_env(launcher):
    return dict(launcher.env, PS1="ready> ", TERM="dumb", HISTFILE="/dev/null",
                BASH_SILENCE_DEPRECATION_WARNING="1")


def stop_and_go(launcher, command, word):
    """Ctrl-Z, fg, Ctrl-Z, bg, fg in an interactive bash; the SIGCONTs of the command."""
    (launcher.folder / "stop").unlink(missing_ok=True)
    with Terminal(SHELL, shell_env(launcher), launcher.folder) as terminal:
        at = terminal.expect("ready> ")
        terminal.send(command + "\n")
        at = terminal.expect(b"\nready ", since=at)
        pid, end = None, at
        while not pid:  # bash may redraw its long line with carriage returns
            end = terminal.expect(b"\r", since=end)
            pid = re.search(rb"(\d+)\r", terminal.data[at:end])
        pid = int(pid[1])
        terminal.send(b"\x1a")
        at = terminal.expect("Stopped", since=at)
        at = terminal.expect("ready> ", since=at)
        assert wait_for(lambda: process_state(pid) == "T")
        terminal.send("jobs -p | wc -l\n")
        at = terminal.expect(b"\n1\r\n", since=at)
        terminal.send("fg\n")
        at = terminal.expect(word, since=at)
        # A stop would take back a SIGCONT that is not yet delivered.
        at = terminal.expect("got SIGCONT", since=at)
        terminal.send(b"\x1a")
        at = terminal.expect("Stopped", since=at)
        at = terminal.expect("ready> ", since=at)
        terminal.send("bg\n")
        at = terminal.expect("&", since=at)
        at = terminal.expect("got SIGCONT", since=at)
        time.sleep(0.3)
        terminal.send("fg\n")
        at = terminal.expect(word, since=at)
        time.sleep(0.3)
        (launcher.folder / "stop").touch()
        at = terminal.expect("[('SIGCONT', ", since=at)
        end = terminal.expect(b")", since=at)
        count = int(terminal.data[at:end - 1])
        terminal.send("echo status $?\n")
        terminal.expect("status 0", since=at)
        terminal.send("exit\n")
        assert os.WEXITSTATUS(terminal.end()) == 0
    return count


def test_ctrl_z_and_fg(launcher):
    """The same dialogue without and with lapse, and as many SIGCONTs."""
    command = f"{PYTHON} {script(launcher.folder, 'count.py', COUNTER)} {launcher.folder}/stop " \
              f"{int(signal.SIGCONT)}"
    bare = stop_and_go(launcher, command, "count.py")
    ours = stop_and_go(launcher, f"{launcher.program} run --quiet -- {command}", "run --quiet")
    assert bare >= 2
    assert ours == bare


def test_nested_interactive_shell(launcher):
    """A shell under lapse makes groups of its own and takes the terminal."""
    with Terminal(launcher.argv(*SHELL, options=["--quiet"]), shell_env(launcher),
                  launcher.folder) as terminal:
        at = terminal.expect("ready> ")
        terminal.send("sh -c 'echo be''gun; exec sleep 100'\n")
        at = terminal.expect("begun", since=at)
        terminal.send(b"\x03")
        at = terminal.expect("ready> ", since=at)
        terminal.send("echo status $?; exit 4\n")
        terminal.expect("status 130", since=at)
        assert os.WEXITSTATUS(terminal.end()) == 4


# ---- --tee-stderr ----------------------------------------------------------------


def test_tee_copies_and_keeps_the_end(launcher):
    program = "import sys; e = sys.stderr.buffer; " \
              "[e.write(b'%06d \\x00\\xff%%\\n' % i) for i in range(20000)]; print('out')"
    bare = launcher.bare(PYTHON, "-c", program)
    ours = launcher.run(PYTHON, "-c", program, options=["--tee-stderr"])
    assert len(bare.stderr) > 200000
    assert (ours.stdout, ours.stderr, ours.returncode) == (bare.stdout, bare.stderr, 0)
    path = next((launcher.rendezvous / "runs").glob("*.outcome"))
    tail = re.search(rb"\nstderr_tail=(.*)\nend\n$", path.read_bytes(), re.S)[1]
    tail = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), tail)
    assert tail == bare.stderr[-65536:]


def test_tee_short(launcher):
    done = launcher.run("sh", "-c", "echo oops >&2; exit 3", options=["--tee-stderr"])
    assert (done.stderr, done.returncode) == (b"oops\n", 3)
    assert unescape(launcher.outcome()["stderr_tail"]) == b"oops\n"


def test_tee_and_a_process_left_behind(launcher):
    """It holds the pipe: the launcher ends at once, and its words still come."""
    gate = launcher.folder / "gate"
    text = f"echo first >&2; (while [ ! -e {gate} ]; do sleep 0.05; done; echo later >&2) & exit 3"
    with launcher.start("sh", "-c", text, options=["--tee-stderr"], stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE) as child:
        assert child.wait(LIMIT) == 3
        assert unescape(launcher.outcome()["stderr_tail"]) == b"first\n"
        gate.touch()
        assert child.stderr.read() == b"first\nlater\n"


def test_tee_reader_that_goes_away(launcher):
    """The command meets the broken pipe itself."""
    program = "import sys, time\ntry:\n for i in range(100000): sys.stderr.write('x' * 99 + '\\n')" \
              "\nexcept BrokenPipeError: sys.exit(11)\n"
    with launcher.start(PYTHON, "-c", program, options=["--tee-stderr"], stderr=subprocess.PIPE,
                        stdout=subprocess.DEVNULL) as child:
        child.stderr.read(10)
        child.stderr.close()
        assert child.wait(LIMIT) in (11, 120)


def test_tee_slow_reader_does_not_hold_the_launcher(launcher):
    with launcher.start("sh", "-c", "head -c 100000 /dev/zero >&2", options=["--tee-stderr"],
                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        assert child.wait(LIMIT) == 0
        assert child.stderr.read() == bytes(100000)


def test_tee_on_a_terminal(launcher):
    text = "import os, sys; e = os.get_terminal_size(2); " \
           "sys.stderr.write(f'{os.isatty(2)} {e.columns}x{e.lines}\\nnext\\n')"
    command = [PYTHON, "-c", text]
    with Terminal(command, launcher.env, launcher.folder) as terminal:
        terminal.end()
    with Terminal(launcher.argv(*command, options=["-q", "--tee-stderr"]), launcher.env,
                  launcher.folder) as ours:
        assert os.WEXITSTATUS(ours.end()) == 0
    assert terminal.data == b"True 80x24\r\nnext\r\n"
    assert ours.data == terminal.data
    assert unescape(launcher.outcome()["stderr_tail"]) == b"True 80x24\nnext\n"
