#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""victoria - put a text of samples into a VictoriaMetrics that lives for it alone.

    victoria.py FILE SAMPLES

FILE has lines of Prometheus' text format with times in ms, ordered by time. Prints
"VERSION BYTES CPU": bytes of its folders data and indexdb after a forced flush and merge,
and the CPU seconds of its process till then. It is looked for in PATH, else Debian's
package is fetched into build/victoria and unpacked there; nothing is installed. Exit
status: 1 if it cannot be had or does not keep all SAMPLES, with the reason on stderr.
"""

import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(os.environ.get("LAPSE_BUILD") or os.path.join(ROOT, "build"), "victoria")
PACKAGE = "victoria-metrics"
POST_BYTES = 4 << 20


def fail(why):
    sys.exit(f"victoria: {why}")


def fetch():
    """Debian's package, unpacked in FOLDER."""
    os.makedirs(FOLDER, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", PACKAGE], cwd=FOLDER, check=True,
                       capture_output=True, timeout=120)  # fmt: skip
        (deb,) = glob.glob(os.path.join(FOLDER, f"{PACKAGE}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, FOLDER], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        fail(f"{PACKAGE} is not installed and cannot be fetched: {error}")


def program():
    """Path and version of the server; its own -version says nothing in Debian's build."""
    if path := shutil.which(PACKAGE):
        query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", PACKAGE],
                               capture_output=True, text=True, check=False)  # fmt: skip
        return path, query.stdout or "?"
    path = os.path.join(FOLDER, "usr", "bin", PACKAGE)
    if not os.path.exists(path):
        fetch()
    debs = glob.glob(os.path.join(FOLDER, f"{PACKAGE}_*.deb"))
    return path, debs[0].split("_")[1] if debs else "?"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, path, folder):
        self.base = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [path, f"-storageDataPath={folder}", f"-httpListenAddr={self.base[7:]}",
             "-retentionPeriod=100y", "-loggerLevel=ERROR"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def get(self, path, data=None):
        with urllib.request.urlopen(self.base + path, data=data, timeout=300) as answer:
            return answer.read().decode()

    def wait(self, path, is_done):
        """Ask until the answer is right, for at most two minutes."""
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if is_done(self.get(path)):
                    return
            except urllib.error.URLError:
                pass
            time.sleep(0.1)
        fail(f"no answer to {path}")

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def samples_kept(server, last_ms):
    query = urllib.parse.urlencode(
        {"query": "sum(count_over_time(mixed[1d]))", "time": last_ms / 1000 + 1}
    )
    result = json.loads(server.get(f"/api/v1/query?{query}"))["data"]["result"]
    return int(result[0]["value"][1]) if result else 0


def is_merged(metrics):
    active = re.findall(r"^vm_active(?:_force)?_merges(?:\{[^}]*\})? (\d+)", metrics, re.M)
    return bool(active) and not any(map(int, active))


def parts(file):
    """Pieces of whole lines."""
    rest = b""
    while piece := file.read(POST_BYTES):
        whole, _, tail = (rest + piece).rpartition(b"\n")
        yield whole + b"\n"
        rest = tail


def size(folder):
    return sum(
        os.path.getsize(os.path.join(at, name))
        for part in ("data", "indexdb")
        for at, _, names in os.walk(os.path.join(folder, part))
        for name in names
    )


def main(path, samples):
    server_path, version = program()
    with tempfile.TemporaryDirectory(prefix="bench-victoria-", dir="/var/tmp") as folder:
        server = Server(server_path, folder)
        try:
            server.wait("/health", lambda text: text == "OK")
            before = server.cpu()
            with open(path, "rb") as file:
                for part in parts(file):
                    server.get("/api/v1/import/prometheus", part)
            server.get("/internal/force_flush")
            server.get("/internal/force_merge")
            time.sleep(1)
            server.wait("/metrics", is_merged)
            cpu = server.cpu() - before
            last_ms = int(part.split()[-1])
            kept = samples_kept(server, last_ms)
            if kept != samples:
                fail(f"it has {kept} samples, not {samples}")
        finally:
            server.process.terminate()
            server.process.wait()
        print(version, size(folder), f"{cpu:.3f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        fail("usage: victoria.py FILE SAMPLES")
    main(sys.argv[1], int(sys.argv[2]))
