# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with real frameworks: those of tests/python, and programs
that are run once and asked many things.

    pytestmark = need("lightning.pytorch")   # else skipped, with the reason

    def test_x(place):
        run = place.script("import torch, lapse.torch; ...")

Importing a framework takes seconds, so a test file runs few programs: `program`
runs each once and keeps what it printed and what is stored of it.
"""

import functools
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


def _shared():
    """tests/python/conftest.py as a module of its own name: both folders may be tested
    in one session."""
    name = "lapse_tests_place"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / "python" / "conftest.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


_place = _shared()
Place, wait_for = _place.Place, _place.wait_for
place, recording, wait_for_fixture = _place.place, _place.recording, _place.wait_for_fixture

# One thread, no progress of others, no device of this machine, no network.
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TOKENIZERS_PARALLELISM": "false",
    "KINETO_LOG_LEVEL": "5",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def missing(*modules):
    """Those that are not installed. Nothing is imported."""

    def there(module):
        try:
            return importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            return False

    return [module for module in modules if not there(module)]


def need(*modules):
    """A mark: the tests need these modules."""
    absent = missing(*modules)
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


def two_clocks(test):
    """A test that compares what was measured with a clock of its own. A process that is held
    up between the two readings shows in one of them only: a comparison that failed is made
    anew, three times at most. What is measured wrong is so each time."""

    @functools.wraps(test)
    def repeated(*arguments, **named):
        for _ in range(3):
            try:
                return test(*arguments, **named)
            except AssertionError:
                pass
        return test(*arguments, **named)

    return repeated


def pytest_collection_modifyitems(items):
    """Importing a framework takes as long as a slow disk wants, in the test's time."""
    _place.pytest_collection_modifyitems(items)
    for item in items:
        if item.path.parent == Path(__file__).parent and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


def pytest_report_header():
    """Which versions are tested."""
    from importlib import metadata

    names = ("torch", "lightning", "pytorch-lightning", "transformers", "hydra-core",
             "tensorboard", "accelerate", "keras", "jax", "flax")  # fmt: skip
    found = []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} -")
    return "frameworks: " + ", ".join(found)


class Program:
    """A script that has ended: its printed lines, `.said` (what it printed as JSON behind
    "RESULT "), its place and, when first asked for, what is stored of its run."""

    def __init__(self, place, done):
        self.place, self.returncode = place, done.returncode
        self.stdout, self.stderr = done.stdout, done.stderr
        self.lines = [line for line in done.stdout.splitlines() if not line.startswith("RESULT ")]
        said = [line[7:] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        self.said = json.loads(said[-1]) if said else None
        self._stored = None

    @property
    def folder(self):
        return self.place.folder

    @property
    def stored(self):
        """Of its last run."""
        if self._stored is None:
            self._stored = self.place.stored()
        return self._stored

    def part(self, name, run):
        """A program with several runs, as if one of them were all: `.said` is what it said
        under that name, `.stored` is of that run, `.lines` those between the lines
        "BEGIN name" and "END name"."""
        one = object.__new__(Program)
        one.__dict__.update(self.__dict__)
        one.said = self.said[name]
        one._stored = self.place.stored(run)
        lines = self.lines
        if f"BEGIN {name}" in lines:
            one.lines = lines[lines.index(f"BEGIN {name}") + 1 : lines.index(f"END {name}")]
        return one


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """program(code, *arguments, key=None, env={}, **options): run a script in a place of
    its own, once for each key (the code by default) of a test file."""
    places, done = [], {}

    def run(code, *arguments, key=None, env=None, **options):
        key = key or (code, arguments)
        if key not in done:
            one = Place(tmp_path_factory.mktemp("program"), _place._folder())
            one.env.update(QUIET)
            one.env.update(env or {})
            places.append(one)
            options.setdefault("timeout", 250)
            try:
                done[key] = Program(one, one.run(code, *arguments, **options))
            except BaseException as error:
                done[key] = error
        if isinstance(done[key], BaseException):
            raise done[key]
        return done[key]

    yield run
    for one in places:
        one.end_agent()
        _place.shutil.rmtree(one.rendezvous, ignore_errors=True)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Programs that a `place` starts see the same."""
    for name, value in QUIET.items():
        if name not in os.environ:
            monkeypatch.setenv(name, value)
