# SPDX-License-Identifier: Apache-2.0
"""How runs are said to have ended, by the whole chain: launcher, agent, store, and
the command that shows it right afterwards."""
import json
import sys
import time

import pytest


def last(lapse):
    """What `show` says of the last run once it has ended."""
    for _ in range(100):
        shown = json.loads(lapse("show", "last", "--json").stdout)
        if shown["outcome"] != "running":
            return shown
        time.sleep(0.1)
    raise AssertionError(f"still running: {shown}")


def kinds(shown):
    return [event["kind"] for event in shown["events"]]


def test_exit_status_is_there_at_once(lapse):
    assert lapse("run", "--", "sh", "-c", "exit 3").returncode == 3
    shown = json.loads(lapse("show", "last", "--json").stdout)
    assert (shown["outcome"], shown["exit_code"]) == ("exited", 3)


@pytest.mark.alone
def test_nothing_happens_for_too_long(lapse):
    assert lapse("run", "--stall-after", "1", "--", "sleep", "4").returncode == 0
    shown = last(lapse)
    assert shown["outcome"] == "hung"
    assert "hung" in kinds(shown)


@pytest.mark.alone
def test_a_quiet_spell_that_ends(lapse):
    """Called hung, but it goes on and ends well."""
    script = "import time\ntime.sleep(3.5)\nt = time.time()\nwhile time.time() - t < 2.5: pass"
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
