# SPDX-License-Identifier: Apache-2.0
"""`lapse serve`: its start and end, who may ask it, the table of runs, one run, changing
it; and the server that `lapse run` starts."""
import fcntl
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from held import Held
from launcher_terminal import Terminal
from serving import Answer, Serving

START = 1767323045


def simulate(lapse, *options, start=START):
    return lapse.json("simulate", "--steps", 40, "--start", f"@{start}", *options)["id"]


def error(answer):
    return answer.status, answer.json()["error"]["code"]


def rows(server, query=""):
    answer = server.get("/api/v1/runs" + query, timeout=60)
    assert answer.status == 200, answer.body
    return answer.json()["runs"]


# ---- start and end ------------------------------------------------------------------------


def test_start_and_end(lapse):
    run = simulate(lapse)
    for how in signal.SIGINT, signal.SIGTERM:
        with Serving(lapse) as server:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)
            assert server.get("/healthz").json() == {"status": "ok", "folders": 1, "readable": 1}
            info = server.get("/api/v1/info").json()
            assert info["folders"] == [str(lapse.runs)] and info["newest"] == run
            assert info["version"] in lapse("version").stdout and not info["needs_token"]
            server.process.send_signal(how)
            assert server.process.wait(20) == 0


def test_both_loopback_addresses(lapse):
    try:
        with socket.socket(socket.AF_INET6) as six:
            six.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    with Serving(lapse) as server:
        connection = http.client.HTTPConnection("::1", server.port, timeout=20)
        connection.request("GET", "/healthz")
        assert Answer(connection.getresponse()).status == 200


def test_no_folder_yet(lapse):
    """The usual folder need not be there; one that was named must."""
    with Serving(lapse) as server:
        assert server.get("/healthz").status == 200
        assert server.get("/api/v1/runs").json()["runs"] == []
        run = simulate(lapse)
        assert server.get(f"/api/v1/runs/{run}").status == 200
    done = lapse("serve", "--port", "0", lapse.folder / "nowhere")
    assert (done.returncode, done.stdout) == (1, "") and "nowhere: No such file" in done.stderr


def test_several_folders_and_a_run(lapse):
    other = lapse.folder / "other"
    first, second = simulate(lapse), simulate(lapse, "--dir", other, start=START + 60)
    with Serving(lapse, str(lapse.runs / first), str(other), str(other)) as server:
        assert server.get("/api/v1/info").json()["folders"] == [str(lapse.runs), str(other)]
        assert [(r["id"], r["folder"]) for r in rows(server)] == [(second, 1), (first, 0)]
        assert server.get("/api/v1/runs/last").json()["run"]["id"] == second


def test_port_that_is_taken(lapse):
    with Serving(lapse) as server:
        done = lapse("serve", "--port", server.port)
        assert done.returncode == 1
        assert f"port {server.port} is taken by lapse, process {server.process.pid}" in done.stderr


@pytest.mark.alone  # else another's server comes and goes on 8080
def test_next_free_port(lapse):
    """Without --port it is one of a hundred, whoever has the first."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8080))
            taken.listen()
        except OSError:
            pass  # somebody else has it: as good
        process = lapse.start("serve")
        url = process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert 8080 < int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", url)[1]) < 8180


def test_title(lapse):
    with Serving(lapse, "--title", "<b>Ours</b>") as server:
        assert server.get("/api/v1/info").json()["title"] == "<b>Ours</b>"
    with Serving(lapse) as server:
        assert server.get("/api/v1/info").json()["title"] == "lapse"


def test_it_ends_with_a_process(lapse, tmp_path):
    """Also with one that is killed, and with one that has ended before."""
    other = subprocess.Popen(["sleep", "60"])
    with Serving(lapse, "--end-with", str(other.pid)) as server:
        assert server.get("/healthz").status == 200 and server.is_up()
        other.kill()
        other.wait()
        assert server.process.wait(20) == 0
        done = lapse("serve", "--port", 0, "--end-with", other.pid)
        assert (done.returncode, done.stdout[:7]) == (0, "http://")


@pytest.mark.parametrize(("arguments", "text"), [
    (["--title", ""], "1 to 100 bytes"), (["--title", "x" * 101], "1 to 100 bytes"),
    (["--end-with", "0"], "at least 1"), (["--rendezvous", "x", "--end-with", "1"], "no --end-with"),
    (["--port", "65536"], "at most 65535"), (["--allow-ip", "10.0.0.0/33"], "10.0.0.0/33"),
    (["--allow-host", "a:80"], "a:80"), (["--max-clients", "1"], "at least 8"),
])
def test_called_wrongly(lapse, arguments, text):
    done = lapse("serve", *arguments)
    assert done.returncode == 2 and text in done.stderr


@pytest.mark.parametrize(("arguments", "text"), [
    (["--tls-cert", "nowhere.pem"], "nowhere.pem"), (["--token-file", "nowhere"], "nowhere"),
    (["--host", "example.org"], "no address"), (["--host", "192.0.2.1"], "192.0.2.1"),
])
def test_what_cannot_be(lapse, arguments, text):
    done = lapse("serve", "--port", "0", *arguments)
    assert done.returncode == 1 and text in done.stderr and done.stdout == ""


def test_settings_of_a_file(lapse):
    path = lapse.folder / "lapse.yaml"
    path.write_text("dashboard:\n  refresh_interval: 5\n  allowed_ips: [192.0.2.0/24]\n")
    with Serving(lapse, "--config", path) as server:
        assert error(server.get("/healthz")) == (403, "address-not-allowed")
    path.write_text("dashboard: {refresh_interval: 5, allowed_ips: [127.0.0.0/8, '::1']}\n")
    with Serving(lapse, "--config", path) as server:
        assert server.get("/api/v1/info").json()["refresh_ms"] == 5000
    path.write_text("dashboard: {allowed_ips: [nobody]}\n")
    done = lapse("serve", "--config", path)
    assert done.returncode == 2 and "nobody" in done.stderr


# ---- what every answer has -------------------------------------------------------------------


def test_routes_and_methods(lapse):
    run = simulate(lapse)
    with Serving(lapse) as server:
        assert error(server.get("/nothing")) == (404, "no-such-route")
        assert error(server.get("/api/v1/runs/")) == (404, "no-such-route")
        for path in "/api/v1/runs/20200101-000000-aaaa", "/api/v1/runs/..", "/api/v1/runs/.hidden":
            assert error(server.get(path)) == (404, "no-such-run")
        for method in "DELETE", "PUT", "OPTIONS", "PATCH", "FOO":
            answer = server.ask(method, f"/api/v1/runs/{run}")
            assert error(answer) == (405, "method") and answer.head["allow"] == "GET, HEAD"
        assert server.get(f"/api/v1/runs/{run}/edit").head["allow"] == "POST"
        head = server.ask("HEAD", "/api/v1/runs")
        assert (head.status, head.body) == (200, b"")
        assert int(head.head["content-length"]) > 100


@pytest.mark.parametrize(("query", "text"), [
    ("limit=0", "limit"), ("limit=501", "500"), ("limit=1&limit=2", "twice"), ("nosuch=1", "nosuch"),
    ("status=gone", "running|finished"), ("sort=colour", "metric:NAME"), ("filter=loss", "filter"),
    ("q=%00", "NUL"), ("q=%ff", "UTF-8"), ("q=" + "x" * 1025, "1025 bytes"), ("offset=-1", "offset"),
    ("&".join(["metric=a"] * 17), "16 times"), ("&".join(["tag=a"] * 257), "256"),
])
def test_bad_parameters(lapse, query, text):
    with Serving(lapse) as server:
        answer = server.get("/api/v1/runs?" + query)
        assert error(answer) == (400, "bad-parameter")
        assert text in answer.json()["error"]["message"]


def test_fields_of_security(lapse):
    with Serving(lapse) as server:
        for path in "/", "/healthz", "/nothing", "/api/v1/runs":
            head = server.get(path).head
            assert head["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in head["content-security-policy"]
            assert "unsafe" not in head["content-security-policy"]
            assert head["cross-origin-resource-policy"] == "same-origin"
            assert head["referrer-policy"] == "no-referrer"
            assert not [name for name in head if name.startswith("access-control")]


def test_tags_and_compression(lapse):
    run = simulate(lapse)
    simulate(lapse, start=START + 60)
    with Serving(lapse) as server:
        for path in "/api/v1/runs", f"/api/v1/runs/{run}":
            first = server.get(path)
            again = server.get(path, If_None_Match=first.head["etag"])
            assert (again.status, again.body) == (304, b"")
            packed = server.get(path, Accept_Encoding="gzip")
            assert packed.head["content-encoding"] == "gzip"
            assert gzip.decompress(packed.body) == first.body
        lapse("edit", run, "--name", "other", check=True)
        assert server.get(f"/api/v1/runs/{run}", If_None_Match=first.head["etag"]).status == 200


def test_page(lapse):
    """The pages, or a notice that says how to build them; no style, no handler and no
    script in the page but the first, which its hash allows."""
    with Serving(lapse) as server:
        page = server.get("/")
        assert page.status == 200 and page.head["content-type"].startswith("text/html")
        text = page.body.decode()
        assert text.lower().startswith("<!doctype html>")
        assert "<style" not in text and not re.search(r"<[^>]* on[a-z]+=", text.split("<script")[0])
        assert len(re.findall(r"<script(?![^>]*\bsrc=)", text)) <= 1
        for name in re.findall(r'(?:src|href|data-program)="\./(assets/[^"]+)"', text):
            asset = server.get("/" + name, Accept_Encoding="gzip")
            assert asset.status == 200 and "immutable" in asset.head["cache-control"]
            assert gzip.decompress(asset.body) == server.get("/" + name).body
        assert error(server.get("/assets/nothing.js")) == (404, "no-such-file")
        assert error(server.get("/assets/../../etc/passwd"))[0] == 404
        assert server.get("/?token=whatever").status == 200  # none is needed


# ---- who may ask ---------------------------------------------------------------------------------


def test_hosts(lapse):
    with Serving(lapse, "--allow-host", "gpu1.example.org") as server:
        port = server.port
        for host in "localhost", "127.0.0.1", f"127.0.0.1:{port}", "[::1]:9000", "127.1.2.3", \
                "localhost:1", "GPU1.example.org:80":
            assert server.get("/healthz", Host=host).status == 200, host
        for host in "evil.example.org", "localhost.evil.org", "192.0.2.7", "", "localhost:x", \
                f"localhost@evil.org:{port}", "127.0.0.1.nip.io":
            assert error(server.get("/healthz", Host=host)) == (421, "wrong-host"), host


def test_sites(lapse):
    with Serving(lapse) as server:
        here = f"127.0.0.1:{server.port}"
        assert server.get("/healthz", Sec_Fetch_Site="same-origin", Origin="http://" + here).status == 200
        assert server.get("/healthz", Sec_Fetch_Site="none").status == 200
        for head in {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, \
                {"Origin": "http://evil.example.org"}, {"Origin": "null"}, \
                {"Origin": "http://127.0.0.1:1"}:
            assert error(server.get("/api/v1/info", **head)) == (403, "foreign-site"), head
        link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
        assert server.get("/", Sec_Fetch_Dest="document", **link).status == 200
        assert server.get("/", Sec_Fetch_Dest="iframe", **link).status == 403
        assert server.get("/api/v1/runs", Sec_Fetch_Dest="document", **link).status == 403


def test_token(lapse):
    """From elsewhere: a link sets the cookie, programs send the token."""
    with Serving(lapse, "--host", "0.0.0.0") as server:
        token = re.search(r"\?token=([a-z2-7]{26})$", server.url)[1]
        for path in "/", "/healthz", "/api/v1/info", "/metrics", "/nothing":
            assert error(server.get(path)) == (401, "no-token")
        assert server.get("/healthz", Authorization="Bearer " + token).status == 200
        assert error(server.get("/healthz?token=" + token)) == (401, "no-token")
        welcome = server.get("/?token=" + token)
        cookie = welcome.head["set-cookie"]
        assert welcome.status == 200 and b'content="0;url=./"' in welcome.body
        assert cookie.startswith(f"lapse_{server.port}={token};")
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" not in cookie
        cookie = cookie.partition(";")[0]
        info = server.get("/api/v1/info", Cookie="a=b; " + cookie).json()
        assert info["needs_token"] and info["act_token"] != token
        assert error(server.get("/healthz", Cookie=cookie[:-1] + "?")) == (401, "wrong-token")
        assert error(server.get("/healthz", Authorization="Bearer x")) == (401, "wrong-token")
        assert any("in the clear" in line for line in server.said)


def test_wrong_tokens_make_wait(lapse):
    with Serving(lapse, "--host", "0.0.0.0") as server:
        token = server.url.rpartition("=")[2]
        for i in range(10):
            answer = server.get("/healthz", Authorization=f"Bearer wrong{i}")
            assert error(answer) == (401, "wrong-token")
        answer = server.get("/healthz", Authorization="Bearer " + token)
        assert error(answer) == (429, "too-fast") and answer.head["retry-after"] == "60"


def test_token_of_a_file(lapse):
    path = lapse.folder / "token"
    path.write_text("this-is_a.token~1\n")
    path.chmod(0o644)
    with Serving(lapse, "--token-file", path) as server:
        assert server.url.endswith("?token=this-is_a.token~1")
        assert error(server.get("/healthz")) == (401, "no-token")
        assert server.get("/healthz", Authorization="Bearer this-is_a.token~1").status == 200
        assert any("chmod 600" in line for line in server.said)
    for text in "short", "with blanks in it and more", "x" * 129:
        path.write_text(text)
        done = lapse("serve", "--port", "0", "--token-file", path)
        assert done.returncode == 1 and "16 to 128 letters" in done.stderr


def test_other_users(lapse):
    """On a shared machine a loopback address is everybody's; the kernel says who asks."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    code = ("import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]));"
            "c.request('GET', '/healthz'); print(c.getresponse().read().decode())")

    def as_user(port, user=1234):
        return json.loads(subprocess.run(
            ["/usr/bin/env", "python3", "-I", "-c", code, str(port)], user=user, group=user,
            cwd="/", check=True, capture_output=True, timeout=30).stdout)

    with Serving(lapse) as server:
        assert as_user(server.port)["error"]["code"] == "other-user"
        with open("/proc/self/uid_map", encoding="ascii") as map_:
            has_all = map_.read().split() == ["0", "0", "4294967295"]
        if has_all:
            assert as_user(server.port, 65534)["error"]["code"] == "other-user"  # nobody
        assert server.get("/healthz").status == 200
    path = lapse.folder / "token"
    path.write_text("x" * 16)
    with Serving(lapse, "--token-file", path) as server:
        assert as_user(server.port)["error"]["code"] == "no-token"


def test_tls(lapse):
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    cert, key = lapse.folder / "cert.pem", lapse.folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Serving(lapse, "--tls-cert", cert, "--tls-key", key, "--host", "127.0.0.1") as server:
        assert server.url.startswith("https://127.0.0.1:")
        connection = http.client.HTTPSConnection(
            "localhost", server.port, timeout=20,
            context=ssl.create_default_context(cafile=str(cert)))
        connection.request("GET", "/healthz")
        assert Answer(connection.getresponse()).json()["status"] == "ok"
        connection.close()
    done = lapse("serve", "--port", "0", "--tls-cert", cert)
    assert done.returncode == 1 and "both" in done.stderr
    done = lapse("serve", "--port", "0", "--tls-cert", key, "--tls-key", cert)
    assert done.returncode == 1 and "belong together" in done.stderr


# ---- the table of runs -------------------------------------------------------------------------------


@pytest.fixture
def several(lapse):
    """Ids by name: a (ocr, good), b (ocr, killed), c (live), d (unreadable)."""
    ids = {name: simulate(lapse, "--name", name, *more, start=START + at) for name, at, more in (
        ("a", 0, ["--project", "ocr"]),
        ("b", 100, ["--project", "ocr", "--outcome", "signaled:9", "--seed", 2]),
        ("c", 200, ["--outcome", "running", "--seed", 3]))}
    lapse("edit", ids["a"], "--tags", "+good,+best", "--notes", "Für die Arbeit", check=True)
    broken = lapse.runs / "20260103-000000-dddd"
    broken.mkdir()
    (broken / "host.db").write_bytes(b"no database" * 1000)
    return {**ids, "d": broken.name}


@pytest.fixture
def names(lapse, several):
    """A question to the table; the names of the runs that it gives, in their order."""
    by_id = {run: name for name, run in several.items()}
    with Serving(lapse) as server:
        yield lambda query: "".join(by_id[row["id"]] for row in rows(server, query))


@pytest.mark.parametrize(("query", "expected"), [
    ("", "cbad"),  # the newest first, what has no start last
    ("?sort=start", "abcd"), ("?sort=-name", "cbad"), ("?sort=name", "abcd"),
    ("?limit=2&offset=1", "ba"), ("?offset=9", ""),
    ("?status=finished", "a"), ("?status=failed", "b"),
    ("?status=running&status=unreadable", "cd"),
    ("?project=ocr", "ba"), ("?tag=good&tag=best", "a"), ("?tag=goo", ""),
    ("?q=GOOD", "a"), ("?q=die%20arbeit", "a"), ("?q=arbeit+nicht", ""), ("?q=20260103", "d"),
    ("?filter=project%3Docr&filter=outcome%3Dexited", "a"),
])
def test_which_runs(names, query, expected):
    assert names(query) == expected


def test_order_by_a_metric(lapse, several, names):
    last = {name: lapse.json("show", several[name]) for name in "abc"}
    loss = {name: next(s["last"] for s in run["series"] if s["name"] == "loss")
            for name, run in last.items()}
    assert names("?sort=metric:loss") == "".join(sorted("abc", key=loss.get)) + "d"
    assert names("?sort=-metric:loss") == "".join(sorted("abc", key=loss.get, reverse=True)) + "d"


def test_facets(lapse, several):
    with Serving(lapse) as server:
        answer = server.get("/api/v1/runs?status=finished").json()
    assert (answer["total"], answer["matched"]) == (4, 1)
    assert answer["runs"][0]["id"] == several["a"]
    facets = answer["facets"]
    assert {f["value"]: f["count"] for f in facets["status"]} == {
        "finished": 1, "failed": 1, "running": 1, "unreadable": 1}
    assert facets["project"] == [{"value": "ocr", "count": 2}]
    assert {"value": "simulated", "count": 3} in facets["tag"]


def test_rows_are_those_of_ls(lapse, several):
    listed = {row["id"]: row for row in json.loads(lapse("ls", "--json", "--metric", "loss",
                                                         "--metric", "none").stdout)}
    with Serving(lapse) as server:
        for row in rows(server, "?metric=loss&metric=none&spark=loss"):
            spark, status = row.pop("spark"), row.pop("status")
            assert row.pop("folder") == 0
            if status == "running":
                row.pop("duration_s"), listed[row["id"]].pop("duration_s")
            assert row == listed[row["id"]]
            if status == "unreadable":
                assert spark is None and row["error"]
                continue
            points = [json.loads(line)["value"]
                      for line in lapse("export", "--to", "json", "--series", "loss",
                                        row["id"]).stdout.splitlines()
                      if json.loads(line)["type"] == "sample"]
            assert 20 <= len(spark) <= 40
            assert min(points) * 0.999 < min(spark) and max(spark) < max(points) * 1.001
            assert spark[0] > spark[-1]
        assert all(row["spark"] is None for row in rows(server, "?spark=nosuch"))


@pytest.mark.timeout(240)
def test_two_thousand_runs(lapse, wait_for):
    """Each once, in pages; what is written meanwhile is seen."""
    run = simulate(lapse)
    for i in range(1999):
        shutil.copytree(lapse.runs / run, lapse.runs / f"20250101-000000-{i:04}")
    with Serving(lapse) as server:
        seen = []
        for offset in range(0, 2000, 500):
            answer = server.get(f"/api/v1/runs?limit=500&offset={offset}&spark=loss", timeout=120).json()
            assert (answer["total"], answer["matched"]) == (2000, 2000)
            assert all(row["spark"] for row in answer["runs"])
            seen += [row["id"] for row in answer["runs"]]
        assert sorted(seen) == sorted(path.name for path in lapse.runs.iterdir())
        lapse("edit", seen[1000], "--name", "needle", check=True)
        found = wait_for(lambda: rows(server, "?q=needle"), 60)
        assert [row["id"] for row in found] == [seen[1000]]


# ---- one run ---------------------------------------------------------------------------------------------


@pytest.fixture
def one(lapse):
    """A run of two ranks: what the server says of it, `lapse show` and `lapse export`."""
    run = simulate(lapse, "--ranks", 2, "--project", "ocr")
    with Serving(lapse) as server:
        answer = server.get(f"/api/v1/runs/{run}").json()
    lines = lapse("export", "--to", "json", run).stdout.splitlines()
    return answer, lapse.json("show", run), [json.loads(line) for line in lines]


def test_one_run(one):
    told, shown, _ = one
    for key, value in told["run"].items():
        assert shown[key] == value, key
    assert told["status"] == "finished" and told["live"] is False
    assert told["processes"] == shown["processes"]
    attributes = {(a["process"], a["key"]): a["value"] for a in told["attributes"]}
    assert attributes == {(a["process"], a["key"]): a["value"] for a in shown["attrs"]}
    assert {a["group"] for a in told["attributes"]} >= {"config", "simulate"}
    loss = next(s for s in shown["series"] if s["name"] == "loss" and s["rank"] == 0)
    assert told["loss"] == {"name": "loss", "last": loss["last"], "best": loss["min"],
                            "direction": "down"}


def test_counts_of_a_run(one):
    told, shown, lines = one
    types = [line["type"] for line in lines]
    assert told["counts"]["series"] == len(shown["series"])
    assert told["counts"]["points"] == sum(
        types.count(t) for t in ("sample", "span", "histogram"))
    assert told["counts"]["events"] == len(shown["events"])
    assert told["drops"]["stored"] == sum(p["stored"] for p in shown["processes"])


def test_progress_of_a_run(one):
    """By hand: steps of rank 0 that began in the last 10 s, over the time from the first of
    them to the end of the last."""
    told, _, lines = one
    of = next(s["series"] for s in lines
              if s["type"] == "series" and s["name"] == "step" and s["rank"] == 0)
    steps = [(s["time_ns"], s["duration_ns"]) for s in lines
             if s["type"] == "span" and s["series"] == of]
    end = sum(max(steps))
    late = [start for start, _ in steps if start >= end - 10 * 10**9]
    progress = told["progress"]
    assert (progress["step"], progress["of"], progress["share"]) == (39, 40, 1)
    assert (progress["eta_s"], progress["quiet_s"]) == (None, None)
    assert progress["last_step_ns"] == end
    assert progress["steps_s"] == pytest.approx(len(late) / ((end - min(late)) / 1e9))


def test_progress_of_a_live_run(lapse, wait_for):
    live = lapse.start("simulate", "--live", "--speed", "10", "--steps", "100000")
    try:
        assert wait_for(lambda: any(run.get("last_step") for run in lapse.json("ls")), 30)
        with Serving(lapse) as server:
            def progress(key):
                return (server.get("/api/v1/runs/last").json().get("progress") or {}).get(key)

            assert wait_for(lambda: progress("eta_s"), 30)
            first = server.get("/api/v1/runs/last").json()
            assert first["status"] == "running" and first["live"]
            assert first["progress"]["eta_s"] > 0
            assert wait_for(lambda: (progress("step") or 0) > first["progress"]["step"], 30)
            assert int(server.get("/api/v1/runs/last").json()["version"]) > int(first["version"])
    finally:
        live.kill()
        live.communicate()


# ---- changing it -----------------------------------------------------------------------------------------


def test_edit(lapse):
    run = simulate(lapse)
    with Serving(lapse) as server:
        token = server.get("/api/v1/info").json()["act_token"]

        def edit(body, path=run, token=token, kind="application/json"):
            return server.ask("POST", f"/api/v1/runs/{path}/edit", body, Content_Type=kind,
                              X_Lapse_Token=token)

        done = edit('{"name": "<b>\\u00e4", "tags": "+good,-simulated", "notes": "two\\nlines"}')
        assert done.status == 200
        changed = done.json()["run"]
        assert (changed["name"], changed["tags"], changed["notes"]) == ("<b>ä", "good", "two\nlines")
        shown = lapse.json("show", run)
        assert (shown["name"], shown["tags"], shown["notes"]) == ("<b>ä", "good", "two\nlines")
        assert server.get(f"/api/v1/runs/{run}").json()["run"]["name"] == "<b>ä"
        for body in "", "[]", '{"name": 1}', '{"nmae": "x"}', '{"name": "' + "x" * 256 + '"}', \
                '{"name": "x"} x', '{"tags": "+a,b"}':
            assert error(edit(body)) == (400, "bad-body"), body
        assert error(edit("{}", path="20200101-000000-aaaa")) == (404, "no-such-run")
        assert error(edit('{"name": "' + "x" * 70000 + '"}')) == (413, "too-large")
        assert error(edit("{}", kind="text/plain")) == (415, "bad-type")
        assert error(edit("{}", kind="application/x-www-form-urlencoded")) == (415, "bad-type")
        assert error(edit("{}", token="x")) == (401, "wrong-token")
        answer = server.ask("POST", f"/api/v1/runs/{run}/edit", "{}",
                            Content_Type="application/json")
        assert error(answer) == (401, "no-token")
        answer = server.ask("POST", f"/api/v1/runs/{run}/edit", "{}", X_Lapse_Token=token,
                            Content_Type="application/json", Origin="http://evil.example.org")
        assert error(answer) == (403, "foreign-site")
        assert lapse.json("show", run)["name"] == "<b>ä"


# ---- with `lapse run` ----------------------------------------------------------------------------------


def address(lapse):
    try:
        return (lapse.rendezvous / "http").read_text().strip()
    except FileNotFoundError:
        return None


def test_run_starts_it(lapse, wait_for):
    """One server for all runs of the agent; `lapse ls` says where it is."""
    process = lapse.start("run", "--dashboard", "--", "sleep", "60")
    try:
        url = wait_for(lambda: address(lapse), 30)
        assert url

        def ask(path):
            at = http.client.HTTPConnection(url.split("/")[2], timeout=20)
            at.request("GET", path)
            return Answer(at.getresponse()).json()

        assert wait_for(lambda: ask("/api/v1/runs")["runs"], 20)
        assert wait_for(lambda: ask("/api/v1/runs/last").get("live"), 20)
        assert f"Live runs: {url}" in lapse("ls").stderr
        elsewhere = lapse.folder / "elsewhere"
        with Held(lapse, "--dashboard", "--dir", elsewhere) as other:
            assert wait_for(lambda: str(elsewhere) in ask("/api/v1/info")["folders"], 30)
            other.process.communicate("")
            assert other.process.returncode == 0
        assert address(lapse) == url
        lapse.end_server()
        assert wait_for(lambda: not address(lapse), 20)
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert "the dashboard is at" in (lapse.rendezvous / "agent.log").read_text()


@pytest.mark.parametrize(("variable", "options", "starts"), [
    (None, [], True), ("false", [], False), (None, ["--no-dashboard"], False),
    (None, ["--quiet"], False), ("false", ["--dashboard"], True), ("true", ["--quiet"], True),
])
def test_on_a_terminal(lapse, wait_for, variable, options, starts):
    """By itself on a terminal, where the address is told; else only if asked for."""
    del lapse.env["LAPSE_DASHBOARD"]
    if variable:
        lapse.env["LAPSE_DASHBOARD"] = variable
    over = lapse.folder / "over"
    command = ["sleep", "1.5"]
    if starts:  # until it is there
        command = ["sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.1; done', str(over)]
    with Terminal([lapse.program, "run", *options, "--", *command],
                  dict(lapse.env, TERM="xterm"), lapse.folder) as terminal:
        if starts and "--quiet" not in options:
            terminal.expect("lapse: dashboard: http://127.0.0.1:", timeout=20)
        if starts:
            assert wait_for(lambda: address(lapse), 20)
            over.touch()
        assert os.WEXITSTATUS(terminal.end(30)) == 0
    assert bool(address(lapse)) == starts
    assert (b"dashboard: http" in terminal.data) == (starts and "--quiet" not in options)


def test_not_for_a_script(lapse):
    del lapse.env["LAPSE_DASHBOARD"]
    done = lapse("run", "--", "true")
    # An agent that takes longer than half a second to store it is told of.
    said = [line for line in done.stderr.splitlines() if "is still being finished" not in line]
    assert (done.returncode, said, address(lapse)) == (0, [], None)


def test_it_leaves_after_the_runs(lapse, wait_for):
    server = lapse.start("serve", "--rendezvous", lapse.rendezvous, "--idle-exit", "1", "--port=0")
    assert wait_for(lambda: address(lapse), 20)
    # A connection that is open keeps it from leaving meanwhile.
    page = http.client.HTTPConnection(address(lapse).split("/")[2], timeout=20)
    page.request("GET", "/healthz")
    assert Answer(page.getresponse()).status == 200
    second = lapse("serve", "--rendezvous", lapse.rendezvous, "--port=0")
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    page.close()
    assert server.wait(20) == 0 and address(lapse) is None


def test_a_run_that_begins_is_not_damaged(lapse):
    """Its file is there before there is anything in it."""
    folder = lapse.runs / "20260102-030405-abcd"
    folder.mkdir(parents=True)
    (folder / "node1.db").touch()
    path = f"/api/v1/runs/{folder.name}"
    with Serving(lapse) as server:
        with (folder / "node1.db.lock").open("w") as lock:  # as a writer holds it: F_OFD_SETLK
            fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            answer = server.get(path)
            assert (answer.status, answer.json()["error"]["code"]) == (503, "busy")
        answer = server.get(path)
        assert (answer.status, answer.json()["error"]["code"]) == (500, "damaged")


def test_it_stops_among_requests(lapse):
    """Whatever is on its way: nothing sleeps on, nothing is waited for."""
    assert lapse("simulate", "--quiet", "--steps", "3000", "--series", "200").returncode == 0
    paths = ["/healthz", "/api/v1/runs", "/api/v1/live?runs=1", "/api/v1/runs/last/export"]

    def ask(server, path):
        while server.is_up():
            try:
                connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
                for _ in range(50):
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    if "/live" in path or "/export" in path:
                        answer.read(10)
                        break
                    answer.read()
                connection.close()
            except (OSError, http.client.HTTPException):
                pass

    for _ in range(4):
        with Serving(lapse) as server:
            threads = [threading.Thread(target=ask, args=(server, path)) for path in paths * 2]
            for thread in threads:
                thread.start()
            server.get("/api/v1/info")
            assert server.end() == 0, server.said
            for thread in threads:
                thread.join()


def test_changes_at_the_same_time(lapse):
    """Each changes another word: none is lost, and none is told that it failed."""
    assert lapse("simulate", "--quiet", "--steps", "20").returncode == 0
    run = lapse.run_ids()[0]
    with Serving(lapse) as server:
        token = server.get("/api/v1/info").json()["act_token"]

        def edit(key, seen):
            for i in range(30):
                seen.append(server.ask("POST", f"/api/v1/runs/{run}/edit",
                                       json.dumps({key: f"{key}{i}"}), X_Lapse_Token=token,
                                       Content_Type="application/json").status)

        seen = []
        threads = [threading.Thread(target=edit, args=(key, seen))
                   for key in ("name", "project", "tags", "notes")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(seen) == {200}
        known = server.get(f"/api/v1/runs/{run}").json()["run"]
    assert [known[k] for k in ("name", "project", "tags", "notes")] == [
        "name29", "project29", "tags29", "notes29"]
    assert sorted(p.name for p in (lapse.runs / run).iterdir()) == ["node0.db", "run.edit"]


def test_openapi(lapse):
    text = lapse("serve", "--openapi").stdout
    assert text.startswith("# Made by") and "\n  /api/v1/runs/{run}/edit:\n    post:\n" in text
