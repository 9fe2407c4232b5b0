# SPDX-License-Identifier: Apache-2.0
"""PrometheusMonitor: the guide's five metrics under its names, at /metrics."""

from __future__ import annotations

import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from ..._tell import tell_once
from ._common import hook, log, open_run, when_there

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Upper limits of the histogram's buckets: those that prometheus_client has by default.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
           math.inf)  # fmt: skip
PORTS = 10  # that are tried, from the given one on
TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


def _label(value: object) -> str:
    text = str(value).replace("\\", r"\\").replace('"', r"\"")
    return text.replace("\n", r"\n")


class PrometheusMonitor:
    """Serves training_loss, training_steps_total, gpu_memory_mb{gpu_id}, cpu_usage_percent and
    training_step_duration_seconds for Prometheus, and records them into the run.

    port: the first of ten that is free (0: any); `port` then says which. host: who may ask;
    "127.0.0.1": this machine only. `reason` is not "" where nothing is served; updating goes
    on then."""

    def __init__(self, port: int = 8000, host: str = "127.0.0.1") -> None:
        open_run()
        self.reason = ""
        self.host, self.port = host, port
        self._lock = threading.Lock()
        self._loss: float | None = None
        self._cpu: float | None = None
        self._steps = 0
        self._gpus: dict[str, float] = {}
        self._buckets = [0] * len(BUCKETS)
        self._seconds = 0.0
        self._server = self._listen(port)
        if self._server is None:
            return
        self.port = int(self._server.server_address[1])
        if port not in (0, self.port):
            tell_once("nemo", f"port {port} is taken: metrics are at http://{host}:{self.port}")
        threading.Thread(target=self._server.serve_forever, name="lapse-prometheus",
                         daemon=True).start()  # fmt: skip

    def _listen(self, port: int) -> ThreadingHTTPServer | None:
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/", "/metrics")
                body = monitor.text().encode() if found else b"/metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # whoever asked has gone

        for number in range(port, port + PORTS) if port else [0]:
            try:
                return Server((self.host, number), Handler)
            except (OSError, OverflowError) as error:
                self.reason = f"{self.host}:{number}: {error}"
        tell_once("nemo", f"metrics are not served: {self.reason}")
        return None

    @hook
    def update_metrics(
        self,
        loss: Any,
        gpu_metrics: Mapping[Any, Mapping[str, float]] | None,
        cpu_percent: float | None,
        step_duration: float,
    ) -> None:
        """A step: its loss (a tensor on a device is not waited for), {gpu: {"memory_allocated":
        MiB}}, percent of the CPUs, and its duration in seconds."""
        with self._lock:
            self._steps += 1
            self._cpu = self._cpu if cpu_percent is None else float(cpu_percent)
            duration = float(step_duration)
            self._buckets[next(i for i, most in enumerate(BUCKETS) if not duration > most)] += 1
            self._seconds += duration
            for gpu, metrics in (gpu_metrics or {}).items():
                if metrics.get("memory_allocated") is not None:
                    self._gpus[str(gpu)] = float(metrics["memory_allocated"])
        when_there(loss, self._take)
        values = {"training_loss": loss, "training_step_duration_seconds": duration}
        if cpu_percent is not None:
            values["cpu_usage_percent"] = cpu_percent
        log(values)

    def _take(self, loss: float) -> None:
        with self._lock:
            self._loss = loss

    def text(self) -> str:
        """What is served: Prometheus' text format 0.0.4."""
        with self._lock:
            lines = []
            if self._loss is not None:
                lines += _family("training_loss", "gauge", "Current training loss",
                                 [("", self._loss)])  # fmt: skip
            lines += _family("training_steps_total", "counter", "Total training steps",
                             [("", self._steps)])  # fmt: skip
            if self._gpus:
                lines += _family("gpu_memory_mb", "gauge", "GPU memory usage in MB", [
                    (f'{{gpu_id="{_label(gpu)}"}}', value) for gpu, value in self._gpus.items()
                ])  # fmt: skip
            if self._cpu is not None:
                lines += _family("cpu_usage_percent", "gauge", "CPU usage percentage",
                                 [("", self._cpu)])  # fmt: skip
            rows: list[tuple[str, float]] = []
            below = 0
            for most, count in zip(BUCKETS, self._buckets):
                below += count
                rows.append((f'_bucket{{le="{_number(most)}"}}', below))
            rows += [("_sum", self._seconds), ("_count", below)]
            lines += _family("training_step_duration_seconds", "histogram",
                             "Training step duration", rows)  # fmt: skip
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Serve no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


def _family(name: str, kind: str, help: str, rows: list[tuple[str, float]]) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}",
            *(f"{name}{end} {_number(value)}" for end, value in rows)]  # fmt: skip
