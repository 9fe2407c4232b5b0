# SPDX-License-Identifier: Apache-2.0
"""`lapse gpu-log` over the library that plays NVIDIA's (tests/fake): the lines are those that
nvidia-smi writes for these values."""
import re
import time

import pytest

from conftest import BUILD

FAKE = BUILD / "tests" / "fake" / "libnvidia-ml-fake.so"
STAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"


@pytest.fixture
def gpu_log(lapse):
    """gpu_log(script, options...): a CompletedProcess."""
    def run(script, *options):
        lapse.env.update(LAPSE_NVML=str(FAKE), LAPSE_FAKE_NVML=script)
        return lapse("gpu-log", *options)
    return run


def test_the_guides_line(gpu_log):
    done = gpu_log("gpus=2", "--query-gpu=timestamp,name,utilization.gpu,utilization.memory,"
                   "memory.used,memory.free,temperature.gpu", "--format=csv")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head == ("timestamp, name, utilization.gpu [%], utilization.memory [%], "
                    "memory.used [MiB], memory.free [MiB], temperature.gpu")
    assert len(lines) == 2
    assert re.fullmatch(STAMP + ", NVIDIA Fake hopper, 5 %, 3 %, 1000 MiB, 79959 MiB, 40", lines[0])
    assert re.fullmatch(STAMP + ", NVIDIA Fake hopper, 18 %, 10 %, 2000 MiB, 78959 MiB, 41", lines[1])
    assert gpu_log("gpus=2").stdout.splitlines()[0] == head


def test_values_of_every_kind(gpu_log):
    fields = {
        "index": "1", "count": "2", "uuid": "GPU-00000001-0000-0000-0000-000000000000",
        "pci.bus_id": "00000000:11:00.0", "pci.bus": "0x11", "pci.device_id": "0x233010DE",
        "driver_version": "580.65.06", "pstate": "P0", "power.draw": "91.00 W",
        "power.draw.instant": "101.00 W", "power.limit": "700.00 W", "clocks.sm": "1965 MHz",
        "clocks.max.mem": "2619 MHz", "fan.speed": "[N/A]", "temperature.memory": "51",
        "ecc.mode.current": "Enabled", "ecc.errors.corrected.volatile.total": "3",
        "ecc.errors.uncorrected.aggregate.total": "1", "compute_mode": "Default",
        "compute_cap": "9.0", "mig.mode.current": "Disabled", "persistence_mode": "Enabled",
        "clocks_event_reasons.active": "0x0000000000000044",
        "clocks_throttle_reasons.hw_thermal_slowdown": "Active",
        "clocks_throttle_reasons.sw_thermal_slowdown": "Not Active",
        "pcie.link.gen.current": "5", "pcie.link.width.max": "16", "memory.reserved": "600 MiB",
        "remapped_rows.correctable": "2", "remapped_rows.pending": "No",
    }
    done = gpu_log("gpus=2", "--query-gpu", ",".join(fields), "-i", "1", "--format=csv,noheader")
    assert done.returncode == 0, done.stderr
    assert dict(zip(fields, done.stdout.rstrip("\n").split(", "))) == fields
    done = gpu_log("gpus=2", "--query-gpu=power.draw,fan.speed,memory.used", "-i",
                   "00000000:10:00.0", "--format=csv,nounits")
    assert done.stdout == "power.draw, fan.speed, memory.used\n90.00, [N/A], 1000\n"


def test_every_field_has_a_value(gpu_log):
    names = [line.split(" ")[0] for line in gpu_log("", "--help-query-gpu").stdout.splitlines()]
    assert len(names) > 60
    for name in names:
        done = gpu_log("", "--query-gpu=" + name, "--format=csv,noheader")
        assert done.returncode == 0 and done.stdout.strip(), name
        assert done.stdout.strip() != "[N/A]" or name == "fan.speed", name


@pytest.mark.parametrize("options", [("-l", "0.2"), ("-lms", "200"), ("-lms=200",), ("--loop-ms=200",)])
def test_again_and_again(gpu_log, options):
    begin = time.monotonic()
    done = gpu_log("gpus=3", "--query-gpu=index", *options, "--count", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "index\n" + 3 * "0\n1\n2\n"
    assert time.monotonic() - begin >= 0.4


def test_into_a_file_that_can_be_read_along(gpu_log, lapse):
    lapse.env.update(LAPSE_NVML=str(FAKE), LAPSE_FAKE_NVML="")
    out = lapse.folder / "gpu.csv"
    process = lapse.start("gpu-log", "--query-gpu=index,clocks.sm", "-lms", "50", "-f", str(out))
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end and (not out.exists() or out.read_text().count("\n") < 4):
            time.sleep(0.02)
    finally:
        process.terminate()
        process.communicate()
    lines = out.read_text().splitlines()
    assert lines[0] == "index, clocks.current.sm [MHz]"
    assert len(lines) >= 4 and set(lines[1:]) == {"0, 1980 MHz"}
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_lost_gpu_is_told_and_the_others_go_on(gpu_log):
    done = gpu_log("gpus=2,lost=1@4", "--query-gpu=index,temperature.gpu", "-lms", "5000",
                   "--count", "2", "--format=csv,noheader")
    assert done.stdout == "0, 40\n1, 41\n0, 40\n1, [GPU is lost]\n"


@pytest.mark.parametrize("options, want", [
    (("--query-gpu=utilisation.gpu",), "did you mean utilization.gpu?"),
    (("--format=json",), "csv, noheader, nounits"),
    (("-lms",), "milliseconds"),
    (("-l", "x"), "duration"),
    (("what",), "unexpected argument"),
])
def test_called_wrongly(gpu_log, options, want):
    done = gpu_log("", *options)
    assert done.returncode == 2 and want in done.stderr and not done.stdout


def test_nothing_to_read(gpu_log, lapse):
    done = gpu_log("gpus=2", "-i", "5")
    assert done.returncode == 1 and "no GPU 5; there are 2" in done.stderr
    done = gpu_log("init=18")
    assert done.returncode == 1 and "reboot" in done.stderr
    lapse.env["LAPSE_NVML"] = "/nowhere.so"
    done = lapse("gpu-log")
    assert done.returncode == 1 and "LAPSE_NVML=/nowhere.so cannot be loaded" in done.stderr
