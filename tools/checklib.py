# SPDX-License-Identifier: Apache-2.0
"""checklib - what the check-* programs share: the command line, walking the
tree, and proving on small made-up trees that a check can fail.

A check is a function from the root folder to a list of problems, each a line
"FILE[:LINE]: what is wrong; what to do".
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77  # exit status that meson shows as skipped


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def files(root, folders, endings):
    """Paths under root, sorted, of files in folders (or "." for all) with an ending.
    Hidden and build folders are left out."""
    found = set()
    for folder in folders:
        for where, below, names in os.walk(os.path.join(root, folder)):
            below[:] = [d for d in below if not d.startswith((".", "build", "__pycache__", "node_modules"))
                        and d != "lapse-runs"]
            for name in names:
                if name.endswith(tuple(endings)):
                    found.add(os.path.relpath(os.path.join(where, name), root))
    return sorted(found)


def output_of(command, **options):
    """(status, stdout and stderr) of a command."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def self_test(check, fixtures):
    """Each fixture is (name, {path: text}, part of the expected problem or None)."""
    bad = 0
    for name, tree, expected in fixtures:
        with tempfile.TemporaryDirectory(prefix="lapse-check-") as root:
            for path, text in tree.items():
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                if text.startswith("#!"):
                    os.chmod(path, 0o755)
            problems = check(root)
        if expected is None:
            ok = not problems
        else:
            ok = len(problems) == 1 and expected in problems[0]
        if not ok:
            bad += 1
            print(f"self-test \"{name}\": expected {expected!r}, got {problems}")
    print(f"self-test: {len(fixtures) - bad} of {len(fixtures)} fixtures judged rightly")
    return 1 if bad else 0


def main(check, fixtures):
    """The program: [--self-test | ROOT]; exit status 1 if there are problems."""
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        sys.exit(self_test(check, fixtures))
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(f"usage: {os.path.basename(sys.argv[0])} [--self-test | ROOT]", file=sys.stderr)
        sys.exit(2)
    problems = check(os.path.abspath(arguments[0]) if arguments else HERE)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
