# SPDX-License-Identifier: Apache-2.0
"""lapse.open_run() while a run is recorded, from several threads and interpreters, and its
memory."""
import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from reader_box import T0, TRAINER, Box, one, wait_for

from lapse import _store
from lapse._reader import open_run

LIVE = """
import sys
from lapse import _core

assert _core.open() is None
m = _core.metric("live")
done = 0
for line in sys.stdin:
    for done in range(done, done + int(line)):
        m.set_at(done * 2.0, done, 1_700_000_000_000_000_000 + done)
    done += 1
"""

MILLION = """
import time
from lapse import _core

assert _core.open(lanes=1) is None
m = _core.metric("million")
for i in range(1_000_000):
    m.set(float(i))
    if i % 20_000 == 0:
        time.sleep(0.005)
_core.attr("dropped", str(_core.stats()["dropped"]))
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    one = Box(tmp_path_factory.mktemp("reader"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def recorded(box):
    """Folder of the run that TRAINER wrote."""
    return box.run(TRAINER, name="exact", status=3)


# ---- while it is written ---------------------------------------------------------------


def test_a_live_run(box):
    process = box.start(LIVE, name="live", stdin=subprocess.PIPE)
    run, asked = None, 0
    try:
        assert wait_for(lambda: find_live(box))
        run = open_run(Path(find_live(box)))
        assert run.info["outcome"] == "running"
        assert (run.info["end_ns"], run.info["exit_code"], run.info["user_s"]) == (None, None, None)
        for more in (1, 999, 20000):
            process.stdin.write(f"{more}\n")
            process.stdin.flush()
            asked += more
            assert wait_for(lambda: stored(run) + dropped(run) >= asked)  # noqa: B023
            points = one(run, "live").points()
            assert len(points) == stored(run)
            t0 = points[0][0] - points[0][1]
            assert abs(t0 - T0) < 1_000_000_000
            assert all(p == (t0 + p[1], p[1], p[1] * 2.0) for p in points)
        process.stdin.close()
        assert process.wait(30) == 0
        box.settle()
        assert run.info["outcome"] == "exited" and run.info["exit_code"] == 0
        assert len(one(run, "live").points()) + dropped(run) == asked
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if run:
            run.close()


def find_live(box):
    """Folder of the run named live, once it is stored."""
    for path in _store.runs(box.runs) if box.runs.is_dir() else ():
        try:
            with open_run(Path(path)) as run:
                if run.info["name"] == "live":
                    return path
        except OSError:
            continue
    return None


def stored(run):
    return sum(s.count for s in run.series("live"))


def dropped(run):
    return sum(p["dropped"] for p in run.processes if p["role"] == "trainer")


def test_threads_take_turns(recorded):
    run = open_run(recorded)
    expected = one(run, "loss").points()
    wrong = []

    def read():
        try:
            for _ in range(30):
                if one(run, "loss").points() != expected or run.info["name"] != "exact":
                    wrong.append("other points")
        except Exception as e:  # told by the main thread
            wrong.append(repr(e))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []

    ends = []

    def until_closed():
        try:
            while True:
                one(run, "loss").points()
        except ValueError as e:
            ends.append(str(e))

    threads = [threading.Thread(target=until_closed) for _ in range(3)]
    for t in threads:
        t.start()
    run.close()
    for t in threads:
        t.join()
    assert ends == ["the reader is closed"] * 3


def test_subinterpreters(recorded, tmp_path):
    """Each has types of its own; where Python has it, with a GIL of its own."""
    try:
        import _interpreters as interpreters
        execute = interpreters.exec
    except ImportError:
        interpreters = pytest.importorskip("_xxsubinterpreters")
        execute = interpreters.run_string
    code = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("lapse._store", {_store.__file__!r})
_store = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_store)
with _store.Reader({recorded!r}) as reader:
    (loss,) = [row for row in reader.series() if row["name"] == "loss"]
    values = memoryview(reader.points(0, loss["id"])[2])
    assert values[999] == 999 * 0.1
    try:
        reader.points(0, 999999)
    except FileNotFoundError:
        open({str(tmp_path / "%s")!r} % me, "w").close()
"""
    for me in range(3):
        interpreter = interpreters.create()
        execute(interpreter, f"me = {me}\n" + code)
        interpreters.destroy(interpreter)
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]
    with _store.Reader(recorded) as reader:
        assert reader.info()["name"] == "exact"


@pytest.mark.timeout(200)  # the agent stores them, and makes chunks of them at the end
def test_a_million_points(box):
    folder = box.run(MILLION, name="million")
    with open_run(folder) as run:
        (lost,) = [int(a.value) for a in run.attrs() if a.key == "dropped"]
        series = one(run, "million")
        began = time.perf_counter()
        t, _, v, _ = run._reader.points(series.host, series._id)
        columns = time.perf_counter()
        assert len(series.points()) == len(v) == 1_000_000 - lost
        tuples = time.perf_counter()
        last = series.last
        print(f"\n{len(v)} points: columns {columns - began:.3f} s, "
              f"list of tuples {tuples - columns:.3f} s, last {time.perf_counter() - tuples:.3f} s")
        values = memoryview(v).tolist()
        assert values == sorted(set(values)) and last == max(values)
        if not lost:
            assert values == [float(i) for i in range(1_000_000)]
        when = memoryview(t).tolist()
        assert when == sorted(when)


# ---- memory ----------------------------------------------------------------------------


def read_everything(path, root):
    with _store.Reader(path) as reader:
        reader.info(), reader.processes(), reader.events(), reader.attrs(), reader.warning()
        for row in reader.series():
            reader.summary(row["host"], row["id"])
            columns = reader.points(row["host"], row["id"], None, (0, 5), all_segments=True)
            memoryview(columns[0]).tolist(), bytes(columns[2])
        for call in (lambda: reader.points(0, 999999), lambda: reader.points(0, 1, 5),
                     lambda: reader.points(0, 1, (1, "a")), lambda: reader.points(-1, 1),
                     lambda: _store.find("nothing", root), lambda: _store.Reader("/none"),
                     lambda: _store.find("x", 5), lambda: reader.points(x=1)):
            with pytest.raises((OSError, TypeError, ValueError)):
                call()
    with pytest.raises(ValueError):
        reader.info()
    _store.runs(root), _store.find(path, root)


def test_nothing_leaks(recorded, box):
    watched = [None, True, _store.Reader, _store.Column, recorded, box.runs]
    for _ in range(3):
        read_everything(recorded, box.runs)
    gc.collect()
    counts = [sys.getrefcount(x) for x in watched]
    tracemalloc.start()
    read_everything(recorded, box.runs)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(30):
        read_everything(recorded, box.runs)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # One leaked object a round would be 30 of at least 24 bytes, a column 30 of 48.
    assert grown < 30 * 24, f"{grown} bytes more after 30 rounds"
    for x, old in zip(watched, counts):
        assert abs(sys.getrefcount(x) - old) < 15, x


def test_no_memory(recorded):
    """Each allocation in turn fails: MemoryError or a result, nothing else."""
    testcapi = pytest.importorskip("_testcapi")
    if not hasattr(testcapi, "set_nomemory"):
        pytest.skip("this Python cannot make allocations fail")
    reader = _store.Reader(recorded)
    (loss,) = [r for r in reader.series() if r["name"] == "loss"]
    (hist,) = [r for r in reader.series() if r["name"] == "latency"]
    calls = [reader.info, reader.processes, reader.series, reader.events, reader.attrs,
             reader.warning, lambda: reader.points(0, loss["id"], (0, None), (0, 9)),
             lambda: reader.points(0, hist["id"]), lambda: reader.summary(0, loss["id"]),
             lambda: _store.Reader(recorded), lambda: _store.runs("/"),
             lambda: _store.find(recorded)]
    for call in calls:
        failed = 0
        for n in range(1, 60):
            result = None
            testcapi.set_nomemory(n, n + 1)
            try:
                result = call()
            except MemoryError:
                failed += 1
            finally:
                testcapi.remove_mem_hooks()
            del result
        assert failed > 0, call
    assert len(memoryview(reader.points(0, loss["id"])[0])) == 1000
