# SPDX-License-Identifier: Apache-2.0
"""`lapse pack` and `lapse import`: a run carried elsewhere is the same run; what does
not belong into a folder of runs does not get there."""
import io
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time

import pytest

START = 1767323045


def simulate(lapse, *options, steps=300):
    return lapse.json("simulate", "--steps", steps, "--start", f"@{START}", *options)["id"]


def export(lapse, run, root=None):
    done = lapse("export", run, "--to", "csv", *(("--dir", root) if root else ()))
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


def hidden(folder):
    return [p.name for p in folder.iterdir() if p.name.startswith(".")]


def test_there_and_back(lapse, tmp_path):
    run = simulate(lapse, "--hosts", 2, "--ranks", 4)
    lapse("edit", run, "--name", "renamed")
    (lapse.runs / run / "report").mkdir()
    (lapse.runs / run / "report" / ("n" * 150 + ".html")).write_text("report")
    done = lapse("pack", run)
    assert done.returncode == 0 and done.stdout.startswith(f"{run}.tar.zst: ")
    archive = lapse.folder / f"{run}.tar.zst"
    assert archive.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    done = lapse("import", "--dir", other, archive)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run}: imported\n", "")
    assert export(lapse, run, other) == export(lapse, run)
    assert lapse.json("ls", "--dir", other)[0]["name"] == "renamed"
    assert (other / run / "report" / ("n" * 150 + ".html")).read_text() == "report"
    assert (other / run).stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in (other / run).iterdir() if p.is_file()} == {0o600}
    assert hidden(other) == [] and hidden(lapse.folder) == []
    # Again: nothing new, here and there.
    for root in (other, lapse.runs):
        done = lapse("import", "--dir", root, archive)
        assert (done.returncode, done.stdout) == (0, f"{run}: is there already\n"), done.stderr


def test_others_open_it(lapse, tmp_path):
    if not shutil.which("zstd"):
        pytest.skip("no zstd here")
    run = simulate(lapse)
    packed = subprocess.run([lapse.program, "pack", run, "-o", "-"], env=lapse.env,
                            cwd=lapse.folder, capture_output=True, check=True).stdout
    plain = subprocess.run(["zstd", "-d"], input=packed, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        assert tar.getnames() == [f"{run}/node0.db"]
        (lapse.folder / "plain.tar").write_bytes(plain)
    assert lapse("import", "--dir", tmp_path / "o", "plain.tar").returncode == 0
    assert export(lapse, run, tmp_path / "o") == export(lapse, run)
    # And what another program has packed.
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        name = tmp_path / f"other{form}.tar"
        with tarfile.open(name, "w", format=form) as tar:
            tar.add(lapse.runs / run, arcname=f"./deep{'x' * 90}/{run}")
        done = lapse("import", "--dir", tmp_path / f"o{form}", name)
        assert done.returncode == 1 and "no run in it" in done.stderr
        with tarfile.open(name, "w", format=form) as tar:
            tar.add(lapse.runs / run, arcname="./" + "x" * 90)
        assert lapse("import", "--dir", tmp_path / f"o{form}", name).returncode == 0
        assert export(lapse, run, tmp_path / f"o{form}") == export(lapse, run)


def test_live_run(lapse, wait_for, tmp_path):
    live = lapse.start("simulate", "--live", "--speed", "50", "--steps", "1000000")
    try:
        assert wait_for(lambda: lapse.run_ids() and lapse.json("ls")[0].get("last_step"), 30)
        run = lapse.run_ids()[0]
        assert lapse("pack", run, "-o", "live.tar.zst").returncode == 0
        refused = lapse("import", "--dir", tmp_path / "o", lapse.runs / run)
        assert refused.returncode == 1 and "lapse pack" in refused.stderr
        step = lapse.json("ls")[0]["last_step"]
        assert wait_for(lambda: (lapse.json("ls")[0].get("last_step") or 0) > step, 30)
    finally:
        live.send_signal(signal.SIGINT)
        live.communicate()
    assert lapse("import", "--dir", tmp_path / "o", "live.tar.zst").returncode == 0
    part, whole = export(lapse, run, tmp_path / "o"), export(lapse, run)
    assert 1 < len(part.splitlines()) < len(whole.splitlines())
    again = lapse("import", "live.tar.zst")
    assert again.returncode == 1 and "node0.db differs" in again.stderr
    assert export(lapse, run) == whole


def test_hosts_are_joined(lapse, tmp_path):
    run = simulate(lapse, "--hosts", 3, "--ranks", 3)
    files = sorted((lapse.runs / run).glob("*.db"))
    root = tmp_path / "o"
    done = lapse("import", "--dir", root, files[0])
    assert done.stdout == f"{run}: imported\n", done.stderr
    done = lapse("import", "--dir", root, *files)
    assert done.stdout == f"{run}: 2 hosts added\n", done.stderr
    assert export(lapse, run, root) == export(lapse, run)
    other = simulate(lapse, "--seed", 9)
    done = lapse("import", "--dir", root, files[0], next((lapse.runs / other).glob("*.db")))
    assert done.returncode == 1 and ("different runs" in done.stderr or "twice" in done.stderr)


def test_same_id_another_run(lapse, tmp_path):
    run = simulate(lapse)
    lapse("pack", run, "-o", "a.tar.zst")
    assert lapse("rm", run).returncode == 0
    other = simulate(lapse, "--seed", 2)
    os.rename(lapse.runs / other, lapse.runs / run)
    before = export(lapse, run)
    refused = lapse("import", "a.tar.zst")
    assert refused.returncode == 1 and "--as-new" in refused.stderr
    done = lapse("import", "--as-new", "a.tar.zst")
    new = done.stdout.split(":")[0]
    assert done.returncode == 0 and new != run and new[:16] == run[:16]
    assert lapse.run_ids() == sorted([run, new]) and export(lapse, run) == before
    assert {r["id"] for r in lapse.json("ls")} >= {new}
    assert lapse("import", "--dir", tmp_path / "o", "a.tar.zst").returncode == 0
    assert export(lapse, new) == export(lapse, run, tmp_path / "o")


def member(name, data=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, data


def archive(path, *members):
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return path


def test_hostile_archives(lapse, tmp_path):
    run = simulate(lapse)
    good = member(f"{run}/node0.db", (lapse.runs / run / "node0.db").read_bytes())
    root, a = tmp_path / "o", tmp_path / "a.tar"
    cases = {
        "leads out": [member("../evil", b"x")],
        "(..)": [member(f"{run}/../../evil", b"x")],
        "absolute path": [member("/tmp/lapse-evil", b"x")],
        "it is a link": [member(f"{run}/link", kind=tarfile.SYMTYPE, link="/etc/passwd")],
        "only files and folders": [member(f"{run}/hard", kind=tarfile.LNKTYPE, link="node0.db")],
        "neither a file": [member(f"{run}/fifo", kind=tarfile.FIFOTYPE)],
        "control characters": [member(f"{run}/a\x1b[2J", b"x")],
        "too deep": [member("/".join("abcdefghijklmnopqrstuvwxyz"), b"x")],
        "comes twice": [good],
    }
    for why, members in cases.items():
        if members:
            done = lapse("import", "--dir", root, archive(a, good, *members))
            assert done.returncode == 1 and why in done.stderr, (why, done.stderr)
            assert "\x1b" not in done.stderr
            assert list(root.iterdir()) == []
    assert not (tmp_path / "evil").exists() and not os.path.exists("/tmp/lapse-evil")
    done = lapse("import", "--dir", root, "--limit", "50k", archive(a, good))
    assert done.returncode == 1 and "--limit" in done.stderr
    whole = archive(a, good).read_bytes()
    for cut in (0, 100, 512, 5000, len(whole) // 2):
        a.write_bytes(whole[:cut])
        done = lapse("import", "--dir", root, a)
        assert done.returncode == 1 and done.stderr.startswith("lapse import: "), cut
    a.write_bytes(b"PK\3\4" + bytes(2000))
    assert "neither .tar.zst nor .tar" in lapse("import", "--dir", root, a).stderr
    assert list(root.iterdir()) == []


@pytest.mark.timeout(150)
def test_bomb(lapse, tmp_path):
    if not shutil.which("zstd"):
        pytest.skip("no zstd here")
    run = simulate(lapse, steps=5)
    info = tarfile.TarInfo(f"{run}/zeros")
    info.size = 3 << 30
    bomb = tmp_path / "bomb.tar.zst"
    with open(bomb, "wb") as out:
        zstd = subprocess.Popen(["zstd", "-q", "--long=27"], stdin=subprocess.PIPE,
                                stdout=out)
        zstd.stdin.write(info.tobuf())
        block = bytes(1 << 24)
        for _ in range(20):
            zstd.stdin.write(block)
        zstd.stdin.close()
        assert zstd.wait() == 0
    done = lapse("import", "--dir", tmp_path / "o", bomb)
    assert done.returncode == 1 and "times its size" in done.stderr
    assert list((tmp_path / "o").iterdir()) == []


def test_corrupt_database_is_refused(lapse, tmp_path):
    run = simulate(lapse, steps=20000)
    shutil.copytree(lapse.runs / run, tmp_path / run)
    (database,) = (tmp_path / run).glob("*.db")
    data = bytearray(database.read_bytes())
    data[len(data) // 2] ^= 0xff
    database.write_bytes(data)
    done = lapse("import", "--dir", tmp_path / "o", tmp_path / run)
    assert done.returncode == 1 and list((tmp_path / "o").iterdir()) == []
    for what in ("/nosuch", tmp_path, "/dev/null"):
        assert lapse("import", "--dir", tmp_path / "o", what).returncode == 1
    assert lapse("import").returncode == 2
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.kill
@pytest.mark.parametrize("seed", range(4))
def test_killed(lapse, tmp_path, seed):
    run = simulate(lapse, "--hosts", 3, "--ranks", 3, steps=3000)
    whole, rng = export(lapse, run), random.Random(seed)
    assert lapse("pack", run, "-o", "a.tar.zst").returncode == 0
    root = tmp_path / "o"
    for _ in range(5):
        importer = lapse.start("import", "--dir", root, "a.tar.zst")
        time.sleep(rng.random() * 0.12)
        importer.kill()
        importer.communicate()
        if (root / run).exists():
            assert export(lapse, run, root) == whole
    done = lapse("import", "--dir", root, "a.tar.zst")
    assert done.returncode == 0 and export(lapse, run, root) == whole
    assert [p.name for p in root.iterdir()] == [run]
