# SPDX-License-Identifier: Apache-2.0
"""The stubs say what the extension is: the same names, the same signatures."""

import ast
import importlib.resources
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lapse
from lapse import _core

SAMPLES = Path(__file__).parent / "typing"


def stub():
    folder = importlib.resources.files("lapse")
    return ast.parse((folder / "_core.pyi").read_text())


def members(body):
    out = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            out[node.target.id] = node
    return {name: node for name, node in out.items() if name[0] != "_" or name in DUNDERS}


DUNDERS = ("__enter__", "__exit__", "__call__")
FUNCTIONS = [n for n in stub().body if isinstance(n, ast.FunctionDef)]
METHODS = [
    (cls.name, n)
    for cls in stub().body
    if isinstance(cls, ast.ClassDef)
    for n in cls.body
    if isinstance(n, ast.FunctionDef) and n.name not in DUNDERS and not n.decorator_list
]


def shape(node):
    """(name, has default, positional only) of each argument of a stub."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    first_default = len(arguments) - len(node.args.defaults)
    return [
        (a.arg, i >= first_default, i < len(node.args.posonlyargs))
        for i, a in enumerate(arguments)
        if a.arg != "self"
    ]


def real_shape(function):
    parameters = list(inspect.signature(function).parameters.values())
    return [
        (p.name, p.default is not p.empty, p.kind is p.POSITIONAL_ONLY)
        for p in parameters
        if p.name != "self"
    ]


def test_the_same_names():
    public = {n for n in dir(_core) if not n.startswith("_")}
    assert set(members(stub().body)) == public
    for node in stub().body:
        if isinstance(node, ast.ClassDef):
            real = vars(getattr(_core, node.name))
            names = {n for n in real if n[0] != "_" or n in DUNDERS}
            assert set(members(node.body)) == names, node.name


@pytest.mark.parametrize("node", FUNCTIONS, ids=lambda n: n.name)
def test_functions(node):
    real = getattr(_core, node.name)
    assert shape(node) == real_shape(real)
    assert real.__doc__


@pytest.mark.parametrize(("cls", "node"), METHODS, ids=lambda n: getattr(n, "name", n))
def test_methods(cls, node):
    real = getattr(getattr(_core, cls), node.name)
    assert shape(node) == real_shape(real)
    assert real.__doc__


def test_what_is_public():
    assert set(lapse.__all__) <= set(dir(lapse)) | {"RunReader", "Series"}
    for name in lapse.__all__:
        assert getattr(lapse, name) is not None
    with pytest.raises(AttributeError):
        lapse.no_such_name  # noqa: B018
    assert lapse.__version__ == _core.version


def test_mypy_accepts_good_code(tmp_path):
    pytest.importorskip("mypy")
    assert mypy(SAMPLES / "good.py", tmp_path) == []


def test_mypy_refuses_bad_code(tmp_path):
    """Each line marked `# bad` is an error, and no other line is."""
    pytest.importorskip("mypy")
    path = SAMPLES / "bad.py"
    lines = path.read_text().splitlines()
    expected = [i for i, line in enumerate(lines, 1) if line.endswith("# bad")]
    found = sorted({int(line.split(":")[1]) for line in mypy(path, tmp_path)})
    assert found == expected
    assert expected


def mypy(path, cache):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--cache-dir",
            str(cache),
            path.name,
        ],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if ": error:" in line]
