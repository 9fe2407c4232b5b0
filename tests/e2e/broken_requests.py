# SPDX-License-Identifier: Apache-2.0
"""Requests that are nearly right, from a seed: for servers that must bear them."""
import random

METHODS = [b"GET", b"POST", b"HEAD", b"PUT", b"get", b"", b"GE T", b"\x00", b"G\xffT", b"OPTIONS"]
VERSIONS = [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9.9", b"HTP/1.1", b"",
    b"HTTP/1.1 x", b"http/1.1"]
PATHS = [b"/", b"/healthz", b"/api/v1/info", b"/api/v1/runs", b"/metrics", b"*", b"", b"//",
    b"http://localhost/healthz", b"/api/v1/runs/%s/query?series=loss", b"/api/v1/runs/%s",
    b"/api/v1/runs/%s/events", b"/api/v1/runs/%s/files/notes.txt", b"/api/v1/compare?run=%s",
    b"/api/v1/runs/%s/stats?series=loss", b"/api/v1/runs/%s/alerts", b"/api/v1/live?run=%s",
    b"/api/v1/runs/%s/export?format=csv", b"/api/v1/runs/%s/edit"]
FIELDS = [b"Host: localhost", b"Host: evil", b"Host:", b"Host", b": x", b"Content-Length: 3",
    b"Content-Length: x", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
    b"Expect: 100-continue", b"Expect: 200-ok", b"Connection: close", b"Connection: upgrade",
    b"Upgrade: websocket", b"Range: bytes=0-", b"Range: bytes=-1-,5", b"Accept-Encoding: gzip",
    b"If-None-Match: *", b"If-None-Match: \"", b"Cookie: lapse=" + b"x" * 300,
    b"Authorization: Bearer \xff\xfe", b"Last-Event-ID: x\x00y", b" folded: line",
    b"Content-Type: application/json", b"X-A: " + b"\x01" * 10, b"Sec-Fetch-Site: none",
    b"Origin: http://localhost", b"X: " + b"y" * 3000]
PARAMS = [b"series=%ff", b"series=rate(", b"series={", b"points=0", b"from=x", b"q=%00", b"%=%",
    b"=", b"&&&&", b"limit=-1", b"sort=%0d%0aX:1", b"after=%s%n%x", b"id=/", b"axis=step",
    b"filter=%3d%3d", b"series=" + b"(" * 500, b"group=" + b"," * 300, b"a[]=1", b"run=..",
    b"token=%00", b"match=" + b"*" * 200]
BODIES = [b"", b"{}", b"{", b"[" * 5000, b"\x00" * 100, b"3\r\n{}\n\r\n0\r\n\r\n", b"zz\r\n",
    b"null", b'{"name": 1}', b'{"name": "\\ud800"}', b'{"a":' * 500, b"\xff\xfe{}", b"x" * 70000]


class Breaker:
    """Makes one after the other; `run` is the id of a run that is there."""

    def __init__(self, seed, run):
        self.random, self.run = random.Random(seed), run.encode()

    def make(self):
        r = self.random
        path = r.choice(PATHS).replace(b"%s", self.run)
        for _ in range(r.choice((0, 0, 1, 2, 5))):
            path += (b"&" if b"?" in path else b"?") + r.choice(PARAMS)
        fields = [b"Host: localhost"] if r.random() < 0.9 else []
        fields += r.sample(FIELDS, r.choice((0, 0, 1, 1, 2, 4)))
        end = b"\r\n" if r.random() < 0.9 else b"\n"
        data = b" ".join((r.choice(METHODS) if r.random() < 0.2 else b"GET", path,
                          r.choice(VERSIONS) if r.random() < 0.1 else b"HTTP/1.1"))
        data = end.join([data, *fields, b"", b""]) + (r.choice(BODIES) if r.random() < 0.3 else b"")
        for _ in range(r.choice((0, 0, 0, 0, 0, 1, 2, 10))):  # bytes that change, go or come
            at = r.randrange(len(data) + 1)
            data = r.choice((data[:at], data[:at] + bytes([r.randrange(256)]) + data[at:],
                             data[:at] + data[at + 1:])) if r.random() < 0.7 else data[:at] + data
        return data
