# SPDX-License-Identifier: Apache-2.0
"""Alerts of runs: simulated faults, a real program that is sick, what people say of them by
the command, and what an old or an unwatched run says."""
import json
import os
import shutil
import signal
import sqlite3
import time

import pytest
from conftest import BUILD
from serving import Serving

LONG = ("simulate", "--quiet", "--steps", "7200", "--rate", "1", "--ranks", "2")


@pytest.fixture
def sick():
    """Path of the program that is ill."""
    program = BUILD / "tests" / "unit" / "alert" / "sick"
    if not program.exists():
        pytest.fail(f"{program} has not been built; run make")
    return program


def rules(answer, state=None):
    return sorted({a["rule"] for a in answer["alerts"] if state in (None, a["state"])})


def settings(lapse, *limits, more=""):
    """A file of settings with limits of rules, and its option."""
    path = lapse.folder / "lapse.yaml"
    path.write_text(f"alert:\n  limits: [{', '.join(limits)}]\n{more}")
    return ("--config", path)


@pytest.mark.parametrize("fault, want", [
    ("nan", ["nan"]), ("stall:120", ["stall"]), ("gradient-explosion", ["gradient-explosion"]),
    ("slow-data:20", ["throughput-drop"]), ("io-wait", ["io-wait"]), ("idle-gpu", ["gpu-idle"]),
    ("hot-gpu", ["gpu-hot"]), ("disk-filling", ["disk-filling"]),
    ("memory-leak", ["crash", "memory-pressure", "oom-forecast"]),
    ("worker-death", []), ("loss-spike", ["loss-spike"]), ("xid", []),
])
def test_simulated_faults(lapse, fault, want):
    assert lapse(*LONG, "--fault", fault).returncode == 0
    answer = lapse.json("alerts")
    assert rules(answer) == want
    assert answer["watched"] and answer["why"] is None
    for alert in answer["alerts"]:
        assert alert["state"] in ("resolved", "ended")
        assert int(alert["from_ns"]) <= int(alert["since_ns"]) <= int(alert["until_ns"])
        assert alert["do"] and alert["title"] in alert["text"]
        for series in alert["series"]:
            found = lapse("query", "last", series["pattern"], "--json")
            assert found.returncode == 0, found.stderr
            assert len(json.loads(found.stdout)["series"]) == 1
    fired = {r["rule"]: r["fired"] for r in answer["rules"]}
    assert sorted(r for r, n in fired.items() if n) == want


@pytest.mark.parametrize("shape", [
    (), ("--resume",), ("--hosts", "2", "--ranks", "4", "--gpus", "4"),
    ("--rate", "200", "--steps", "100000"), ("--gpus", "0"), ("--hz", "0.1"), ("--seed", "77"),
])
def test_healthy_runs_have_none(lapse, shape):
    assert lapse(*LONG, *shape).returncode == 0
    assert lapse.json("alerts")["alerts"] == []
    assert lapse("alerts").stdout == "no alerts\n"


def test_rules_say_what_they_cannot_see(lapse):
    assert lapse(*LONG, "--gpus", "0").returncode == 0
    state = {r["rule"]: (r["state"], r["why"]) for r in lapse.json("alerts")["rules"]}
    assert len(state) == 13
    assert state["stall"] == ("ok", None)
    for rule in ("gpu-idle", "gpu-hot"):
        assert state[rule][0] == "cannot-look" and "no GPU is read" in state[rule][1]
    text = lapse("alerts", "--rules").stdout
    assert text.splitlines()[0].split()[:3] == ["rule", "state", "fired"]
    assert "cannot-look" in text


def test_what_people_say(lapse):
    assert lapse(*LONG, "--fault", "hot-gpu", "--fault", "nan").returncode == 0
    before = lapse.json("alerts")
    hot = next(a for a in before["alerts"] if a["rule"] == "gpu-hot")
    assert hot["acknowledged"] is None
    assert lapse("alerts", "--ack", hot["id"], "--note", "fan \"2\"\nreplaced").returncode == 0
    assert lapse("alerts", "--silence", "nan", "--for", "1h").returncode == 0
    path = lapse.runs / lapse.run_ids()[0] / "alerts.ack"
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as log:  # a line that was cut, and nonsense
        log.write('[1]\n{"do":"ack"}\n\x00\x01\n{"do":"ack","alert":"x","note":"' + "n" * 9000 +
                  '"}\n{"do":"silence","rule":"gpu-hot","until_')
    assert lapse("alerts", "--ack", hot["id"], "--note", "again").returncode == 0
    after = lapse.json("alerts")
    hot = next(a for a in after["alerts"] if a["rule"] == "gpu-hot")
    assert hot["acknowledged"]["note"] == "again"
    assert hot["silenced_until_ns"] is None
    nan = [a for a in after["alerts"] if a["rule"] == "nan"]
    assert nan and all(a["silenced_until_ns"] for a in nan)
    assert lapse("alerts", "--silence", "nan", "--for", "0").returncode == 0
    assert all(a["silenced_until_ns"] is None for a in lapse.json("alerts")["alerts"])


def test_the_last_silence_holds(lapse):
    """Of a rule, or of one of its series: whichever was said later."""
    assert lapse(*LONG, "--fault", "hot-gpu").returncode == 0
    path = lapse.runs / lapse.run_ids()[0] / "alerts.ack"

    def silence(series, until):
        with path.open("a") as log:
            log.write(json.dumps({"do": "silence", "rule": "gpu-hot", "series": series,
                                  "until_ns": str(until)}) + "\n")
        answer = lapse.json("alerts")
        hot = [a["silenced_until_ns"] for a in answer["alerts"] if a["rule"] == "gpu-hot"]
        rule = next(r for r in answer["rules"] if r["rule"] == "gpu-hot")
        assert len(set(hot)) == 1
        return hot[0], rule["silenced_until_ns"]

    one, far, later = 'gpu/temperature{gpu="0"}', 2**62, 2**62 + 1
    assert silence(one, far) == (str(far), None)
    assert silence("gpu/temperature{gpu=\"1\"}", 0) == (str(far), None)
    assert silence(None, 0) == (None, None)
    assert silence(None, later) == (str(later), str(later))
    assert silence(one, 0) == (None, str(later))


def add_alert(folder, host, like, **others):
    """An alert of a run that has ended, in the file of a host, as it is told of another."""
    with sqlite3.connect(folder / f"{host}.db") as db:
        db.execute("INSERT INTO event (seq, process, time_ns, severity, kind, text, attrs) "
                   "VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM event), 1, ?, 2, 'alert', 'x', ?)",
                   (int(like["since_ns"]), json.dumps({**like, "host": host, **others})))


def test_a_silence_is_of_one_host(lapse):
    """The same GPU of another host, or what has no series there, is as loud as before."""
    assert lapse(*LONG, "--hosts", "2", "--fault", "hot-gpu").returncode == 0
    run = lapse.run_ids()[0]
    folder = lapse.runs / run
    hot = lapse.json("alerts")["alerts"][0]
    with sqlite3.connect(folder / f"{hot['host']}.db") as db:
        like = json.loads(db.execute("SELECT attrs FROM event WHERE kind = 'alert'").fetchone()[0])
    other = {"node0": "node1", "node1": "node0"}[hot["host"]]
    add_alert(folder, other, like, alert="gpu-hot-aaaaaa")
    add_alert(folder, other, like, alert="gpu-hot-bbbbbb", series_id=like["series_id"] + 1)
    for host in ("node0", "node1"):
        add_alert(folder, host, like, alert=f"drops-{host}", rule="drops", series="", series_id=0)

    def silent():
        return {a["id"] for a in lapse.json("alerts")["alerts"] if a["silenced_until_ns"]}

    def said(body):
        status, answer = post(server, run, "silence", body)
        assert status == 200
        return answer["series"], answer["host"]

    with Serving(lapse) as server:
        assert silent() == set()
        assert said({"alert": hot["id"], "for_s": 60}) == (like["series"], hot["host"])
        assert silent() == {hot["id"]}
        assert said({"alert": "drops-node1", "for_s": 60}) == (None, "node1")
        assert silent() == {hot["id"], "drops-node1"}
        assert all(r["silenced_until_ns"] is None for r in lapse.json("alerts")["rules"])
        assert said({"rule": "drops", "for_s": 60}) == (None, None)
        assert said({"alert": "drops-node0", "for_s": 0}) == (None, "node0")
        assert silent() == {hot["id"], "drops-node1"}
        # A line of an older version: all that are written so.
        with (folder / "alerts.ack").open("a") as log:
            log.write(json.dumps({"do": "silence", "rule": "gpu-hot", "series": like["series"],
                                  "until_ns": str(2**62)}) + "\n")
        assert silent() == {hot["id"], "gpu-hot-aaaaaa", "gpu-hot-bbbbbb", "drops-node1"}
        assert said({"alert": "gpu-hot-bbbbbb", "for_s": 0}) == (like["series"], other)
        assert silent() == {hot["id"], "gpu-hot-aaaaaa", "drops-node1"}


def test_a_pipe_instead_of_words(lapse):
    """A folder from elsewhere may have one: nobody waits for who writes into it."""
    assert lapse(*LONG, "--fault", "hot-gpu").returncode == 0
    folder = lapse.runs / lapse.run_ids()[0]
    os.mkfifo(folder / "alerts.ack")
    os.mkfifo(folder / "run.edit")
    assert rules(lapse.json("alerts")) == ["gpu-hot"]
    assert lapse("ls").returncode == 0
    assert lapse("alerts", "--silence", "gpu-hot").returncode == 1


def test_wrong_words(lapse):
    assert lapse(*LONG).returncode == 0
    for wrong, status, said in (
            (("--ack", "nan-aaaaaa"), 1, "no alert"), (("--silence", "nun"), 2, "no rule"),
            (("--silence", "nan", "--for", "31d"), 2, "at most 30d"), (("--note", "x"), 2, "--note"),
            (("--for", "1h"), 2, "--silence")):
        done = lapse("alerts", *wrong)
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert not (lapse.runs / lapse.run_ids()[0] / "alerts.ack").exists()


def test_old_run(lapse):
    """One that nobody watched says so."""
    assert lapse(*LONG, "--hosts", "1", "--ranks", "1").returncode == 0
    folder = lapse.runs / lapse.run_ids()[0]
    with sqlite3.connect(next(folder.glob("*.db"))) as db:
        db.execute("DELETE FROM attr WHERE key = 'alert.watch'")
    answer = lapse.json("alerts")
    assert not answer["watched"] and "without alerts" in answer["why"]
    assert {r["state"] for r in answer["rules"]} == {"off"}
    assert "without alerts" in lapse("alerts").stdout


def record(lapse, sick, *arguments, options=()):
    done = lapse("run", *options, "--", sick, *arguments)
    assert lapse.settled()
    return done, lapse.json("alerts")


def test_healthy_program(lapse, sick):
    done, answer = record(lapse, sick, "healthy")
    assert done.returncode == 0, done.stderr
    assert answer["watched"] and answer["alerts"] == []


def test_nan_in_a_program(lapse, sick):
    done, answer = record(lapse, sick, "nan")
    assert done.returncode == 0
    assert rules(answer) == ["nan"]
    alert = answer["alerts"][0]
    assert alert["value"] == "NaN" and alert["limit"] is None and alert["state"] == "resolved"
    assert alert["process"].startswith("trainer") and alert["series"][0]["name"] == "loss"
    shown = lapse("show").stdout
    assert "Loss is not finite: loss is NaN" in shown
    assert '{"alert"' not in shown and "{..}" not in shown.split("Last events")[-1]


def test_nan_to_the_end(lapse, sick):
    """That the process has ended made nothing better: what to do is still said."""
    done, answer = record(lapse, sick, "broken")
    assert done.returncode == 0
    assert [(a["rule"], a["state"]) for a in answer["alerts"]] == [("nan", "ended")]
    assert answer["alerts"][0]["until_ns"] is not None
    assert "its process ended" in lapse("show").stdout
    assert "\nnan: Stop, and go on from the last good checkpoint" in lapse("alerts").stdout


def test_losses_that_are_left_alone(lapse, sick):
    """There is a loss, but none that a jump says something of."""
    done, answer = record(lapse, sick, "duel")
    assert done.returncode == 0
    state = {r["rule"]: (r["state"], r["why"]) for r in answer["rules"]}
    assert state["loss-spike"] == (
        "cannot-look", "the program records no loss that need only fall (docs/alerts.md)")
    assert state["nan"] == ("ok", None)


def test_failure(lapse, sick):
    done, answer = record(lapse, sick, "exit")
    assert done.returncode == 3
    assert rules(answer) == ["crash"]
    assert answer["alerts"][0]["state"] == "ended"
    assert "exited with status 3" in answer["alerts"][0]["text"]
    assert lapse("run", "--", "true").returncode == 0
    assert lapse.settled()
    assert lapse.json("alerts")["alerts"] == []


def is_stalled(lapse):
    done = lapse("alerts", "--json")
    return done.returncode == 0 and rules(json.loads(done.stdout), "active") == ["stall"]


def test_stall_live(lapse, sick, wait_for):
    """It is seen while it lasts, and is over with the next step."""
    begin = time.monotonic()
    process = lapse.start("run", *settings(lapse, "stall=1"), "--", sick, "stall", "100")
    assert wait_for(lambda: is_stalled(lapse))
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    took = time.monotonic() - begin
    assert lapse.settled()
    answer = lapse.json("alerts")
    assert rules(answer, "resolved") == ["stall"]
    assert 1 <= answer["alerts"][0]["duration_s"] <= took


def test_evaluation_is_no_stall(lapse, sick):
    done, answer = record(lapse, sick, "evaluation", "9", options=settings(lapse, "stall=4"))
    assert done.returncode == 0
    assert answer["alerts"] == []


def test_switched_off(lapse, sick):
    done, answer = record(lapse, sick, "nan", options=settings(lapse, more="  enabled: false\n"))
    assert done.returncode == 0
    assert not answer["watched"] and answer["alerts"] == [] and "alert.enabled" in answer["why"]


def test_one_rule_off_and_nonsense(lapse, sick):
    done, answer = record(lapse, sick, "nan", options=settings(
        lapse, "gpu-hot=x", "nun=3", more="  off: [nan, stal]\n"))
    assert done.returncode == 0
    assert answer["watched"] and answer["alerts"] == []
    off = next(r for r in answer["rules"] if r["rule"] == "nan")
    assert off["state"] == "off" and "alert.off" in off["why"]
    log = (lapse.rendezvous / "agent.log").read_text()
    for said in ('no alert "nun", did you mean "nan"?', 'no alert "stal", did you mean "stall"?',
                 "gpu-hot=x"):
        assert said in log, log


def test_settings_of_a_run_with_an_agent_that_is_there(lapse, sick):
    """They go with the run; the next one has the agent's again."""
    done, answer = record(lapse, sick, "nan")
    assert done.returncode == 0 and rules(answer) == ["nan"]
    agent = lapse.agent_pid()
    assert agent
    done, answer = record(lapse, sick, "nan", options=settings(
        lapse, "gpu-hot=70", "nun=3", more="  off: [nan]\n"))
    assert done.returncode == 0 and answer["alerts"] == []
    state = {r["rule"]: (r["state"], r["test"]) for r in answer["rules"]}
    assert state["nan"][0] == "off" and "70" in state["gpu-hot"][1]
    assert 'no alert "nun"' in (lapse.rendezvous / "agent.log").read_text()
    done, answer = record(lapse, sick, "nan", options=settings(lapse, more="  enabled: false\n"))
    assert done.returncode == 0 and not answer["watched"]
    done, answer = record(lapse, sick, "nan")
    assert done.returncode == 0 and rules(answer) == ["nan"]
    assert lapse.agent_pid() == agent


@pytest.mark.kill
def test_alerts_of_a_killed_agent_end(lapse, sick, wait_for):
    """What fired under an agent that was killed is not active for ever."""
    process = lapse.start("run", *settings(lapse, "stall=1"), "--", sick, "stall", "100")
    assert wait_for(lambda: is_stalled(lapse))
    agent = lapse.agent_pid()
    os.kill(agent, signal.SIGKILL)
    assert wait_for(lambda: lapse.agent_pid() not in (None, agent))
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert lapse.settled()
    assert rules(lapse.json("alerts"), "active") == []


def test_copy_of_a_run_reads_the_same(lapse):
    """All of it is in the folder."""
    assert lapse(*LONG, "--fault", "hot-gpu").returncode == 0
    first = lapse.json("alerts")
    other = lapse.folder / "elsewhere" / lapse.run_ids()[0]
    shutil.copytree(lapse.runs / lapse.run_ids()[0], other)
    second = json.loads(lapse("alerts", other, "--json").stdout)
    assert second["alerts"] == first["alerts"] and len(first["alerts"]) == 1


# ---- by HTTP -------------------------------------------------------------------------------


def post(server, run, what, body, token=None):
    token = token or server.get("/api/v1/info").json()["act_token"]
    answer = server.ask("POST", f"/api/v1/runs/{run}/alerts/{what}", json.dumps(body),
                        Content_Type="application/json", X_Lapse_Token=token)
    return answer.status, answer.json()


@pytest.fixture
def served(lapse):
    """A server, the path of a run with alerts in it, and the id of one of gpu-hot."""
    assert lapse(*LONG, "--fault", "hot-gpu", "--fault", "nan").returncode == 0
    run = lapse.run_ids()[0]
    hot = next(a["id"] for a in lapse.json("alerts")["alerts"] if a["rule"] == "gpu-hot")
    with Serving(lapse) as server:
        yield server, run, hot


def test_http_lists_them(lapse, served):
    server, run, _ = served
    path = f"/api/v1/runs/{run}/alerts"
    answer = server.get(path)
    assert answer.status == 200
    assert answer.json() == lapse.json("alerts")
    assert server.get(path, If_None_Match=answer.head["etag"]).status == 304
    assert server.get(path + "?state=active").json()["alerts"] == []
    one = server.get(path + "?state=history&limit=1").json()
    assert one["alerts"] == answer.json()["alerts"][:1] and one["counts"]["history"] >= 2
    assert server.get(path + "?state=now").status == 400


def test_http_acknowledges_and_silences(served):
    server, run, hot = served
    assert post(server, run, "ack", {"alert": hot, "note": "n\u00e4"}) == (
        200, {"acknowledged": [hot]})
    status, said = post(server, run, "ack", {"rule": "nan", "by": "<b>"})
    assert status == 200 and said["acknowledged"]
    assert post(server, run, "ack", {"rule": "nan"}) == (200, {"acknowledged": []})
    status, said = post(server, run, "silence", {"rule": "nan", "for_s": 60})
    assert status == 200 and said["series"] is None and said["silenced_until"]
    status, said = post(server, run, "silence", {"alert": hot, "for_s": 60})
    assert status == 200 and said["series"] == 'gpu/temperature{gpu="0"}'
    by_id = {a["id"]: a for a in server.get(f"/api/v1/runs/{run}/alerts").json()["alerts"]}
    assert by_id[hot]["acknowledged"]["note"] == "n\u00e4" and by_id[hot]["silenced_until"]
    assert {a["acknowledged"]["by"] for a in by_id.values() if a["rule"] == "nan"} == {"<b>"}
    assert post(server, run, "silence", {"rule": "nan", "for_s": 0})[1]["silenced_until"] is None


@pytest.mark.parametrize("what, body, status, code", [
    ("ack", {}, 400, "bad-body"), ("ack", {"alert": "a", "rule": "nan"}, 400, "bad-body"),
    ("ack", {"alert": "nan-x"}, 404, "no-such-alert"), ("ack", {"rule": "../x"}, 404, "no-such-rule"),
    ("ack", {"rule": "nan", "note": "x" * 1001}, 400, "bad-body"),
    ("silence", {"rule": "nan"}, 400, "bad-body"),
    ("silence", {"rule": "nan", "for_s": 1e9}, 400, "bad-body"),
    ("silence", {"rule": "nan", "for_s": "1"}, 400, "bad-body")])
def test_http_refuses(lapse, served, what, body, status, code):
    server, run, _ = served
    got, said = post(server, run, what, body)
    assert (got, said["error"]["code"]) == (status, code)
    assert post(server, run, "ack", {"rule": "nan"}, token="x")[0] == 401
    assert post(server, "20200101-000000-aaaa", "ack", {"rule": "nan"})[0] == 404
    assert not (lapse.runs / run / "alerts.ack").exists()
