# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: what it tells the service manager and the journal, and the
runs named machine. The manager is a socket and a pipe of ours."""
import datetime
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BUILD

UNITS = BUILD / "packaging" / "systemd"


class Manager:
    """The socket of a service manager."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(30)
        self.said = []

    def until(self, text):
        """Read what is told until a message has this text; that message."""
        while True:
            message = self.socket.recv(4096).decode()
            self.said.append(message)
            if text in message:
                return message


@pytest.fixture
def state(lapse):
    """Where the runs named machine are."""
    lapse.env["XDG_STATE_HOME"] = str(lapse.folder / "state")
    lapse.env["STATE_DIRECTORY"] = str(lapse.folder / "state" / "lapse")
    return lapse.folder / "state" / "lapse" / "machine"


@pytest.fixture
def config(lapse):
    path = lapse.folder / "lapse.yaml"
    path.write_text("agent: {machine_interval: 1s}\n")
    lapse.env["LAPSE_CONFIG"] = str(path)
    return path


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_is_told(lapse, abstract):
    address = f"\0lapse-e2e-{os.getpid()}" if abstract else str(lapse.rendezvous / "notify")
    manager = Manager(address)
    lapse.env.update(NOTIFY_SOCKET=address.replace("\0", "@"), WATCHDOG_USEC="2000000")
    agent = lapse.start("agent")
    del lapse.env["NOTIFY_SOCKET"], lapse.env["WATCHDOG_USEC"]
    assert manager.until("READY=1") == "READY=1\nSTATUS=waiting for runs"
    assert manager.until("WATCHDOG=1") == "WATCHDOG=1"
    assert manager.until("WATCHDOG=1") == "WATCHDOG=1"
    run = lapse.start("run", "--", "sh", "-c", "env; read line", stdin=subprocess.PIPE)
    assert manager.until("STATUS=") == "STATUS=recording 1 run"
    stdout, _ = run.communicate("\n")
    assert "NOTIFY_SOCKET" not in stdout
    assert manager.until("STATUS=") == "STATUS=waiting for runs"
    environment = open(f"/proc/{lapse.agent_pid()}/environ").read()
    assert "NOTIFY_SOCKET" in environment  # as it was started; its children get none
    agent.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING=1") == "STOPPING=1"
    assert agent.wait() == 0


def test_without_a_watchdog_nothing_is_told(lapse):
    manager = Manager(str(lapse.rendezvous / "notify"))
    lapse.env["NOTIFY_SOCKET"] = str(lapse.rendezvous / "notify")
    agent = lapse.start("agent")
    manager.until("READY=1")
    time.sleep(1.5)
    agent.terminate()
    manager.until("STOPPING=1")
    assert manager.said == ["READY=1\nSTATUS=waiting for runs", "STOPPING=1"]
    agent.wait()


def test_a_service_waits_for_the_agent_that_is_there(lapse, wait_for):
    first = lapse.start("agent")
    assert wait_for(lapse.agent_pid, 30)
    manager = Manager(str(lapse.rendezvous / "notify"))
    lapse.env["NOTIFY_SOCKET"] = str(lapse.rendezvous / "notify")
    service = lapse.start("agent")
    assert manager.until("STATUS") == "READY=1\nSTATUS=waiting for another agent to leave"
    first.terminate()
    first.wait()
    assert manager.until("STATUS") == "READY=1\nSTATUS=waiting for runs"
    assert lapse.agent_pid() == service.pid
    service.terminate()
    assert service.wait() == 0
    # One that no manager started leaves at once, as before.
    del lapse.env["NOTIFY_SOCKET"]
    first = lapse.start("agent")
    assert wait_for(lapse.agent_pid, 30)
    assert lapse("agent").returncode == 0
    first.terminate()
    first.wait()


def test_a_service_that_waits_can_be_stopped(lapse, wait_for):
    first = lapse.start("agent")
    assert wait_for(lapse.agent_pid, 30)
    manager = Manager(str(lapse.rendezvous / "notify"))
    lapse.env["NOTIFY_SOCKET"] = str(lapse.rendezvous / "notify")
    service = lapse.start("agent")
    manager.until("another agent")
    service.terminate()
    assert service.wait(20) == -signal.SIGTERM
    assert lapse.agent_pid() == first.pid
    first.terminate()
    first.wait()


def test_messages_for_the_journal(lapse, wait_for):
    """JOURNAL_STREAM is device and inode of stderr: then priorities, no times, no file."""
    reading, writing = os.pipe()
    stat = os.fstat(writing)
    lapse.env["JOURNAL_STREAM"] = f"{stat.st_dev}:{stat.st_ino}"
    lapse.env["LAPSE_CONFIG"] = "/nonexistent/lapse.yaml"
    agent = lapse.start("agent", stderr=writing)
    os.close(writing)
    del lapse.env["LAPSE_CONFIG"]
    assert wait_for(lapse.agent_pid, 30)  # else the run starts one of its own
    assert lapse("run", "--", "true").returncode == 0
    lapse.settled()
    agent.terminate()
    agent.wait()
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    assert lines[0].startswith("<4>LAPSE_CONFIG: cannot open /nonexistent/lapse.yaml")
    assert re.fullmatch(r"<6>run \S+: recording into \S+", lines[1])
    assert re.fullmatch(r"<6>run \S+: exited", lines[-1])
    assert not (lapse.rendezvous / "agent.log").exists()


def test_another_stderr_is_no_journal(lapse, wait_for):
    lapse.env["JOURNAL_STREAM"] = "1:2"
    agent = lapse.start("agent", "-f")
    assert wait_for(lapse.agent_pid, 30)
    assert lapse("run", "--", "true").returncode == 0
    lapse.settled()
    agent.terminate()
    _, stderr = agent.communicate()
    assert re.match(r"\d{4}-\d\d-\d\dT\S+Z lapse\[\d+\] info: run ", stderr)


# ---- the runs named machine ------------------------------------------------------------


def machine_runs(lapse, folder):
    done = lapse("ls", "-d", folder, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else []


def values(lapse, folder, run="last", name="memory/total"):
    done = lapse("show", "-d", folder, run, "--json")
    if done.returncode != 0:
        return 0
    return sum(s["count"] for s in json.loads(done.stdout)["series"] if s["name"] == name)


def test_the_machine_is_recorded_while_no_run_is(lapse, state, config, wait_for):
    agent = lapse.start("agent", "--machine")
    assert wait_for(lambda: values(lapse, state) >= 2, 30)
    run = lapse.start("run", "--", "sh", "-c", "read line", stdin=subprocess.PIPE)
    assert wait_for(lambda: values(lapse, lapse.runs) >= 3, 30)
    during = values(lapse, state)
    assert wait_for(lambda: values(lapse, lapse.runs) >= 5, 30)
    assert values(lapse, state) == during  # the live run has them
    run.communicate("\n")
    lapse.settled()
    assert wait_for(lambda: values(lapse, state) > during, 30)  # and then goes on
    agent.terminate()
    assert agent.wait() == 0
    (machine,) = machine_runs(lapse, state)
    assert (machine["name"], machine["outcome"], machine["exit_code"]) == ("machine", "exited", 0)
    assert re.fullmatch(r"\d{8}-\d{6}-" + re.escape(os.uname().nodename), machine["id"])
    assert len(lapse.run_ids()) == 1
    assert sorted(p.name for p in (state / machine["id"]).iterdir()) == \
        [os.uname().nodename + ".db"]
    assert lapse("fsck", "-d", state).returncode == 0


def test_without_being_asked_nothing_is_kept(lapse, state, config, wait_for):
    agent = lapse.start("agent")
    assert wait_for(lapse.agent_pid, 30)
    assert lapse("run", "--", "true").returncode == 0
    lapse.settled()
    agent.terminate()
    agent.wait()
    config.write_text("agent: {machine: true, machine_keep: 0}\n")
    agent = lapse.start("agent", "--machine")
    assert wait_for(lapse.agent_pid, 30)
    assert lapse("run", "--", "true").returncode == 0
    lapse.settled()
    agent.terminate()
    agent.wait()
    assert not state.exists()


@pytest.mark.kill
def test_a_killed_agents_run_is_lost(lapse, state, config, wait_for):
    agent = lapse.start("agent", "--machine")
    assert wait_for(lambda: values(lapse, state) >= 2, 30)
    agent.kill()
    agent.wait()
    (killed,) = [r["id"] for r in machine_runs(lapse, state)]
    agent = lapse.start("agent", "--machine")
    assert wait_for(lambda: len(machine_runs(lapse, state)) == 2, 30)
    agent.terminate()
    agent.wait()
    outcomes = {r["id"]: r["outcome"] for r in machine_runs(lapse, state)}
    assert outcomes[killed] == "lost"
    assert sorted(outcomes.values()) == ["exited", "lost"]
    assert not list(state.rglob(".recording"))


def test_a_start_in_the_second_of_another(lapse, state, config, wait_for):
    """An id has the second in it: where that is taken, the next one is."""
    now = datetime.datetime.now(datetime.timezone.utc)
    taken = {(now + datetime.timedelta(seconds=s)).strftime("%Y%m%d-%H%M%S-") + os.uname().nodename
             for s in range(4)}
    for name in taken:
        (state / name).mkdir(parents=True)
    agent = lapse.start("agent", "--machine")
    assert wait_for(lambda: {p.name for p in state.iterdir()} - taken, 30)
    agent.terminate()
    assert agent.wait() == 0
    assert "cannot be begun" not in (lapse.rendezvous / "agent.log").read_text()


def test_old_days_go(lapse, state, config, wait_for):
    config.write_text("agent: {machine: true, machine_keep: 3d}\n")
    host = os.uname().nodename
    today = datetime.datetime.now(datetime.timezone.utc)

    def made(days, suffix=host):
        name = (today - datetime.timedelta(days=days)).strftime("%Y%m%d-%H%M%S-") + suffix
        (state / name).mkdir(parents=True)
        (state / name / f"{host}.db").write_bytes(b"")
        return name

    old, edge, young = made(5), made(3), made(1)
    other, mine = made(9, "another-host"), "20200101-keep"
    (state / mine).mkdir()
    link = state / (today - datetime.timedelta(days=8)).strftime(f"%Y%m%d-%H%M%S-{host}")
    target = lapse.folder / "precious"
    target.mkdir()
    (target / "file").write_text("x")
    link.symlink_to(target)
    agent = lapse.start("agent")
    assert wait_for(lambda: not (state / old).exists(), 30)
    agent.terminate()
    agent.wait()
    assert {edge, young, other, mine} <= {p.name for p in state.iterdir()}
    assert (target / "file").read_text() == "x"


# ---- the units ---------------------------------------------------------------------------


@pytest.mark.parametrize("unit,scope", [("lapse-agent.service", "--system"),
                                        ("lapse-agent.user.service", "--user")])
def test_units_are_sound(lapse, unit, scope):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    text = (UNITS / unit).read_text()
    command = re.search(r"^ExecStart=(\S+)", text, re.M)[1]
    assert command.endswith("/bin/lapse")
    path = lapse.folder / "lapse-agent.service"
    path.write_text(text.replace(command, lapse.program))
    done = subprocess.run(["systemd-analyze", "verify", scope, "--man=no", path],
                          capture_output=True, text=True,
                          env=os.environ | {"XDG_RUNTIME_DIR": str(lapse.rendezvous)})
    if "Failed to initialize manager" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # The options that it gives are options.
    arguments = re.search(r"^ExecStart=\S+ (.*)", text, re.M)[1].split()
    assert arguments[0] == "agent"
    helped = lapse("agent", "--help").stdout
    assert all(a in helped for a in arguments if a.startswith("--"))
