#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_server - what `lapse serve` takes and costs: charts of 100 million points, 100 live
clients, how late an update is, and ten thousand requests.

    bench_server.py [query | stats | live | requests]...     (default: all)

Times of a chart and of statistics are those of the client, from the request to the last byte, each for another
range, so that nothing was asked before; the peer is Python's http.server giving a file of the
same size. CPU is that of all threads of a process, exact to the nanosecond (schedstat), of
one core. An update's age is the time of a record, as the program took it, to the arrival of
the event that has it. Requests are wrk's if Debian's package can be fetched into build/server
(nothing is installed), else this program's. The store of 100 million points is made once by
bench_query and kept in /var/tmp/lapse-bench-query.
"""
import glob
import http.client
import json
import os
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPSE_BUILD") or os.path.join(ROOT, "build")
FOLDER = os.path.join(BUILD, "server")
STORE = "/var/tmp/lapse-bench-query"
ROUNDS = 25
STATS_ROUNDS = 7
CLIENTS = 100
SECONDS = float(os.environ.get("BENCH_SECONDS") or 15)
REQUESTS = 10000


def figure(name, value, unit, peer=None, peer_value=None, most=None):
    row = {"name": "server/" + name, "value": value, "unit": unit}
    if peer:
        row.update(peer=peer, peer_value=peer_value,
                   ratio=value / peer_value if peer_value else None)
    if most is not None:
        row.update(goal=f"<= {most} {unit}", met=value <= most)
    print(json.dumps(row), flush=True)


# ---- processes -----------------------------------------------------------------------------


def cpu_s(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        except (OSError, IndexError):
            pass
    return total / 1e9


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


class World:
    """A folder of runs with an agent of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="lapse-bench-")
        self.rendezvous = tempfile.mkdtemp(prefix="lapse-bench-", dir="/dev/shm")
        self.runs = os.path.join(self.folder, "runs")
        os.mkdir(self.runs)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
        self.env.update(LAPSE_RENDEZVOUS=self.rendezvous, LAPSE_DIR=self.runs)
        self.started = []

    def start(self, *arguments, **options):
        process = subprocess.Popen([os.path.join(BUILD, "lapse"), *arguments], env=self.env,
                                   cwd=self.folder, text=True, stdin=subprocess.DEVNULL, **options)
        self.started.append(process)
        return process

    def serve(self, *arguments):
        """A server; its process and port."""
        process = self.start("serve", "--port", "0", *arguments, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        line = process.stdout.readline()
        if not line:
            sys.exit("lapse serve has not started")
        return process, int(line.rstrip("/\n").rsplit(":", 1)[1])

    def record(self, seconds, rate):
        """A program that sets a gauge so often a second, under `lapse run`; the run's id."""
        stress = os.path.join(BUILD, "tests", "chaos", "stress")
        self.start("run", "--quiet", "--no-dashboard", "--", stress, "--threads", "1", "--rate",
                   str(rate), "--kinds", "s", "--seconds", str(seconds),
                   os.path.join(self.folder, "page"))
        for _ in range(400):
            found = glob.glob(os.path.join(self.runs, "*", "*.db"))
            if found:
                time.sleep(2)
                return os.path.basename(os.path.dirname(found[0]))
            time.sleep(0.05)
        sys.exit("nothing is recorded")

    def agent(self):
        with open(os.path.join(self.rendezvous, "agent.lock"), encoding="ascii") as file:
            return int(file.read().split()[0])

    def close(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            process.wait(30)
        try:
            os.kill(self.agent(), signal.SIGTERM)
        except (OSError, ValueError):
            pass
        time.sleep(0.5)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.rendezvous, ignore_errors=True)


# ---- charts ----------------------------------------------------------------------------------


def fetch(port, path):
    """Milliseconds and bytes of an answer on a connection of its own."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    took = (time.monotonic() - begin) * 1e3
    connection.close()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status}")
    return took, size


class Files:
    """Python's server of files, with one file."""

    def __init__(self, folder, size):
        with open(os.path.join(folder, "file"), "wb") as file:
            file.write(os.urandom(size))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder,
             str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)

    def close(self):
        self.process.terminate()
        self.process.wait()


def open_store(world):
    """The port of a server of the store, made if it is not there; then its points are known."""
    if not os.path.exists(os.path.join(STORE, "many", "h.db")):
        subprocess.run([os.path.join(BUILD, "bench", "bench_query"), STORE], check=True,
                       stdout=subprocess.DEVNULL)
    _, port = world.serve(STORE)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/api/v1/runs/many/series?match=series/*")
    found = json.loads(connection.getresponse().read())["series"]
    points = sum(s["count"] for s in found)
    connection.close()
    if len(found) != 20 or points < 90e6:
        sys.exit(f"{STORE} has {len(found)} series, {points} points")
    return port


def measure_query(world):
    port = open_store(world)
    start = 1767323045000
    question = "/api/v1/runs/many/query?series=series/*&points=2000"
    for form in ("binary", "json"):
        for axis in ("time", "step"):
            times, peers, size = [], [], 0
            files = None
            for i in range(ROUNDS):
                begin = start + 1 + i if axis == "time" else 1 + i
                took, size = fetch(port, f"{question}&format={form}&axis={axis}&from={begin}")
                files = files or Files(world.folder, size)
                times.append(took)
                peers.append(fetch(files.port, "/file")[0])
            files.close()
            # The page asks for binary; text is for programs.
            figure(f"query-20x2000-of-1e8-{axis}-{form}", statistics.median(times), "ms",
                   "http.server, file of that size", statistics.median(peers),
                   100 if form == "binary" else None)


def measure_stats(world):
    """Figures with exact percentiles, of 20 series and of one, each time of another range."""
    port = open_store(world)
    for name, run in (("20-series", "many"), ("one-series", "1e8")):
        times = []
        for i in range(STATS_ROUNDS):
            path = f"/api/v1/runs/{run}/stats?series=series/*&axis=step&attempts=all&from={1 + i}"
            times.append(fetch(port, path)[0])
        figure(f"stats-{name}-of-1e8", statistics.median(times), "ms")


# ---- live -------------------------------------------------------------------------------------


class Watchers:
    """Clients that read what comes; the first one's bytes are kept with their times."""

    def __init__(self, port, run, n):
        self.selector = selectors.DefaultSelector()
        self.sockets, self.bytes, self.kept = [], 0, []
        self.sums = [0] * n
        for i in range(n):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(f"GET /api/v1/live?run={run} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            s.setblocking(False)
            self.selector.register(s, selectors.EVENT_READ, i)
            self.sockets.append(s)

    def read(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                data = key.fileobj.recv(1 << 18)
                if not data:
                    sys.exit("a stream has ended")
                self.bytes += len(data)
                self.sums[key.data] += len(data)
                if key.data == 0:
                    self.kept.append((time.time(), data))

    def close(self):
        for s in self.sockets:
            s.close()


def ages(kept):
    """Seconds from each record to the arrival of the last byte of its event."""
    found, text = [], b""
    for at, data in kept:
        text += data
        *whole, text = text.split(b"\n\n")
        for event in whole:
            if b"event: points" not in event:
                continue
            line = next(x for x in event.split(b"\n") if x.startswith(b"data: "))
            for points in json.loads(line[6:])["series"].values():
                found += [at - p[0] / 1e3 for p in points if p[2] is not None]
    return found


def used(pids, seconds, wait):
    """Share of a core that each process uses while wait() does."""
    before = [cpu_s(p) for p in pids]
    wait(seconds)
    return [(cpu_s(p) - b) / seconds for p, b in zip(pids, before)]


def measure_live(world):
    run = world.record(10 + 5 * SECONDS, 150)
    server, port = world.serve(world.runs)
    agent = world.agent()
    pids = [agent, server.pid]
    alone = used(pids, SECONDS, time.sleep)
    shares = {}
    for n in (1, CLIENTS):
        watchers = Watchers(port, run, n)
        watchers.read(2)
        watchers.bytes = 0
        shares[n] = used(pids, SECONDS, watchers.read)
        if n == 1:
            late = ages(watchers.kept[2:])
        rate = watchers.bytes / n / SECONDS
        watchers.close()
    figure("live-agent-cpu-100-clients", shares[CLIENTS][0] * 100, "% of a core",
           "nobody watches", alone[0] * 100, 5)
    figure("live-server-cpu-100-clients", shares[CLIENTS][1] * 100, "% of a core", "1 client",
           shares[1][1] * 100)
    figure("live-agent-and-server-cpu-100-clients", sum(shares[CLIENTS]) * 100, "% of a core",
           "nobody watches", sum(alone) * 100)
    figure("live-bytes-a-client", rate, "B/s")
    late.sort()
    figure("live-age-median", statistics.median(late), "s", most=1.5)
    figure("live-age-99%", late[len(late) * 99 // 100], "s", most=1.5)
    figure("live-age-worst", late[-1], "s")


# ---- many requests --------------------------------------------------------------------------


def unpacked_wrk():
    """wrk and its environment; None if it cannot be had."""
    found = shutil.which("wrk")
    if found:
        return found, None
    path = os.path.join(FOLDER, "usr", "bin", "wrk")
    os.makedirs(FOLDER, exist_ok=True)
    try:
        if not os.path.exists(path):
            subprocess.run(["apt-get", "download", "wrk", "libluajit-5.1-2"], cwd=FOLDER,
                           check=True, capture_output=True, timeout=120)
            for deb in glob.glob(os.path.join(FOLDER, "*.deb")):
                subprocess.run(["dpkg-deb", "-x", deb, FOLDER], check=True, capture_output=True)
        env = dict(os.environ)
        env["LD_LIBRARY_PATH"] = ":".join(glob.glob(os.path.join(FOLDER, "usr", "lib", "*")))
        done = subprocess.run([path, "--version"], env=env, capture_output=True, check=False)
        if b"wrk" in done.stdout:
            return path, env
    except (OSError, subprocess.SubprocessError) as error:
        print(f"wrk cannot be fetched: {error}", file=sys.stderr)
    return None


def wrk_asks(wrk, port, path, seconds):
    """Requests, errors, seconds."""
    program, env = wrk
    done = subprocess.run([program, "-t", "1", "-c", "32", "-d", f"{seconds}s",
                           f"http://127.0.0.1:{port}{path}"], env=env, capture_output=True,
                          text=True, check=True)
    n = errors = 0
    for line in done.stdout.splitlines():
        words = line.replace(",", "").split()
        if "requests in" in line:
            n = int(words[0])
        elif line.strip().startswith(("Non-2xx", "Socket errors")):
            errors += sum(int(w) for w in words if w.isdigit())
    return n, errors, seconds


def we_ask(port, path, n):
    lock, counts = threading.Lock(), [n, 0, 0]

    def work():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while True:
            with lock:
                if counts[0] <= 0:
                    break
                counts[0] -= 1
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                bad = answer.status != 200
            except (OSError, http.client.HTTPException):
                connection.close()
                bad = True
            with lock:
                counts[1] += 1
                counts[2] += bad
        connection.close()

    begin = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts[1], counts[2], time.monotonic() - begin


def measure_requests(world):
    subprocess.run([os.path.join(BUILD, "lapse"), "simulate", "--steps", "2000", "--quiet"],
                   env=world.env, check=True)
    run = os.listdir(world.runs)[0]
    server, port = world.serve(world.runs)
    wrk = unpacked_wrk()
    files = Files(world.folder, 64)

    def ask(where, path, least):
        total, errors, seconds = 0, 0, 0
        while total < least:
            some = wrk_asks(wrk, where, path, 3) if wrk else we_ask(where, path, least)
            total, errors, seconds = total + some[0], errors + some[1], seconds + some[2]
        return total / seconds, errors, total

    paths = {"healthz": ("/healthz", REQUESTS), "runs": ("/api/v1/runs", REQUESTS),
             "run": (f"/api/v1/runs/{run}", REQUESTS // 5),
             "query": (f"/api/v1/runs/{run}/query?series=loss&points=800", REQUESTS // 10)}
    for path, least in paths.values():  # until memory has settled
        ask(port, path, least)
    peer = ask(files.port, "/file", 1000)[0]
    files.close()
    before, wrong, n = rss(server.pid), 0, 0
    for name, (path, least) in paths.items():
        rate, errors, total = ask(port, path, least)
        wrong, n = wrong + errors, n + total
        figure("requests-" + name, rate, "/s", "http.server, 64 bytes", peer)
    figure(f"requests-errors-of-{n}", wrong, "requests", most=0)
    growth = (rss(server.pid) - before) / 2**20
    figure("requests-memory-growth-a-10000", growth * 1e4 / n, "MiB", most=1)
    figure("requests-memory", rss(server.pid) / 2**20, "MiB")


def main(names):
    parts = {"query": measure_query, "stats": measure_stats, "live": measure_live,
             "requests": measure_requests}
    for name in names or parts:
        world = World()
        try:
            parts[name](world)
        finally:
            world.close()


if __name__ == "__main__":
    main(sys.argv[1:])
