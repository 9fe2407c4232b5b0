# SPDX-License-Identifier: Apache-2.0
"""One table from the names and units of the source documents' columns to the series
that lapse stores. `{i}` is the number of a GPU, as nvidia-smi counts."""

from __future__ import annotations

from typing import NamedTuple

MIB = float(1 << 20)
GIB = float(1 << 30)


class Alias(NamedTuple):
    """A column: `name` = `series` (over the first of `over` that there is) times `scale`.

    how: "last" value, "mean" of the readings, or "rate" (a counter's amount a second).
    of: "machine", "process" (this one), "tree" (all of the run) or "gpu". Instances that
    labels tell apart (disks, interfaces) are added up."""

    name: str
    series: tuple[str, ...]  #: the first one that there is
    of: str
    how: str
    scale: float = 1.0
    unit: str = "1"
    over: tuple[str, ...] = ()
    help: str = ""


_GPU = (
    Alias("gpu_{i}_util", ("gpu/busy",), "gpu", "mean", 1.0, "0 to 1"),
    Alias("gpu_{i}_memory_used_mb", ("gpu/memory/used",), "gpu", "last", 1 / MIB, "MiB"),
    Alias("gpu_{i}_memory_total_mb", ("gpu/memory/total",), "gpu", "last", 1 / MIB, "MiB"),
    Alias("gpu_{i}_memory_pct", ("gpu/memory/used",), "gpu", "last", 100.0, "%",
          ("gpu/memory/total",)),
    Alias("gpu_{i}_temp_c", ("gpu/temperature",), "gpu", "last", 1.0, "Cel"),
    Alias("gpu_{i}_power_w", ("gpu/power",), "gpu", "mean", 1.0, "W"),
)  # fmt: skip

_MACHINE = (
    Alias("cpu_percent", ("cpu/busy",), "machine", "mean", 100.0, "%"),
    Alias("cpu_process_percent", ("process/cpu",), "process", "mean", 100.0, "% of one CPU"),
    Alias("memory_system_mb", ("memory/used",), "machine", "last", 1 / MIB, "MiB"),
    Alias("memory_available_mb", ("memory/available",), "machine", "last", 1 / MIB, "MiB"),
    Alias("memory_percent", ("memory/used",), "machine", "last", 100.0, "%", ("memory/total",)),
    Alias("memory_process_mb", ("process/rss",), "process", "last", 1 / MIB, "MiB"),
    Alias("io_read_rate_mbps", ("tree/read", "process/read"), "tree", "rate", 1 / MIB, "MiB/s",
          help="from storage, of the run's processes"),
    Alias("io_write_rate_mbps", ("tree/written", "process/written"), "tree", "rate", 1 / MIB,
          "MiB/s", help="to storage, of the run's processes"),
    Alias("io_wait_pct", ("pressure/io", "cpu/iowait"), "machine", "mean", 100.0, "%",
          help="share of the time in which some task waited for a disk"),
)  # fmt: skip

#: Beside the columns of the resource log: what its document names and its program left out.
_EXTRA = (
    Alias("memory_total_mb", ("memory/total",), "machine", "last", 1 / MIB, "MiB"),
    Alias("cgroup_memory_percent", ("cgroup/memory/used",), "tree", "last", 100.0, "%",
          ("cgroup/memory/limit", "memory/limit")),
    Alias("cgroup_memory_used_mb", ("cgroup/memory/working_set",), "tree", "last", 1 / MIB, "MiB"),
    Alias("read_size_bytes", ("process/read/size",), "process", "mean", 1.0, "By"),
    Alias("read_cached_percent", ("process/read/cached",), "process", "mean", 100.0, "%"),
    Alias("memory_peak_mb", ("process/rss/peak",), "process", "last", 1 / MIB, "MiB"),
    Alias("memory_tree_mb", ("tree/rss",), "tree", "last", 1 / MIB, "MiB"),
)  # fmt: skip

_NEMO = (
    Alias("cpu_percent", ("cpu/busy",), "machine", "mean", 100.0, "%"),
    Alias("cpu_count", ("cpu/count",), "machine", "last"),
    Alias("memory_percent", ("memory/used",), "machine", "last", 100.0, "%", ("memory/total",)),
    Alias("memory_available_gb", ("memory/available",), "machine", "last", 1 / GIB, "GiB"),
)

_NEMO_GPU = (
    Alias("gpu_{i}_utilization", ("gpu/busy",), "gpu", "mean", 100.0, "%"),
    Alias("gpu_{i}_memory_mb", ("gpu/memory/used",), "gpu", "last", 1 / MIB, "MiB"),
    Alias("gpu_{i}_memory_total_mb", ("gpu/memory/total",), "gpu", "last", 1 / MIB, "MiB"),
)

_MONITOR = (
    Alias("cpu_usage_percent", ("cpu/busy",), "machine", "mean", 100.0, "%"),
    Alias("cpu_temperature", ("cpu/temperature",), "machine", "last", 1.0, "Cel"),
    Alias("cpu_freq", ("cpu/frequency",), "machine", "last", 1e-6, "MHz"),
    Alias("memory_usage_percent", ("memory/used",), "machine", "last", 100.0, "%",
          ("memory/total",)),
    Alias("memory_available_gb", ("memory/available",), "machine", "last", 1 / GIB, "GiB"),
    Alias("swap_usage_percent", ("swap/used",), "machine", "last", 100.0, "%", ("swap/total",)),
    Alias("disk_read_mb_s", ("disk/read",), "machine", "rate", 1 / MIB, "MiB/s"),
    Alias("disk_write_mb_s", ("disk/written",), "machine", "rate", 1 / MIB, "MiB/s"),
    Alias("disk_usage_percent", ("filesystem/used",), "machine", "last", 100.0, "%",
          ("filesystem/total",), "of all file systems together"),
    Alias("network_sent_mb_s", ("network/sent",), "machine", "rate", 1 / MIB, "MiB/s"),
    Alias("network_recv_mb_s", ("network/received",), "machine", "rate", 1 / MIB, "MiB/s"),
    Alias("process_cpu_percent", ("process/cpu",), "process", "mean", 100.0, "% of one CPU"),
    Alias("process_memory_mb", ("process/rss",), "process", "last", 1 / MIB, "MiB"),
    Alias("cpu_memory_mb", ("process/rss",), "process", "last", 1 / MIB, "MiB"),
)  # fmt: skip

_MONITOR_GPU = (
    Alias("gpu_{i}_utilization", ("gpu/busy",), "gpu", "mean", 100.0, "%"),
    Alias("gpu_{i}_memory_utilization", ("gpu/memory/used",), "gpu", "last", 100.0, "%",
          ("gpu/memory/total",)),
    Alias("gpu_{i}_memory_mb", ("gpu/memory/used",), "gpu", "last", 1 / MIB, "MiB"),
    Alias("gpu_{i}_temperature", ("gpu/temperature",), "gpu", "last", 1.0, "Cel"),
    Alias("gpu_{i}_power_watts", ("gpu/power",), "gpu", "mean", 1.0, "W"),
)  # fmt: skip

#: {set: (columns of each GPU, columns of the machine)}. "ocr" is, in this order, the
#: header of resource_logs/epoch_N.csv.
SETS: dict[str, tuple[tuple[Alias, ...], tuple[Alias, ...]]] = {
    "ocr": (_GPU, _MACHINE),
    "extra": ((), _EXTRA),
    "nemo": (_NEMO_GPU, _NEMO),
    "monitor": (_MONITOR_GPU, _MONITOR),
}


def series_names() -> frozenset[str]:
    """All series that some column is made of."""
    return frozenset(
        name
        for gpu, machine in SETS.values()
        for alias in (*gpu, *machine)
        for name in (*alias.series, *alias.over)
    ) | {"cpu/core/busy"}
