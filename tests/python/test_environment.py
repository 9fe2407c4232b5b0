# SPDX-License-Identifier: Apache-2.0
"""What is recorded of the place where the program runs, and that no secret is in
any byte that is stored."""

import importlib.metadata
import json
import os
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "lapse"
GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
INIT = "import lapse\nlapse.init()\n"
# finish() waits only a moment for what is read in a thread, and that for git's answers.
UNHURRIED = """
import sys, lapse
from lapse import _environment
_environment.WAIT_SECONDS = _environment.GIT_SECONDS = 30
"""


def shown(place, run="last"):
    """What `lapse show` knows of a run, once its end is stored."""
    place.export(run)
    done = subprocess.run(
        [PROGRAM, "show", run, "--json"], env=place.env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def attrs(place):
    """What the program told: the machine tells facts of its own."""
    return {attr["key"]: attr["value"] for attr in shown(place)["attrs"]
            if not attr["key"].startswith(("filesystem/", "gpu/"))}  # fmt: skip


def git(folder, *arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **GIT}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def repository(place):
    """The script's folder, with one commit on the branch "trunk"."""
    place.env.update(GIT)
    git(place.folder, "init", "-q", "-b", "trunk")
    (place.folder / "model.py").write_text("layers = 2\n")
    (place.folder / "rest.txt").write_text("rest\n")
    git(place.folder, "add", "model.py", "rest.txt")
    git(place.folder, "commit", "-q", "-m", "first")
    return place.folder


# ---- environment -----------------------------------------------------------------------


def test_environment(place):
    place.env.update(
        CUDA_VISIBLE_DEVICES="0,1", NCCL_DEBUG="INFO", SLURM_JOB_ID="4711", OTHER_VARIABLE="no",
        NCCL_AUTH_TOKEN="vErYsEcReT1", TORCH_HOME="http://me:pa55word@host/models",
    )  # fmt: skip
    place.run(UNHURRIED + "lapse.init()", "--lr", "0.1", "--hf-token", "s3cr3tvalue", "a b")
    found = attrs(place)
    version = "{}.{}.{}".format(*sys.version_info)
    assert found["env/python"] == f"CPython {version}, {sys.executable}"
    assert found["env/cwd"] == str(place.folder)
    assert os.uname().release in found["env/platform"]
    assert found["env/argv"] == (
        f"{sys.executable} -u {place.folder}/script.py --lr 0.1 --hf-token REDACTED 'a b'"
        if sys.version_info >= (3, 10)
        else f"{place.folder}/script.py --lr 0.1 --hf-token REDACTED 'a b'"
    )
    variables = {k: v for k, v in found.items() if k.startswith("env/var/")}
    assert variables["env/var/CUDA_VISIBLE_DEVICES"] == "0,1"
    assert variables["env/var/NCCL_DEBUG"] == "INFO"
    assert variables["env/var/SLURM_JOB_ID"] == "4711"
    assert variables["env/var/NCCL_AUTH_TOKEN"] == "REDACTED"
    assert variables["env/var/TORCH_HOME"] == "http://me:REDACTED@host/models"
    assert "env/var/OTHER_VARIABLE" not in variables


def test_packages_are_those_of_the_metadata(place):
    place.run(UNHURRIED + "lapse.init()")
    want = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            want.setdefault(name.lower().replace("-", "_").replace(".", "_"), distribution.version)
    lines = attrs(place)["env/packages"].splitlines()
    assert lines == sorted(lines, key=str.lower)
    if lines[-1].startswith("..."):
        lines.pop()
    found = dict(line.split("==") for line in lines)
    found = {k.lower().replace("-", "_").replace(".", "_"): v for k, v in found.items()}
    assert found
    for name, version in found.items():
        assert want.get(name) == version, name


def test_many_packages_are_cut_at_a_line(place):
    site = place.folder / "site"
    for i in range(2000):
        (site / f"package_{i:04}-1.0.dist-info").mkdir(parents=True)
    place.env["PYTHONPATH"] = os.pathsep.join([str(site), place.env.get("PYTHONPATH", "")])
    place.run(UNHURRIED + "sys.path[:] = [p for p in sys.path if p]\nlapse.init()")
    text = attrs(place)["env/packages"]
    assert len(text.encode()) <= 16384
    *lines, last = text.splitlines()
    assert last.startswith("... and ") and last.endswith(" more")
    assert all(line.count("==") == 1 for line in lines)


def test_old_metadata(place):
    """Files and folders of setuptools and of distributions."""
    site = place.folder / "site"
    (site / "Plain.egg-info").mkdir(parents=True)
    (site / "Plain.egg-info" / "PKG-INFO").write_text("Metadata-Version: 1.0\nVersion: 0.7\n")
    (site / "Debian_thing-2.5.egg-info").write_text("Metadata-Version: 1.0\n")
    (site / "Egg-3.1-py3.11.egg-info").mkdir()
    (site / "~broken-1.0.dist-info").mkdir()
    path = [str(site), "/nonexistent", ""]
    done = place.run(UNHURRIED + f"sys.path[:] = {path}\nprint(_environment._packages())")
    assert done.stdout == "Debian_thing==2.5\nEgg==3.1\nPlain==0.7\n"


TORCH = """
import types
def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)
def load():
    module("torch", __version__="2.5.1+cu124")
    module("torch.version", cuda="12.4")
    module("torch.backends.cudnn", version=lambda: print("CUDA is initialised now"))
    module("torch._C._cudnn", getRuntimeVersion=lambda: (9, 1, 0))
    module("torch.cuda.nccl", version=lambda: (2, 21, 5))
"""


@pytest.mark.parametrize("when", ["load()\nlapse.init()", "lapse.init()\nload()"])
def test_torch_if_it_is_loaded(place, when):
    done = place.run(UNHURRIED + TORCH + when)
    assert done.stdout == ""
    found = attrs(place)
    assert found["env/torch"] == "2.5.1+cu124"
    assert found["env/cuda"] == "12.4"
    assert found["env/cudnn"] == "9.1.0"
    assert found["env/nccl"] == "2.21.5"


def test_broken_torch_is_absent(place):
    place.run(UNHURRIED + "sys.modules['torch'] = None\nlapse.init()")
    assert "env/torch" not in attrs(place)


def test_nothing_is_imported(place):
    place.run("""
        import sys, lapse
        from lapse import _environment
        _environment.WAIT_SECONDS = 30      # until all is read
        before = set(sys.modules)
        lapse.init()
        lapse.finish()
        heavy = {"subprocess", "importlib.metadata", "platform", "numpy", "torch", "asyncio"}
        assert not heavy & (set(sys.modules) - before), set(sys.modules) - before
    """)


def test_capture_chooses(place, repository):
    place.run(UNHURRIED + "lapse.init(capture={'git'})")
    assert {key.split("/")[0] for key in attrs(place)} <= {"git", "run.name", "alert.watch"}


def test_the_thread_is_not_the_programs(place):
    place.run("""
        import threading, lapse
        lapse.init()
        assert threading.active_count() == 1
    """)


# ---- git -----------------------------------------------------------------------------------


def test_clean_repository(place, repository):
    place.run(UNHURRIED + "lapse.init()")
    found = attrs(place)
    assert found["git/commit"] == git(repository, "rev-parse", "HEAD")
    assert found["git/branch"] == "trunk"
    assert found["git/dirty"] == "false"
    assert "git/diff" not in found


def test_dirty_repository(place, repository):
    (repository / "model.py").write_text('layers = 3\napi_key = "Zq8vN2xw"\nurl = "ftp://u:pw@h"\n')
    place.run(UNHURRIED + "import os\nos.chdir('/')\nlapse.init()")
    found = attrs(place)
    assert found["git/dirty"] == "true"
    lines = found["git/diff"].splitlines()
    assert "-layers = 2" in lines and "+layers = 3" in lines
    assert '+api_key = "REDACTED"' in lines
    assert '+url = "ftp://u:REDACTED@h"' in lines
    assert (repository / "model.py").read_text().startswith("layers = 3")


def test_long_diff(place, repository):
    (repository / "rest.txt").write_text("".join(f"line {i} \u00e4\n" for i in range(20000)))
    place.run(UNHURRIED + "lapse.init()")
    found = attrs(place)
    keys = ["git/diff", "git/diff/1", "git/diff/2", "git/diff/3"]
    assert sorted(k for k in found if k.startswith("git/diff")) == keys
    assert all(len(found[key].encode()) <= 16384 for key in keys)
    text = "".join(found[key] for key in keys)
    assert 65000 < len(text.encode()) <= 65536
    assert text.endswith("\n[the diff is longer: cut here]\n")
    want = git(repository, "diff", "HEAD")
    assert want.startswith(text[:60000])


def test_private_key_in_a_diff(place, repository):
    body = "MIIEpAIBAAKCAQEA75nb" * 3
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nafter\n"
    (repository / "rest.txt").write_text(pem)
    place.run(UNHURRIED + "lapse.init()")
    text = attrs(place)["git/diff"]
    assert body not in text and "+after" in text and "REDACTED" in text


def test_only_the_first_local_rank_keeps_the_diff(place, repository):
    (repository / "model.py").write_text("layers = 3\n")
    place.env["LOCAL_RANK"] = "1"
    place.env["RANK"] = "1"
    place.run(UNHURRIED + "lapse.init()")
    found = attrs(place)
    assert found["git/dirty"] == "true"
    assert "git/diff" not in found


@pytest.mark.parametrize("why", ["no repository", "no git", "empty repository"])
def test_no_git(place, why):
    if why == "empty repository":
        git(place.folder, "init", "-q")
    if why == "no git":
        git(place.folder, "init", "-q")
        place.env["PATH"] = str(place.folder / "nothing")
    place.env["GIT_CEILING_DIRECTORIES"] = str(place.folder.parent)
    done = place.run(UNHURRIED + "lapse.init()")
    assert done.stderr == ""
    found = attrs(place)
    assert "git/commit" not in found and "git/diff" not in found


def test_slow_git_holds_nothing_up(place):
    slow = place.folder / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 300\n")
    slow.chmod(0o755)
    place.env["PATH"] = f"{slow.parent}:{place.env['PATH']}"
    place.run(INIT, timeout=30)
    assert "git/commit" not in attrs(place)


# ---- secrets -----------------------------------------------------------------------------------


def stored_bytes(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("launcher", [False, True], ids=["alone", "launched"])
def test_no_secret_in_any_stored_byte(place, repository, launcher):
    secrets = {
        "argument": "aRg5ecretValue1", "assigned": "aSs1gnedValue2", "url": "uRlPassw0rd3",
        "config": "c0nfigValue4", "environment": "env1ronValue5", "diff": "d1ffLineValue6",
        "nested": "n3stedValue7",
    }  # fmt: skip
    place.env["SERVICE_API_KEY"] = secrets["environment"]
    place.env["TORCH_ACCESS_TOKEN"] = secrets["environment"]
    (repository / "model.py").write_text(f"password = '{secrets['diff']}'\n")
    done = place.run(
        UNHURRIED + """
import os, warnings
lapse.init(config={"db_password": sys.argv[5], "lr": 1, "credentials": {"user": sys.argv[6]}})
sys.stderr = open(os.devnull, "w")
warnings.warn("cannot log in with " + os.environ["SERVICE_API_KEY"])
try:
    raise ValueError(f"{sys.argv[2]} {sys.argv[3]} {sys.argv[4]} {sys.argv[5]} {sys.argv[6]}")
finally:
    lapse.finish()
""",
        "--api-key", secrets["argument"], f"--token={secrets['assigned']}",
        f"s3://me:{secrets['url']}@host/path", f"--db-password={secrets['config']}",
        f"+credentials={secrets['nested']}", launcher=launcher, check=1,
    )  # fmt: skip
    found = attrs(place)
    assert found["config/db_password"] == found["config/credentials/user"] == "REDACTED"
    assert found["config/lr"] == "1"
    (event,) = place.stored().events("exception")
    assert event["text"].count("REDACTED") >= 5
    files = stored_bytes(place.runs)
    assert files
    texts = {"shown": json.dumps(shown(place)).encode(), **files}
    for where, data in texts.items():
        for what, secret in secrets.items():
            assert secret.encode() not in data, f"{what} in {where}"
    assert done.returncode == 1


CASES = [
    # As in the launcher's own tests: what is stored of these arguments.
    (["python3", "train.py", "--lr", "0.1"], "python3 train.py --lr 0.1"),
    (["x", "--api-key=abc def"], "x --api-key=REDACTED"),
    (["x", "--api-key", "abc", "next"], "x --api-key REDACTED next"),
    (["x", "--token", "--lr", "3"], "x --token --lr 3"),
    (["x", "token", "abc"], "x token abc"),
    (["env", "API_KEY=abc", "x"], "env API_KEY=REDACTED x"),
    (["x", "+model.auth=abc"], "x +model.auth=REDACTED"),
    (["x", "--max-tokens", "512"], "x --max-tokens 512"),
    (["x", "--db=postgres://me:pw@host/db"], "x --db=postgres://me:REDACTED@host/db"),
    (["x", "postgres://me:p@w:x@host"], "x postgres://me:REDACTED@host"),
    (["x", "ssh://git@host:22/r"], "x ssh://git@host:22/r"),
    (["x", "http://h/p?a=1&token=abc&b=2"], "x 'http://h/p?a=1&token=REDACTED&b=2'"),
    (["curl", "-H", "Authorization: Bearer abc"], "curl -H 'Authorization: REDACTED'"),
    (["x", '{"api_key": "abc", "lr": 1}'], """x '{"api_key": "REDACTED", "lr": 1}'"""),
    (
        ["sh", "-c", "echo a; PASSWORD=abc x --token def && y"],
        "sh -c 'echo a; PASSWORD=REDACTED x --token REDACTED && y'",
    ),
    (["sh", "-c", "x --secret 'a b' c"], r"sh -c 'x --secret '\''REDACTED'\'' c'"),
    (["x", "--api-key", "-abc", "-v"], "x --api-key REDACTED -v"),
    (["sh", "-c", "x --token -abc --lr 3"], "sh -c 'x --token REDACTED --lr 3'"),
    (["x", ""], "x ''"),
    (["x", "it's"], r"x 'it'\''s'"),
    (["x", "--key="], "x --key="),
]


@pytest.mark.parametrize(("argv", "want"), CASES)
def test_command(argv, want):
    from lapse import _redact

    assert _redact.command(argv) == want


def test_names():
    from lapse import _redact

    hidden = (
        "--api-key API_KEY apikey OPENAI_API_KEY_PROD hf_token token wandbApiKey --db-password "
        "passwd MYSQL_PWD my.secret --credentials auth oauth Authorization KEY2 accessToken "
        "AUTH_TOKEN passphrase"
    ).split()
    shown_names = (
        "--tokenizer --max-tokens tokens_per_batch --author lr num_key_value_heads pad_token_id "
        "authentic keyboard -- secretary"
    ).split()
    assert [name for name in hidden if not _redact.is_secret(name)] == []
    assert [name for name in ["", *shown_names] if _redact.is_secret(name)] == []


def random_arguments():
    """Pieces that matter to the rules, put together anyhow."""
    rng = random.Random(20)
    pieces = [
        "--", "-", "key", "Key", "KEY", "api", "token", "Token", "id", "len", "secret", "password",
        "pwd", "auth", "credential", "value", "heads", "=", ":", "://", "@", "/", "'", '"', " ",
        "\t", "\n", "&", ";", "|", "(", ")", "{", "}", ",", ".", "+", "_", "\u00e4", "7", "abc",
        "?", "#", "`", "\\", "x" * 33, *string.ascii_letters[::9],
    ]  # fmt: skip
    return ["".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(400)]


def test_both_languages_agree(place):
    """`lapse run` stores its command line by the rules in C."""
    from lapse import _redact

    argv = ["/bin/true", *[x for case, _ in CASES for x in [*case, "-"]], *random_arguments()]
    subprocess.run([PROGRAM, "run", "--quiet", "--", *argv], env=place.env, check=True)
    assert shown(place)["command"] == _redact.command(argv)


def test_message_keeps_what_is_no_secret():
    from lapse import _redact

    _redact.learn("hunter2hunter2")
    _redact.learn("length")  # a word, as of --sort-key=length
    text = "KeyError: 'lr'\nunexpected token: '}' of length 3"
    assert _redact.message(text) == text
    assert _redact.message("login hunter2hunter2 failed") == "login REDACTED failed"
    assert _redact.message("at https://me:x@host/a and b") == "at https://me:REDACTED@host/a and b"
    assert _redact.value("optimizer/lr", "0.1") == "0.1"
    assert _redact.value("auth/user", "me") == "REDACTED"
    assert _redact.value("auth/user", "") == ""
