# SPDX-License-Identifier: Apache-2.0
"""`lapse run` changes nothing of the program that it runs: streams, status,
signals, terminal, descriptors; and the program runs whatever of lapse fails.

Most tests need no agent and start none (LAPSE_AGENT names a program that fails);
those that do need one use a small stand-in that is defined here. The expected
values come from the same program without lapse, or from POSIX."""
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from launcher_terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
LIMIT = 30  # seconds for one command


def find_program():
    build = os.environ.get("LAPSE_BUILD")
    named = os.environ.get("LAPSE_BIN") or (build and str(Path(build) / "lapse"))
    return str(Path(named or ROOT / "build" / "lapse").absolute())


class Launcher:
    def __init__(self, folder):
        self.folder, self.program = folder, find_program()
        self.runs, self.rendezvous = folder / "runs", folder / "meet"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
        self.env.update(LAPSE_DIR=str(self.runs), LAPSE_RENDEZVOUS=str(self.rendezvous),
                        LAPSE_AGENT="/bin/false", HOME=str(folder / "home"), LC_ALL="C.UTF-8")
        self.env.pop("XDG_STATE_HOME", None)

    def argv(self, *command, options=()):
        return [self.program, "run", *options, "--", *map(str, command)]

    def run(self, *command, options=(), **more):
        more.setdefault("env", self.env)
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("cwd", self.folder)
        return subprocess.run(self.argv(*command, options=options), capture_output=True,
                              timeout=LIMIT, check=False, **more)

    def start(self, *command, options=(), **more):
        more.setdefault("env", self.env)
        more.setdefault("cwd", self.folder)
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(self.argv(*command, options=options), **more)

    def bare(self, *command, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([*map(str, command)], env=self.env, cwd=self.folder,
                              capture_output=True, timeout=LIMIT, check=False, **more)

    def files(self, kind):
        """The run files or outcome files as dictionaries, by id."""
        found = {}
        for path in sorted((self.rendezvous / "runs").glob("*." + kind)):
            lines = path.read_bytes().decode().split("\n")
            magic = {"run": "lapse-run 1", "outcome": "lapse-outcome 1"}[kind]
            assert lines[0] == magic and lines[-2:] == ["end", ""]
            found[path.stem] = dict(line.split("=", 1) for line in lines[1:-2])
        return found

    def outcome(self):
        outcomes = self.files("outcome")
        assert len(outcomes) == 1, outcomes
        return next(iter(outcomes.values()))


@pytest.fixture
def launcher(tmp_path):
    one = Launcher(tmp_path)
    if not Path(one.program).exists():
        pytest.fail(f"{one.program} has not been built; run make")
    return one


def script(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)
    return path


# ---- streams and status --------------------------------------------------------


def test_pipeline_is_byte_identical(launcher):
    text = "seq 1 20000 | {0} tr 0-9 a-j | {0} sort -r; {0} ls /nonexistent; echo ${{PIPESTATUS[*]}}"
    bare = launcher.bare("bash", "-c", text.format(""))
    ours = launcher.bare("bash", "-c", text.format(f"{launcher.program} run --"))
    assert bare.stdout.count(b"\n") == 20001 and bare.stderr
    assert (ours.stdout, ours.stderr, ours.returncode) == \
        (bare.stdout, bare.stderr, bare.returncode)
    assert len(launcher.files("outcome")) == 3


def test_binary_streams(launcher):
    data = bytes(range(256)) * 5000
    program = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); " \
              "sys.stderr.buffer.write(d[::-1])"
    ours = subprocess.run(launcher.argv(PYTHON, "-c", program), input=data, env=launcher.env,
                          cwd=launcher.folder, capture_output=True, timeout=LIMIT, check=False)
    assert ours.stdout == data and ours.stderr == data[::-1]


@pytest.mark.parametrize("status", [0, 1, 2, 3, 42, 71, 125, 126, 127, 128, 137, 200, 254, 255])
def test_exit_status(launcher, status):
    assert launcher.run("sh", "-c", f"exit {status}").returncode == status
    assert launcher.outcome()["kind"] == "exited"
    assert launcher.outcome()["code"] == str(status)


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM", "INT", "HUP", "ABRT", "PIPE", "USR1",
                                  "RTMIN"])
def test_death_by_signal(launcher, name):
    number = getattr(signal, "SIG" + name)
    done = launcher.run("sh", "-c", f"kill -{int(number)} $$")
    assert done.returncode == -number
    assert launcher.outcome()["kind"] == "signaled"
    assert launcher.outcome()["signal"] == str(int(number))


def test_death_as_a_shell_sees_it(launcher):
    line = f"{launcher.program} run -- sh -c 'kill -SEGV $$'; echo status $?"
    done = launcher.bare("bash", "-c", line)
    assert done.stdout == b"status 139\n"


def test_no_core_of_its_own(launcher):
    """Only the command may leave a core, and the shell then says so of it."""
    done = launcher.run("sh", "-c", "ulimit -c 0; kill -ABRT $$", cwd=launcher.folder)
    assert done.returncode == -signal.SIGABRT
    assert not [p for p in launcher.folder.iterdir() if p.name.startswith("core")]


def test_exec_failure(launcher):
    done = launcher.run("no-such-program-anywhere")
    assert (done.returncode, done.stderr) == \
        (127, b"lapse: no-such-program-anywhere: command not found\n")
    done = launcher.run("./missing/program")
    assert (done.returncode, done.stderr) == \
        (127, b"lapse: ./missing/program: No such file or directory\n")
    plain = launcher.folder / "plain"
    plain.write_text("x")
    done = launcher.run(plain)
    assert (done.returncode, done.stderr) == \
        (126, f"lapse: {plain}: Permission denied\n".encode())
    assert {o["evidence"] for o in launcher.files("outcome").values()} == \
        {"not executed: No such file or directory", "not executed: Permission denied"}


def test_no_command(launcher):
    done = subprocess.run([launcher.program, "run"], env=launcher.env, capture_output=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == 2 and b"lapse run -- " in done.stderr


def test_fork_and_exec(launcher):
    """Children of the command are its own: none too many, none reaped by us."""
    text = """
        import os, subprocess, sys
        pids = [os.fork() for _ in range(3)]
        if 0 in pids:
            os.execvp("sh", ["sh", "-c", "exit 7"])
        print(sorted(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids))
        try:
            os.wait()
        except ChildProcessError:
            print("no more")
        print(subprocess.run(["sh", "-c", "exit 9"]).returncode, flush=True)
        os.execvp("sh", ["sh", "-c", "echo last; exit 5"])
    """
    program = script(launcher.folder, "forks.py", text.replace("pids = [os.fork() for _ in range(3)]",
                     "pids = []\n        for _ in range(3):\n            pids.append(os.fork())\n"
                     "            if pids[-1] == 0: break"))
    done = launcher.run(PYTHON, program)
    assert (done.stdout, done.stderr, done.returncode) == \
        (b"[7, 7, 7]\nno more\n9\nlast\n", b"", 5)


# ---- what the command inherits -------------------------------------------------

STATE = """
import os, resource, re
status = open("/proc/self/status").read()
for key in ("SigBlk", "SigIgn", "SigCgt", "Umask", "NoNewPrivs", "Seccomp", "CapEff",
            "Cpus_allowed", "Groups"):
    print(re.search("^%s:.*$" % key, status, re.M).group(0))
print(os.getcwd(), os.nice(0), os.getpgrp(), os.getsid(0))
print([resource.getrlimit(i) for i in range(16)])
print(open("/proc/self/oom_score_adj").read(), open("/proc/self/cgroup").read())
print(sorted(k + "=" + v for k, v in os.environ.items()
             if k not in ("LAPSE_RUN", "LAPSE_RENDEZVOUS")))
"""


def test_inherited_state(launcher):
    def odd():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGRTMIN + 3})
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        os.umask(0o123)
        os.nice(3)
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 888))
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))

    env = dict(launcher.env, LAPSE_RUN="x", LAPSE_EXTRA="=a b\n", LAPSE_DIR="runs")
    options = {"preexec_fn": odd, "capture_output": True, "timeout": LIMIT, "env": env,
               "cwd": launcher.folder, "check": True, "process_group": 0} \
        if sys.version_info >= (3, 11) else None
    if options is None:
        pytest.skip("needs Python 3.11")

    def state(argv):
        return re.sub(rb"\d+ \d+$", b"", subprocess.run(argv, **options).stdout, flags=re.M)

    bare = state([PYTHON, "-c", STATE])
    ours = state(launcher.argv(PYTHON, "-c", STATE))
    assert b"SigBlk" in bare
    assert ours == bare


def test_same_group_and_session(launcher):
    text = "import os; print(os.getpgrp() == os.getpgid(os.getppid()), " \
           "os.getsid(0) == os.getsid(os.getppid()))"
    assert launcher.run(PYTHON, "-c", text).stdout == b"True True\n"


def test_environment_gains_two(launcher):
    bare = launcher.bare("env", "-0").stdout.split(b"\0")
    ours = launcher.run("env", "-0").stdout.split(b"\0")
    more = {e.split(b"=")[0]: e.split(b"=", 1)[1] for e in ours if e and e not in bare}
    gone = {e.split(b"=")[0] for e in bare if e and e not in ours}
    assert set(more) == {b"LAPSE_RUN"} and not gone
    assert (launcher.runs / more[b"LAPSE_RUN"].decode()).is_dir()
    del launcher.env["LAPSE_RENDEZVOUS"]
    launcher.env["XDG_RUNTIME_DIR"] = str(launcher.folder)
    ours = launcher.run("sh", "-c", "echo $LAPSE_RENDEZVOUS").stdout.decode().strip()
    assert ours.startswith("/") and Path(ours, "runs").is_dir()
    shutil.rmtree(ours) if not list(Path(ours, "runs").glob("*.run"))[1:] else None


DESCRIPTORS = "ls -l /proc/self/fd | sed 's/.*[0-9] \\([0-9]* -> \\)/\\1/' | grep -v /proc/"


def test_descriptors(launcher):
    lines = "exec 5</dev/null 9>>/dev/zero 7<&-; {0} sh -c \"" + DESCRIPTORS.replace("\\", "\\\\") \
            .replace('"', '\\"') + "\" 2>/dev/null </dev/null | sed 's/\\[[0-9]*\\]//'"
    bare = launcher.bare("bash", "-c", lines.format(""))
    ours = launcher.bare("bash", "-c", lines.format(f"{launcher.program} run --"))
    assert b"5 -> /dev/null" in bare.stdout and b"9 -> /dev/zero" in bare.stdout
    assert ours.stdout == bare.stdout


@pytest.mark.parametrize("closed,want", [("<&-", "12"), (">&-", "02"), ("2>&-", "01"),
                                         ("<&- >&- 2>&-", "")])
def test_closed_streams_stay_closed(launcher, closed, want):
    out = launcher.folder / "out"
    text = "a=; for i in 0 1 2; do [ -e /proc/$$/fd/$i ] && a=$a$i; done; echo $a >" + str(out)
    launcher.bare("bash", "-c", f"{launcher.program} run -- sh -c '{text}' {closed}")
    assert out.read_text() == want + "\n"
    assert launcher.outcome()["kind"] == "exited"


def test_closing_a_stream_is_seen(launcher):
    """The launcher holds no copy of what the command may close."""
    with launcher.start("sh", "-c", "exec >&- 9>&-; sleep 20", pass_fds=()) as child:
        assert child.stdout.read() == b""
        assert child.poll() is None
        child.terminate()
        child.wait(LIMIT)


def test_alarm_set_before(launcher):
    program = f"import os, signal; signal.alarm(1); " \
              f"os.execv('{launcher.program}', {launcher.argv('sleep', '20')!r})"
    done = launcher.bare(PYTHON, "-c", program)
    assert done.returncode == -signal.SIGALRM


# ---- signals -------------------------------------------------------------------

COUNTER = """
import os, signal, sys, time
count = {}
def note(number, _):
    count[number] = count.get(number, 0) + 1
for number in map(int, sys.argv[2:]):
    signal.signal(number, note)
end = time.monotonic() + 20
print("ready", os.getpid(), flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print(sorted((signal.Signals(n).name, c) for n, c in count.items()), flush=True)
"""


class Counted:
    """A command under lapse that counts the signals that it gets."""

    def __init__(self, launcher, *numbers, group=False):
        program = script(launcher.folder, "count.py", COUNTER)
        self.stop = launcher.folder / "stop"
        self.child = launcher.start(PYTHON, program, self.stop, *map(int, numbers),
                                    start_new_session=True)
        self.pid = int(self.child.stdout.readline().split()[1])

    def counts(self):
        time.sleep(0.3)  # longer than any way that a second copy could take
        self.stop.touch()
        rest = self.child.stdout.read().decode()
        self.child.wait(LIMIT)
        return rest


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGALRM"])
def test_signal_to_the_launcher_is_forwarded_once(launcher, name):
    number = getattr(signal, name)
    counted = Counted(launcher, number)
    os.kill(counted.child.pid, number)
    assert counted.counts() == f"[('{name}', 1)]\n"


def test_signal_to_the_group_is_not_doubled(launcher):
    counted = Counted(launcher, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    os.killpg(counted.child.pid, signal.SIGTERM)
    os.killpg(counted.child.pid, signal.SIGUSR1)
    time.sleep(0.3)
    os.kill(counted.child.pid, signal.SIGUSR2)  # to the launcher alone: forwarded
    time.sleep(0.3)
    os.kill(counted.child.pid, signal.SIGTERM)
    assert counted.counts() == "[('SIGTERM', 2), ('SIGUSR1', 1), ('SIGUSR2', 1)]\n"


def test_signal_to_each_process_is_not_doubled(launcher):
    """As systemd and Slurm do it: to every process of a list."""
    counted = Counted(launcher, signal.SIGTERM)
    group = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()
             and process_group(p) == counted.child.pid]
    assert len(group) >= 3  # launcher, witness, command
    for pid in group:
        os.kill(pid, signal.SIGTERM)
    assert counted.counts() == "[('SIGTERM', 1)]\n"


def process_group(path):
    try:
        return int((path / "stat").read_text().rsplit(")", 1)[1].split()[2])
    except (OSError, IndexError):
        return -1


def test_termination_of_the_launcher_ends_the_command(launcher):
    child = launcher.start("sleep", "20")
    wait_for(lambda: launcher.files("run") if (launcher.rendezvous / "runs").is_dir() else None)
    child.terminate()
    assert child.wait(LIMIT) == -signal.SIGTERM
    assert launcher.outcome()["signal"] == str(int(signal.SIGTERM))


def test_killed_launcher_leaves_the_command(launcher):
    program = script(launcher.folder, "slow.py", """
        import os, sys, time
        print("ready", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        print("done", os.getpgrp(), flush=True)
    """)
    stop = launcher.folder / "stop"
    child = launcher.start(PYTHON, program, stop, start_new_session=True)
    assert child.stdout.readline() == b"ready\n"
    child.kill()
    child.wait(LIMIT)
    # The witness goes with the launcher; the run file's lock is free.
    run = next((launcher.rendezvous / "runs").glob("*.run"))
    assert wait_for(lambda: lock_is_free(run))
    stop.touch()
    assert child.stdout.read() == f"done {child.pid}\n".encode()
    assert not launcher.files("outcome")


def lock_is_free(path):
    import fcntl
    import struct
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    with open(path, "r+b") as file:
        answer = fcntl.fcntl(file, 36, lock)  # F_OFD_GETLK
    return struct.unpack("hhqqi4x", answer)[0] == fcntl.F_UNLCK


def wait_for(question, timeout=10):
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.02)


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
        terminal.send(b"\x03")
        terminal.expect("^C", since=at)
        time.sleep(0.3)
        terminal.send(b"\x03")
        time.sleep(0.3)
        (launcher.folder / "stop").touch()
        terminal.expect("[('SIGINT', 2)]")
        assert os.WEXITSTATUS(terminal.end()) == 0


def test_ctrl_c_kills_as_without(launcher):
    with Terminal(launcher.argv("sh", "-c", "echo ready; sleep 20", options=["--quiet"]),
                  launcher.env, launcher.folder) as terminal:
        terminal.expect("ready")
        terminal.send(b"\x03")
        status = terminal.end()
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT


def test_ctrl_c_reaches_a_command_in_another_group(launcher):
    """`timeout` makes a group of its own unless it is the leader."""
    with Terminal(launcher.argv("timeout", "20", "sh", "-c", "echo ready; sleep 20",
                                options=["--quiet"]),
                  launcher.env, launcher.folder) as terminal:
        terminal.expect("ready")
        terminal.send(b"\x03")
        assert terminal.end(10) is not None


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
        pid = int(terminal.data[at:terminal.expect(b"\r", since=at)])
        terminal.send(b"\x1a")
        at = terminal.expect("Stopped", since=at)
        at = terminal.expect("ready> ", since=at)
        assert process_state(pid) == "T"
        terminal.send("jobs -p | wc -l\n")
        at = terminal.expect(b"\n1\r\n", since=at)
        terminal.send("fg\n")
        at = terminal.expect(word, since=at)
        assert wait_for(lambda: process_state(pid) in "SR")
        time.sleep(0.3)  # a stop would take back a SIGCONT not yet delivered
        terminal.send(b"\x1a")
        at = terminal.expect("Stopped", since=at)
        at = terminal.expect("ready> ", since=at)
        terminal.send("bg\n")
        at = terminal.expect("&", since=at)
        assert wait_for(lambda: process_state(pid) in "SR")
        time.sleep(0.3)
        terminal.send("fg\n")
        at = terminal.expect(word, since=at)
        time.sleep(0.3)
        (launcher.folder / "stop").touch()
        at = terminal.expect("[('SIGCONT', ", since=at)
        count = int(terminal.data[at:terminal.expect(b")", since=at) - 1])
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


def process_state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def test_stop_and_continue_of_the_launcher_alone(launcher):
    counted = Counted(launcher, signal.SIGUSR1)
    os.kill(counted.child.pid, signal.SIGTSTP)
    # Session leader's group is orphaned: the default action does not stop there.
    os.kill(counted.pid, signal.SIGSTOP)
    assert wait_for(lambda: process_state(counted.pid) == "T")
    assert wait_for(lambda: process_state(counted.child.pid) == "T")
    os.kill(counted.child.pid, signal.SIGCONT)
    assert wait_for(lambda: process_state(counted.pid) in "SR")
    assert wait_for(lambda: process_state(counted.child.pid) in "SR")
    assert counted.counts() == "[]\n"


def test_nested_interactive_shell(launcher):
    """A shell under lapse makes groups of its own and takes the terminal."""
    with Terminal(launcher.argv(*SHELL, options=["--quiet"]), shell_env(launcher),
                  launcher.folder) as terminal:
        at = terminal.expect("ready> ")
        terminal.send("sleep 20\n")
        at = terminal.expect("sleep 20", since=at)
        time.sleep(0.3)
        terminal.send(b"\x03")
        at = terminal.expect("ready> ", since=at)
        terminal.send("echo status $?; exit 4\n")
        terminal.expect("status 130", since=at)
        assert os.WEXITSTATUS(terminal.end()) == 4


# ---- --tee-stderr ----------------------------------------------------------------


def unescape(text):
    return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())


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


# ---- what may fail ---------------------------------------------------------------


def unprivileged():
    """Become somebody whom file modes hold back; None if we are that already."""
    if os.geteuid() != 0:
        return {}
    return {"user": 65534, "group": 65534, "extra_groups": []}


@pytest.fixture
def open_launcher(launcher):
    """A launcher that another user may run: its folders are world-searchable."""
    path = launcher.folder
    for folder in [path, *list(path.parents)[:-1]]:
        if os.stat(folder).st_uid == os.geteuid() and not str(folder) == "/tmp":
            os.chmod(folder, os.stat(folder).st_mode | stat.S_IXOTH | stat.S_IROTH)
    copy = path / "lapse"
    shutil.copy(launcher.program, copy)
    launcher.program = str(copy)
    return launcher


def test_run_folder_unwritable_falls_back(launcher):
    launcher.runs.write_text("a file, no folder")
    done = launcher.run("echo", "hello")
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 0)
    where = next(iter(launcher.files("run").values()))["dir"]
    assert Path(where).parent == launcher.folder / "home" / ".local" / "state" / "lapse" / "runs"
    assert stat.S_IMODE(os.stat(where).st_mode) == 0o700
    launcher.env["XDG_STATE_HOME"] = str(launcher.folder / "state")
    with Terminal(launcher.argv("echo", "hello"), launcher.env, launcher.folder) as terminal:
        terminal.end()
    assert f"lapse: cannot write in {launcher.runs}".encode() in terminal.data
    assert b"recording to state/lapse/runs/" in terminal.data


def test_run_folder_of_somebody_else(open_launcher):
    meet = open_launcher.rendezvous
    open_launcher.runs.mkdir(mode=0o755)
    meet.mkdir(mode=0o700)
    who = unprivileged()
    if who:
        os.chown(meet, 65534, 65534)
    else:
        open_launcher.runs.chmod(0o555)
    open_launcher.env["HOME"] = "/nonexistent"
    done = open_launcher.run("echo", "hello", cwd="/", **who)
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 0)
    assert list((meet / "runs").iterdir()) == []


def test_rendezvous_unusable(launcher):
    for make in (lambda p: p.write_text("a file"), lambda p: p.symlink_to(launcher.folder),
                 lambda p: (p.mkdir(), p.chmod(0o777))):
        if launcher.rendezvous.is_symlink() or launcher.rendezvous.is_file():
            launcher.rendezvous.unlink()
        make(launcher.rendezvous)
        done = launcher.run("sh", "-c", "echo hello ${LAPSE_RUN-unset}; exit 3")
        assert (done.stdout, done.stderr, done.returncode) == (b"hello unset\n", b"", 3)
        with Terminal(launcher.argv("echo", "hello"), launcher.env, launcher.folder) as terminal:
            assert os.WEXITSTATUS(terminal.end()) == 0
        assert b"lapse: not recording: " in terminal.data and b"hello\r\n" in terminal.data
        assert str(launcher.rendezvous).encode() in terminal.data
    assert not launcher.runs.exists() or not list(launcher.runs.iterdir())


def test_rendezvous_read_only(open_launcher):
    meet = open_launcher.rendezvous
    for folder in (meet, meet / "runs", meet / "rings"):
        folder.mkdir()
        folder.chmod(0o500)
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
    done = open_launcher.run("echo", "hello", cwd="/", **unprivileged())
    for folder in (meet / "runs", meet):
        folder.chmod(0o700)
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 0)
    assert list((meet / "runs").iterdir()) == []


@pytest.fixture
def small_tmpfs(launcher):
    """The rendezvous on a tmpfs of 64 KiB of its own."""
    launcher.rendezvous.mkdir(mode=0o700)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "lapse-test",
                           str(launcher.rendezvous)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("may not mount: " + done.stderr.decode().strip())
    yield launcher.rendezvous
    subprocess.run(["umount", "-l", str(launcher.rendezvous)], check=False)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def test_shared_memory_full_at_the_start(launcher, small_tmpfs):
    fill(small_tmpfs / "fill")
    done = launcher.run("sh", "-c", "echo hello; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 3)
    assert not list(launcher.runs.iterdir())


def test_shared_memory_full_at_the_end(launcher, small_tmpfs):
    """The outcome has a page of its own; only the tail of stderr is left out."""
    done = launcher.run("sh", "-c", f"echo oops >&2; cat /dev/zero >{small_tmpfs}/fill; exit 3",
                        options=["--tee-stderr"])
    assert done.returncode == 3 and done.stderr.startswith(b"oops\n")
    outcome = launcher.outcome()
    assert (outcome["kind"], outcome["code"], outcome["stderr_tail"]) == ("exited", "3", "")
    assert sorted(p.suffix for p in (small_tmpfs / "runs").iterdir()) == [".outcome", ".run"]


def test_run_folder_deleted_underneath(launcher):
    done = launcher.run("sh", "-c", f"rm -rf {launcher.runs}; echo hello; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 3)
    assert launcher.outcome()["code"] == "3"


# ---- run file and agent ------------------------------------------------------------


def test_run_file(launcher):
    options = ["--name", "first\ttry", "--project", "p%q", "--tags", "a,b", "--notes", "one\ntwo",
               "--stall-after", "90"]
    text = "import os, sys; print(os.getpid(), os.getppid(), os.environ['LAPSE_RUN']); " \
           "print(open(os.environ['LAPSE_RENDEZVOUS'] + '/runs/' + os.environ['LAPSE_RUN'] + " \
           "'.run').read().count('\\nend\\n'))"
    before = time.time_ns()
    done = launcher.run(PYTHON, "-c", text, "--api-key", "hunter2", "TOKEN=hunter2",
                        options=options)
    after = time.time_ns()
    pid, parent, run = done.stdout.decode().splitlines()[0].split()
    assert done.stdout.decode().splitlines()[1] == "1"  # it is complete before the command runs
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z2-7]{4}", run)
    start = launcher.files("run")[run]
    assert start["id"] == run and start["dir"] == str(launcher.runs / run)
    assert (start["name"], start["project"], start["tags"], start["notes"]) == \
        ("first?try", "p%25q", "a,b", "one%0Atwo")
    assert (start["child_pid"], start["launcher_pid"]) == (pid, parent)
    assert start["cwd"] == str(launcher.folder) and start["stall_after_ms"] == "90000"
    assert before <= int(start["start_ns"]) <= after
    assert time.strftime("%Y%m%d-%H%M%S", time.gmtime(int(start["start_ns"]) // 10**9)) == run[:15]
    assert "hunter2" not in str(launcher.files("run"))
    assert start["command"].endswith("--api-key REDACTED TOKEN=REDACTED")
    outcome = launcher.outcome()
    assert outcome["id"] == run and int(start["start_ns"]) <= int(outcome["end_ns"]) <= after
    assert 0 < float(outcome["user_s"]) + float(outcome["system_s"]) < LIMIT
    assert 4 << 20 < int(outcome["max_rss"]) < 1 << 30


@pytest.mark.parametrize("option,want", [([], "0"), (["--stall-after", "0"], "-1"),
                                         (["--stall-after", "1.5s"], "1500"),
                                         (["--stall-after", "2h"], "7200000")])
def test_stall_after(launcher, option, want):
    launcher.run("true", options=option)
    assert next(iter(launcher.files("run").values()))["stall_after_ms"] == want


@pytest.mark.parametrize("command,want", [(["true"], "true"), (["/bin/true"], "true"),
                                          ([PYTHON, "-S", "x/train.py", "b.py"], "train.py")])
def test_default_name(launcher, command, want):
    launcher.run(*command)
    assert next(iter(launcher.files("run").values()))["name"] == want


def test_locks(launcher):
    """The run file is locked while the launcher lives, and free afterwards."""
    child = launcher.start("sh", "-c", "echo ready; sleep 20")
    child.stdout.readline()
    run = next((launcher.rendezvous / "runs").glob("*.run"))
    assert not lock_is_free(run)
    child.terminate()
    child.wait(LIMIT)
    assert lock_is_free(run)


AGENT = """\
#!{python}
import fcntl, os, struct, sys, time
folder = sys.argv[sys.argv.index("--rendezvous") + 1]
with open(folder + "/started", "a") as file:
    file.write("%d %s %s %s\\n" % (os.getpid(), sys.argv[1:], os.getcwd(),
                                   sorted(os.listdir("/proc/self/fd"))[:3]))
if {dies}:
    sys.exit(1)
lock = open(folder + "/agent.lock", "a")
try:
    fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
except OSError:
    sys.exit(0)
with open(folder + "/holds", "a") as file:
    file.write("%d\\n" % os.getpid())
end = time.monotonic() + 25
runs = folder + "/runs/"
while time.monotonic() < end and not os.path.exists(folder + "/leave"):
    for name in os.listdir(runs):
        if name.endswith(".outcome") and {finishes}:
            os.path.exists(runs + name[:-8] + ".run") and os.unlink(runs + name[:-8] + ".run")
            os.unlink(runs + name)
    time.sleep(0.02)
"""


@pytest.fixture
def stand_in(launcher):
    """Use a stand-in for the agent; it leaves when the test ends."""
    def use(dies=False, finishes=True):
        path = script(launcher.folder, "agent.py",
                      AGENT.format(python=PYTHON, dies=dies, finishes=finishes))
        launcher.env["LAPSE_AGENT"] = str(path)
        return launcher.rendezvous
    yield use
    if launcher.rendezvous.is_dir():
        (launcher.rendezvous / "leave").touch()
        wait_for(lambda: not lines_of(launcher.rendezvous / "holds")
                 or lock_is_free(launcher.rendezvous / "agent.lock"))


def lines_of(path):
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def test_agent_is_started_apart(launcher, stand_in):
    meet = stand_in()
    with launcher.start("sh", "-c", "echo ready; exec sleep 20", start_new_session=True,
                        env=dict(launcher.env, LAPSE_AGENT=launcher.env["LAPSE_AGENT"])) as child:
        child.stdout.readline()
        assert wait_for(lambda: lines_of(meet / "holds"))
        agent = int(lines_of(meet / "holds")[0])
        assert os.getsid(agent) not in (child.pid, os.getsid(0))
        line = lines_of(meet / "started")[0]
        assert f"['agent', '--rendezvous', '{meet}', '--idle-exit', '60'] / " in line
        assert [os.readlink(f"/proc/{agent}/fd/{i}") for i in range(3)] == ["/dev/null"] * 3
        # Signals to the command's group do not reach it, nor does it hold the pipe.
        os.killpg(child.pid, signal.SIGTERM)
        assert child.stdout.read() == b""
        assert child.wait(LIMIT) == -signal.SIGTERM
    assert process_state(agent) in ("S", "R")


def test_dead_agent_is_started_again(launcher, stand_in):
    meet = stand_in()
    with launcher.start("sleep", "20") as child:
        assert wait_for(lambda: lines_of(meet / "holds"))
        os.kill(int(lines_of(meet / "holds")[0]), signal.SIGKILL)
        assert wait_for(lambda: len(lines_of(meet / "holds")) == 2)
        child.terminate()


def test_failing_agent_is_started_five_times(launcher, stand_in):
    meet = stand_in(dies=True)
    with launcher.start("sleep", "25") as child:
        # Starts come 0, 1, 2, 4 and 8 s after each other; a sixth would come in 8 s more.
        assert wait_for(lambda: len(lines_of(meet / "started")) >= 3, 10)
        child.terminate()
    assert len(lines_of(meet / "started")) <= 5


def test_no_agent_option(launcher, stand_in):
    meet = stand_in()
    launcher.run("sleep", "0.2", options=["--no-agent"])
    assert not (meet / "started").exists()
    assert len(launcher.files("run")) == len(launcher.files("outcome")) == 1


def test_summary_waits_for_the_agent(launcher, stand_in):
    meet = stand_in()
    with Terminal(launcher.argv("echo", "hello"), launcher.env, launcher.folder) as terminal:
        assert os.WEXITSTATUS(terminal.end()) == 0
    assert list((meet / "runs").iterdir()) == []
    assert b"is still being finished" not in terminal.data


def test_summary_does_not_wait_for_ever(launcher, stand_in):
    stand_in(finishes=False)
    begin = time.monotonic()
    with Terminal(launcher.argv("echo", "hello"), launcher.env, launcher.folder) as terminal:
        assert os.WEXITSTATUS(terminal.end()) == 0
    assert time.monotonic() - begin > 2.5
    assert b"still being finished: lapse show " in terminal.data


def test_eight_launchers_share_one_agent(launcher, stand_in):
    meet = stand_in(finishes=False)
    children = [launcher.start("sh", "-c", f"sleep 1; exit {i}") for i in range(8)]
    assert [c.wait(LIMIT) for c in children] == list(range(8))
    for child in children:
        child.stdout.close()
    assert len(lines_of(meet / "holds")) == 1
    runs, outcomes = launcher.files("run"), launcher.files("outcome")
    assert len(runs) == 8 and set(runs) == set(outcomes)
    assert sorted(int(o["code"]) for o in outcomes.values()) == list(range(8))
    assert len({r["child_pid"] for r in runs.values()}) == 8


def test_stale_files_are_swept(launcher):
    runs = launcher.rendezvous / "runs"
    runs.mkdir(parents=True)
    launcher.rendezvous.chmod(0o700)
    for name, age in (("old.outcome.tmp", 7200), ("new.outcome.tmp", 60),
                      ("long.outcome.tmp", 7200), ("long.run", 7200)):
        (runs / name).write_text("x")
        os.utime(runs / name, (time.time() - age,) * 2)
    launcher.run("true")
    names = {p.name for p in runs.iterdir()}
    assert {"new.outcome.tmp", "long.outcome.tmp", "long.run"} <= names
    assert "old.outcome.tmp" not in names


# ---- out of memory -------------------------------------------------------------------


def memory_group():
    """Make a control group with 48 MiB of memory; (folder, kind) or a reason why not."""
    for base, limit, kind in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "v1"),
                              ("/sys/fs/cgroup", "memory.max", "v2")):
        group = Path(base) / f"lapse-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            group.mkdir()
        except OSError as error:
            reason = str(error)
            continue
        try:
            (group / limit).write_text(str(48 << 20))
            return group, kind
        except OSError as error:
            reason = str(error)
            group.rmdir()
    return None, reason


@pytest.fixture
def group():
    folder, kind = memory_group()
    if folder is None:
        pytest.skip("may not make a memory control group: " + kind)
    yield folder
    wait_for(lambda: not (folder / "cgroup.procs").read_text().strip())
    folder.rmdir()


EAT = "import time; time.sleep(0.3); a = [bytearray(b'x' * (1 << 20)) for _ in range(400)]"


def in_group(folder):
    return lambda: (folder / "cgroup.procs").write_text("0")


def test_out_of_memory_kill(launcher, group):
    done = launcher.run(PYTHON, "-c", EAT, preexec_fn=in_group(group))
    assert done.returncode == -signal.SIGKILL
    outcome = launcher.outcome()
    assert (outcome["kind"], outcome["signal"], outcome["code"]) == ("oom", "9", "-1")
    assert "oom_kill rose from 0 to 1" in outcome["evidence"] \
        or "Killed process" in outcome["evidence"]


def test_out_of_memory_in_a_group_entered_later(launcher, group):
    text = f"open('{group}/cgroup.procs', 'w').write('0'); " + EAT.replace("0.3", "1.5")
    done = launcher.run(PYTHON, "-c", text)
    assert done.returncode == -signal.SIGKILL
    assert launcher.outcome()["kind"] == "oom"


def test_out_of_memory_of_a_child(launcher, group):
    """A shell passes it on as 137."""
    done = launcher.run("sh", "-c", f"{PYTHON} -c \"{EAT}\"; exit $?", preexec_fn=in_group(group))
    assert done.returncode == 137
    outcome = launcher.outcome()
    assert (outcome["kind"], outcome["signal"], outcome["code"]) == ("oom", "0", "137")


def test_plain_kill_is_no_out_of_memory(launcher, group):
    done = launcher.run("sh", "-c", "kill -KILL $$", preexec_fn=in_group(group))
    assert done.returncode == -signal.SIGKILL
    outcome = launcher.outcome()
    assert (outcome["kind"], outcome["signal"], outcome["evidence"]) == ("signaled", "9", "")
