# SPDX-License-Identifier: Apache-2.0
"""`lapse ls`: columns, conditions, order, and the cache that it reads from, which may
be wrong, missing, damaged or unwritable without anybody seeing more than time."""
import time

import pytest

START = 1767323045  # seconds since 1970


@pytest.fixture(name="many")
def fixture_many(lapse):
    """Runs a, b, c with 30, 20, 10 steps, projects, tags and sizes of their own."""
    ids = []
    for i, (name, project, steps) in enumerate((("a", "p", 30), ("b", "", 20), ("c", "q", 10))):
        done = lapse.json("simulate", "--steps", steps, "--start", f"@{START + 10 * i}", "--name",
                          name, "--seed", i + 1, *(("--project", project) if project else ()))
        ids.append(done["id"])
    assert lapse("edit", ids[0], "--tags", "good,old").returncode == 0
    assert lapse("edit", ids[1], "--tags", "goods").returncode == 0
    return ids


def names(lapse, *options):
    return [r["name"] for r in lapse.json("ls", *options)]


def exported(lapse, run, series):
    done = lapse("export", run, "--to", "csv", "--series", series)
    return [float(line.split(",")[10]) for line in done.stdout.splitlines()[1:]]


def test_order(lapse, many):
    assert names(lapse) == ["c", "b", "a"]
    assert names(lapse, "--reverse") == ["a", "b", "c"]
    assert names(lapse, "--sort", "name") == ["a", "b", "c"]
    assert names(lapse, "--sort", "name", "-r") == ["c", "b", "a"]
    assert names(lapse, "--sort", "step", "-n", 2) == ["a", "b"]
    assert names(lapse, "--sort", "project", "--filter", "project!=") == ["a", "c"]
    last = {n: exported(lapse, r, "loss")[-1] for n, r in zip("abc", many)}
    assert names(lapse, "--sort", "loss") == sorted(last, key=last.get)
    least = {n: min(exported(lapse, r, "loss")) for n, r in zip("abc", many)}
    assert names(lapse, "--sort", "loss:best") == sorted(least, key=least.get)
    norm = {n: exported(lapse, r, "grad_norm")[-1] for n, r in zip("abc", many)}
    assert names(lapse, "--sort", "grad_norm") == sorted(norm, key=norm.get, reverse=True)
    assert names(lapse, "--sort", "nosuch") == ["c", "b", "a"]


def test_conditions(lapse, many):
    rows = {"name=a": "a", "name!=a": "cb", "name=[ab]": "ba", "project=": "b", "project=p": "a",
            "tag=good": "a", "tag=good*": "ba", "tag!=good": "cb", "outcome=exited": "cba",
            "outcome=o*": "", "step>=19": "ba", "step<19": "c", "step = 9": "c", "duration>1d": "",
            "size<1G": "cba", "exit_code=0": "cba", "nosuch<1": "", "host=node0": "cba",
            f"id={many[1]}": "b", "loss=nan": "", "loss>-1": "cba"}
    for condition, want in rows.items():
        assert "".join(names(lapse, "--filter", condition)) == want, condition
    assert names(lapse, "-f", "step>=9", "-f", "step<=19", "-f", "project=") == ["b"]
    none = lapse("ls", "--filter", "name=x")
    assert none.returncode == 0 and "None of the 3 runs" in none.stderr


def test_conditions_that_make_no_sense(lapse, many):
    for condition, why in (("name", "is not like"), ("=a", "is not like"), ("name<3", "is text"),
                           ("duration>soon", "no value of duration"), ("projct=a", "none of id")):
        done = lapse("ls", "--filter", condition)
        assert done.returncode == 2 and why in done.stderr, condition


def test_metric_columns(lapse, many):
    loss = exported(lapse, many[0], "loss")
    tokens = exported(lapse, many[0], "lapse/step/tokens")
    run = lapse.json("ls", "-f", "name=a", "-m", "loss", "-m", "loss:best", "-m", "nosuch", "-m",
                     "lapse/step/tokens")[0]
    metrics = run["metrics"]
    assert list(metrics) == ["loss", "nosuch", "lapse/step/tokens"]
    assert metrics["nosuch"] is None
    assert metrics["loss"] == {"kind": "gauge", "unit": metrics["loss"]["unit"], "count": 30,
                               "last": loss[-1], "best": min(loss), "min": min(loss),
                               "max": max(loss), "sum": metrics["loss"]["sum"], "step": 29}
    assert metrics["lapse/step/tokens"]["sum"] == sum(tokens)
    assert run["last_step"] == 29 and run["loss"] == loss[-1]
    text = lapse("ls", "-m", "loss:max", "-m", "nosuch")
    assert text.stdout.splitlines()[0].split()[-3:] == ["loss:max", "nosuch", "SIZE"]
    assert f"{max(loss):.5g}" in text.stdout.splitlines()[3]


def cache(lapse):
    return list((lapse.folder / "cache" / "lapse").glob("runs-*"))


def age(lapse):
    """What has just been written is not kept; so let it be old."""
    time.sleep(2.1)


def test_cache(lapse, many):
    age(lapse)
    first = lapse("ls", "--json", "-m", "loss").stdout
    (file,) = cache(lapse)
    assert file.stat().st_mode & 0o777 == 0o600
    # Damaged in any place, cut, another's, gone: the same answer.
    whole = file.read_bytes()
    for damaged in (whole[:-3], whole[:20], b"", b"x" * 100, whole[:200] + b"\xff" * 50 + whole[250:],
                    whole.replace(b"simulated", b"simulatex")):
        file.write_bytes(damaged)
        assert lapse("ls", "--json", "-m", "loss").stdout == first
    file.unlink()
    assert lapse("ls", "--json", "-m", "loss").stdout == first


def test_cache_sees_changes(lapse, many):
    age(lapse)
    assert names(lapse) == ["c", "b", "a"]
    assert lapse("edit", many[1], "--name", "other").returncode == 0
    assert names(lapse) == ["c", "other", "a"]
    age(lapse)
    assert names(lapse) == ["c", "other", "a"]
    assert lapse("edit", many[1], "--name", "again").returncode == 0
    assert names(lapse) == ["c", "again", "a"]
    assert lapse("rm", many[0]).returncode == 0
    assert names(lapse) == ["c", "again"]
    (database,) = (lapse.runs / many[2]).glob("*.db")
    database.write_bytes(b"x" * 5000)
    assert "error" in lapse.json("ls")[0] and lapse.json("ls")[0]["error"]


def test_cache_unwritable(lapse, many):
    folder = lapse.folder / "cache"
    folder.write_text("no folder")
    assert names(lapse) == ["c", "b", "a"]
    lapse.env["XDG_CACHE_HOME"] = "relative"
    lapse.env.pop("HOME", None)
    assert names(lapse) == ["c", "b", "a"]


def test_many_metrics(lapse):
    """More metrics than the index keeps of a run: the others are looked up."""
    lapse.json("simulate", "--steps", 5, "--series", 700, "--start", f"@{START}")
    age(lapse)
    last = [s["name"] for s in lapse.json("show")["series"] if s["kind"] == "gauge"][-1]
    for _ in range(2):
        metric = lapse.json("ls", "-m", last)[0]["metrics"][last]
        assert metric["count"] == 5 and metric["last"] == exported(lapse, "last", last)[-1]
