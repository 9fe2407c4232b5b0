# SPDX-License-Identifier: Apache-2.0
"""Where other monitors do not do what they say (docs/coverage.md, T-), shown on whole
runs; and the pace of the readings."""
import json
import statistics

import pytest

from conftest import BUILD
from held import Held, has

FAKE = BUILD / "tests" / "fake" / "libnvidia-ml-fake.so"


def bands(lapse, name):
    """{group: (lowest, mean, highest)} of a series, grouped by GPU, over the whole run."""
    done = lapse("query", "last", name, "--group-by", "gpu", "--points", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = {g["group"]: g["bands"] for g in json.loads(done.stdout)["groups"]}
    assert all(len(b) == 1 for b in found.values())
    return {group: (b["low"], b["mean"], b["high"]) for group, (b,) in found.items()}


def values(lapse, name, *options, key="last"):
    done = lapse("query", "last", name, "--points", "10000", "--json", *options)
    assert done.returncode == 0, done.stderr
    (series,) = json.loads(done.stdout)["series"]
    return [b[key] for b in series["buckets"]]


def test_every_gpu_has_a_use_of_its_own(lapse):
    """T-04, T-18: the library of the tests has GPU 0 busy for 5 % and GPU 1 for 18 %, at
    every reading of a run of some seconds."""
    lapse.env.update(LAPSE_NVML=str(FAKE), LAPSE_FAKE_NVML="gpus=2")
    with Held(lapse) as run:
        assert run.until(lambda shown: [s["count"] >= 3 for s in shown.get("series", [])
                                        if s["name"] == "gpu/busy"] == [True] * 2)
    assert bands(lapse, "gpu/busy") == {
        'gpu/busy{gpu="0"}': pytest.approx((0.05, 0.05, 0.05)),
        'gpu/busy{gpu="1"}': pytest.approx((0.18, 0.18, 0.18))}
    for gpu in (0, 1):
        assert len(values(lapse, f"gpu/busy{{gpu={gpu}}}")) >= 3


def test_a_gpu_that_idles_for_long_is_not_hidden(lapse):
    """T-04: GPU 0 does nothing in the second half; GPU 1's mean does not change."""
    assert lapse("simulate", "--quiet", "--steps", "400", "--gpus", "2", "--ranks", "2",
                 "--fault", "idle-gpu@200").returncode == 0
    idle = values(lapse, "gpu/busy{gpu=0}", "--from", "+30s")
    busy = values(lapse, "gpu/busy{gpu=1}", "--from", "+30s")
    assert len(idle) == len(busy) > 10
    assert max(idle) < 0.1 and min(busy) > 0.5
    assert min(values(lapse, "gpu/busy{gpu=0}", "--until", "+15s")[3:]) > 0.5


def test_waiting_for_a_disk_shows(lapse):
    """T-03: 30 % of the time from step 200 on, and hardly any before."""
    assert lapse("simulate", "--quiet", "--steps", "400", "--gpus", "0",
                 "--fault", "io-wait@200+150").returncode == 0
    for name in ("cpu/iowait", "pressure/io"):
        before = values(lapse, name, "--until", "+15s")
        during = values(lapse, name, "--from", "+30s", "--until", "+40s")
        assert max(before) < 0.05 and min(during) >= 0.3


def test_every_run_has_the_machine(lapse):
    """T-20: without a word in any file or program."""
    with Held(lapse) as run:
        assert run.until(has("process/cpu", 2))
    done = lapse("query", "last", "--json")
    found = {}
    for series in json.loads(done.stdout):
        found.setdefault(series["name"], []).append(series)
    for name in ("cpu/busy", "cpu/core/busy", "memory/used", "memory/available", "load/1m",
                 "tree/cpu", "tree/rss", "process/cpu", "cpu/count"):
        assert found[name], name
        least = 1 if name == "cpu/count" else 2
        assert all(s["points"] >= least for s in found[name]), name
    assert len(found["memory/total"]) == 1
    with open("/proc/meminfo", encoding="ascii") as text:
        assert values(lapse, "memory/total")[-1] == int(text.readline().split()[1]) * 1024


# ---- pace ------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("phase, options, quick", [
    ("warmup", (), True),  # no step is ever done
    ("steady", (), False),
    ("stalled", ("--stall-after", "1"), True),
])
def test_pace_follows_the_phase(lapse, phase, options, quick):
    """Every 100 ms in a phase instead of every second."""
    config = lapse.folder / "pace.yaml"
    config.write_text(f"probe:\n  {phase}: 100ms\n")
    with Held(lapse, "--config", config, *options) as run:
        assert run.until(has("memory/total", 20 if quick else 5))
    times = values(lapse, "memory/total", key="time_min_ns")
    apart = statistics.median(b - a for a, b in zip(times, times[1:])) / 1e9
    assert apart < 0.4 if quick else apart > 0.7
