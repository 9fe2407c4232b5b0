# SPDX-License-Identifier: Apache-2.0
"""`lapse run --scrape`: what small exporters tell is what is stored, and what bad ones
do stays with them."""
import gzip
import http.server
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.request

import pytest

from held import Held, has

TEXT = """# HELP disk_free_bytes Free space.
# TYPE disk_free_bytes gauge
disk_free_bytes{mount="/data",host="a"} 123456789012
# TYPE jobs_total counter
jobs_total %d
# TYPE wait_seconds summary
wait_seconds{quantile="0.5"} 0.25
wait_seconds_sum %s
wait_seconds_count %d
nothing NaN
"""


class Exporter(http.server.ThreadingHTTPServer):
    """Answers GET as `answer(handler)` says: (status, headers, body)."""
    daemon_threads = True

    def __init__(self, answer, **options):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.server.asked.append(dict(self.headers) | {"path": self.path})
                status, headers, body = answer(self)
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler, **options)
        self.asked = []
        self.at = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def exporter():
    made = []

    def make(answer):
        made.append(Exporter(answer))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


def series(lapse, name=None):
    """{name{labels}: series} of the last run."""
    found = lapse.json("show", "last")["series"]
    return {f"{s['name']}{{{s['labels']}}}": s for s in found if name is None or s["name"] == name}


def events(lapse, kind):
    return [e["text"] for e in lapse.json("show", "last")["events"] if e["kind"] == kind]


def run_until(lapse, enough, *arguments):
    """A run that goes on until enough(what is stored) is true."""
    with Held(lapse, *arguments) as run:
        assert run.until(enough)


def told(kind):
    return lambda run: any(e["kind"] == kind for e in run.get("events", []))


def config(lapse, text):
    path = lapse.folder / "lapse.yaml"
    path.write_text(text)
    return path


def test_values_are_those_of_the_text(lapse, exporter):
    readings = []

    def answer(handler):
        n = len(readings)
        readings.append(n)
        body = (TEXT % (100 + 7 * n, repr(1.5 + 0.25 * n), 10 + n)).encode()
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, body

    one = exporter(answer)
    run_until(lapse, has("scrape/jobs_total", 2), "-c", config(lapse, f"""run:
  scrape:
    - url: http://{one.at}
      interval: 1s
      name: mine
"""))
    assert len(readings) >= 3
    got = series(lapse)
    free = got['scrape/disk_free_bytes{host="a",mount="/data",target="mine"}']
    assert (free["last"], free["unit"], free["kind"]) == (123456789012, "By", "gauge")
    assert free["help"] == "Free space."
    assert got['scrape/wait_seconds{quantile="0.5",target="mine"}']["last"] == 0.25
    assert got['scrape/nothing{target="mine"}']["last"] == "NaN"
    jobs = got['scrape/jobs_total{target="mine"}']
    # The first reading only says where it stands.
    assert jobs["kind"] == "counter" and jobs["count"] >= 2
    assert jobs["sum"] == 7 * jobs["count"]
    waited = got['scrape/wait_seconds_sum{target="mine"}']
    assert (waited["unit"], waited["sum"]) == ("s", 0.25 * waited["count"])
    assert got['scrape/wait_seconds_count{target="mine"}']["sum"] == waited["count"]
    assert got['scrape/up{target="mine"}']["min"] == 1
    assert got['scrape/samples{target="mine"}']["last"] == 6
    assert got['scrape/left_out{target="mine"}']["max"] == 0
    asked = one.asked[0]
    assert asked["path"] == "/metrics"
    assert asked["User-Agent"] == "lapse"
    assert asked["Accept"].startswith("application/openmetrics-text;version=1.0.0,text/plain")
    assert asked["X-Prometheus-Scrape-Timeout-Seconds"] == "5"
    assert "Authorization" not in asked


def test_openmetrics_gzip_and_token(lapse, exporter):
    body = gzip.compress(b"# TYPE a counter\na_total 3\na_created 17\n# TYPE b gauge\n"
                         b"b 2 # {t=\"1\"} 5\n# EOF\n")

    def answer(handler):
        return 200, {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8",
                     "Content-Encoding": "gzip"}, body

    one = exporter(answer)
    token = lapse.folder / "token"
    token.write_text("secret-7\n")
    lapse.env["JUDGE_TOKEN"] = "secret-8"
    # Of both: one may be asked earlier than the other.
    run_until(lapse, lambda run: sum(s["name"] == "scrape/b" for s in run.get("series", [])) == 2,
              "-c", config(lapse, f"""run:
  scrape:
    - {{url: "{one.at}/x", token_file: {token}}}
    - {{url: "{one.at}/y", token_env: JUDGE_TOKEN}}
"""))
    assert {a["path"]: a["Authorization"] for a in one.asked} == {
        "/x": "Bearer secret-7", "/y": "Bearer secret-8"}
    got = series(lapse)
    assert got[f'scrape/b{{target="{one.at}/x"}}']["last"] == 2
    assert not [k for k in got if "created" in k]
    stored = b"".join(p.read_bytes() for p in lapse.runs.rglob("*") if p.is_file())
    assert b"secret-" not in stored


def test_a_target_that_hangs_stops_no_other(lapse, exporter):
    """One takes the connection and says nothing; the kernel answers for it."""
    mute = socket.create_server(("127.0.0.1", 0))
    at = f"127.0.0.1:{mute.getsockname()[1]}"
    one = exporter(lambda handler: (200, {}, b"x 1\n"))
    run_until(lapse, lambda r: told("scrape-down")(r) and has("scrape/x", 3)(r),
              "-c", config(lapse, f"""run:
  scrape:
    - {{url: "{at}", interval: 1s, timeout: 2s}}
    - {{url: "{one.at}", interval: 1s}}
"""))
    mute.close()
    assert len(one.asked) >= 3
    got = series(lapse)
    assert got[f'scrape/x{{target="{one.at}"}}']["count"] >= 3
    assert got[f'scrape/up{{target="{at}"}}']["last"] == 0
    assert re.search("timed out", events(lapse, "scrape-down")[0])


@pytest.mark.parametrize("status,headers,body,why", [
    (404, {}, b"", "HTTP status 404"),
    (302, {"Location": "http://127.0.0.1:9/metrics"}, b"", "HTTP status 302: it points elsewhere"),
    (401, {}, b"", "HTTP status 401: it wants to know who asks (token_file)"),
    (200, {"Content-Type": "text/html"}, b"<html>", "a web page came"),
    (200, {}, b"what is this\n", "are no metrics: line 1: no number behind the name"),
    (200, {"Content-Encoding": "gzip"}, gzip.compress(b"# " + b"x" * (17 << 20) + b"\n"),
     "the answer has more than 16 MiB"),
], ids=["404", "302", "401", "page", "no-metrics", "too-much"])
def test_bad_answers(lapse, exporter, status, headers, body, why):
    one = exporter(lambda handler: (status, headers, body))
    run_until(lapse, told("scrape-down"), "--scrape", one.at)
    assert why in events(lapse, "scrape-down")[0]
    assert events(lapse, "scrape-down")[0].startswith(one.at + " cannot be scraped: ")


def test_down_and_up_again(lapse, exporter):
    state = {"up": True}
    one = exporter(lambda handler: (200 if state["up"] else 503, {}, b"c_total 5\n"))
    file = config(lapse, f"run:\n  scrape:\n  - url: {one.at}\n    interval: 1s\n")

    def course(run):
        if state["up"] and has("scrape/c_total")(run) and not told("scrape-down")(run):
            state["up"] = False
        elif told("scrape-down")(run):
            state["up"] = True
        return told("scrape-up")(run)

    run_until(lapse, course, "-c", file)
    assert events(lapse, "scrape-down") == [f"{one.at} cannot be scraped: HTTP status 503"]
    assert events(lapse, "scrape-up") == [f"{one.at} can be scraped again"]
    assert series(lapse, "scrape/c_total")[f'scrape/c_total{{target="{one.at}"}}']["sum"] == 0


def test_the_agents_own_targets(lapse, exporter, wait_for):
    one = exporter(lambda handler: (200, {}, b"shared 4\n"))
    file = config(lapse, f"agent:\n  scrape: [{one.at}]\n")
    agent = lapse.start("agent", "--config", file, "--idle-exit", "60")
    assert wait_for(lapse.agent_pid, 30)
    run_until(lapse, has("scrape/shared"))
    found = [s for s in lapse.json("show", "last")["series"] if s["name"] == "scrape/shared"]
    roles = {p["process"]: p["role"] for p in lapse.json("show", "last")["processes"]}
    assert [(s["last"], roles[s["process"]]) for s in found] == [(4, "host")]
    agent.terminate()
    agent.wait()


def test_unix_socket(lapse):
    path = str(lapse.rendezvous / "x.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def serve():
        connection, _ = server.accept()
        asked = connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n%s 1\n" %
                           (b"metrics1" if b"GET /metrics " in asked else b"other"))
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    run_until(lapse, has("scrape/metrics1"), "--scrape", f"unix://{path}:/metrics")
    server.close()
    assert [s["last"] for s in series(lapse, "scrape/metrics1").values()] == [1]


@pytest.mark.parametrize("arguments,why", [
    (["--scrape", "rai=h:1"], 'no preset "rai"; did you mean ray?'),
    (["--scrape", "http://u:p@h/"], "name and password do not belong"),
    (["--scrape", "h:1,h:1"], "there is a target h:1 already"),
    ("run:\n  scrape:\n  - {url: h, intervall: 1s}\n",
     '3:3: run.scrape: entry 1: unknown key "intervall"; did you mean "interval"?'),
    ("run: {scrape: [h:1, {url: h, token_env: NOT_SET}]}\n",
     "run.scrape: entry 2: token_env: NOT_SET is not set"),
    ("run: {scrape: [h:1, [h:2]]}\n", "run.scrape: entry 2: here stands a list in the list"),
])
def test_wrong_options_run_nothing(lapse, arguments, why):
    mark = lapse.folder / "mark"
    if isinstance(arguments, str):
        arguments = ["-c", config(lapse, arguments)]
    done = lapse("run", *arguments, "--", "touch", mark)
    assert done.returncode == 2
    assert why in done.stderr
    assert not mark.exists()


def test_without_libcurl_the_remedy_is_told(lapse):
    """A folder in which libcurl.so.4 is no library stands first in the search."""
    fake = lapse.folder / "lib"
    fake.mkdir()
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"):
        (fake / name).write_bytes(b"not a library")
    lapse.env["LD_LIBRARY_PATH"] = str(fake)
    run_until(lapse, told("scrape-down"), "--scrape", "127.0.0.1:9")
    assert "libcurl.so.4 is not here: install it (Debian: libcurl4" in \
        events(lapse, "scrape-down")[0]


def node_exporter():
    for name in ("prometheus-node-exporter", "node_exporter"):
        if shutil.which(name):
            return shutil.which(name)
    return os.environ.get("NODE_EXPORTER")


LABELS = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def same_number(a, b):
    special = {"NaN": "NaN", "+Inf": "Infinity", "-Inf": "-Infinity"}
    return a == special[b] if b in special else a == float(b)


def test_node_exporter(lapse, exporter, wait_for):
    """The real one, through a server that keeps what it said: every value of the last
    text but one, or the last, is what is stored; counters gained what the texts differ."""
    program = node_exporter()
    if not program:
        pytest.skip("no node_exporter in PATH or $NODE_EXPORTER")
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([program, f"--web.listen-address={at}"], stderr=subprocess.DEVNULL)
    said = []

    def answer(handler):
        with urllib.request.urlopen(f"http://{at}/metrics") as real:
            body = real.read()
        said.append(dict(line.rsplit(" ", 1) for line in body.decode().splitlines()
                         if not line.startswith("#")))
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, body

    def listens():
        try:
            socket.create_connection(at.split(":")).close()
        except OSError:
            return False
        return True

    try:
        assert wait_for(listens, 30)
        between = exporter(answer)
        run_until(lapse, has("scrape/up", 3), "-c", config(
            lapse, f"run:\n  scrape:\n  - {{url: '{between.at}', interval: 1s, name: n}}\n"))
    finally:
        server.terminate()
        server.wait()
    stored = {(s["name"], frozenset(LABELS.findall(s["labels"]))): s
              for s in lapse.json("show", "last")["series"]}
    compared = {"gauge": 0, "counter": 0}
    for key in said[0]:
        name, _, labels = key.partition("{")
        if name.endswith("_bucket") or not all(key in text for text in said):
            continue
        pairs = frozenset((k, v) for k, v in LABELS.findall(labels) if v)
        found = stored.get(("scrape/" + name, pairs | {("target", "n")}))
        assert found, key
        compared[found["kind"]] += 1
        if found["kind"] == "gauge":
            assert any(same_number(found["last"], text[key]) for text in said[-2:]), key
        else:
            steps = [float(text[key]) - float(said[0][key]) for text in said]
            # One that began anew in between gained what nobody knows.
            if steps == sorted(steps):
                assert any(found["sum"] == pytest.approx(step, rel=1e-9, abs=1e-6)
                           for step in steps[-2:]), key
    assert compared["gauge"] > 100 and compared["counter"] > 20
    assert stored[("scrape/left_out", frozenset({("target", "n")}))]["max"] == 0
