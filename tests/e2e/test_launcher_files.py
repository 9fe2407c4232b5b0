# SPDX-License-Identifier: Apache-2.0
"""What `lapse run` leaves for the agent, when it starts one, how it tells that
memory ran out; and that the command runs whatever of lapse fails."""
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

# pylint: disable=redefined-outer-name # pytest fixtures
from launcher_harness import (
    EAT, LIMIT, PYTHON, group, in_group, launcher, lines_of, lock_is_free, process_state, script,
    wait_for)
from launcher_terminal import Terminal


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
    child = launcher.start("sh", "-c", "echo ready; exec sleep 100")
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
end = time.monotonic() + 100
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


def test_agent_is_started_apart(launcher, stand_in):
    meet = stand_in()
    with launcher.start("sh", "-c", "echo ready; exec sleep 100", start_new_session=True,
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
    assert process_state(agent) in ("S", "R", "D")


def test_dead_agent_is_started_again(launcher, stand_in):
    meet = stand_in()
    with launcher.start("sleep", "100") as child:
        assert wait_for(lambda: lines_of(meet / "holds"))
        os.kill(int(lines_of(meet / "holds")[0]), signal.SIGKILL)
        assert wait_for(lambda: len(lines_of(meet / "holds")) == 2)
        child.terminate()


def test_failing_agent_is_started_five_times(launcher, stand_in):
    meet = stand_in(dies=True)
    with launcher.start("sleep", "100") as child:
        # Starts come 0, 1, 2, 4 and 8 s after each other; a sixth would come in 8 s more.
        assert wait_for(lambda: len(lines_of(meet / "started")) >= 3)
        child.terminate()
    assert len(lines_of(meet / "started")) <= 5


def test_no_agent_option(launcher, stand_in):
    meet = stand_in()
    launcher.run("sleep", "0.2", options=["--no-agent"])
    assert not (meet / "started").exists()
    assert len(launcher.files("run")) == len(launcher.files("outcome")) == 1


def test_summary_waits_for_the_agent(launcher, stand_in):
    meet = stand_in()
    late = f"while [ ! -e {meet}/holds ]; do sleep 0.05; done"  # a Python program takes its time
    with Terminal(launcher.argv("sh", "-c", late), launcher.env, launcher.folder) as terminal:
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
    assert wait_for(lambda: lines_of(meet / "holds"))
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


def test_out_of_memory_kill(launcher, group):
    done = launcher.run(PYTHON, "-c", EAT, preexec_fn=in_group(group))
    assert done.returncode == -signal.SIGKILL
    outcome = launcher.outcome()
    assert (outcome["kind"], outcome["signal"], outcome["code"]) == ("oom", "9", "-1")
    assert "oom_kill rose from 0 to 1" in outcome["evidence"] \
        or "Killed process" in outcome["evidence"]


def test_out_of_memory_in_a_group_entered_later(launcher, group):
    text = f"open('{group}/cgroup.procs', 'w').write('0'); " + EAT.replace("0.3", "3")
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
