# SPDX-License-Identifier: Apache-2.0
"""What breaks around lapse: disks, shared memory, agents and launchers (faults.py). The
command always runs, and what was accepted is kept."""
import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conftest import PATIENCE, wait_for
from faults import LAPSE, STRESS, World, agents_of, is_stress, rings
from faults import world_fixture  # noqa: F401

pytestmark = pytest.mark.kill
SLOW_SECONDS = 30  # of one fsync()
STALL_NS = 6_000_000_000  # no batch of calls may take so long: half of the shortest hang below


@contextlib.contextmanager
def small_tmpfs(size, options=""):
    """A tmpfs of its own; skips where nothing can be mounted."""
    path = Path(tempfile.mkdtemp(prefix="lapse-tmpfs-"))
    option = f"size={size},mode=0700{options}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", option, "lapse-test", path],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        path.rmdir()
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=False)
        path.rmdir()


def delete(folder):
    """At once: who makes files in it again finds it gone, not half empty."""
    gone = folder.with_name(folder.name + "-gone")
    folder.rename(gone)
    shutil.rmtree(gone)


def on_terminal(world, *command):
    """Run lapse on a terminal; (status, text)."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen([world.lapse.program, *map(str, command)], env=world.lapse.env,
                               cwd=world.base, stdin=secondary, stdout=secondary,
                               stderr=secondary)
    os.close(secondary)
    text = b""
    with contextlib.suppress(OSError):
        while part := os.read(primary, 65536):
            text += part
    os.close(primary)
    return process.wait(timeout=60), text.decode()


# ---- what takes long, begun first and looked at last ----------------------------


def stopped_agent(world):
    """The agent is stopped for 12 s: its heartbeat grows old, lanes wrap."""
    process, page = world.stress("--rate", 1_000_000, "--threads", 2, "--kinds", "sfah")
    assert wait_for(lambda: page.returned > 300_000) and world.stores(page)
    agent = world.lapse.agent_pid()
    os.kill(agent, signal.SIGSTOP)
    time.sleep(12)
    os.kill(agent, signal.SIGCONT)
    time.sleep(2.5)
    status = world.end(process, page)
    assert world.lapse.settled()
    return status, world.holds(page)


def mortal_agents(world):
    """Whoever is the agent is killed, every 300 ms for 10 s and until three were."""
    process, page = world.stress("--rate", 50_000, "--threads", 3, "--children", 1, "--kinds", "sft")
    victims, begin = set(), time.monotonic()
    while time.monotonic() < begin + (10 if len(victims) >= 3 else PATIENCE):
        agent = world.lapse.agent_pid()
        if agent:
            victims.add(agent)
            os.kill(agent, signal.SIGKILL)
        time.sleep(0.3)
    status = world.end(process, page)
    if not world.lapse.settled(2):
        world.lapse("recover")
    assert world.lapse.settled()
    return status, victims, world.holds(page)


def slow_agent(world, after):
    """An agent whose first fsync() after so many seconds takes SLOW_SECONDS; (its program,
    the file in which that is told)."""
    log, agent = world.base / "slowsync", world.base / "agent"
    agent.write_text(f"#!/bin/sh\nSLOWSYNC_SECONDS={SLOW_SECONDS} SLOWSYNC_AFTER={after} "
                     f"SLOWSYNC_LOG={log} LD_PRELOAD={STRESS.parent / 'slowsync.so'} "
                     f"exec {LAPSE} \"$@\"\n")
    agent.chmod(0o700)
    return {"LAPSE_AGENT": str(agent)}, log


def slow_disk(world):
    """The agent's first fsync() takes 30 s: it has not even opened its store."""
    env, log = slow_agent(world, 0)
    process, page = world.stress("--rate", 20_000, "--kinds", "sfah", env=env)
    assert wait_for(log.exists)
    begun = page.returned
    assert wait_for(lambda: page.returned > begun + 20_000)
    time.sleep(4)
    during = "over" not in log.read_text()
    status = world.end(process, page)
    assert wait_for(lambda: "over" in log.read_text(), SLOW_SECONDS + 20)
    assert world.lapse.settled()
    return status, during, world.holds(page)


def slow_checkpoint(world):
    """One fsync() in the middle of the run takes 30 s; the file grows all the same."""
    env, log = slow_agent(world, 2)
    process, page = world.stress("--rate", 200_000, "--kinds", "sfah", env=env)
    assert wait_for(log.exists, 40)
    wal = next(world.only_run().glob("*.db-wal"))
    size = wal.stat().st_size
    grew = wait_for(lambda: wal.stat().st_size > size + (256 << 10), 20)
    during = "over" not in log.read_text()
    status = world.end(process, page)
    assert wait_for(lambda: "over" in log.read_text(), SLOW_SECONDS + 20)
    assert world.lapse.settled()
    return status, grew and during, world.holds(page)


class Background:
    """A scenario in a thread, with a world of its own."""

    def __init__(self, scenario):
        self.world, self.result, self.error = World(), None, None
        self.scenario = scenario
        self.thread = threading.Thread(target=self.play)
        self.thread.start()

    def play(self):
        try:
            self.result = self.scenario(self.world)
        except BaseException as error:  # shown by the test that waits
            self.error = error

    def wait(self):
        self.thread.join()
        if self.error:
            raise self.error
        return self.result


LONG = {"test_agent_stopped_for_longer_than_its_heartbeat_holds": stopped_agent,
        "test_agents_killed_again_and_again": mortal_agents,
        "test_fsync_that_takes_half_a_minute": slow_disk,
        "test_fsync_that_takes_half_a_minute_in_the_middle": slow_checkpoint}


@pytest.fixture(scope="module", autouse=True, name="background")
def background_fixture(request):
    wanted = {i.name for i in request.session.items if i.path == request.path}
    running = {name: Background(LONG[name]) for name in LONG if name in wanted and STRESS.exists()}
    yield running
    for one in running.values():
        one.thread.join()
        one.world.close()


# ---- disks ---------------------------------------------------------------------


def test_full_disk_then_room_again():
    with small_tmpfs("8m") as disk, contextlib.closing(World(runs=disk / "runs")) as world:
        filler = disk / "filler"
        filler.write_bytes(bytes(6 << 20))
        process, page = world.stress("--rate", 200_000, "--kinds", "sfah")
        assert world.logs("cannot store"), world.log()
        assert re.search(r"cannot store: .*(full|No space)", world.log()), world.log()
        assert page.goes_on()
        time.sleep(1)
        filler.unlink()
        assert world.logs("storing again"), world.log()
        assert world.end(process, page) == 0
        assert world.lapse.settled()
        said = world.holds(page)
        assert said["outcome"] == "exited"
        assert "store-recovered" in said["events"].split()


def test_disk_that_stays_full_stops_nothing():
    with small_tmpfs("1m") as disk, contextlib.closing(World(runs=disk / "runs")) as world:
        process, page = world.stress("--rate", 300_000)
        assert world.logs("cannot store"), world.log()
        assert page.goes_on()
        assert world.end(process, page) == 0
        # Told once an outage, not once a try.
        time.sleep(2)
        assert world.log().count("cannot store") <= 2
        os.kill(world.lapse.agent_pid(), signal.SIGTERM)
        assert wait_for(lambda: world.lapse.agent_pid() is None)
        run = world.only_run()
        assert world.lapse("ls").returncode == 0
        assert world.lapse("show", run.name).returncode == 0
        # What did not fit has waited in the ring.
        assert rings(world)
        subprocess.run(["mount", "-o", "remount,size=32m", disk], check=True)
        assert world.lapse("recover").returncode == 0
        assert not rings(world)
        assert world.holds(page)["outcome"] == "exited"


def test_agent_killed_while_the_disk_is_full():
    with small_tmpfs("8m") as disk, contextlib.closing(World(runs=disk / "runs")) as world:
        filler = disk / "filler"
        filler.write_bytes(bytes(7 << 20))
        process, page = world.stress("--rate", 200_000, "--kinds", "sf", "--threads", 2)
        assert world.logs("cannot store"), world.log()
        first = world.lapse.agent_pid()
        os.kill(first, signal.SIGKILL)
        assert wait_for(lambda: world.lapse.agent_pid() not in (None, first))
        time.sleep(1.5)
        filler.unlink()
        time.sleep(1.5)
        assert world.end(process, page) == 0
        assert world.lapse.settled(), world.log()
        assert world.holds(page)["outcome"] == "exited"


def test_full_shared_memory():
    with small_tmpfs("64k") as shared, contextlib.closing(World(rendezvous=shared)) as world:
        (shared / "filler").write_bytes(b"")
        with contextlib.suppress(OSError), open(shared / "filler", "ab", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        status, text = on_terminal(world, "run", "--", "sh", "-c", "echo ran; exit 7")
        assert status == 7
        assert "ran" in text
        assert re.search(r"lapse: not recording: .*(No space|full)", text), text


def test_no_room_for_a_ring():
    with small_tmpfs("160k") as shared, contextlib.closing(World(rendezvous=shared)) as world:
        page = world.page()
        status, text = on_terminal(world, "run", "--", STRESS, "--seconds", "0.3", page.path)
        # The stress program's own word for "not recorded".
        assert status == 3
        assert "no room for a ring" in text and "shm-size" in text
        assert page.returned > 0
        assert world.lapse.settled()
        assert world.lapse.json("show", "last")["outcome"] == "exited"


def test_read_only_folder_for_runs():
    with small_tmpfs("1m", ",ro") as disk, contextlib.closing(World(runs=disk / "runs")) as world:
        status, text = on_terminal(world, "run", "--", "sh", "-c", "exit 5")
        assert status == 5
        assert f"cannot write in {disk}/runs" in text
        assert world.lapse.settled()
        runs = world.base / "home" / ".local" / "state" / "lapse" / "runs"
        assert len(list(runs.glob("*/*.db"))) == 1
        world.lapse.env["HOME"] = str(disk)
        status, text = on_terminal(world, "run", "--", "sh", "-c", "exit 6")
        assert status == 6
        assert "not recording: cannot make a folder for the run" in text


def test_run_folder_deleted_underneath(world):
    process, page = world.stress("--rate", 20_000, "--kinds", "sf")
    assert world.stores(page)
    run = world.only_run()
    delete(run)
    assert wait_for(lambda: list(run.glob("*.db"))), world.log()
    begun_anew = page.returned
    assert world.stores(page), world.log()
    assert world.end(process, page) == 0
    assert world.lapse.settled()
    said = world.judge(page)
    one = said["processes"][0]
    # The count of stored ones includes those that were deleted.
    assert one["returned"] == one["stored"] + one["dropped"] + one["overwritten"]
    assert one["broken"] == 0
    assert 0 < one["points"] <= one["stored"]
    assert one["points"] >= one["returned"] - begun_anew - one["dropped"]
    assert " comes after " not in said["problems"]
    assert said["outcome"] == "exited"
    assert world.lapse("report", "last").returncode == 0


def test_rendezvous_folder_deleted_underneath(world):
    """Who cleans up /dev/shm ends no run: what is mapped goes on."""
    process, page = world.stress("--rate", 20_000, "--kinds", "sf")
    assert world.stores(page)  # the agent knows the ring
    delete(world.lapse.rendezvous)
    before = page.returned
    assert wait_for(lambda: page.returned > before + 20_000)
    assert world.end(process, page) == 0
    run = world.only_run()
    ended = wait_for(lambda: world.lapse.json("show", run.name)["outcome"] != "running")
    # The launcher's word cannot arrive any more.
    assert ended and world.holds(page)["outcome"] == "lost"


# ---- rings ---------------------------------------------------------------------------


# ---- launchers, agents, recovery -----------------------------------------------------


def test_eight_launchers_at_once(world):
    started = [world.stress("--rate", 10_000, "--seconds", 2, wait=False) for _ in range(8)]
    assert wait_for(lambda: all(page.pid for _, page in started))
    assert wait_for(lambda: len(agents_of(world)) == 1)
    for process, _ in started:
        assert process.wait(timeout=60) == 0
    assert world.lapse.settled()
    # The last one that a launcher started may only now find the lock taken.
    assert wait_for(lambda: len(agents_of(world)) == 1)
    ids = world.lapse.run_ids()
    assert len(ids) == 8
    by_pid = {}
    for i in ids:
        for line in world.lapse.json("show", i)["processes"]:
            by_pid.setdefault(line["pid"], i)
    for _, page in started:
        said = world.holds(page, world.lapse.runs / by_pid[page.pid])
        assert (said["outcome"], said["code"]) == ("exited", 0)


def test_launcher_killed(world):
    process, page = world.stress("--rate", 20_000, "--kinds", "sf")
    assert wait_for(lambda: world.lapse.agent_pid())
    process.kill()
    process.wait()
    assert page.goes_on()
    os.kill(page.pid, signal.SIGTERM)
    assert world.lapse.settled()
    assert world.holds(page)["outcome"] == "lost"
    assert world.lapse.json("show", "last")["outcome"] == "lost"


def test_recover_takes_what_everybody_left(world):
    process, page = world.stress("--rate", 20_000, "--kinds", "sfah", "--children", 1)
    assert world.stores(page) and wait_for(lambda: page.child)
    refused = world.lapse("recover")
    assert refused.returncode == 1
    assert "an agent is running" in refused.stderr
    for pid in (world.lapse.agent_pid(), process.pid, page.pid, page.child):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    assert wait_for(lambda: not is_stress(page.pid) and not is_stress(page.child))
    done = wait_for(lambda: (d := world.lapse("recover")).returncode == 0 and d)
    assert done and "1 runs" in done.stdout and "1 runs finished" in done.stdout
    assert world.lapse.settled(1)
    assert world.holds(page)["outcome"] == "lost"
    again = world.lapse("recover")
    assert again.returncode == 0 and "0 runs" in again.stdout


def test_program_without_launcher_and_agent(world):
    process, page = world.stress("--rate", 0, launch=False)
    assert wait_for(lambda: page.returned > 2_000_000)
    assert world.end(process, page) == 0
    assert not world.lapse.run_ids()
    assert world.lapse("recover").returncode == 0
    said = world.holds(page)
    # Nobody drained: a flight recorder keeps the end.
    assert said["processes"][0]["overwritten"] > 0
    assert said["processes"][0]["dropped"] == 0
    assert said["outcome"] == "exited"


def test_program_that_starts_its_agent(world):
    """Also: the agent holds none of the program's streams, or a pipe never ends."""
    page = world.page()
    done = subprocess.run([STRESS, "--start-agent", "--rate", "20000", "--seconds", "1.5", page.path],
                          env={**world.lapse.env, "LAPSE_BIN": str(LAPSE)}, cwd=world.base,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert wait_for(lambda: world.lapse.run_ids() and not rings(world)), world.log()
    world.holds(page)


def test_litter_of_killed_programs_is_swept(world):
    process, page = world.stress("--rate", 5_000, launch=False)
    assert wait_for(lambda: rings(world))
    folder = world.lapse.rendezvous / "rings"
    (alive,) = [p.name for p in folder.glob("*.ctl")]
    dead = re.sub("^[0-9]+-[0-9]+-", f"{page.pid}-1-", alive)
    litter = [dead, f".{dead}.7f.tmp", f".{dead}.{page.pid}.tmp"]
    young = "1-1-00000001.ctl"
    for name in (*litter, young, f".{alive}.7f.tmp", "stranger.ctl"):
        (folder / name).write_bytes(bytes(4096))
        if name != young:
            os.utime(folder / name, (0, 0))
    os.utime(folder / alive, (0, 0))
    assert world.lapse("recover").returncode == 0
    left = {p.name for p in folder.iterdir()}
    assert not left & set(litter)
    assert left >= {alive, young, f".{alive}.7f.tmp", "stranger.ctl"}
    os.kill(page.pid, signal.SIGTERM)
    process.wait(timeout=60)
    assert world.lapse("recover").returncode == 0
    world.holds(page)


# ---- the long ones -------------------------------------------------------------------


def test_agent_stopped_for_longer_than_its_heartbeat_holds(background):
    status, said = background["test_agent_stopped_for_longer_than_its_heartbeat_holds"].wait()
    assert status == 0
    assert said["outcome"] == "exited"
    for one in said["processes"]:
        assert one["dropped"] > 0, "KEEP while the heartbeat is young"
        assert one["overwritten"] > 0, "WRAP when it has grown old"
        assert one["worst_ns"] < STALL_NS


def test_agents_killed_again_and_again(background):
    status, victims, said = background["test_agents_killed_again_and_again"].wait()
    assert status == 0
    assert len(victims) >= 3
    assert said["outcome"] == "exited"
    assert len(said["processes"]) == 2


@pytest.mark.timeout(180)
def test_fsync_that_takes_half_a_minute(background):
    status, during, said = background["test_fsync_that_takes_half_a_minute"].wait()
    assert status == 0
    assert said["outcome"] == "exited"
    assert during, "calls returned while it hung"
    assert all(one["worst_ns"] < STALL_NS for one in said["processes"])


@pytest.mark.timeout(180)
def test_fsync_that_takes_half_a_minute_in_the_middle(background):
    scenario = background["test_fsync_that_takes_half_a_minute_in_the_middle"]
    status, grew, said = scenario.wait()
    assert status == 0
    assert grew
    assert said["outcome"] == "exited"
    assert all(one["worst_ns"] < STALL_NS for one in said["processes"])
