# SPDX-License-Identifier: Apache-2.0
"""Machine figures for callbacks: the alias table, reading back what the agent stored,
the resource log, alerts. No framework is needed."""

import csv
import os
import time

import pytest

import lapse
from lapse import _resource_alerts
from lapse._aliases import SETS
from lapse._machine import Machine, host_name
from lapse._resource_alerts import Alerts, gpus_of_this_program
from lapse._resource_log import ResourceLog

HEADER = (
    "cpu_percent,cpu_process_percent,memory_system_mb,memory_available_mb,memory_percent,"
    "memory_process_mb,io_read_rate_mbps,io_write_rate_mbps,io_wait_pct,step,timestamp,epoch"
).split(",")
GPU = ["util", "memory_used_mb", "memory_total_mb", "memory_pct", "temp_c", "power_w"]
S = 1_000_000_000


class FakeReader:
    """A stored run: {(name, labels): [(seconds ago, value)]}, and this process."""

    def __init__(self):
        self.lines, self.now = {}, time.time_ns()

    def put(self, name, points, labels=""):
        self.lines[(name, labels)] = [(self.now - int(ago * S), value) for ago, value in points]

    def series(self):
        return [
            {"host": 0, "id": i, "name": name, "labels": labels}
            for i, (name, labels) in enumerate(self.lines)
        ]

    def points(self, host, series, time, steps):
        since = time[0]
        chosen = [p for p in list(self.lines.values())[series] if p[0] >= since]
        from array import array

        return array("q", [p[0] for p in chosen]), None, array("d", [p[1] for p in chosen]), []

    def processes(self):
        mine = {"host": 0, "host_name": host_name(), "pid": os.getpid(), "rank": 3,
                "local_rank": 1, "role": "trainer"}  # fmt: skip
        return [mine]

    def attrs(self):
        return [(0, 0, "gpu/0/uuid", "GPU-aaaa"), (0, 0, "gpu/1/uuid", "GPU-bbbb")]


@pytest.fixture
def stored():
    reader, machine = FakeReader(), Machine()
    machine._reader = reader
    return reader, machine


def test_units_and_labels(stored):
    reader, machine = stored
    reader.put("cpu/busy", [(2, 0.5), (1, 0.7)])
    reader.put("memory/used", [(1, 3 * 2**30)])
    reader.put("memory/total", [(1, 4 * 2**30)])
    reader.put("memory/available", [(1, 2**30)])
    reader.put("process/rss", [(1, 2**20)], 'role="trainer",slot="0"')
    reader.put("process/rss", [(1, 5 * 2**20)], 'role="trainer",slot="1"')  # this process
    reader.put("process/cpu", [(1, 1.5)], 'role="trainer",slot="1"')
    reader.put("gpu/busy", [(1, 0.85)], 'gpu="0"')
    reader.put("gpu/busy", [(1, 0.25)], 'gpu="10"')
    reader.put("gpu/busy", [(1, 0.5)], 'gpu="2"')
    reader.put("gpu/memory/used", [(1, 6 * 2**30)], 'gpu="0"')
    reader.put("gpu/memory/used", [(1, 1)], 'gpu="0",mig="1"')  # a part, not the GPU
    reader.put("gpu/memory/total", [(1, 8 * 2**30)], 'gpu="0"')
    reader.put("gpu/temperature", [(1, 72.0)], 'gpu="0"')
    machine.poll()
    row = machine.row("ocr")
    assert machine.gpus == ["0", "2", "10"]
    assert row["cpu_percent"] == pytest.approx(70)
    assert machine.row("ocr", seconds=10)["cpu_percent"] == pytest.approx(60)
    assert row["memory_system_mb"] == 3072 and row["memory_available_mb"] == 1024
    assert row["memory_percent"] == 75 and row["memory_process_mb"] == 5
    assert row["cpu_process_percent"] == 150
    assert row["gpu_0_util"] == 0.85 and row["gpu_10_util"] == 0.25
    assert row["gpu_0_memory_used_mb"] == 6144 and row["gpu_0_memory_pct"] == 75
    assert row["gpu_0_temp_c"] == 72 and row["gpu_2_temp_c"] is None
    assert machine.get("memory_available_gb") == 1
    assert machine.get("gpu_0_temperature") == 72
    assert machine.get("gpu_7_util") is None
    with pytest.raises(KeyError):
        machine.get("nonsense")


def test_a_process_of_another_host_may_have_the_same_pid(stored):
    """In containers it mostly has: 1. Before this process is stored nothing is taken."""
    reader, machine = stored
    reader.put("cpu/busy", [(1, 0.5)])
    mine = reader.processes()
    reader.processes = lambda: [{**mine[0], "host": 1, "host_name": "another"}]
    machine.poll()
    assert machine.version == 0 and machine.row("ocr")["cpu_percent"] is None
    reader.processes = lambda: [*mine, {**mine[0], "host": 1, "host_name": "another"}]
    machine.poll()
    assert machine.row("ocr")["cpu_percent"] == pytest.approx(50)


def test_rates_of_counters(stored):
    """A counter's points are what was added: 8 MiB in the last 2 s, of two disks, without
    what is made of them."""
    reader, machine = stored
    for device in ("sda", "sdb", "dm-0", "md1"):
        points = [(3, 1 << 20), (2, 1 << 20), (1, 3 << 20)]
        reader.put("disk/read", points, f'device="{device}"')
    machine.poll()
    assert machine.get("disk_read_mb_s", seconds=2) == pytest.approx(2 * (1 + 3) / 2)
    assert machine.get("disk_read_mb_s") == pytest.approx(2 * 3)


def test_each_poll_takes_what_is_new(stored):
    reader, machine = stored
    reader.put("cpu/busy", [(3, 0.1)])
    machine.poll()
    first = machine.version
    machine.poll()
    assert machine.version == first, "nothing new came"
    reader.put("cpu/busy", [(3, 0.1), (1, 0.3)])
    machine.poll()
    assert machine.version == first + 1
    assert machine.row("ocr", seconds=60)["cpu_percent"] == pytest.approx(20)


def test_old_readings_are_no_readings(stored):
    reader, machine = stored
    reader.put("cpu/busy", [(100, 0.1)])
    machine.poll()
    assert machine.row("ocr")["cpu_percent"] is None
    absent = machine.absent("ocr")
    assert "lapse doctor" in absent["cpu_percent"]
    assert "no GPU" in absent["gpu"]


def test_out_of_memory_in(stored):
    """1 GiB left, 10 MiB less each second: 102.4 s."""
    reader, machine = stored
    line = [(30 - i, 2**30 + (29 - i) * 10 * 2**20) for i in range(30)]
    reader.put("memory/available", line)
    machine.poll()
    assert machine.out_of_memory_in(60) == pytest.approx(102.4, rel=0.01)
    reader.put("memory/available", [(ago, 2**30) for ago, _ in line])
    machine._points.clear()
    machine._newest.clear()
    machine.poll()
    assert machine.out_of_memory_in(60) is None


def test_columns_of_the_document():
    each, machine = SETS["ocr"]
    assert [alias.name for alias in machine] == HEADER[:-3]
    assert [alias.name for alias in each] == [f"gpu_{{i}}_{name}" for name in GPU]


def test_this_machine(place):
    """Against /proc, of a run that is recorded right now."""
    run = place.run(
        """
        import json, os, time, lapse
        from lapse import _machine
        lapse.init(capture=False)
        before = _machine.share()
        assert _machine.share() is before          # one for all callbacks
        end = time.time() + 30
        def resident():
            pages = int(open("/proc/self/statm").read().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        while time.time() < end:
            row, rss = before.row("ocr"), resident()
            known = [row[k] for k in row if k.startswith(("cpu", "mem"))]
            known += [before.get("memory_total_mb"), before.get("cpu_count"),
                      before.cores() or None]
            # The agent's reading may be of when this program was smaller: the next is not.
            if None not in known and abs(row["memory_process_mb"] - rss) < 0.1 * rss:
                break
            time.sleep(0.1)
        total = [l for l in open("/proc/meminfo") if l.startswith("MemTotal")][0].split()[1]
        print(json.dumps(dict(row=row, rss=rss,
              total=int(total) / 1024, is_total=before.get("memory_total_mb"),
              cores=before.cores(), cpus=before.get("cpu_count"), reason=before.reason)))
        _machine.give_back()
        assert before._thread is not None
        _machine.give_back()
        assert before._thread is None
        """
    )
    import json

    said = json.loads(run.stdout)
    assert said["reason"] == ""
    assert said["is_total"] == pytest.approx(said["total"])
    assert said["row"]["memory_process_mb"] == pytest.approx(said["rss"], rel=0.3)
    assert 0 <= said["row"]["cpu_percent"] <= 100
    assert said["cpus"] == os.cpu_count()
    assert 0 < len(said["cores"]) <= said["cpus"]


def test_without_a_run():
    lapse.finish()  # of a test before this one
    machine = Machine()
    machine.start()
    assert "lapse.init()" in machine.reason
    assert set(machine.row("ocr").values()) == {None}
    machine.close()


# ---- resource log --------------------------------------------------------------------------


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    return rows[0], [dict(zip(rows[0], row)) for row in rows[1:]]


def row_of(*gpus, **more):
    row = dict.fromkeys(HEADER[:-3], 1.0)
    for gpu in gpus:
        row.update({f"gpu_{gpu}_{name}": 2.0 for name in GPU})
    row.update(more)
    return row


def test_header_is_that_of_the_document(tmp_path):
    log = ResourceLog(tmp_path / "resource_logs")
    log.add(row_of(0, 1), step=10, epoch=0)
    header, rows = read(tmp_path / "resource_logs" / "epoch_0.csv")
    gpus = [f"gpu_{gpu}_{name}" for gpu in (0, 1) for name in GPU]
    assert header == gpus + HEADER
    assert rows[0]["step"] == "10" and rows[0]["epoch"] == "0"
    assert float(rows[0]["timestamp"]) == pytest.approx(time.time(), abs=60)


def test_header_stays_when_gpus_come_and_go(tmp_path):
    log = ResourceLog(tmp_path)
    log.add(row_of(), 1, 0)
    log.add(row_of(0), 2, 0)  # a GPU is seen first now
    log.add(row_of(0, 1), 3, 0)
    log.add(row_of(1), 4, 0)  # and one is lost
    log.add(row_of(cpu_percent=None), 5, 1)
    first, rows = read(tmp_path / "epoch_0.csv")
    assert [row["gpu_0_util"] for row in rows] == ["", "2.0", "2.0", ""]
    assert [row["gpu_1_util"] for row in rows] == ["", "", "2.0", "2.0"]
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    second, rows = read(tmp_path / "epoch_1.csv")
    assert second == first and rows[0]["cpu_percent"] == "" and rows[0]["gpu_0_util"] == ""
    assert sorted(os.listdir(tmp_path)) == ["epoch_0.csv", "epoch_1.csv"]


def test_a_resumed_fit_adds_to_its_file(tmp_path):
    """Also when the program was killed while it wrote a row; another fit replaces it."""
    log = ResourceLog(tmp_path)
    log.begin(resumed=False)
    log.add(row_of(1), 300, 3)
    log.close()
    with open(tmp_path / "epoch_3.csv", "a") as file:
        file.write("2.0,2.0,")
    log = ResourceLog(tmp_path)
    log.begin(resumed=True)
    log.add(row_of(0), 301, 3)
    header, rows = read(tmp_path / "epoch_3.csv")
    assert header == log.columns() and [row["step"] for row in rows] == ["300", "301"]
    assert [(row["gpu_0_util"], row["gpu_1_util"]) for row in rows] == [("", "2.0"), ("2.0", "")]
    log.begin(resumed=False)
    log.add(row_of(), 1, 3)
    assert [row["step"] for row in read(tmp_path / "epoch_3.csv")[1]] == ["1"]


def test_rows_are_in_the_file_only(tmp_path):
    import tracemalloc

    log = ResourceLog(tmp_path)
    log.add(row_of(0), 0, 0)
    tracemalloc.start()
    for step in range(1, 2000):
        log.add(row_of(0, cpu_percent=step + 0.5), step, 0)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    log.add(row_of(0, 1), 2000, 0)  # written anew
    assert kept < 100_000
    assert [row["step"] for row in read(tmp_path / "epoch_0.csv")[1]] == [*map(str, range(2001))]


def test_pandas_reads_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    log = ResourceLog(tmp_path)
    log.rank = 3
    log.add(row_of(0), 1, 2)
    log.add(row_of(0, gpu_0_util=None), 2, 2)
    frame = pandas.read_csv(tmp_path / "epoch_2_rank_3.csv")
    assert list(frame["step"]) == [1, 2] and frame["gpu_0_util"].isna().tolist() == [False, True]


def test_a_folder_that_cannot_be_is_said_once(tmp_path):
    (tmp_path / "file").write_text("")
    log = ResourceLog(tmp_path / "file" / "below")
    for step in range(3):
        log.add(row_of(), step, 0)
    assert log._file is None


# ---- alerts --------------------------------------------------------------------------------


class FakeMachine:
    def __init__(self, **values):
        self.values = values

    def get(self, name):
        return self.values.get(name)


def alerts(**options):
    settings = {"gpu_util": 0.5, "memory": 0.9, "io_wait": 0.3, "temperature": 80.0, "hold": 30}
    settings.update(options)
    return Alerts(**settings)


def feed(one, machine, gpus, batches, every=10, begin=0):
    """Readings each `every` batches: [(batch, rule, gpu)] of the alerts."""
    found = []
    for batch in range(begin, begin + batches + 1, every):
        found += [(batch, a.rule, a.gpu) for a in one.look(machine, gpus, batch)]
    return found


def test_hold_of_30_batches_on_every_gpu():
    """T-04: not one sample of GPU 0, but each GPU, held."""
    machine = FakeMachine(gpu_0_util=0.9, gpu_1_util=0.2)
    assert feed(alerts(), machine, ["0", "1"], 40) == [(30, "gpu_underutilization", "1")]
    assert feed(alerts(), machine, ["0"], 40) == []
    one = alerts()
    assert feed(one, machine, ["1"], 20) == []
    assert feed(one, FakeMachine(gpu_1_util=0.8), ["1"], 0, begin=25) == []  # a break
    assert feed(one, machine, ["1"], 20, begin=30) == []
    assert feed(one, machine, ["1"], 0, begin=60) == [(60, "gpu_underutilization", "1")]


def test_one_reading_is_not_enough():
    """1000 batches within a second saw one reading only."""
    one, machine = alerts(), FakeMachine(gpu_0_util=0.0)
    assert feed(one, machine, ["0"], 1000, every=1000) == []
    assert feed(one, machine, ["0"], 0, begin=1001) != []


def test_disk_wait_can_fire():
    """T-03: it is measured, so it can."""
    assert feed(alerts(), FakeMachine(io_wait_pct=40.0), [], 40) == [(30, "io_bottleneck", "")]
    assert feed(alerts(), FakeMachine(io_wait_pct=29.0), [], 40) == []


def test_memory_of_the_cgroup_counts():
    machine = FakeMachine(memory_percent=20.0, cgroup_memory_percent=95.0)
    assert feed(alerts(), machine, [], 40) == [(30, "memory_pressure", "")]
    assert feed(alerts(memory=None), machine, [], 40) == []


def test_temperature():
    machine = FakeMachine(gpu_3_temp_c=85.0)
    assert feed(alerts(), machine, ["3"], 40) == [(30, "gpu_temperature", "3")]


def test_cooldown(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(_resource_alerts.time, "monotonic", lambda: now[0])
    one, machine = alerts(cooldown=300.0), FakeMachine(gpu_0_util=0.1)
    assert len(feed(one, machine, ["0"], 100)) == 1
    now[0] += 299
    assert feed(one, machine, ["0"], 0, begin=110) == []
    now[0] += 2
    assert len(feed(one, machine, ["0"], 0, begin=120)) == 1


def test_texts():
    one = alerts()
    found = [a for b in range(0, 40, 10)
             for a in one.look(FakeMachine(gpu_0_util=0.1), ["0"], b)]  # fmt: skip
    assert found[0].classic == "GPU utilization below 50% for 30 batches"
    assert found[0].text == "GPU 0 is busy 10 %, below 50 %, for 30 batches"
    assert "batch size" in found[0].advice


@pytest.mark.parametrize("wrong", [{"gpu_util": 50}, {"memory": -0.1}, {"io_wait": 1.1}])
def test_thresholds_are_shares(wrong):
    with pytest.raises(ValueError, match="from 0 to 1"):
        alerts(**wrong)


def test_gpus_of_this_program(monkeypatch):
    uuids = {"0": "GPU-aaaa", "1": "GPU-bbbb", "2": "GPU-cccc"}
    every = ["0", "1", "2"]
    for visible, expected in ((None, every), ("1", ["1"]), ("2,0", ["0", "2"]), ("", []),
                              ("GPU-bb", ["1"]), ("MIG-x", every)):  # fmt: skip
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus_of_this_program(every, uuids) == expected, visible
