# SPDX-License-Identifier: Apache-2.0
"""lapse.open_run() against real runs: what is read is what was recorded, exactly; what cannot
be read says so."""
import gc
import math
import os
import shutil
import sqlite3
import struct
import sys
from pathlib import Path

import pytest
from reader_box import SPECIAL, T0, TRAINER, Box, one

from lapse import _reader, _store
from lapse._reader import open_run

EUCLEAN, EPROTO = 117, 71


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    one = Box(tmp_path_factory.mktemp("reader"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def recorded(box):
    """Folder of the run that TRAINER wrote."""
    return box.run(TRAINER, name="exact", status=3)


@pytest.fixture
def run(recorded):
    with open_run(recorded) as reader:
        yield reader


@pytest.fixture
def copy(recorded, tmp_path):
    """A copy of the run's folder, and its database, to be broken."""
    folder = tmp_path / "copy"
    shutil.copytree(recorded, folder)
    (database,) = folder.glob("*.db")
    return folder, database


@pytest.fixture
def t0(run):
    """T0 as stored: the agent puts a process's scale on its own by a constant, which for
    processes of one machine is far below a second."""
    first = one(run, "loss").points()[0][0]
    assert abs(first - T0) < 1_000_000_000
    return first


def bits(values):
    return [struct.unpack("<Q", struct.pack("<d", v))[0] for v in values]


# ---- what was recorded ----------------------------------------------------------------


def test_points_are_what_was_recorded(run, t0):
    series = one(run, "loss")
    assert series.points() == [(t0 + 1000 * i, i, i * 0.1) for i in range(1000)]
    assert (series.count, series.last, series.min, series.max) == (1000, 999 * 0.1, 0.0, 999 * 0.1)


def test_series_say_what_they_are(run):
    series = one(run, "loss")
    assert (series.name, series.unit, series.kind) == ("loss", "nat", "gauge")
    assert (series.help, series.source) == ("training loss", "record")
    assert series.labels == {"split": 'a "b"\n\\c', "fold": "1"}
    assert (series.rank, series.role) == (3, "trainer")
    assert repr(series).startswith("<lapse.Series loss{fold=")
    assert repr(series).endswith("gauge in nat rank 3, 1000 points>")
    assert one(run, "tokens").kind == "counter"
    assert one(run, "special").labels == {}


def test_patterns(run):
    def names(pattern):
        return {s.name for s in run.series(pattern)}

    assert names("some/*") == {"some/steps"}
    assert names("l[ao][st]*") == {"loss", "latency"}
    assert names("LOSS") == set()
    assert names("*") >= {"loss", "special", "some/steps", "tokens", "latency", "again"}
    assert [s.name for s in run.series()] == [s.name for s in run.series("*")]


def test_every_bit_is_kept(run):
    series = one(run, "special")
    assert bits(v for _, _, v in series.points()) == SPECIAL
    assert (series.min, series.max) == (-math.inf, math.inf)
    assert series.last == sys.float_info.max


def test_steps_may_be_none(run, t0):
    assert one(run, "some/steps").points() == [(t0 + i, i if i % 2 else None, float(i))
                                               for i in range(6)]


def test_counters_give_what_was_added(run):
    assert [v for _, _, v in one(run, "tokens").points()] == [512.0 + i for i in range(10)]


def test_histogram(run):
    series = one(run, "latency")
    assert (series.kind, series.min, series.max) == ("histogram", -2.0, math.inf)
    hists = series.histograms()
    assert sum(h["count"] for h in hists) == 7 and sum(h["nan"] for h in hists) == 1
    assert [h["time_ns"] for h in hists] == [t for t, _, _ in series.points()]
    found = {}
    for h in hists:
        assert sum(n for _, _, n in h["bins"]) == h["count"]
        for low, high, n in h["bins"]:
            found[low, high] = found.get((low, high), 0) + n
    # 16 bins an octave: of 1 to 2 each 1/16 wide, of -4 to -2 each 1/8; the least bin of all
    # ends at 2**48 times the least double; infinity is by itself.
    assert found == {(1.0, 1.0625): 3, (1.0625, 1.125): 1, (-2.125, -2.0): 1,
                     (0.0, 2.0**-1026): 1, (math.inf, math.inf): 1}
    with pytest.raises(ValueError, match="loss is a gauge"):
        one(run, "loss").histograms()


def test_segments_of_a_resumed_run(run, t0):
    series = one(run, "again")
    first = [(t0 + i, i, float(i)) for i in range(100)]
    second = [(t0 + 1_000_000 + i, i, 1000.0 + i) for i in range(50, 150)]
    assert series.points() == first[:50] + second
    assert series.points(all_segments=True) == first + second
    assert series.count == 200


def test_ranges_are_inclusive(run, t0):
    series = one(run, "loss")

    def steps(**limits):
        return [s for _, s, _ in series.points(**limits)]

    assert steps(steps=(10, 12)) == [10, 11, 12]
    assert steps(steps=(None, 1)) == [0, 1]
    assert steps(steps=(998, None)) == [998, 999]
    assert steps(steps=[5, 5]) == [5]
    assert steps(steps=(12, 10)) == [] and steps(steps=(1000, None)) == []
    assert steps(time=(t0 + 2000, t0 + 3999)) == [2, 3]
    assert steps(time=(t0 + 2000, None), steps=(None, 4)) == [2, 3, 4]
    assert steps(time=(None, None), steps=(None, None)) == list(range(1000))
    assert len(one(run, "some/steps").points(steps=(None, None))) == 3, "those with a step"


@pytest.mark.parametrize("bad, error", [
    (5, TypeError), ((1,), TypeError), ((1, 2, 3), TypeError), (("a", 2), TypeError),
    ((1.5, 2), TypeError), ((0, 1 << 63), OverflowError)])
def test_bad_ranges(run, bad, error):
    with pytest.raises(error):
        one(run, "loss").points(steps=bad)
    with pytest.raises(error):
        one(run, "loss").points(time=bad)


def test_no_point_has_no_value(recorded, run):
    loss = one(run, "loss")
    with _store.Reader(recorded) as reader:
        none = reader.summary(loss.host, loss._id, steps=(5000, None))
        some = reader.summary(loss.host, loss._id, None, (7, 9))
    assert none == {"count": 0, "nan": 0, "min": None, "max": None, "first": None, "last": None}
    assert some == {"count": 3, "nan": 0, "min": 7 * 0.1, "max": 9 * 0.1, "first": 7 * 0.1,
                    "last": 9 * 0.1}


def test_span(run):
    (span,) = [s for s in run.series("forward") if s.kind == "span"]
    ((start, step, duration),) = span.points()
    assert run.info["start_ns"] <= start <= run.info["end_ns"]
    assert step is None and 0 <= duration < 1e9


def test_info(run, recorded):
    info = run.info
    assert info["id"] == Path(recorded).name and run.path == recorded
    assert (info["name"], info["outcome"], info["exit_code"]) == ("exact", "exited", 3)
    assert info["signal"] is None and info["core"] is False
    assert info["start_ns"] < info["end_ns"]
    assert "exact.py" in info["command"]
    assert info["max_rss"] > 1 << 20 and info["user_s"] >= 0
    assert info["tags"] == [] and len(info["hosts"]) == 1
    assert repr(run) == f"<lapse.RunReader {recorded}>"
    assert run.warning == ""


def test_info_has_all_that_is_declared(run):
    assert set(run.info) == set(_reader.RunInfo.__annotations__)
    assert set(run.processes[0]) == set(_reader.Process.__annotations__)
    assert set(run.events()[0]) == set(_reader.Event.__annotations__)
    assert (set(one(run, "latency").histograms()[0]) ==
            set(_reader.Histogram.__annotations__))


def test_processes(run):
    (trainer,) = [p for p in run.processes if p["role"] == "trainer"]
    assert (trainer["rank"], trainer["local_rank"], trainer["world_size"]) == (3, 1, 8)
    assert trainer["pid"] > 0 and trainer["start_ns"] < trainer["end_ns"]
    assert (trainer["dropped"], trainer["overwritten"], trainer["broken"]) == (0, 0, 0)
    assert trainer["stored"] >= 1000
    assert trainer["id"] == one(run, "loss").process


def test_events(run):
    (event,) = run.events("checkpoint")
    assert (event["severity"], event["text"]) == ("warning", "saved")
    assert event["attrs"] == {"path": "a.pt", "size": 12}
    (plain,) = run.events("plain")
    assert (plain["severity"], plain["attrs"]) == ("info", {})
    assert run.events("no such kind") == []
    assert {e["kind"] for e in run.events()} >= {"checkpoint", "plain"}


def test_attributes(run):
    assert [a.value for a in run.attrs() if a.key == "optimizer"] == ["adamw"]


# ---- numpy and pandas ------------------------------------------------------------------


def test_numpy(run, t0):
    numpy = pytest.importorskip("numpy")
    when, steps, values = one(run, "loss").numpy(steps=(0, 4))
    assert (when.dtype, steps.dtype, values.dtype) == (numpy.int64, numpy.int64, numpy.float64)
    assert when.tolist() == [t0 + 1000 * i for i in range(5)]
    assert steps.tolist() == list(range(5)) and values.tolist() == [i * 0.1 for i in range(5)]
    assert not values.flags.owndata and values.flags.writeable, "a view of what was read"
    assert one(run, "some/steps").numpy()[1].tolist()[:2] == [-(1 << 63), 1]
    assert one(run, "loss").numpy(steps=(2000, None))[2].shape == (0,)
    run.close()
    gc.collect()
    assert values.tolist() == [i * 0.1 for i in range(5)], "outlives the reader"


def test_pandas(run, t0):
    pandas = pytest.importorskip("pandas")
    frame = one(run, "loss").pandas()
    assert frame.index.name == "step" and list(frame.index) == list(range(1000))
    assert list(frame["value"]) == [i * 0.1 for i in range(1000)]
    assert frame["time"].iloc[1] == pandas.Timestamp(t0 + 1000, tz="UTC")
    frame = one(run, "some/steps").pandas()
    assert frame.index.name == "time" and frame.index[1] == pandas.Timestamp(t0 + 1, tz="UTC")
    assert frame["step"].isna().tolist() == [True, False] * 3


@pytest.mark.parametrize("package", ["numpy", "pandas"])
def test_without_the_package(run, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"needs the package {package}: pip install {package}"):
        getattr(one(run, "loss"), package)()


# ---- finding runs ----------------------------------------------------------------------


def test_find(box, recorded):
    run_id = Path(recorded).name
    for what in (run_id, run_id[:-1], recorded, Path(recorded)):
        with open_run(what, dir=box.runs) as run:
            assert run.info["id"] == run_id
    with open_run(os.path.relpath(recorded) + "/", dir="/no/such") as run:
        assert run.info["id"] == run_id
    assert recorded in _store.runs(box.runs)


def test_last_and_the_environment(recorded, monkeypatch, tmp_path):
    for name in ("20250101-a", "20250102-b", "20250102-c"):
        shutil.copytree(recorded, tmp_path / name)
    monkeypatch.setenv("LAPSE_DIR", str(tmp_path))
    assert _store.runs() == [str(tmp_path / n) for n in ("20250101-a", "20250102-b", "20250102-c")]
    assert open_run().path == str(tmp_path / "20250102-c")
    assert open_run("20250101").path == str(tmp_path / "20250101-a")
    with pytest.raises(FileExistsError, match=r"2 runs begin with .*20250102-b 20250102-c"):
        open_run("20250102")


@pytest.mark.parametrize("what", ["no-such-run", "/no/such/folder", Path("nothing-here")])
def test_missing_run(box, recorded, what):
    with pytest.raises(FileNotFoundError, match="no"):
        open_run(what, dir=box.runs)


def test_no_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="no runs there yet"):
        open_run("last", dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="no runs there yet"):
        open_run("last", dir=tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no run is stored there"):
        open_run(tmp_path)


@pytest.mark.parametrize("call", [
    lambda: open_run(5), lambda: open_run("x", dir=5), _store.Reader, _store.find,
    lambda: _store.Reader(None), lambda: _store.runs(1, 2)])
def test_wrong_types(call):
    with pytest.raises(TypeError):
        call()


def test_nul_in_a_path():
    with pytest.raises(ValueError):
        open_run("a\0b")


# ---- what cannot be read ---------------------------------------------------------------


def test_not_a_database(copy):
    folder, database = copy
    database.write_bytes(b"this is not SQLite" * 1000)
    with pytest.raises(OSError, match=database.name) as caught:
        open_run(folder)
    assert caught.value.errno == EUCLEAN


def test_a_damaged_chunk(copy):
    folder, database = copy
    with sqlite3.connect(database) as db:
        pack, at, blob = db.execute(
            "SELECT pack, at + len - 1, blob FROM chunk JOIN pack ON pack = pack.id JOIN"
            " series ON series = series.id WHERE name = 'loss'").fetchone()
        broken = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1:]
        assert db.execute("UPDATE pack SET blob = ? WHERE id = ?", (broken, pack)).rowcount == 1
    db.close()
    with open_run(folder) as run:
        with pytest.raises(OSError, match=database.name) as caught:
            one(run, "loss").points()
        assert caught.value.errno == EUCLEAN
        with pytest.raises(OSError):
            assert one(run, "loss").last
        assert one(run, "tokens").last == 521.0, "the others are read"


def test_written_by_a_newer_lapse(copy):
    folder, database = copy
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(OSError) as caught:
        open_run(folder)
    assert caught.value.errno == EPROTO


def test_one_unreadable_host_is_a_warning(copy):
    folder, _ = copy
    (folder / "zzz.db").write_bytes(b"nothing" * 1000)
    with open_run(folder) as run:
        assert "zzz.db" in run.warning
        assert one(run, "tokens").last == 521.0


def test_two_hosts(copy):
    folder, database = copy
    shutil.copy(database, folder / "zzz.db")
    with open_run(folder) as run:
        assert [s.host_name for s in run.series("tokens")] == [database.stem, "zzz"]
        assert [s.last for s in run.series("tokens")] == [521.0, 521.0]
        assert run.info["hosts"] == [database.stem, "zzz"]


def test_text_that_is_not_utf8(copy):
    folder, database = copy
    with sqlite3.connect(database) as db:
        db.execute("UPDATE run SET notes = CAST(x'61ff62' AS TEXT)")
        db.execute("UPDATE event SET attrs = '{broken' WHERE kind = 'checkpoint'")
        db.execute("UPDATE event SET attrs = '[1]', severity = 9 WHERE kind = 'plain'")
    db.close()
    with open_run(folder) as run:
        assert run.info["notes"] == "a\\xffb"
        assert run.events("checkpoint")[0]["attrs"] == {"": "{broken"}
        assert run.events("plain")[0]["attrs"] == {"": [1]}
        assert run.events("plain")[0]["severity"] == "9"


def test_no_such_series(recorded):
    with _store.Reader(recorded) as reader:
        with pytest.raises(FileNotFoundError, match="no series 999999"):
            reader.points(0, 999999)
        with pytest.raises(OSError, match="host 7 of 1"):
            reader.points(7, 1)
        for host, series in ((-1, 1), (0, -1), (0, 1 << 40)):
            with pytest.raises(ValueError, match="from 0 to"):
                reader.points(host, series)
            with pytest.raises(ValueError, match="from 0 to"):
                reader.summary(host, series)


def test_closed(recorded):
    run = open_run(recorded)
    series = one(run, "loss")
    with run as same:
        assert same is run
    run.close()
    for call in (series.points, run.events, run.attrs, run.series, lambda: run.info,
                 lambda: run.processes, lambda: series.last, lambda: run.warning):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert run.path == recorded


def test_after_fork(run, recorded):
    series = one(run, "loss")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                series.points()
            except RuntimeError as e:
                status = 0 if "before fork()" in str(e) else 2
            run.close()
            with open_run(recorded) as own:
                status = status if one(own, "loss").last == 999 * 0.1 else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert series.last == 999 * 0.1
