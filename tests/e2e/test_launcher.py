# SPDX-License-Identifier: Apache-2.0
"""`lapse run` changes nothing of the program that it runs: streams, status,
what it inherits, signals. The expected values come from the same program without
lapse, or from POSIX."""
import contextlib
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

# pylint: disable=redefined-outer-name # pytest fixtures
from launcher_harness import (
    LIMIT, PYTHON, Counted, launcher, lock_is_free, process_group, process_state, script,
    wait_for)


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
    program = script(launcher.folder, "forks.py", """
        import os, subprocess
        pids = []
        for _ in range(3):
            pids.append(os.fork())
            if pids[-1] == 0:
                os.execvp("sh", ["sh", "-c", "exit 7"])
        print([os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids])
        try:
            os.wait()
        except ChildProcessError:
            print("no more")
        print(subprocess.run(["sh", "-c", "exit 9"]).returncode, flush=True)
        os.execvp("sh", ["sh", "-c", "echo last; exit 5"])
    """)
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
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 888))
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))

    env = dict(launcher.env, LAPSE_RUN="x", LAPSE_EXTRA="=a b\n", LAPSE_DIR="runs")
    options = {"preexec_fn": odd, "capture_output": True, "timeout": LIMIT, "env": env,
               "cwd": launcher.folder, "check": True, "process_group": 0}

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
    if len(list(Path(ours, "runs").glob("*.run"))) == 1:  # made for this test alone
        shutil.rmtree(ours)


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
    mine, theirs = os.pipe()
    child = launcher.start("sh", "-c", f"exec >&- {theirs}>&-; exec sleep 100", pass_fds=[theirs])
    os.close(theirs)
    for fd in (child.stdout.fileno(), mine):
        assert select.select([fd], [], [], LIMIT)[0], "still open somewhere"
        assert os.read(fd, 1) == b""
    assert child.poll() is None
    child.terminate()
    child.wait(LIMIT)
    child.stdout.close()
    os.close(mine)


def test_status_where_children_are_not_waited_for(launcher):
    """Our parent ignores SIGCHLD: the command inherits that, we still see its end."""
    text = "import signal; print(signal.getsignal(signal.SIGCHLD)); raise SystemExit(7)"
    done = launcher.run(PYTHON, "-c", text,
                        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert (done.returncode, done.stdout) == (7, b"1\n")  # SIG_IGN


def test_alarm_set_before(launcher):
    program = f"import os, signal; signal.alarm(1); " \
              f"os.execv('{launcher.program}', {launcher.argv('sleep', '100')!r})"
    done = launcher.bare(PYTHON, "-c", program)
    assert done.returncode == -signal.SIGALRM


# ---- signals -------------------------------------------------------------------



@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGALRM"])
def test_signal_to_the_launcher_is_forwarded_once(launcher, name):
    number = getattr(signal, name)
    counted = Counted(launcher, number)
    os.kill(counted.child.pid, number)
    assert counted.counts(1) == f"[('{name}', 1)]"


def test_signal_to_the_group_is_not_doubled(launcher):
    counted = Counted(launcher, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    os.killpg(counted.child.pid, signal.SIGTERM)
    os.killpg(counted.child.pid, signal.SIGUSR1)
    assert sorted(counted.got(2)) == ["SIGTERM", "SIGUSR1"]
    counted.taken()
    os.kill(counted.child.pid, signal.SIGUSR2)  # to the launcher alone: forwarded
    assert counted.got(1) == ["SIGUSR2"]
    os.kill(counted.child.pid, signal.SIGTERM)
    assert counted.counts(1) == "[('SIGTERM', 2), ('SIGUSR1', 1), ('SIGUSR2', 1)]"


def test_signal_to_the_group_while_another_is_looked_at(launcher):
    """The launcher makes up its mind 20 ms after the first one; the second comes about then."""
    counted = Counted(launcher, signal.SIGUSR1, signal.SIGUSR2)
    for i in range(80):
        os.killpg(counted.child.pid, signal.SIGUSR1)
        end = time.monotonic() + 0.02 + 0.003 * i / 80
        while time.monotonic() < end:
            pass
        os.killpg(counted.child.pid, signal.SIGUSR2)
        assert sorted(counted.got(2)) == ["SIGUSR1", "SIGUSR2"]
        counted.taken()
    assert counted.counts(0) == "[('SIGUSR1', 80), ('SIGUSR2', 80)]"


def test_signal_to_each_process_is_not_doubled(launcher):
    """As systemd and Slurm do it: to every process of a list."""
    counted = Counted(launcher, signal.SIGTERM)
    group = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()
             and process_group(p) == counted.child.pid]
    assert len(group) >= 3  # launcher, witness, command
    for pid in sorted(group, reverse=True):  # the launcher last: its wait is no race here
        with contextlib.suppress(ProcessLookupError):  # an agent on its way out of the group
            os.kill(pid, signal.SIGTERM)
    assert counted.counts(1) == "[('SIGTERM', 1)]"


def test_termination_of_the_launcher_ends_the_command(launcher):
    child = launcher.start("sleep", "100")
    assert wait_for(lambda: launcher.files("run"))
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
    assert counted.counts(0) == "[]"


def test_stop_and_continue_of_the_command_alone(launcher):
    counted = Counted(launcher, signal.SIGUSR1)
    os.kill(counted.pid, signal.SIGSTOP)
    assert wait_for(lambda: process_state(counted.child.pid) == "T")
    os.kill(counted.pid, signal.SIGCONT)
    assert wait_for(lambda: process_state(counted.child.pid) in "SR")
    assert counted.counts(0) == "[]"


def test_kill_of_a_stopped_command(launcher):
    counted = Counted(launcher, signal.SIGUSR1)
    os.kill(counted.pid, signal.SIGSTOP)
    assert wait_for(lambda: process_state(counted.child.pid) == "T")
    os.kill(counted.pid, signal.SIGKILL)
    assert counted.child.wait(LIMIT) == -signal.SIGKILL
