# SPDX-License-Identifier: Apache-2.0
"""Training that began again in the same run, as launchers and loops of shells do: it is
told of the newest attempt, and compared by all of them."""
import json

import pytest

from serving import Serving

FIRST, SECOND = 60, 25  # steps of the attempts


@pytest.fixture
def restarted(lapse, charlm):
    small = "--threads 1 --batch 4 --context 16 --dim 16 --layers 1 --sample 0"
    lapse("run", "--quiet", "--", "sh", "-c",
          f"for n in {FIRST} {SECOND}; do RANK=0 {charlm} {small} --steps $n; done", check=True)
    assert lapse.settled()
    return lapse


def losses(lapse):
    """[first attempt's, second attempt's] values of `loss`, in order."""
    rows = [json.loads(line) for line in lapse("export", "--to", "json", check=True).stdout.splitlines()]
    of = {row["series"]: row["process"] for row in rows
          if row["type"] == "series" and row["name"] == "loss"}
    found = {}
    for row in rows:
        if row["type"] == "sample" and row["series"] in of:
            found.setdefault(of[row["series"]], []).append(row["value"])
    return [found[process] for process in sorted(found)]


def test_the_newest_attempt_is_told_of(restarted):
    first, second = losses(restarted)
    assert len(first) == FIRST and len(second) == SECOND and first[-1] != second[-1]
    (row,) = restarted.json("ls")
    assert row["last_step"] == SECOND and row["loss"] == second[-1]
    with Serving(restarted) as server:
        answer = server.get("/api/v1/runs/last").json()
        assert answer["progress"]["step"] == SECOND
        assert answer["loss"]["last"] == second[-1]
        (listed,) = server.get("/api/v1/runs?spark=loss").json()["runs"]
        assert listed["last_step"] == SECOND
        rows = server.get("/api/training_metrics?limit=1000").json()
        assert len(rows) == SECOND and rows[-1]["step"] == SECOND
        verdict = server.get("/api/v1/runs/last/verdict").json()
        assert len(verdict["ranks"]) == 1 and verdict["steps"]["last"] == SECOND


def test_comparing_takes_all_attempts(restarted):
    with Serving(restarted) as server:
        (run,) = restarted.run_ids()
        answer = server.get(f"/api/v1/compare?run={run}&run={run}")
        assert answer.status == 200, answer.body
    steady = answer.json()["runs"][0]["steady"]
    assert steady["step_last"] == FIRST, steady
