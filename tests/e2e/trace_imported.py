# SPDX-License-Identifier: Apache-2.0
"""What the tests of lapse trace import share: what is documented, and what an import gives."""

import gzip
import json
import re

from trace_maker import ROOT


def documented():
    """{sheet: keys} of docs/trace.md."""
    part = (
        (ROOT / "docs" / "trace.md")
        .read_text()
        .partition("\n## lapse trace import\n")[2]
        .partition("\n## ")[0]
    )
    return {
        name: re.findall(r"`(\w+)`", keys)
        for name, keys in re.findall(r"^- sheet `(\w+)`: (.*)$", part, re.M)
    }


def imported(lapse, *arguments):
    sheets = lapse.json("trace", "import", *arguments)["sheets"]
    known = documented()
    for name, rows in sheets.items():
        for row in rows:
            assert list(row) == known[name], name
    return sheets


def written(lapse, file, name="out.json"):
    """The file imported into a trace: the path of that, and its events by phase."""
    out = lapse.folder / name
    done = lapse("trace", "import", "-q", "-o", out, file)
    assert done.returncode == 0, done.stderr
    text = gzip.decompress(out.read_bytes()) if name.endswith(".gz") else out.read_bytes()
    events = {}
    for event in json.loads(text)["traceEvents"]:
        events.setdefault(event["ph"], []).append(event)
    return out, events
