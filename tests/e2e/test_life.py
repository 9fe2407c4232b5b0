# SPDX-License-Identifier: Apache-2.0
"""The life of a run's files: databases that are live in a private folder and moved at
the end, copies of live runs, archives that cannot be written, damaged files and
`lapse fsck`."""
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import fuse_folder
from conftest import BUILD, wait_for

STRESS = BUILD / "tests" / "chaos" / "stress"
NOBODY = 65534


@pytest.fixture
def local(lapse, tmp_path):
    """A private folder, used whatever the file system of the runs is."""
    folder = tmp_path / "local"
    config = tmp_path / "local.yaml"
    config.write_text(f"store:\n  live: local\n  local_dir: {folder}\n  copy_every: 1s\n")
    lapse.env["LAPSE_CONFIG"] = str(config)
    return folder


class Recording:
    """A program that sets the gauge `seq` to 0, 1, 2, ... under `lapse run`."""

    def __init__(self, lapse, rate=2000):
        self.page = lapse.folder / "page"
        self.lapse = lapse
        self.process = lapse.start("run", "--", STRESS, "--threads", "1", "--rate", str(rate),
                                   "--kinds", "s", "--seconds", "200", self.page)
        assert self.has(1)

    @property
    def folder(self):
        return self.lapse.runs / self.lapse.run_ids()[-1]

    def values(self, folder):
        return values(self.lapse, folder)[0]

    def has(self, n):
        """Wait until so many values are stored."""
        return wait_for(lambda: self.lapse.run_ids() and len(self.values(self.folder)) >= n)

    def agent_anew(self, killed):
        """Wait for the next agent."""
        return wait_for(lambda: self.lapse.agent_pid() not in (None, killed))

    def end(self):
        pid = int.from_bytes(self.page.read_bytes()[64:72], "little")
        os.kill(pid, signal.SIGTERM)
        self.process.wait(60)
        assert self.lapse.settled()


def values(lapse, folder, **options):
    """What is stored of the gauge, and what is said about it. No more and no less."""
    done = lapse("export", folder, "--to", "csv", "--series", "seq", **options)
    rows = list(csv.reader(io.StringIO(done.stdout)))
    if len(rows) < 2:
        return [], done
    at = rows[0].index("value")
    return [float(r[at]) for r in rows[1:] if len(r) == len(rows[0])], done


def has_been_copied(folder):
    """Wait for the third copy from now on: it was begun later than now."""
    seen = set()

    def copies():
        seen.update(path.stat().st_mtime_ns for path in folder.glob("*.db"))
        return len(seen)
    return wait_for(lambda: copies() >= 3)


def is_whole(numbers):
    return numbers == [float(i) for i in range(len(numbers))]


def pages(path):
    return path.stat().st_size // 1024


# ---- a private folder --------------------------------------------------------------------


def test_live_elsewhere_and_moved(lapse, local):
    recording = Recording(lapse)
    folder = recording.folder
    pointer = [p for p in folder.iterdir() if p.suffix == ".live"]
    assert len(pointer) == 1
    text = dict(line.split("=", 1) for line in pointer[0].read_text().splitlines() if "=" in line)
    assert text["path"].startswith(str(local))
    # Readers of this host see the live file, those of another one the copy.
    assert has_been_copied(folder)
    first, done = values(lapse, folder)
    assert is_whole(first) and "warning" not in done.stderr
    agent = lapse.agent_pid()
    os.kill(agent, signal.SIGSTOP)  # or it would miss its file
    hidden = local.with_name("hidden")
    local.rename(hidden)
    copy, done = values(lapse, folder)
    hidden.rename(local)
    now, _ = values(lapse, folder)
    os.kill(agent, signal.SIGCONT)
    assert is_whole(copy) and 0 < len(copy) <= len(now)
    assert "live on" in done.stderr and "copy of" in done.stderr
    recording.end()
    assert [p.suffix for p in folder.iterdir()] == [".db"]
    assert not list(local.iterdir())
    end, done = values(lapse, folder)
    assert is_whole(end) and len(end) >= len(now) and not done.stderr
    assert lapse("fsck", folder).returncode == 0


@pytest.mark.kill
def test_agent_killed_and_recovered(lapse, local):
    recording = Recording(lapse)
    for _ in range(2):
        pid = lapse.agent_pid()
        os.kill(pid, signal.SIGKILL)
        assert recording.agent_anew(pid)
        time.sleep(0.5)
    recording.end()
    end, done = values(lapse, recording.folder)
    assert is_whole(end) and not done.stderr
    assert not list(local.iterdir())


def test_run_folder_gone_and_back(lapse, local):
    recording = Recording(lapse)
    folder = recording.folder
    away = folder.with_name("away")
    folder.rename(away)
    recording.end()
    lapse.end_agent()
    # Nothing is lost: it is kept, and recover says where.
    done = lapse("recover")
    assert done.returncode == 1 and str(local) in done.stderr and str(folder) in done.stderr
    kept = [p for p in local.rglob("*.db")]
    assert len(kept) == 1
    away.rename(folder)
    done = lapse("recover", "--json")
    assert json.loads(done.stdout)["live_moved"] == 1
    end, done = values(lapse, folder)
    assert is_whole(end) and len(end) > 0 and not done.stderr
    assert not list(local.iterdir())


# ---- a real file system on which a WAL is not safe ------------------------------------------


@pytest.fixture
def fused(lapse, tmp_path):
    """The runs are on a FUSE file system, with private folders below XDG_STATE_HOME."""
    if fuse_folder.why_not():
        pytest.skip(fuse_folder.why_not())
    lower = tmp_path / "lower"
    lower.mkdir()
    lapse.runs.mkdir()
    lapse.env["XDG_STATE_HOME"] = str(tmp_path / "state")
    try:
        mount = fuse_folder.mounted(lower, lapse.runs)
        mount.__enter__()
    except OSError as e:
        pytest.skip(str(e))
    yield tmp_path / "state" / "lapse" / "live"
    lapse.end_agent()
    mount.__exit__(None, None, None)


def test_fuse(lapse, fused):
    recording = Recording(lapse)
    folder = recording.folder
    assert len(list(folder.glob("*.live"))) == 1 and len(list(fused.iterdir())) == 1
    assert not list(folder.glob("*-wal"))
    agent = lapse.agent_pid()
    os.kill(agent, signal.SIGKILL)
    assert recording.agent_anew(agent) and recording.has(1001)
    recording.end()
    assert [p.suffix for p in folder.iterdir()] == [".db"]
    assert not list(fused.iterdir())
    numbers, done = values(lapse, folder)
    assert is_whole(numbers) and len(numbers) > 1000 and not done.stderr
    assert lapse("fsck", folder).returncode == 0


def test_fuse_in_place(lapse, fused, tmp_path):
    config = tmp_path / "in-place.yaml"
    config.write_text("store:\n  live: in-place\n")
    lapse.env["LAPSE_CONFIG"] = str(config)
    recording = Recording(lapse)
    folder = recording.folder
    assert not list(folder.glob("*.live")) and not list(folder.glob("*-wal"))
    assert not fused.exists()
    agent = lapse.agent_pid()
    os.kill(agent, signal.SIGKILL)
    assert recording.agent_anew(agent) and recording.has(1001)
    recording.end()
    assert [p.suffix for p in folder.iterdir()] == [".db"]
    numbers, done = values(lapse, folder)
    assert is_whole(numbers) and len(numbers) > 1000 and not done.stderr


def test_fuse_without_a_private_folder(lapse, fused, tmp_path):
    fused.parent.mkdir(parents=True)
    fused.write_text("no folder")
    config = tmp_path / "nowhere.yaml"
    config.write_text(f"store:\n  local_dir: {fused}\n")
    lapse.env["LAPSE_CONFIG"] = str(config)
    recording = Recording(lapse)
    recording.end()
    numbers, done = values(lapse, recording.folder)
    assert is_whole(numbers) and not done.stderr
    assert "store-slow" in lapse("show", recording.folder).stdout


# ---- copies and archives -------------------------------------------------------------------


@pytest.mark.timeout(240)
def test_copies_of_a_live_run(lapse, tmp_path):
    """Copied file by file while it is written, in each order: right or told."""
    recording = Recording(lapse, rate=20000)
    copies = []
    for i in range(8):
        copy = tmp_path / f"copy{i}"
        copy.mkdir()
        names = sorted(p.name for p in recording.folder.iterdir())
        for name in names if i % 2 == 0 else reversed(names):
            shutil.copy2(recording.folder / name, copy / name)
            time.sleep(0.1 * (i // 2))
        copies.append(copy)
    recording.end()
    for copy in copies:
        numbers, done = values(lapse, copy)
        show = lapse("show", copy)
        assert done.returncode in (0, 1) and show.returncode in (0, 1)
        if not is_whole(numbers) or not numbers:
            assert "copies of different moments" in done.stderr + show.stderr, done.stderr


def test_copy_without_its_log(lapse, tmp_path):
    recording = Recording(lapse, rate=20000)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in recording.folder.glob("*.db"):
        shutil.copy2(path, copy / path.name)
    recording.end()
    numbers, done = values(lapse, copy)
    assert is_whole(numbers)
    assert "copied without its log" in done.stderr or "no tables" in done.stderr \
        or "not a database of lapse" in done.stderr
    # The whole run has no such warning.
    assert not values(lapse, recording.folder)[1].stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_archive_of_somebody_else(lapse, tmp_path):
    lapse("simulate", "--steps", "2000", check=True)
    run = lapse.runs / lapse.run_ids()[-1]
    expected = lapse("report", run).stdout
    archive = lapse.rendezvous / "archive"  # below a folder that everybody may enter
    shutil.copytree(run, archive)
    os.chmod(lapse.rendezvous, 0o711)
    program = lapse.rendezvous / "lapse"
    shutil.copy2(lapse.program, program)
    env = {k: v for k, v in lapse.env.items() if k != "LAPSE_RENDEZVOUS"}
    for path in archive.iterdir():
        os.chmod(path, 0o444)
    os.chmod(archive, 0o555)

    def ask():
        return subprocess.run([program, "report", archive], env=env, user=NOBODY, group=NOBODY,
                              cwd="/", capture_output=True, text=True, timeout=60)

    done = ask()
    assert done.stdout == expected and not done.stderr
    # One of two hosts' files may not be read: the other is shown.
    path = next(archive.glob("*.db"))
    shutil.copy2(path, archive / "other.db")
    os.chmod(archive / "other.db", 0)
    done = ask()
    assert done.returncode == 0 and "other.db" in done.stderr
    assert done.stdout == expected
    # None may.
    os.chmod(archive, 0o700)
    done = ask()
    assert done.returncode == 1 and "ermission denied" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_archive_with_a_log(lapse):
    """What a killed agent left, where nobody can write: told, and shown as far as it goes."""
    recording = Recording(lapse, rate=20000)
    assert recording.has(20000)
    archive = lapse.rendezvous / "archive"
    os.kill(lapse.agent_pid(), signal.SIGKILL)
    shutil.copytree(recording.folder, archive)
    recording.end()
    os.chmod(lapse.rendezvous, 0o711)
    program = lapse.rendezvous / "lapse"
    shutil.copy2(lapse.program, program)
    for path in archive.iterdir():
        os.chmod(path, 0o444)
    os.chmod(archive, 0o555)
    env = {k: v for k, v in lapse.env.items() if k != "LAPSE_RENDEZVOUS"}
    done = subprocess.run([program, "show", archive], env=env, user=NOBODY, group=NOBODY, cwd="/",
                          capture_output=True, text=True, timeout=60)
    assert "copy the folder to one of yours" in done.stderr or done.stderr == ""


# ---- damage ----------------------------------------------------------------------------------


def damage(path, page, data):
    with open(path, "r+b") as f:
        f.seek(page * 1024)
        f.write(data)


def test_fsck(lapse, tmp_path):
    lapse("simulate", "--steps", "20000", check=True)
    run = lapse.runs / lapse.run_ids()[-1]
    done = lapse("fsck", run)
    assert done.returncode == 0 and "all is well" in done.stdout
    path = next(run.glob("*.db"))
    damage(path, pages(path) // 2, bytes(range(256)) * 8)
    before = path.read_bytes()
    done = lapse("fsck", "--json", run)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    findings = report["runs"][0]["files"][0]["findings"]
    assert findings and report["findings"] == len(findings)
    assert all(f["what"] and f["advice"] for f in findings)
    done = lapse("fsck", "--repair", run)
    assert done.returncode == 1 and "repaired" in done.stdout
    kept = list(run.glob("*.db.corrupt-*"))
    assert len(kept) == 1 and kept[0].read_bytes() == before
    done = lapse("fsck", run)
    assert done.returncode == 0 and "was set aside" in done.stdout
    done = lapse("show", run)
    assert done.returncode == 0 and "store-repaired" in done.stdout


def test_fsck_refuses_a_live_file(lapse):
    recording = Recording(lapse)
    path = next(recording.folder.glob("*.db"))
    assert lapse("fsck", recording.folder).returncode == 0
    done = lapse("fsck", "--repair", recording.folder)
    assert done.returncode == 0 and path.exists()  # nothing to repair: nothing is refused
    recording.end()
    assert lapse("fsck", "--all").returncode == 0


@pytest.mark.parametrize("what", ["header", "cut", "middle", "log"])
def test_damaged_while_nobody_looks(lapse, what):
    """An agent that finds its file damaged goes on in a new one; the old is kept."""
    recording = Recording(lapse, rate=5000)
    assert recording.has(5000)
    folder = recording.folder
    path = next(folder.glob("*.db"))
    os.kill(recording.process.pid, signal.SIGSTOP)  # starts no agent meanwhile
    pid = lapse.agent_pid()
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: lapse.agent_pid() is None)
    log = path.with_name(path.name + "-wal")
    if what != "log":
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if what == "header":
        damage(path, 0, bytes(1024))
    elif what == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif what == "middle":
        for page in range(1, pages(path)):
            damage(path, page, b"\xa5" * 1024)
    else:
        log.write_bytes(os.urandom(100_000))
    os.kill(recording.process.pid, signal.SIGCONT)
    assert recording.agent_anew(pid)
    time.sleep(1.5)
    recording.end()
    done = lapse("show", folder)
    assert done.returncode == 0
    assert lapse("fsck", folder).returncode == 0
    aside = list(folder.glob("*.corrupt-*"))
    assert aside or what == "log"  # garbage is no log: what it held is gone
    if aside:
        assert "store-corrupt" in done.stdout


def test_other_hosts_stay_readable(lapse):
    lapse("simulate", "--steps", "3000", "--hosts", "2", "--ranks", "2", check=True)
    run = lapse.runs / lapse.run_ids()[-1]
    files = sorted(run.glob("*.db"))
    assert len(files) == 2
    damage(files[0], 0, bytes(1024))
    done = lapse("show", run)
    assert done.returncode == 0 and files[0].name in done.stderr
    assert files[1].stem in done.stdout
    done = lapse("fsck", "--repair", run)
    assert "repaired" in done.stdout, done.stdout + done.stderr
    assert not lapse("show", run).stderr
