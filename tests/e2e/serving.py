# SPDX-License-Identifier: Apache-2.0
"""A `lapse serve` of one's own, requests to it, and a reader of server-sent events.

    with Serving(lapse) as server:
        assert server.get("/healthz").json()["status"] == "ok"
        with server.events("run=ID") as stream:
            event = stream.until("hello")
"""
import http.client
import json
import signal
import socket
import threading
from urllib.parse import urlsplit


class Answer:
    """Status, head and body of an answer."""

    def __init__(self, response):
        self.status, self.body = response.status, response.read()
        self.head = {k.lower(): v for k, v in response.getheaders()}

    def json(self):
        return json.loads(self.body)


class Event:
    """One event: its id ("" none), name and data."""

    def __init__(self, number, name, data):
        self.id, self.name, self.data = number, name, data

    def __repr__(self):
        return f"{self.id} {self.name} {str(self.data)[:200]}"


class Events:
    """A stream of events. Times are limits for a silence, comments do not count."""

    def __init__(self, host, port, query, head, timeout=30):
        self.connection = http.client.HTTPConnection(host, port, timeout=timeout)
        self.connection.request("GET", "/api/v1/live?" + query, headers=head)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.comments = 0
        self.last = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def next(self):
        """The next event; None: the stream has ended."""
        number, name, data = "", None, None
        while True:
            line = self.response.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            key, _, value = line.partition(": ")
            if key == "id":
                number = value
            elif key == "event":
                name = value
            elif key == "data":
                data = value
            elif not line and name:
                self.last = number or self.last
                return Event(number, name, json.loads(data))

    def until(self, *names):
        """The next event of one of these names."""
        while True:
            event = self.next()
            assert event is not None, f"the stream ended before {names}"
            if event.name in names:
                return event

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event


class Serving:
    """The server, on a port that was free, for the runs of `lapse`."""

    def __init__(self, lapse, *arguments):
        self.process = lapse.start("serve", "--port", "0", *arguments)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http"), self.process.communicate()[1]
        at = urlsplit(self.url)
        self.host, self.port = at.hostname, at.port
        self.said = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ctrl-C; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def is_up(self):
        return self.process.poll() is None

    def ask(self, method, path, body=None, timeout=30, **head):
        """One request on a connection of its own; `_` in a field's name stands for `-`."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body,
                               headers={k.replace("_", "-"): v for k, v in head.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def events(self, query, timeout=30, **head):
        return Events(self.host, self.port, query,
                      {k.replace("_", "-"): v for k, v in head.items()}, timeout)

    def connect(self, timeout=30):
        """A bare connection."""
        return socket.create_connection((self.host, self.port), timeout=timeout)
