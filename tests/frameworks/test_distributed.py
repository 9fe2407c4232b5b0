# SPDX-License-Identifier: Apache-2.0
"""Which ranks record, and figures over ranks: two real processes of torchrun with gloo,
and the arithmetic."""

import math
import textwrap

import pytest
from conftest import need

from lapse._distributed import Ranks, over_ranks

pytestmark = pytest.mark.timeout(300)

LOOP = """
    import os, sys
    if "RANK" not in os.environ:
        import socket, subprocess, torch
        if int(torch.__version__.split(".")[0]) >= 2:
            from torch.distributed.run import main
            main(["--standalone", "--nproc_per_node=2", __file__])   # at a free port
            sys.exit()
        with socket.socket() as free:   # torchrun of 1.13 fails with Python 3.11
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [subprocess.Popen([sys.executable, "-u", __file__], env={
            **os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(2)]
        sys.exit(max(rank.wait() for rank in ranks))
    import json, time, torch, torch.distributed as dist, lapse
    from lapse._distributed import Ranks
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    waits = []

    def loop(ranks, prefix, values):
        for step in range(35):
            if ranks.records:
                lapse.step_begin(step)
            begin = time.thread_time()
            ranks.log({prefix + name: value for name, value in values(step).items()}, step)
            waits.append(time.thread_time() - begin)
            if ranks.records:
                lapse.step_end()
        ranks.close(30)

    lapse.init()
    for mode in ("all", "zero", "aggregate"):
        loop(Ranks(mode, every=10), mode + "/", lambda step: {"x": step + 100 * rank})
    # NaN on one rank; a rank that measures something else; then all is well again
    loop(Ranks("aggregate", every=10), "nan/", lambda step: {"x": float("nan") if rank else 2.0})
    loop(Ranks("aggregate", every=5), "odd/", lambda step: {
        ("y" if rank and 10 <= step < 15 else "x"): 1.0 + rank})
    # A rank that is late does not hold up the others: it comes when they have gone on.
    ranks = Ranks("aggregate", every=1)
    ranks.log({"late/x": 1.0 + rank}, 0)   # makes the group: together
    ranks.close(30)
    end = time.monotonic() + 30
    while rank == 1 and not os.path.exists("gone on") and time.monotonic() < end:
        time.sleep(0.01)
    before = os.path.exists("gone on")
    for step in range(1, 4):
        ranks.log({"late/x": 1.0 + rank}, step)
    if rank == 0:
        open("gone on", "w").close()
    ranks.close(30)
    print(f"RESULT{rank} " + json.dumps({"before": before, "reason": ranks.reason,
                                         "last": ranks.last}), flush=True)
    lapse.finish()
    dist.destroy_process_group()
"""


@pytest.fixture
def two(program):
    return program(textwrap.dedent(LOOP), launcher=True)


def said(two, rank):
    import json

    (line,) = [line for line in two.stdout.splitlines() if line.startswith(f"RESULT{rank} ")]
    return json.loads(line.partition(" ")[2])


def series(stored, name):
    """{rank: [(step, value)]}"""
    found = {}
    for row in stored.of("sample", name):
        rank = stored.names[row["series"]]["rank"]
        found.setdefault(rank, []).append((row["step"], row["value"]))
    return found


@need("torch")
def test_all_record(two):
    found = series(two.stored, "all/x")
    assert found == {rank: [(s, s + 100 * rank) for s in range(35)] for rank in (0, 1)}


@need("torch")
def test_rank_zero_only(two):
    assert series(two.stored, "zero/x") == {0: [(s, s) for s in range(35)]}


@need("torch")
def test_aggregate(two):
    """Means of ten steps on each rank, recorded by rank 0 with the window's last step."""
    windows = [(9, 4.5), (19, 14.5), (29, 24.5)]
    assert series(two.stored, "aggregate/x") == {}
    for what, values in {
        "min": [(s, m) for s, m in windows],
        "mean": [(s, m + 50) for s, m in windows],
        "max": [(s, m + 100) for s, m in windows],
        "min/rank": [(s, 0) for s, _ in windows],
        "max/rank": [(s, 1) for s, _ in windows],
    }.items():
        assert series(two.stored, f"aggregate/x/{what}") == {0: values}, what


@need("torch")
def test_not_a_number_on_one_rank(two):
    assert series(two.stored, "nan/x/mean")[0] == [(s, "NaN") for s in (9, 19, 29)]
    assert series(two.stored, "nan/x/max")[0] == [(s, 2) for s in (9, 19, 29)]
    assert series(two.stored, "nan/x/max/rank")[0] == [(s, 0) for s in (9, 19, 29)]


@need("torch")
def test_ranks_that_measure_different_things(two):
    """Those steps have no figures, it is said, and the next ones do."""
    assert [s for s, _ in series(two.stored, "odd/x/mean")[0]] == [4, 9, 19, 24, 29, 34]
    (event,) = two.stored.events("lapse.ranks")
    assert "not measured the same things" in event["text"] and event["severity"] == "warning"


@need("torch")
def test_a_late_rank_holds_up_nobody(two):
    """Rank 1 comes when rank 0 has gone on, which gets the numbers in the end."""
    zero, one = said(two, 0), said(two, 1)
    assert one["before"], "rank 0 waited for rank 1"
    assert zero["reason"] == one["reason"] == ""
    assert zero["last"]["late/x/max/rank"] == 1 and zero["last"]["late/x/mean"] == 1.5
    assert [s for s, _ in series(two.stored, "late/x/mean")[0]] == [0, 1, 2, 3]


def test_figures_over_ranks():
    assert over_ranks([3.0, 1.0, 2.0]) == {
        "min": 1.0, "min/rank": 1, "mean": 2.0, "max": 3.0, "max/rank": 0}  # fmt: skip
    assert over_ranks([5.0, 5.0]) == {
        "min": 5.0, "min/rank": 0, "mean": 5.0, "max": 5.0, "max/rank": 0}  # fmt: skip
    found = over_ranks([math.inf, 1.0])
    assert found["mean"] == math.inf and found["max/rank"] == 0 and found["min"] == 1.0
    assert math.isnan(over_ranks([math.nan])["mean"]) and "max" not in over_ranks([math.nan])


def test_alone_it_is_one_rank(recording, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    ranks = Ranks("aggregate", every=3)
    assert (ranks.rank, ranks.world, ranks.records) == (0, 1, True)
    for i in range(3):
        ranks.log({"x": i}, step=i)
    assert ranks.last == {"x/min": 1, "x/mean": 1, "x/max": 1, "x/min/rank": 0, "x/max/rank": 0}
    ranks.close()


def test_too_many_names(recording):
    ranks = Ranks("aggregate", every=1, names=2)
    ranks.log({"c": 3, "a": 1, "b": 2}, step=0)
    assert sorted(ranks.last) == sorted(
        f"{n}/{w}" for n in "ab" for w in ("min", "mean", "max", "min/rank", "max/rank")
    )


@pytest.mark.parametrize("arguments", [{"mode": "some"}, {"every": 0}, {"names": 0}])
def test_wrong_arguments(arguments):
    with pytest.raises(ValueError, match=r"."):
        Ranks(**arguments)
