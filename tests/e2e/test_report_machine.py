# SPDX-License-Identifier: Apache-2.0
"""What `lapse report` says of machines, GPUs, processes and energy, worked out anew
here from the points that `lapse query --raw` prints."""
import csv
import io
import math

import pytest

from conftest import BUILD
from held import Held, has

SIMULATE = ("simulate", "--start", "2026-01-02T03:04:05Z", "--quiet")


def points(lapse, run, pattern):
    """Values and times (ns) of a series that is the only one, in order."""
    done = lapse("query", run, pattern, "--raw", "--all-attempts")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert rows
    return [float(r["value"]) for r in rows], [int(r["time_ns"]) for r in rows]


def simulated(lapse, *options):
    assert lapse(*SIMULATE, *options).returncode == 0
    run = lapse.run_ids()[-1]
    return run, lapse.json("report", run)


def per_second(values, times):
    """The first amount came since nobody knows when."""
    return sum(values[1:]) / ((times[-1] - times[0]) / 1e9)


def test_machine(lapse):
    run, report = simulated(lapse, "--steps", "600", "--gpus", "0")
    machine = report["machines"][0]
    assert machine["host"] == "node0" and report["gpus"] == []
    assert report["energy"] == {"total_j": None, "steps_w": None, "per_step_j": None,
                                "per_sample_j": None, "per_token_j": None,
                                "gpus_by_energy": 0, "gpus_by_power": 0}
    busy, _ = points(lapse, run, "cpu/busy")
    assert machine["cpu_busy_spread"] == {
        "count": len(busy), "mean": pytest.approx(sum(busy) / len(busy)),
        "p95": sorted(busy)[math.ceil(0.95 * len(busy)) - 1], "max": max(busy), "last": busy[-1]}
    for key, name in (("cpu_iowait", "cpu/iowait"), ("load_1m", "load/1m"),
                      ("pressure_io", "pressure/io"), ("cpu_count", "cpu/count")):
        values, _ = points(lapse, run, name)
        assert machine[key]["mean"] == pytest.approx(sum(values) / len(values))
        assert machine[key]["max"] == max(values)
    # Nothing measured these here: not known, not 0.
    for key in ("swap_used_bytes", "shm_used_bytes", "cpu_steal", "agent_cpu"):
        assert machine[key] == {"count": 0, "mean": None, "max": None, "last": None}
    for kind, key, name in (("disks", "read_bytes", "disk/read"),
                            ("networks", "sent_bytes", "network/sent")):
        values, times = points(lapse, run, name)
        got = machine[kind][0][key]
        assert got["sum"] == pytest.approx(sum(values))
        assert got["per_s"] == pytest.approx(per_second(values, times))
        assert got["per_s_max"] == pytest.approx(max(
            v / ((t - before) / 1e9) for v, t, before in zip(values[1:], times[1:], times)))
    assert report["stands_out"] == []


def step_times(lapse, run):
    """Start of the first and end of the last step of two ranks, ns."""
    starts, ends = [], []
    for rank in (0, 1):
        durations, begins = points(lapse, run, f"step{{rank={rank}}}")
        starts += begins
        ends += [t + int(v) for t, v in zip(begins, durations)]
    return min(starts), max(ends)


def check_gauges(lapse, run, gpu):
    for key, name in (("busy", "gpu/busy"), ("power_w", "gpu/power"),
                      ("temperature_cel", "gpu/temperature"),
                      ("memory_used_bytes", "gpu/memory/used")):
        values, _ = points(lapse, run, f"{name}{{gpu={gpu['gpu']}}}")
        assert gpu[key]["mean"] == pytest.approx(sum(values) / len(values))
        assert gpu[key]["max"] == max(values)
    assert gpu["sm_active"]["mean"] is None and gpu["name"] is None


def test_gpus(lapse):
    run, report = simulated(lapse, "--steps", "600", "--gpus", "2", "--ranks", "2")
    assert [g["gpu"] for g in report["gpus"]] == ["0", "1"]
    start, stop = step_times(lapse, run)
    for gpu in report["gpus"]:
        check_gauges(lapse, run, gpu)
        values, times = points(lapse, run, f"gpu/busy{{gpu={gpu['gpu']}}}")
        inside = [v for v, t in zip(values, times) if start <= t <= stop]
        assert gpu["busy_in_steps"] == pytest.approx(sum(inside) / len(inside))
    text = lapse("report", run).stdout
    assert "\nGPUs\n" in text and "\n  energy " in text and "\nMachine  node0, 8 CPUs\n" in text
    # Columns of which nothing is known are not there.
    assert "TENSOR" not in text and "MOSTLY BY" not in text


def test_energy(lapse):
    run, report = simulated(lapse, "--steps", "600", "--gpus", "2", "--ranks", "2")
    start, stop = step_times(lapse, run)
    total = watts = 0
    for gpu in report["gpus"]:
        values, times = points(lapse, run, f"gpu/energy{{gpu={gpu['gpu']}}}")
        assert gpu["energy_j"] == pytest.approx(sum(values))
        total += sum(values)
        inside = [i for i, t in enumerate(times) if start <= t <= stop]
        watts += per_second([values[i] for i in inside], [times[i] for i in inside])
    energy = report["energy"]
    assert energy["total_j"] == pytest.approx(total)
    assert energy["steps_w"] == pytest.approx(watts)
    joules = watts * (stop - start) / 1e9
    assert energy["per_step_j"] == pytest.approx(joules / 600)
    assert energy["per_sample_j"] == pytest.approx(joules / (2 * 600 * 32))
    assert energy["gpus_by_energy"] == 2 and energy["gpus_by_power"] == 0


def test_p95_of_a_long_run_is_of_slices(lapse):
    """Of more readings than slices it is a figure of means, still within what there was."""
    run, report = simulated(lapse, "--steps", "3000", "--hz", "100", "--gpus", "0")
    busy, _ = points(lapse, run, "cpu/busy")
    assert len(busy) > 2 * 8192
    got = report["machines"][0]["cpu_busy_spread"]
    assert got["count"] == len(busy) and got["max"] == max(busy)
    ordered = sorted(busy)
    assert ordered[len(busy) // 2] <= got["p95"] <= ordered[-1]


@pytest.mark.parametrize("fault,ids", [
    ("idle-gpu@0", {"gpu-idle": (0.7, 1, 0.3)}),
    ("throttling@10%+50%", {"gpu-throttled": (0.2, 1, 0.05)}),
    ("xid", {"gpu-xid": (1, 1, 0)}),
    ("ecc:3", {"gpu-ecc": (3, 3, 0)}),
    ("io-wait@10%+60%", {"cpu-iowait": (0.1, 0.4, 0.1)}),
    ("disk-filling@0:0.99", {"filesystem": (0.95, 1, 0.95)}),
    ("slow-data@0:5", {"data-wait": (0.2, 0.8, 0.2)}),
])
def test_what_stands_out(lapse, fault, ids):
    run, report = simulated(lapse, "--steps", "900", "--gpus", "2", "--ranks", "2",
                            "--hz", "10", "--fault", fault)
    found = {s["id"]: s for s in report["stands_out"]}
    text = lapse("report", run).stdout.split("\nWhat stands out\n")[1]
    for name, (low, high, threshold) in ids.items():
        one = found[name]
        assert low <= one["value"] <= high and one["threshold"] == threshold
        assert one["text"] in text
        if name.startswith("gpu-"):
            assert (one["host"], one["place"]) == ("node0", "GPU 0")
            assert f"node0, GPU 0: {one['text']}" in text


def test_two_hosts(lapse):
    run, report = simulated(lapse, "--steps", "300", "--hosts", "2", "--ranks", "4", "--gpus", "2")
    assert [m["host"] for m in report["machines"]] == ["node0", "node1"]
    assert [(g["host"], g["gpu"]) for g in report["gpus"]] == [
        ("node0", "0"), ("node0", "1"), ("node1", "0"), ("node1", "1")]
    text = lapse("report", run).stdout
    assert "\nMachine  node0" in text and "\nMachine  node1" in text and " HOST " in text


def test_this_machine(lapse):
    """Live: the run's own process is in the table of processes."""
    program = ("import sys, threading; x = bytearray(80 << 20)\n"
               "over = threading.Thread(target=sys.stdin.read); over.start()\n"
               "while over.is_alive(): sum(range(1000))")
    with Held(lapse, command=("python3", "-c", program)) as run:
        assert run.until(lambda shown: has("cpu/busy", 3)(shown) and has("process/cpu", 2)(shown))
    report = lapse.json("report", "last")
    machine = report["machines"][0]
    assert machine["cpu_busy_spread"]["count"] >= 2 and machine["cpu_count"]["last"] >= 1
    assert 0 < machine["cpu_busy_spread"]["max"] <= 1
    command = next(p for p in report["process_usage"] if p["role"] == "command")
    assert 80 << 20 < command["rss_bytes"]["max"] < 200 << 20
    assert 0.02 < command["cpu_cores"]["max"] < 1.5
    text = lapse("report", "last").stdout
    assert "\nProcesses\n" in text and "\n  CPU " in text


def test_gpu_library(lapse):
    """Live, with a library that plays a GPU: what only real GPUs tell."""
    library = BUILD / "tests" / "fake" / "libnvidia-ml-fake.so"
    if not library.exists():
        pytest.fail(f"{library} has not been built")
    lapse.env["LAPSE_NVML"] = str(library)
    with Held(lapse) as run:
        assert run.until(lambda shown: has("gpu/busy", 2)(shown) and has("gpu/energy", 2)(shown)
                         and has("gpu/sm/active")(shown))
    report = lapse.json("report", "last")
    gpu = report["gpus"][0]
    assert gpu["gpu"] == "0" and gpu["name"]
    assert gpu["busy"]["count"] >= 2 and gpu["memory_total_bytes"]["last"] > 1 << 30
    assert gpu["sm_active"]["mean"] is not None
    assert report["energy"]["total_j"] > 0 and report["energy"]["per_step_j"] is None
    assert gpu["name"] in lapse("report", "last").stdout
