# SPDX-License-Identifier: Apache-2.0
"""How runs are said to have ended, by the whole chain: launcher, agent, store, and
the command that shows it right afterwards."""
import json
import sys
import time

import pytest


def last(lapse):
    """What `show` says of the last run once it has ended."""
    assert lapse.settled()
    return lapse.json("show", "last")


def kinds(shown):
    return [event["kind"] for event in shown["events"]]


def test_exit_status_is_there_at_once(lapse):
    """Or the launcher has waited for half a second: no longer than that."""
    assert lapse("run", "--", "true").returncode == 0  # for an agent
    assert lapse.settled()
    begin = time.monotonic()
    assert lapse("run", "--name", "three", "--", "sh", "-c", "exit 3").returncode == 3
    took, shown = time.monotonic() - begin, lapse.shown()
    assert took >= 0.5 or (shown["name"], shown["outcome"]) == ("three", "exited")
    shown = last(lapse)
    assert (shown["name"], shown["outcome"], shown["exit_code"]) == ("three", "exited", 3)


@pytest.mark.alone
def test_nothing_happens_for_too_long(lapse):
    script = "sleep 8; exit 3"
    assert lapse("run", "--stall-after", "1", "--", "sh", "-c", script).returncode == 3
    shown = last(lapse)
    assert (shown["outcome"], shown["exit_code"]) == ("hung", 3)
    assert "no CPU use" in shown["evidence"] and "exited with status 3" in shown["evidence"]
    assert "hung" in kinds(shown)


@pytest.mark.alone
def test_killed_while_nothing_happens(lapse):
    script = "sleep 5; kill -9 $$"
    assert lapse("run", "--stall-after", "1", "--", "sh", "-c", script).returncode == -9
    shown = last(lapse)
    assert (shown["outcome"], shown["signal"]) == ("signaled", "SIGKILL")
    assert "no CPU use" in shown["evidence"] and "killed by SIGKILL" in shown["evidence"]


@pytest.mark.alone
def test_quiet_but_it_ended_well(lapse):
    """It waited for something, somewhere else."""
    assert lapse("run", "--stall-after", "1", "--", "sleep", "5").returncode == 0
    shown = last(lapse)
    assert (shown["outcome"], shown["exit_code"], shown["evidence"]) == ("exited", 0, "")
    assert "hung" in kinds(shown)
    assert lapse.json("alerts", "last")["alerts"] == []


@pytest.mark.alone
def test_a_quiet_spell_that_ends(lapse):
    """Called hung, but it goes on and ends well."""
    script = "import time\ntime.sleep(8)\nt = time.time()\nwhile time.time() - t < 5: pass"
    assert lapse("run", "--stall-after", "1", "--", sys.executable, "-c", script).returncode == 0
    shown = last(lapse)
    assert shown["outcome"] == "exited"
    assert kinds(shown).index("hung") < kinds(shown).index("hang-over")


@pytest.mark.alone
def test_work_without_records_is_no_hang(lapse):
    script = "import time\nt = time.time()\nwhile time.time() - t < 4: pass"
    assert lapse("run", "--stall-after", "1", "--", sys.executable, "-c", script).returncode == 0
    shown = last(lapse)
    assert shown["outcome"] == "exited"
    assert "hung" not in kinds(shown)


def test_the_last_of_stderr_is_kept(lapse):
    assert lapse("run", "--tee-stderr", "--", "sh", "-c", "echo the end >&2; kill -9 $$"
                 ).returncode == -9
    shown = last(lapse)
    assert shown["outcome"] == "signaled" or shown["signal"] == "SIGKILL"
    assert "the end" in json.dumps(shown)
