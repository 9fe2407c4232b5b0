#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden - what the commands print about runs of known content, against stored
text, byte by byte.

    golden.py LAPSE MAKE_RUN     TAP; exit status 1 if something differs
    UPDATE_GOLDEN=1 golden.py …  store what is printed now, to be reviewed as a diff

The content of the runs and the figures worked out by hand stand in
tests/unit/cli/make_run.c. The folder of the runs is written ROOT.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXPECTED = Path(__file__).resolve().parent / "expected"
PLAIN, RANKS, EVIL = "20260102-030405-gold", "20260103-030405-rank", "20260104-030405-evil"
CASES = {  # file: arguments
    "report.txt": ["report", PLAIN],
    "report.json": ["report", PLAIN, "--json"],
    "report-ranks.txt": ["report", RANKS],
    "report-ranks.json": ["report", RANKS, "--json"],
    "report-evil.txt": ["report", EVIL],
    "show.txt": ["show", PLAIN],
    "show-series.txt": ["show", PLAIN, "--series", "*loss"],
    "show-series.json": ["show", PLAIN, "--series", "grad/*", "--json"],
    "show-ranks.txt": ["show", RANKS],
    "show-evil.txt": ["show", EVIL],
    "ls.txt": ["ls"],
    "export.csv": ["export", PLAIN, "--to", "csv", "--series", "*loss"],
    "export-grad.csv": ["export", PLAIN, "--to", "csv", "--series", "grad/*"],
    "export-range.csv": ["export", PLAIN, "--to=csv", "--series=loss", "--steps=3:5"],
    "export-evil.csv": ["export", EVIL, "--to", "csv"],
    "export-evil-events.csv": ["export", EVIL, "--to", "csv", "--what", "events"],
    "export-grad.jsonl": ["export", PLAIN, "--to", "json", "--series", "grad/*"],
    "export-evil.jsonl": ["export", EVIL, "--to", "json"],
    "export-ranks.csv": ["export", RANKS, "--to", "csv", "--series", "train/loss"],
    "export-ranks-all.csv": ["export", RANKS, "--to", "csv", "--series", "train/loss",
                             "--all-attempts"],
    "query-list.txt": ["query", PLAIN],
    "query.txt": ["query", PLAIN, "*loss", "rate(lapse/step/*)", "grad/*"],
    "query-ranks.txt": ["query", RANKS, "train/loss", "--axis", "step"],
    "query-group.csv": ["query", RANKS, "train/loss", "--group-by=host", "--points=2", "--csv"],
    "query.csv": ["query", PLAIN, "loss", "--axis=step", "--steps=3:5", "--csv"],
    "query.json": ["query", PLAIN, "loss", "--points", "4", "--json"],
    "query-raw.csv": ["query", RANKS, "train/loss", "--all-attempts", "--raw"],
    "help.txt": ["help"],
    "help-query.txt": ["query", "--help"],
    "help-ls.txt": ["ls", "--help"],
    "help-export.txt": ["help", "export"],
}


def printed(lapse, arguments, root):
    env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
    env.update(LAPSE_DIR=str(root), XDG_CACHE_HOME=f"{root}/.cache", TZ="UTC", LC_ALL="C.UTF-8",
               TERM="xterm", COLUMNS="30")
    done = subprocess.run([lapse, *arguments], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    text = done.stdout.decode("utf-8", "surrogateescape")
    text = text.replace(str(root), "ROOT")
    if arguments == ["ls"]:
        # Sizes on disk are the file system's business.
        text = re.sub(r" +[0-9.]+ (?:B|KiB|MiB)$", " SIZE", text, flags=re.MULTILINE)
    if done.returncode != 0 or done.stderr:
        text += f"\n[status {done.returncode}]\n{done.stderr.decode(errors='replace')}"
    return text


def difference(expected, actual):
    return "".join("# " + line.rstrip("\n") + "\n" for line in difflib.unified_diff(
        expected.splitlines(True), actual.splitlines(True), "expected", "printed"))


def main(lapse, make_run):
    update = os.environ.get("UPDATE_GOLDEN") == "1"
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lapse-golden-") as root:
        subprocess.run([make_run, root], check=True, timeout=60)
        print(f"1..{len(CASES)}")
        for number, (name, arguments) in enumerate(CASES.items(), 1):
            actual = printed(lapse, arguments, root)
            path = EXPECTED / name
            if update:
                path.write_bytes(actual.encode("utf-8", "surrogateescape"))
            expected = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
            same = path.exists() and expected == actual
            failed += not same
            print(f"{'ok' if same else 'not ok'} {number} - {name}")
            if not same:
                print(difference(expected, actual), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
