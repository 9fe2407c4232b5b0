# SPDX-License-Identifier: Apache-2.0
"""Databases and rings that are corrupt, truncated, hostile or another user's (faults.py): the
command always runs, and what was accepted is kept."""
import contextlib
import os
import random
import signal
import struct
import subprocess
import time

import pytest

from conftest import wait_for
from faults import LAPSE, STRESS, World, rings
from faults import world_fixture  # noqa: F401

pytestmark = pytest.mark.kill


# ---- databases -------------------------------------------------------------------


def corrupt(path, keep=0):
    """Random bytes over all but the first `keep` bytes, file size kept."""
    size = path.stat().st_size
    with open(path, "r+b", buffering=0) as file:
        file.seek(keep)
        file.write(random.Random(1).randbytes(max(size - keep, 0)))


def test_corrupt_database(world):
    """Set aside while the run goes on in the next file."""
    process, page = world.stress("--rate", 200_000, "--kinds", "sfah")
    assert world.stores(page, 200_000)  # what was folded is in the database itself
    run = world.only_run()
    db = next(run.glob("*.db"))
    corrupt(db, 4096)
    corrupt(db.with_name(db.name + "-wal"), 32)
    aside = wait_for(lambda: list(run.glob("*.corrupt-*")), 40)
    assert aside, f"{sorted(run.iterdir())}\n{world.log()}"
    assert wait_for(lambda: list(run.glob("*.db")))
    at_corruption = page.returned
    assert wait_for(lambda: page.returned > at_corruption + 200_000)
    assert world.end(process, page) == 0
    assert world.lapse.settled(), world.log()
    said = world.judge(page)
    one = said["processes"][0]
    assert one["points"] > 0
    # What was stored before counts as stored, and lies in the file set aside.
    assert one["returned"] == one["stored"] + one["dropped"] + one["overwritten"]
    assert " comes after " not in said["problems"]
    assert said["outcome"] == "exited"
    assert "store-corrupt" in said["events"].split()
    for command in ("show", "report"):
        done = world.lapse(command, run.name)
        assert done.returncode == 0, done.stderr
        assert "corrupt" in done.stdout + done.stderr


def test_database_corrupt_from_its_first_page(world):
    """SQLite keeps that page in memory: found at the end at the latest."""
    process, page = world.stress("--rate", 20_000, "--kinds", "sf")
    assert world.stores(page)
    run = world.only_run()
    for path in run.glob("*.db*"):
        if not path.name.endswith("-shm"):
            corrupt(path)
    assert page.goes_on()
    time.sleep(1.5)
    assert world.end(process, page) == 0
    assert world.lapse.settled(), world.log()
    done = world.lapse("show", run.name)
    assert "corrupt" in done.stdout + done.stderr
    assert done.returncode in (0, 1)


def test_database_corrupted_at_its_end(world):
    """Between the last commit and the close: nothing is left to be stored again."""
    assert world.lapse("run", "--name", "other", "--", "true").returncode == 0
    assert world.lapse.settled()
    (other,) = world.lapse.run_ids()
    process, page = world.stress("--rate", 5_000)
    assert world.stores(page)
    (run,) = [world.lapse.runs / i for i in world.lapse.run_ids() if i != other]
    agent = world.lapse.agent_pid()
    os.kill(agent, signal.SIGSTOP)
    assert world.end(process, page) == 0
    for path in run.iterdir():
        if not path.name.endswith("-shm"):
            corrupt(path)
    os.kill(agent, signal.SIGCONT)
    assert world.lapse.settled(), world.log()
    assert world.lapse.agent_pid() == agent
    show, listed = world.lapse("show", run.name), world.lapse("ls")
    assert "corrupt" in show.stdout + show.stderr
    assert listed.returncode == 0 and "other" in listed.stdout and run.name in listed.stdout


# ---- rings ---------------------------------------------------------------------------


def test_truncated_ring(world):
    """A ring is cut to nothing while its program stands still; another run goes on."""
    victim, victim_page = world.stress("--rate", 20_000)
    assert world.stores(victim_page)
    ring = rings(world)[0]
    other, other_page = world.stress("--rate", 20_000)
    assert world.stores(other_page)
    os.kill(victim_page.pid, signal.SIGSTOP)
    os.truncate(ring, 0)
    assert world.logs("was cut short"), world.log()
    assert other_page.goes_on()
    world.end(victim, victim_page, signal.SIGKILL)
    assert world.end(other, other_page) == 0
    assert world.lapse.settled(), world.log()
    runs = {i: world.lapse.json("show", i) for i in world.lapse.run_ids()}
    by_outcome = {r["outcome"]: world.lapse.runs / i for i, r in runs.items()}
    assert set(by_outcome) == {"signaled", "exited"}
    world.holds(other_page, by_outcome["exited"])


def test_truncated_control_page(world):
    process, page = world.stress("--rate", 20_000)
    assert world.stores(page)
    os.kill(page.pid, signal.SIGSTOP)
    for ctl in (world.lapse.rendezvous / "rings").glob("*.ctl"):
        os.truncate(ctl, 0)
    time.sleep(1.5)
    agent = world.lapse.agent_pid()
    assert agent
    world.end(process, page, signal.SIGKILL)
    assert world.lapse.settled(), world.log()
    assert world.lapse.agent_pid() == agent
    assert world.lapse.json("show", "last")["outcome"] == "signaled"


def hostile_rings(folder, sound):
    """Files that are no rings, or lie; (name, bytes)."""
    chance = random.Random(2)
    yield "empty", b""
    yield "short", sound[:100]
    yield "random", chance.randbytes(len(sound))
    yield "half", sound[:len(sound) // 2]
    yield "longer", sound + bytes(4096)
    for name, offset, value in [("lanes", 16, 0xffffffff), ("version", 8, 0xffff)]:
        yield name, sound[:offset] + struct.pack("I", value) + sound[offset + 4:]
    yield "behind", sound[:4096] + chance.randbytes(len(sound) - 4096)
    yield "lane0", sound[:4096] + struct.pack("4Q", *[2 ** 63] * 4) + sound[4128:]
    for i in range(20):
        data = bytearray(sound)
        for _ in range(40):
            data[chance.randrange(8192)] = chance.randrange(256)
        yield f"flip{i}", bytes(data)


def hostile_runs(folder):
    """Files of launchers that never were."""
    os.mkfifo(folder / "20260101-000000-fifo.run")
    os.mkfifo(folder / "20260101-000000-fifo.outcome")
    (folder / "20260101-000000-dirs.run").mkdir()
    (folder / "20260101-000000-link.run").symlink_to("/dev/zero")
    (folder / "20260101-000000-rand.run").write_bytes(random.Random(3).randbytes(5000))
    (folder / "20260101-000000-huge.run").write_bytes(b"lapse-run 1\n" + b"x=" * (1 << 20))
    (folder / "20260101-000000-dots.run").write_text("lapse-run 1\nid=../../x\ndir=/tmp\nend\n")


def test_hostile_rings(world):
    process, page = world.stress("--rate", 20_000, "--kinds", "sfah")
    assert world.stores(page)
    folder, sound = world.lapse.rendezvous / "rings", rings(world)[0]
    data = sound.read_bytes()
    for name, content in hostile_rings(folder, data):
        (folder / f"hostile-{name}.ring").write_bytes(content)
    (folder / "hostile-link.ring").symlink_to(sound)
    (folder / "hostile-loop.ring").symlink_to("hostile-loop.ring")
    (folder / "hostile-null.ring").symlink_to("/dev/zero")
    os.mkfifo(folder / "hostile-fifo.ring")
    (folder / "hostile-folder.ring").mkdir()
    (folder / "hostile-\n\x1b[31m.ring").write_bytes(b"x")
    hostile_runs(world.lapse.rendezvous / "runs")
    for name in ("random", "link", "fifo", "folder", "lanes", "short"):
        assert world.logs(f"hostile-{name}.ring"), world.log()
    time.sleep(2)  # for what it finds out later, each second
    log = world.log()
    assert "\x1b" not in log
    agent = world.lapse.agent_pid()
    assert world.end(process, page) == 0
    assert wait_for(lambda: {p.name[:9] for p in (world.lapse.rendezvous / "runs").glob("*.run")}
                    == {"20260101-"}), world.log()
    assert world.lapse.agent_pid() == agent
    (run,) = [world.lapse.runs / i for i in world.lapse.run_ids()
              if world.lapse.json("show", i)["name"] == STRESS.name and
              world.judge(page, world.lapse.runs / i)["outcome"] == "exited"]
    said = world.judge(page, run)
    # A copy of a ring is one more process of the run, as far as anybody can tell.
    one = next(p for p in said["processes"] if p["pid"] == page.pid)
    assert one["found"]
    assert one["stored"] + one["dropped"] + one["overwritten"] >= one["returned"]


def test_ring_of_another_user():
    """An agent that is not root takes no ring that another user made."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    with contextlib.closing(World()) as world:
        nobody = 65534
        for path in (world.base, world.lapse.rendezvous):
            os.chown(path, nobody, nobody)
        try:
            subprocess.run([LAPSE, "version"], user=nobody, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("the program cannot be reached by another user")
        process, page = world.stress("--rate", 5_000, user=nobody, group=nobody)
        assert wait_for(lambda: rings(world)) and wait_for(lambda: world.lapse.agent_pid())
        foreign = world.lapse.rendezvous / "rings" / "foreign.ring"
        foreign.write_bytes(rings(world)[0].read_bytes())
        foreign.chmod(0o666)
        assert world.logs("foreign.ring is left alone"), world.log()
        assert world.end(process, page) == 0
        assert world.lapse.settled()
        world.holds(page)


# ---- launchers, agents, recovery -----------------------------------------------------

