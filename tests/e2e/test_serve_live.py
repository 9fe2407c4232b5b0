# SPDX-License-Identifier: Apache-2.0
"""Live updates: what a run records arrives in order and once, whoever reconnects, is slow
or comes late; and all clients get the same."""
import json
import os
import signal
import socket
import threading
import time

import pytest

from conftest import BUILD, wait_for
from serving import Serving

STRESS = BUILD / "tests" / "chaos" / "stress"


class Recording:
    """A program that sets the gauge `seq` to 0, 1, 2, ... under `lapse run`. At the usual rate
    a machine that stands still for seconds has no more new values than come one by one."""

    def __init__(self, lapse, rate=30):
        self.lapse, self.page = lapse, lapse.folder / "page"
        self.process = lapse.start("run", "--quiet", "--", STRESS, "--threads", "1", "--rate",
                                   str(rate), "--kinds", "s", "--seconds", "150", self.page)
        assert wait_for(lambda: lapse.run_ids() and self.stored(), 30)

    @property
    def id(self):
        return self.lapse.run_ids()[-1]

    def end(self):
        pid = int.from_bytes(self.page.read_bytes()[64:72], "little")
        os.kill(pid, signal.SIGTERM)
        self.process.wait(20)

    def stored(self):
        """All that is stored of the gauge, in order."""
        done = self.lapse("export", self.id, "--to", "json", "--series", "seq")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row["value"] for row in rows if "value" in row]


@pytest.fixture
def server(lapse):
    lapse.runs.mkdir(exist_ok=True)
    with Serving(lapse, "--refresh", "100ms") as one:
        yield one


def series_id(server, run, name="seq"):
    found = server.get(f"/api/v1/runs/{run}/series?match={name}").json()["series"]
    assert len(found) == 1
    return found[0]["id"]


def values(event, series):
    assert event.name == "points"
    assert series not in event.data["buckets"]
    return [value for _, _, value in event.data["series"].get(series, [])]


def take(stream, series, n):
    """At least n values from a stream."""
    got = []
    while len(got) < n:
        got += values(stream.until("points"), series)
    return got


def is_row(numbers):
    return bool(numbers) and numbers == [numbers[0] + i for i in range(len(numbers))]


def test_values_arrive_in_order_and_the_end_is_told(lapse, server):
    run = Recording(lapse)
    series = series_id(server, run.id)
    with server.events(f"run={run.id}") as stream:
        assert stream.status == 200
        assert stream.response.getheader("Content-Type") == "text/event-stream"
        assert stream.response.getheader("Cache-Control") == "no-store"
        hello = stream.until("hello")
        assert hello.data["state"] == "running" and hello.data["is_live"] is True
        assert hello.data["run"] == run.id and hello.data["is_resumed"] is False
        assert hello.data["refresh_ms"] == 100 and hello.data["end_ns"] is None
        got = take(stream, series, 100)
        run.end()
        told, end = [], None
        for event in stream:  # the server ends the stream
            if event.name == "points":
                got += values(event, series)
            elif event.name == "end":
                end = event
            told.append(event)
        assert told[-1] is end
    assert is_row(got)
    assert end.data["state"] == "exited 0" and end.data["end_ns"] > hello.data["start_ns"]
    states = [e.data["state"] for e in told if e.name == "run"]
    assert states[-1] == "exited 0"
    stored = run.stored()
    assert got == stored[-len(got):]


def test_nothing_is_lost_over_reconnects(lapse, server):
    run = Recording(lapse)
    series = series_id(server, run.id)
    stream = server.events(f"run={run.id}")
    stream.until("hello")
    got = take(stream, series, 20)
    for pause in (0, 0.5, 1.5):
        last = stream.last
        stream.close()
        time.sleep(pause)
        stream = server.events(f"run={run.id}", Last_Event_ID=last)
        hello = stream.until("hello", "gap")
        assert hello.name == "hello" and hello.data["is_resumed"] is True and hello.id == last
        event = stream.next()
        assert event.name != "gap"
        if event.name == "points":
            got += values(event, series)
        got += take(stream, series, 40)
    run.end()
    got += [v for event in stream if event.name == "points" for v in values(event, series)]
    stream.close()
    assert is_row(got)
    assert got == run.stored()[-len(got):]
    # Who comes back after the end gets what was missed, and the end.
    with server.events(f"run={run.id}&after={last}") as again:
        events = list(again)
    assert events[0].name == "hello" and events[0].data["is_resumed"] is True
    assert [e.name for e in events].count("end") == 1 and events[-1].name == "end"
    late = [v for e in events if e.name == "points" for v in values(e, series)]
    assert late == got[-len(late):]


def test_ids_that_are_not_known_give_a_gap(lapse, server):
    run = Recording(lapse)
    for last in ("abcdef-1", "nonsense", "x" * 64):
        with server.events(f"run={run.id}&after={last}") as stream:
            hello = stream.until("hello")
            assert hello.data["is_resumed"] is False
            gap = stream.next()
            assert gap.name == "gap" and gap.data == {"run": run.id, "reason": "old"}
            stream.until("points")
    run.end()


def test_clients_get_the_same_bytes(lapse, server):
    run = Recording(lapse, rate=200)
    streams = [server.events(f"run={run.id}") for _ in range(20)]
    texts = [[] for _ in streams]

    def read(stream, lines):
        for line in stream.response:
            lines.append(line)

    for stream in streams:
        stream.until("hello")
    threads = [threading.Thread(target=read, args=(s, t)) for s, t in zip(streams, texts)]
    for thread in threads:
        thread.start()
    assert wait_for(lambda: all(len(text) > 20 for text in texts), 30)
    run.end()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for stream in streams:
        stream.close()
    # They joined one after the other: each has what came since, so all end alike.
    longest = max(texts, key=len)
    for text in texts:
        assert len(text) > 10 and longest[-len(text):] == text


def test_many_points_come_as_buckets(lapse, server):
    run = Recording(lapse, rate=20000)
    series = series_id(server, run.id)
    with server.events(f"run={run.id}") as stream:
        count, low, high = 0, None, None
        while count < 50000:
            event = stream.until("points", "gap")
            assert event.name == "points"
            for bucket in event.data["buckets"].get(series, []):
                begin, end, _, n, nan, least, mean, most, last = bucket
                assert begin <= end and nan == 0
                assert most - least == n - 1 and mean == (least + most) / 2 and last == most
                assert high is None or least == high + 1
                low = least if low is None else low
                high = most
                count += n
            raw = event.data["series"].get(series, [])
            assert len(raw) <= 200 and len(event.data["buckets"].get(series, [])) <= 200
            for _, _, value in raw:
                assert high is None or value == high + 1
                low = value if low is None else low
                high = value
                count += 1
    assert high - low + 1 == count
    run.end()


@pytest.mark.timeout(180)
def test_a_slow_client_gets_a_gap_and_others_do_not_wait(lapse, server):
    # Many values a second, so that the room for a client that does not read is full soon.
    simulated = lapse.start("simulate", "--live", "--rate", "50", "--series", "1000",
                            "--steps", "5000")
    assert wait_for(lapse.run_ids, 30)
    run = lapse.run_ids()[0]
    assert wait_for(lambda: lapse("show", run).returncode == 0, 30)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect((server.host, server.port))
    slow.sendall(f"GET /api/v1/live?run={run} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n\r\n"
                 .encode())
    # More than what waits in the server and in the system's buffers.
    total = 0
    with server.events(f"run={run}") as quick:
        hello = quick.until("hello")
        while total < 8 << 20:
            event = quick.next()
            assert event.name != "gap"
            total += len(json.dumps(event.data))
        last = quick.last
    slow.settimeout(20)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # it reads at last, and quickly
    text = b""
    while b"event: gap" not in text:
        data = slow.recv(1 << 16)
        assert data
        text += data
    assert f'event: gap\ndata: {{"run":"{run}","reason":"slow"}}'.encode() in text
    assert len(text) < total
    # After the gap it goes on with what is new.
    number = int(last.split("-")[1])
    while not any(int(line.split(b"-")[1]) > number for line in text.splitlines()[-40:-1]
                  if line.startswith(b"id: ")):
        data = slow.recv(1 << 16)
        assert data
        text += data
    slow.close()
    assert hello.data["state"] == "running"
    simulated.send_signal(signal.SIGTERM)
    simulated.communicate(timeout=20)


def test_several_runs_and_a_run_that_comes(lapse, server):
    lapse("simulate", "--steps", "50", check=True)
    old = lapse.run_ids()[0]
    with server.events("runs=1") as stream:
        # Between two that are greeted one after the other the folder has been looked at.
        for _ in range(2):
            with server.events(f"run={old}") as other:
                other.until("hello")
        run = Recording(lapse)
        event = stream.until("runs")
        while run.id not in event.data["new"]:
            assert event.data["gone"] == []
            event = stream.until("runs")
        with server.events(f"run={old}&run={run.id}&run={run.id}") as both:
            names = {}
            while not {(old, "end"), (run.id, "points")} <= set(names):
                event = both.next()
                names[event.data["run"], event.name] = event.data
            assert names[old, "hello"]["is_live"] is False
            assert names[old, "end"]["state"] == names[old, "hello"]["state"]
            run.end()
            assert both.until("end").data["run"] == run.id
            assert both.next() is None
        while run.id not in event.data.get("changed", []):
            event = stream.until("runs")
        lapse("rm", "--yes", old)
        while old not in event.data.get("gone", []):
            event = stream.until("runs")


def is_plain(folder):
    """Databases of a run that has ended, without what lies beside one that is written."""
    (database,) = folder.glob("*.db")
    names = {p.name for p in folder.iterdir() if p.name.startswith(database.name)}
    return names == {database.name} and database.read_bytes()[18:20] == b"\x01\x01"


class Polling:
    """A page that shows a run: asks for it, for values and for updates, again and again."""

    def __init__(self, server, run, series):
        self.server, self.run, self.is_over = server, run, threading.Event()
        self.paths = ("", f"/query?series={series}&points=100", f"/query?series={series}")
        self.statuses = set()
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        with self.server.events(f"run={self.run}"):
            while not self.is_over.wait(0.1):
                for path in self.paths:
                    self.statuses.add(self.server.get(f"/api/v1/runs/{self.run}{path}").status)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def test_a_watched_run_ends_as_one_plain_file(lapse, server):
    """Whoever shows a run does not keep its writer from leaving one file."""
    live = lapse.start("simulate", "--live", "--rate", "100", "--steps", "100000", "--quiet")
    try:
        assert wait_for(lambda: lapse.run_ids() and lapse.json("ls")[0].get("last_step"), 30)
        run = lapse.run_ids()[0]
        with Polling(server, run, "loss") as page:
            assert wait_for(lambda: page.statuses, 20)
            live.send_signal(signal.SIGINT)
            live.wait(20)
            assert is_plain(lapse.runs / run)
        assert page.statuses == {200}
    finally:
        live.kill()
        live.communicate()


@pytest.mark.parametrize("stays", (False, True))
def test_the_agent_leaves_one_plain_file(lapse, server, stays):
    """The same of what the agent writes, and when the page was closed just before."""
    run = Recording(lapse)
    with Polling(server, run.id, "seq") as page:
        assert wait_for(lambda: page.statuses, 20)
        if not stays:
            page.is_over.set()
        run.end()
        assert lapse.settled()
        assert is_plain(lapse.runs / run.id)
    assert page.statuses == {200}


def test_a_run_that_cannot_be_read_is_told(lapse, server):
    lapse("simulate", "--steps", "10", "--quiet", check=True)
    run = lapse.run_ids()[0]
    (database,) = (lapse.runs / run).glob("*.db")
    good = database.read_bytes()
    database.write_bytes(b"x" * len(good))
    with server.events(f"run={run}") as stream:
        event = stream.next()
        assert (event.name, event.data) == ("gap", {"run": run, "reason": "unreadable"})
        database.write_bytes(good)
        assert stream.next().name == "hello"


def test_bad_questions(lapse, server):
    lapse("simulate", "--steps", "10", check=True)
    run = lapse.run_ids()[0]
    for query, status, code in (("", 400, "bad-parameter"), ("run=nope", 404, "no-such-run"),
                                ("run=..", 404, "no-such-run"), ("runs=2", 400, "bad-parameter"),
                                ("runs=0", 400, "bad-parameter"),
                                (f"run={run}&x=1", 400, "bad-parameter"),
                                (f"run={run}&after={'x' * 65}", 400, "bad-parameter")):
        answer = server.get("/api/v1/live?" + query)
        assert (answer.status, answer.json()["error"]["code"]) == (status, code), query
    for name in "abcdefgh":
        os.symlink(lapse.runs / run, lapse.runs / f"{run}-{name}")
    nine = "&".join(f"run={run}{x}" for x in ("", "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h"))
    assert server.get("/api/v1/live?" + nine).status in (400, 404)


def test_the_server_stops_while_streams_are_open(lapse):
    run = Recording(lapse)
    server = Serving(lapse)
    streams = [server.events(f"run={run.id}") for _ in range(5)]
    for stream in streams:
        stream.until("hello")
    assert server.end() == 0
    for stream in streams:
        while stream.next() is not None:
            pass
        stream.close()
    run.end()
