# SPDX-License-Identifier: Apache-2.0
"""Attacks on `lapse serve`: other sites, paths that lead out, requests that are too large,
broken or never whole, guessed tokens. All are refused, the server answers meanwhile, and
what a run records while it is attacked is complete."""
import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import select
import signal
import socket
import time

import pytest

from broken_requests import BODIES, Breaker
from conftest import BUILD, wait_for
from serving import Serving

STRESS = BUILD / "tests" / "chaos" / "stress"
SECURE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; ",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
TOKEN = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def run(lapse):
    """A finished run with a file, a folder and links in its folder; its id."""
    lapse("simulate", "--steps", "50", check=True)
    name = lapse.run_ids()[0]
    folder = lapse.runs / name
    (folder / "notes.txt").write_text("of the run\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.txt").write_text("deep\n")
    (lapse.folder / "secret.txt").write_text("the secret\n")
    (folder / "link.txt").symlink_to(lapse.folder / "secret.txt")
    (folder / "up").symlink_to("../..")
    os.mkfifo(folder / "pipe.txt")
    return name


@pytest.fixture
def server(lapse):
    lapse.runs.mkdir(exist_ok=True)
    with Serving(lapse) as one:
        yield one
        assert one.is_up()
        assert one.get("/healthz").status == 200


@pytest.fixture
def closed(lapse):
    """A server that wants a token."""
    file = lapse.folder / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    lapse.runs.mkdir(exist_ok=True)
    with Serving(lapse, "--token-file", file) as one:
        yield one
        assert one.is_up()


def code(answer):
    return answer.status, answer.json()["error"]["code"]


def act(server, run, body='{"name": "changed"}', **head):
    """An edit of the run's name with the page's token, and more or other fields."""
    fields = {"Content_Type": "application/json",
              "X_Lapse_Token": server.get("/api/v1/info").json()["act_token"]}
    fields.update(head)
    return server.ask("POST", f"/api/v1/runs/{run}/edit", body=body,
                      **{k: v for k, v in fields.items() if v is not None})


def raw(server, data, timeout=20):
    """Send bytes and read to the end, or until nothing has come for a while. A request that
    is never whole is ended after 10 s."""
    with server.connect(timeout) as s:
        with contextlib.suppress(OSError):
            s.sendall(data)
        got = b""
        with contextlib.suppress(OSError):
            while chunk := s.recv(1 << 16):
                got += chunk
                s.settimeout(0.5)
        return got


def raw_get(server, path):
    return raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
               .encode())


def name_of(server, run):
    return server.get(f"/api/v1/runs/{run}").json()["run"]["name"]


# ---- other sites -------------------------------------------------------------------------


def test_a_name_that_was_pointed_at_this_machine(server, run):
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example",
                 "localhost.evil.example", "10.0.0.1", "localhost@evil.example", "", "[::1",
                 "localhost:80:80", "0.0.0.0", "2130706433", "127.1", "localhost, evil.example",
                 "evil.example#localhost", "localhost\\.evil.example"):
        for path in ("/", "/api/v1/info", "/api/v1/live?runs=1", "/nothing", "/assets/x.js"):
            answer = server.get(path, Host=host)
            assert answer.status in (400, 421), (host, path)
            if answer.status == 421:
                assert code(answer) == (421, "wrong-host")
            assert b"act_token" not in answer.body
    for host in ("localhost", f"localhost:{server.port}", "127.0.0.1", "LOCALHOST:1", "[::1]:9000"):
        assert server.get("/api/v1/info", Host=host).status == 200, host
    # Two of them, or none.
    for head in (b"Host: localhost\r\nHost: evil.example\r\n", b"Host: evil.example\r\n", b""):
        got = raw(server, b"GET /api/v1/info HTTP/1.1\r\n" + head + b"\r\n")
        assert b" 200 " not in got.split(b"\r\n")[0] or head.startswith(b"Host: localhost"), head
    assert b" 200 " not in raw(server, b"GET /api/v1/info HTTP/1.0\r\n\r\n").split(b"\r\n")[0]


def test_requests_of_other_sites(server, run):
    here = f"http://{server.host}:{server.port}"
    before = name_of(server, run)
    for head in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""},
                 {"Origin": f"http://{server.host}:{server.port + 1}"},
                 {"Origin": here + ".evil.example"}, {"Origin": "http://localhost.evil.example"},
                 {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
                 {"Sec_Fetch_Site": "Cross-Site", "Sec_Fetch_Mode": "navigate"},
                 {"Sec_Fetch_Site": "cross-site", "Origin": here}):
        assert code(act(server, run, **head)) == (403, "foreign-site"), head
        assert code(server.get("/api/v1/runs", **head)) == (403, "foreign-site"), head
        assert code(server.get("/api/v1/live?runs=1", **head)) == (403, "foreign-site"), head
    # A link to the page is all that another site may have; not in a frame.
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert server.get("/", Sec_Fetch_Dest="document", **link).status in (200, 404)
    assert code(server.get("/", Sec_Fetch_Dest="iframe", **link)) == (403, "foreign-site")
    assert code(server.get("/api/v1/info", Sec_Fetch_Dest="document", **link))[0] == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None,
                 "application/jsonp", "text/plain; application/json"):
        assert act(server, run, Content_Type=kind).status == 415, kind
    for token in (None, "", "x", "0" * 26):
        assert act(server, run, X_Lapse_Token=token).status == 401, token
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "post"):
        answer = server.ask(method, f"/api/v1/runs/{run}/edit", body="{}")
        assert answer.status in (400, 405, 501), method
    assert name_of(server, run) == before
    # No answer is for another site's eyes.
    for head in ({}, {"Origin": here}, {"Origin": "http://evil.example"}):
        for path in ("/", "/api/v1/info", "/nothing"):
            assert not [k for k in server.get(path, **head).head if k.startswith("access-control")]
    assert act(server, run, Origin=here, Sec_Fetch_Site="same-origin").status == 200
    assert name_of(server, run) == "changed"


def test_every_answer_says_what_a_page_may_do(server, run):
    asked = [("GET", "/", {}), ("GET", "/api/v1/info", {}), ("GET", "/api/v1/runs", {}),
             ("GET", f"/api/v1/runs/{run}/query?series=loss", {}), ("GET", "/metrics", {}),
             ("GET", f"/api/v1/runs/{run}/files/notes.txt", {}), ("GET", "/healthz", {}),
             ("GET", "/nothing", {}), ("GET", "/api/v1/runs/nothing", {}),
             ("GET", "/api/v1/runs?x=1", {}), ("PUT", "/api/v1/runs", {}),
             ("POST", f"/api/v1/runs/{run}/edit", {}), ("GET", "/", {"Host": "evil.example"}),
             ("GET", "/", {"Origin": "http://evil.example"}), ("HEAD", "/api/v1/info", {}),
             ("GET", f"/api/v1/runs/{run}/export?format=csv", {}),
             ("GET", f"/api/v1/live?run={run}", {})]
    seen = set()
    for method, path, head in asked:
        answer = server.ask(method, path, **head)
        seen.add(answer.status)
        for name, value in SECURE.items():
            said = answer.head.get(name, "")
            if path == "/" and answer.status == 200:  # the page's own scripts: the next test
                said = re.sub(r" 'sha256-[^']+'", "", said)
            assert said.startswith(value), (method, path, name)
    assert {200, 400, 403, 404, 405, 421} <= seen
    tag = server.get("/api/v1/runs").head["etag"]
    answer = server.get("/api/v1/runs", If_None_Match=tag)
    assert answer.status == 304
    for name, value in SECURE.items():
        assert answer.head.get(name, "").startswith(value), name
    answer = act(server, run, body=b"x" * 70000)
    assert code(answer) == (413, "too-large")
    for name, value in SECURE.items():
        assert answer.head.get(name, "").startswith(value), name


def test_page_allows_no_script_but_its_own(server):
    """The script in the page itself is allowed by its hash, and nothing else is."""
    page = server.get("/")
    inside = re.findall(rb"<script(?![^>]* src=)[^>]*>(.*?)</script>", page.body, re.DOTALL)
    sources = ["'self'"] + [
        f"'sha256-{base64.b64encode(hashlib.sha256(s).digest()).decode()}'" for s in inside]
    policy = dict(part.split(" ", 1)
                  for part in page.head["content-security-policy"].split("; "))
    assert policy["script-src"].split() == sources
    assert policy["style-src"] == "'self'" and policy["default-src"] == "'none'"


# ---- paths -------------------------------------------------------------------------------


def test_paths_that_lead_out(lapse, server, run):
    good = server.get(f"/api/v1/runs/{run}/files/notes.txt")
    assert good.status == 200 and good.body == b"of the run\n"
    assert server.get(f"/api/v1/runs/{run}/files/sub/deep.txt").body == b"deep\n"
    names = ["../../secret.txt", "..%2f..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt",
             "%2e%2e%2f%2e%2e%2fsecret.txt", "%252e%252e/%252e%252e/secret.txt",
             "..%252f..%252fsecret.txt", "..%5c..%5csecret.txt", "..\\..\\secret.txt",
             "sub/../../../secret.txt", "./notes.txt", "sub//deep.txt", "/etc/passwd",
             "%2fetc%2fpasswd", "//etc/passwd", "link.txt", "up/secret.txt", "up", "pipe.txt",
             "sub", "sub/", "", "notes.txt/", "notes.txt%00.png", "%00", "notes.txt%0a", ".",
             "..", "...", "%c0%ae%c0%ae/%c0%ae%c0%ae/secret.txt", "..;/..;/secret.txt",
             "notes.txt%00", f"../{run}/notes.txt", "x" * 5000, "a/" * 2000 + "b"]
    for name in names:
        for route in ("files", "trace/summary"):
            path = f"/api/v1/runs/{run}/{route}/{name}"
            got = raw_get(server, path)
            status = got.split(b" ", 2)[1] if got else b""
            # 422: a folder may be one of traces; in this one there are none.
            assert status in (b"400", b"404", b"414", b"431") or (
                status == b"422" and name in ("sub", "sub/")), (path[:200], status)
            assert b"secret" not in got.partition(b"\r\n\r\n")[2] or b"no-such" in got
            assert b"the secret" not in got and b"root:" not in got
    host = (lapse.runs / run).glob("*.db")
    for file in host:  # the store's own
        assert server.get(f"/api/v1/runs/{run}/files/{file.name}").status == 404
    for bad in ("..", ".", "%2e%2e", f"..%2f{run}", f"{run}%2f..", f"{run}%00",
                f"../{lapse.runs.name}/{run}", "/etc", "%2e", "~", "*", "?",
                "last%2f..", run + "/..", f"{run}%2fsub"):
        for rest in ("", "/series", "/files/notes.txt", "/events"):
            got = raw_get(server, f"/api/v1/runs/{bad}{rest}")
            status = got.split(b" ", 2)[1] if got else b""
            assert status in (b"400", b"404") or bad == "?", (bad, rest, status)
    for path in ("/assets/../../../etc/passwd", "/assets/%2e%2e/x", "/assets/", "/assets",
                 "/.git/config", "/api", "/api/v1", "/api/v1/", "/runs", f"/{run}",
                 f"/{run}/notes.txt", "/..",
                 "/speedscope/../x", "/speedscope/", "/api/v1/runs//series", "//", "/%2f"):
        got = raw_get(server, path)
        assert got.split(b" ", 2)[1] in (b"404", b"400"), path
        assert b"notes.txt" not in got.partition(b"\r\n\r\n")[2].replace(path.encode(), b"")
    # A run's folder may be no link out, either.
    outside = lapse.folder / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("outside\n")
    (lapse.runs / "20990101-000000-aaaa").symlink_to(outside)
    assert b"outside\n" not in server.get("/api/v1/runs/20990101-000000-aaaa/files/notes.txt").body


# ---- too large ---------------------------------------------------------------------------


@pytest.mark.timeout(150)
def test_too_large(server, run):
    assert code(act(server, run, body=b"[" * 200000)) == (413, "too-large")
    assert code(act(server, run, body=b"[" * 200000, X_Lapse_Token=None)) == (401, "no-token")
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for data in (head + b"X-A: " + b"a" * 100000 + b"\r\n\r\n",
                 head + b"A: b\r\n" * 20000 + b"\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET /healthz?" + b"a=1&" * 30000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"G" * 100000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        got = raw(server, data)
        assert got == b"" or got.split(b" ", 2)[1] in (b"400", b"413", b"414", b"431", b"501")
    for n in (257, 600):
        got = raw(server, b"GET /healthz?" + b"&".join(b"a=%d" % i for i in range(n))
                  + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert got == b"" or got.split(b" ", 2)[1] in (b"400", b"431"), n
    # A length that is a lie, chunks without end, a body where none is expected.
    post = (f"POST /api/v1/runs/{run}/edit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            "Content-Type: application/json\r\n").encode()
    for rest in (b"Content-Length: 99999999999999999999\r\n\r\n{}", b"Content-Length: -1\r\n\r\n{}",
                 b"Content-Length: 5\r\nContent-Length: 2\r\n\r\n{}",
                 b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
                 b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
                 b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n" * 40,
                 b"Content-Length: 1000000\r\n\r\n" + b"x" * 1000000):
        got = raw(server, post + rest)
        assert got == b"" or b" 200 " not in got.split(b"\r\n")[0], rest[:60]
    for query in ("points=8193&series=loss", "points=-1&series=loss",
                  "points=99999999999999999999&series=loss", "points=1e3&series=loss",
                  "points=&series=loss", "axis=x&series=loss", "nothing=1", "points=1&points=2"):
        answer = server.get(f"/api/v1/runs/{run}/query?{query}")
        assert code(answer) == (400, "bad-parameter"), query


def test_answers_that_are_not_ours(server):
    """What libmicrohttpd refuses by itself has none of our fields, and nothing of the request."""
    mark = b"<script>mark</script>"
    long = mark + b"a" * 100000
    for status, data in ((b"431", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + long),
                         (b"414", b"GET /" + long + b" HTTP/1.1\r\nHost: localhost"),
                         (b"505", b"GET /" + mark + b" HTTP/9.9\r\nHost: localhost"),
                         (b"400", b"POST /" + mark + b" HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: " + mark)):
        got = raw(server, data + b"\r\n\r\n")
        assert got.split(b" ", 2)[1] == status, (status, got[:200])
        assert b"mark" not in got and b"<script" not in got
        assert b"Access-Control-Allow-Origin" not in got


# ---- broken requests ---------------------------------------------------------------------


def ask_broken(server, data):
    """The status of the answer; "none": there was none for half a second."""
    with server.connect(10) as s:
        got = b""
        s.settimeout(0.5)
        with contextlib.suppress(OSError):
            s.sendall(data)
        with contextlib.suppress(OSError):
            got = s.recv(1 << 16)
    line = got.split(b"\r\n")[0]
    return line.split(b" ")[1].decode() if line.startswith(b"HTTP/1.") else "none"


@pytest.mark.timeout(240)
def test_broken_requests(server, run):
    breaker = Breaker(8, run)
    requests = [breaker.make() for _ in range(4000)]
    statuses = {}
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        for data, status in zip(requests, pool.map(lambda x: ask_broken(server, x), requests)):
            assert status not in ("500", "502"), data
            statuses[status] = statuses.get(status, 0) + 1
    print(statuses)
    assert server.is_up()
    assert server.get("/healthz").status == 200
    assert server.get(f"/api/v1/runs/{run}/query?series=loss").status == 200
    assert {"200", "400", "404", "405", "421"} <= set(statuses), statuses


def test_broken_bodies(server, run):
    token = server.get("/api/v1/info").json()["act_token"]
    before = name_of(server, run)
    for path in ("edit", "alerts/ack", "alerts/silence"):
        for body in (*BODIES[:-1], b'{"unknown": 1}', b'{"name": null}', b'{"name": ["a"]}',
                     b'{"name": "a", "name": "b"', b'{"tags": "' + b"x," * 3000 + b'"}', b'"x"',
                     b"1",
                     b'{"rule": "\\u0000", "for_s": 1e400}', b'{"rule": "x", "for_s": -1}',
                     b'{"alert": "' + b"x" * 5000 + b'"}', b"[1]", b"{}" * 2):
            if body == b"{}" and path == "edit":
                continue
            answer = server.ask("POST", f"/api/v1/runs/{run}/{path}", body=body,
                                X_Lapse_Token=token, Content_Type="application/json")
            assert 400 <= answer.status < 500, (path, body[:60], answer.status)
            assert answer.json()["error"]["code"], body[:60]
    assert name_of(server, run) == before


# ---- slowly ------------------------------------------------------------------------------


@pytest.mark.timeout(240)
def test_500_connections_that_send_a_byte_now_and_then(lapse, server, run):
    """Each sends a byte every 5 s and is never done; the server ends them, and answers others
    from the first moment on."""
    page = lapse.folder / "page"
    recording = lapse.start("run", "--quiet", "--", STRESS, "--threads", "1", "--rate", "20000",
                            "--kinds", "sfaht", "--seconds", "200", page)
    assert wait_for(lambda: len(lapse.run_ids()) == 2, 30)
    live = next(r for r in lapse.run_ids() if r != run)
    assert wait_for(lambda: server.get(f"/api/v1/runs/{live}").status == 200, 30)
    slow = []
    for i in range(500):
        s = socket.socket()
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.connect((server.host, server.port))
        slow.append(s)
        if i % 50 == 49:
            assert server.get("/healthz", timeout=5).status == 200
    text = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 100
    poll = select.poll()
    ended = set()
    for s in slow:
        poll.register(s, select.POLLIN)
    for turn in range(8):
        if len(ended) == 500:
            break
        for s in slow:
            if s.fileno() in ended:
                continue
            with contextlib.suppress(OSError):
                s.send(text[turn:turn + 1])
        end = time.monotonic() + 5
        while time.monotonic() < end:
            answer = server.get(f"/api/v1/runs/{live}", timeout=5)
            assert answer.status == 200
            for fd, _ in poll.poll(0):
                ended.add(fd)
                poll.unregister(fd)
            time.sleep(0.1)
    # 10 s for a head: after 20 s, or a bit more, none is left, though each went on sending.
    assert len(ended) == 500
    for s in slow:
        s.close()
    pid = int.from_bytes(page.read_bytes()[64:72], "little")
    os.kill(pid, signal.SIGTERM)
    recording.wait(20)
    assert lapse.settled(30)
    check_complete(lapse, live)


def check_complete(lapse, run):
    """attempts = stored + dropped, and nothing was dropped; each value of the gauge is there."""
    trainer = [p for p in lapse.json("show", run)["processes"] if p["role"] == "trainer"]
    assert len(trainer) == 1
    p = trainer[0]
    assert p["dropped"] == p["overwritten"] == p["broken"] == 0
    assert p["stored"] > 1000 and p.get("attempts", p["stored"]) == p["stored"]


@pytest.mark.timeout(240)
def test_clients_that_never_read(lapse, server, run):
    """Answers of some MiB that nobody takes hold no thread."""
    large = lapse.json("simulate", "--steps", "100000", "--rate", "1000")["id"]
    stuck = []
    for _ in range(60):
        s = server.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.sendall(f"GET /api/v1/runs/{large}/query?series=*&points=2000 HTTP/1.1\r\n"
                  "Host: localhost\r\n\r\n".encode())
        stuck.append(s)
    for s in stuck:  # the answer is worked out, and there is no room for more of it
        s.settimeout(150)
        assert s.recv(12) == b"HTTP/1.1 200"
    for _ in range(50):
        assert server.get("/healthz", timeout=10).status == 200
        assert server.get(f"/api/v1/runs/{run}", timeout=30).status == 200
    for s in stuck:
        s.close()


# ---- tokens ------------------------------------------------------------------------------


def test_nothing_without_the_token(closed, run):
    for path in ("/", "/api/v1/info", "/api/v1/runs", "/metrics", "/healthz", "/nothing",
                 "/api/v1/live?runs=1", f"/api/v1/runs/{run}/files/notes.txt",
                 f"/api/v1/runs/{run}?token={TOKEN}"):
        answer = closed.get(path)
        assert answer.status == 401, path
        assert answer.json()["error"]["code"] == "no-token"
        assert b"notes" not in answer.body and b"folders" not in answer.body
    for value in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        assert closed.get("/api/v1/info", Authorization=value).status == 200
    answer = closed.get(f"/?token={TOKEN}")
    cookie = answer.head["set-cookie"]
    assert answer.status == 200 and TOKEN not in answer.body.decode()
    for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert word in cookie
    pair = cookie.split(";")[0]
    assert closed.get("/api/v1/info", Cookie=pair).status == 200
    assert closed.get("/api/v1/info", Cookie="a=b; " + pair + "; c=d").status == 200
    # A cookie alone does not act, nor does it for another site.
    token = closed.get("/api/v1/info", Cookie=pair).json()["act_token"]
    post = {"method": "POST", "path": f"/api/v1/runs/{run}/edit", "body": "{}",
            "Content_Type": "application/json", "Cookie": pair}
    assert closed.ask(**post).status == 401
    assert closed.ask(**post, X_Lapse_Token=token, Sec_Fetch_Site="cross-site").status == 403
    assert closed.ask(**post, X_Lapse_Token=token).status in (200, 400)


def test_guessing_is_slow_and_then_refused(closed):
    answers, begin = [], time.monotonic()
    for i in range(14):
        guess = TOKEN[:-1] + "0123456789abcd"[i]
        answers.append(closed.get("/api/v1/info", Authorization="Bearer " + guess).status)
    took = time.monotonic() - begin
    assert answers[:10] == [401] * 10 and answers[10:] == [429] * 4
    assert took >= 10 * 0.2
    # The right one has to wait, too: else a guesser could try on and look for the difference.
    answer = closed.get("/api/v1/info", Authorization="Bearer " + TOKEN)
    assert answer.status == 429 and answer.head["retry-after"] == "60"
    for where in (f"/?token={TOKEN[:-1]}x", "/api/v1/info"):
        assert closed.get(where, Cookie="lapse=" + TOKEN[:-1] + "x").status == 429


def test_old_cookies_lock_nobody_out(lapse):
    """A server that is started anew has another token; pages that are open from before ask on
    with their cookie, every few seconds, from the address of others."""
    lapse.runs.mkdir()
    with Serving(lapse, "--host", "0.0.0.0") as first:
        old = first.get("/?" + first.url.partition("?")[2]).head["set-cookie"].partition(";")[0]
        assert first.get("/healthz", Cookie=old).status == 200
        port = first.port
    with Serving(lapse, "--host", "0.0.0.0", "--port", str(port)) as second:
        token = second.url.rpartition("=")[2]
        assert second.port == port and token not in old
        took = []
        for i in range(25):
            begin = time.monotonic()
            answer = second.get("/api/v1/runs", Cookie=old)
            assert code(answer) == (401, "wrong-token"), i
            assert answer.head["set-cookie"] == (
                f"lapse_{port}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
            took.append(time.monotonic() - begin)
        assert took[0] >= 0.2 and min(took) < 0.2  # only the first one is a guess
        # So does a program with an old token.
        for _ in range(15):
            answer = second.get("/metrics", Authorization="Bearer " + old.partition("=")[2])
            assert answer.status == 401 and "set-cookie" not in answer.head
        assert second.get("/healthz", Authorization="Bearer " + token).status == 200
        assert second.get("/healthz", Cookie=f"lapse_{port}={token}").status == 200
        answer = second.get(f"/?token={token}", Cookie=old)
        assert answer.status == 200 and token in answer.head["set-cookie"]
        # A wrong link leaves a good cookie alone.
        answer = second.get("/?token=wrong", Cookie=f"lapse_{port}={token}")
        assert answer.status == 401 and "set-cookie" not in answer.head


def test_cookies_are_no_way_to_guess(closed):
    """Different ones count like any other token."""
    statuses = [closed.get("/healthz", Cookie=f"lapse_{closed.port}={TOKEN[:-1]}{i}").status
                for i in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert closed.get("/healthz", Authorization="Bearer " + TOKEN).status == 429


def test_guesses_of_all_lengths(closed):
    for guess in ("", " ", "x" * 8000, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\x7f"):
        answer = closed.get("/api/v1/info", Authorization="Bearer " + guess)
        assert answer.status == 401, guess[:40]


def test_pages_lead_to_nothing_above_their_prefix(closed):
    """Behind a proxy the server's / may be another's /lapse/."""
    for path in ("/?token=" + TOKEN, "/"):
        body = closed.get(path, Authorization="Bearer " + TOKEN).body.decode()
        links = re.findall(r"""(?:href|src|url)=["']?([^"'> ]*)""", body)
        assert links and not [x for x in links if x.startswith("/")], links


def test_localhost_is_this_machine_only(lapse):
    lapse.runs.mkdir()
    with Serving(lapse, "--host", "LocalHost") as server:
        assert server.host == "127.0.0.1" and "token" not in server.url
        assert server.get("/healthz", Host="localhost").status == 200
        assert server.get("/healthz", Host="192.0.2.7").status == 421


# ---- what is stored is text --------------------------------------------------------------


def test_names_stay_text(lapse, server):
    """Names of series, runs and events come as JSON only, never as HTML."""
    evil = "<script>alert(1)</script>"
    lapse("simulate", "--steps", "20", "--name", evil, "--project", evil, check=True)
    name = lapse.run_ids()[0]
    for path in ("/api/v1/runs", f"/api/v1/runs/{name}", f"/api/v1/runs/{name}/series",
                 f"/{evil}", f"/api/v1/runs/{evil}", f"/api/v1/runs?q={evil}",
                 f"/api/v1/runs?{evil}=1",
                 f"/api/v1/runs/{name}/query?series={evil}"):
        answer = server.get(path.replace("<", "%3C").replace(">", "%3E"))
        assert answer.head["content-type"] == "application/json", path
        assert answer.head["x-content-type-options"] == "nosniff"
        json.loads(answer.body)
    assert server.get(f"/api/v1/runs/{name}").json()["run"]["name"] == evil
