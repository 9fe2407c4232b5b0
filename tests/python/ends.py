# SPDX-License-Identifier: Apache-2.0
"""What the tests of how programs end share."""


import pytest

LAUNCHER = pytest.mark.parametrize("launcher", [False, True], ids=["alone", "launched"])
BEGIN = """
import sys
if "off" not in sys.argv:
    import lapse
    run = lapse.init()
"""


def outcome(run):
    return run.info["outcome"], run.info["exit_code"], run.info["signal"]


def line_of(place, text):
    """Number of the only line of the script that has this text."""
    lines = (place.folder / "script.py").read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    return f"{place.folder}/script.py", number


def where(place, text, function):
    return "{}:{}".format(*line_of(place, text)) + f" {function}"


def one(run, kind):
    events = run.events(kind)
    assert len(events) == 1, [(e["kind"], e["text"]) for e in run.events()]
    return events[0]
