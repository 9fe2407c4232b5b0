#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_monitors - what watching a machine costs: the agent of lapse at 1 Hz, with all its
groups of metrics and the store, beside Debian's node_exporter, asked every 15 s, and
netdata at 1 Hz, at the same time on the same machine.

    BENCH_SECONDS=60 bench_monitors.py

The run is a command with 20 processes. CPU is that of all threads of the process, exact
to the nanosecond (schedstat), of one core, between a warm-up and the end; memory is the
largest that was seen. The peers' packages are fetched into build/monitors and unpacked;
nothing is installed. A peer that cannot be had is left out and told on stderr.
"""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPSE_BUILD") or os.path.join(ROOT, "build")
FOLDER = os.path.join(BUILD, "monitors")
SECONDS = float(os.environ.get("BENCH_SECONDS") or 60)
WARM_UP = 10
PROCESSES = 20
SCRAPE_S = 15


def fetch(package, program):
    """Path of a program of a Debian package; None if it cannot be had."""
    path = os.path.join(FOLDER, program)
    if os.path.exists(path):
        return path
    os.makedirs(FOLDER, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", package], cwd=FOLDER, check=True,
                       capture_output=True, timeout=120)
        (deb,) = glob.glob(os.path.join(FOLDER, f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, FOLDER], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"{package} cannot be fetched: {error}", file=sys.stderr)
        return None
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_ns(pid):
    """CPU time of all threads that live, and of those that ended, by the ticks of the whole."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        except (OSError, IndexError):
            pass
    return total


def memory(pid):
    found = {"VmRSS": 0, "RssAnon": 0}
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key in found:
                    found[key] = int(value.split()[0]) * 1024
    except OSError:
        pass
    return found["VmRSS"], found["RssAnon"]


def tree(pid):
    """A process and those that it started (plugins count for who needs them)."""
    pids = [pid]
    for one in pids:
        for path in glob.glob(f"/proc/{one}/task/*/children"):
            try:
                with open(path, encoding="ascii") as file:
                    pids += [int(p) for p in file.read().split()]
            except OSError:
                pass
    return pids


class Watched:
    """A monitor while it is measured."""

    def __init__(self, name, pid, each=None):
        self.name, self.pid, self.each = name, pid, each
        self.begin, self.end, self.rss, self.anonymous = {}, {}, 0, 0

    def look(self):
        pids = tree(self.pid)
        sizes = [memory(p) for p in pids]
        self.rss = max(self.rss, sum(s[0] for s in sizes))
        self.anonymous = max(self.anonymous, sum(s[1] for s in sizes))
        self.end = {p: cpu_ns(p) for p in pids}
        if not self.begin:
            self.begin = dict(self.end)

    def share(self, seconds):
        used = sum(ns - self.begin.get(p, 0) for p, ns in self.end.items())
        return used / 1e9 / seconds


class Lapse:
    def __init__(self, folder):
        self.rendezvous = tempfile.mkdtemp(prefix="lapse-bench-", dir="/dev/shm")
        env = {k: v for k, v in os.environ.items() if not k.startswith("LAPSE_")}
        env["LAPSE_RENDEZVOUS"] = self.rendezvous
        command = "i=1; while [ $i -lt %d ]; do sleep 1000 & i=$((i+1)); done; wait" % PROCESSES
        self.run = subprocess.Popen(
            [os.path.join(BUILD, "lapse"), "run", "--dir", os.path.join(folder, "runs"), "--quiet",
             "--", "sh", "-c", command], env=env, start_new_session=True)

    def pid(self):
        for _ in range(200):
            try:
                with open(os.path.join(self.rendezvous, "agent.lock"), encoding="ascii") as file:
                    return int(file.read())
            except (OSError, ValueError):
                time.sleep(0.05)
        sys.exit("the agent has not started")

    def close(self, pid):
        os.killpg(self.run.pid, signal.SIGTERM)
        self.run.wait()
        os.kill(pid, signal.SIGTERM)
        time.sleep(1)
        shutil.rmtree(self.rendezvous, ignore_errors=True)


def node_exporter():
    path = fetch("prometheus-node-exporter", "usr/bin/prometheus-node-exporter")
    if not path:
        return None
    port = free_port()
    process = subprocess.Popen([path, f"--web.listen-address=127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = {"at": 0.0}

    def scrape():
        if time.monotonic() - state["at"] < SCRAPE_S:
            return
        state["at"] = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            answer.read()

    time.sleep(1)
    return process, Watched("node_exporter, every 15 s", process.pid, scrape)


def netdata(folder):
    path = fetch("netdata-core", "usr/sbin/netdata")
    if not path:
        return None
    plugins = os.path.join(FOLDER, "usr/lib/netdata/plugins.d")
    config = os.path.join(folder, "netdata.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write(f"""[global]
run as user = {os.environ.get('USER') or 'root'}
[directories]
plugins = {plugins}
config = {folder}
stock config = {folder}
lib = {folder}/nd-lib
cache = {folder}/nd-cache
log = {folder}/nd-log
web = {FOLDER}/usr/share/netdata/web
[web]
bind to = 127.0.0.1:{free_port()}
[ml]
enabled = no
""")
    for name in ("nd-lib", "nd-cache", "nd-log"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    process = subprocess.Popen([path, "-D", "-c", config], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(2)
    if process.poll() is not None:
        print(f"netdata does not start here, status {process.returncode}", file=sys.stderr)
        return None
    return process, Watched("netdata, every 1 s", process.pid)


def figure(name, value, unit, goal=None, peer=None, peer_value=None):
    row = {"name": name, "value": value, "unit": unit}
    if peer is not None:
        row.update(peer=peer, peer_value=peer_value, ratio=value / peer_value if peer_value else None)
    if goal is not None:
        row.update(goal=f"<= {goal:g}", met=value <= goal)
    print(json.dumps(row), flush=True)


def measure(watched):
    time.sleep(WARM_UP)
    begin = time.monotonic()
    for one in watched:
        one.look()
    while time.monotonic() - begin < SECONDS:
        for one in watched:
            if one.each:
                one.each()
        time.sleep(1)
        for one in watched:
            one.look()
    return time.monotonic() - begin


def report(watched, seconds):
    ours, peers = watched[0], watched[1:]
    percent, mib = 100 * ours.share(seconds), 1 / (1 << 20)
    figure("monitors: CPU of the agent at 1 Hz, of a core", percent, "%", 0.3)
    figure("monitors: RSS of the agent", ours.rss * mib, "MiB", 12)
    figure("monitors: of it anonymous", ours.anonymous * mib, "MiB", 6)
    for one in peers:
        figure("monitors: CPU of the agent", percent, "%", None, one.name, 100 * one.share(seconds))
        figure("monitors: RSS of the agent", ours.rss * mib, "MiB", None, one.name, one.rss * mib)


def main():
    with tempfile.TemporaryDirectory(prefix="lapse-bench-") as folder:
        lapse = Lapse(folder)
        pid = lapse.pid()
        others = [m for m in (node_exporter(), netdata(folder)) if m]
        try:
            watched = [Watched("lapse", pid)] + [w for _, w in others]
            seconds = measure(watched)
        finally:
            for process, _ in others:
                process.terminate()
                process.wait()
            lapse.close(pid)
        report(watched, seconds)


if __name__ == "__main__":
    main()
