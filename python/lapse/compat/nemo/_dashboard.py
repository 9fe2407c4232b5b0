# SPDX-License-Identifier: Apache-2.0
"""MonitoringDashboard: lapse's dashboard, by the guide's name, port and title; and the
guide's two graphs, as plain dicts that Plotly takes."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from datetime import datetime, timezone
from typing import Any

from ... import _core, _dashboard

TITLE = "NeMo RL Training Monitor"
ROWS = 1000  # of the run, in a graph


class MonitoringDashboard:
    """The dashboard of the program's run, and of the others in its folder, in a process of
    its own: at host and port, or the next free one of a hundred. It ends with the program.

    `metrics_data`: rows with timestamp, loss, cpu_percent, gpu_memory for the two graphs;
    without any they are of the last 1,000 that the run has, while it is served."""

    def __init__(self, host: str = "localhost", port: int = 8050, title: str = TITLE) -> None:
        self.host, self.port, self.title = host, port, title
        self.metrics_data: list[dict[str, Any]] = []
        self._server: _dashboard.Own | None = None

    @property
    def url(self) -> str | None:
        """Where it is; None: it is not served."""
        return self._server.url if self._server is not None and self._server.serves else None

    def start(self, host: str | None = None, port: int | None = None) -> str:
        """Serve it, if it is not; its address. RuntimeError with the reason: it cannot be."""
        if self.url is None:
            self._server = _dashboard.Own(host or self.host, port or self.port, self.title)
        return self._server.url if self._server is not None else ""

    def stop(self) -> None:
        """End it; nothing if it is not served."""
        if self._server is not None:
            self._server.stop()

    def run(self, host: str | None = None, port: int | None = None) -> None:
        """start(), say where, and wait until Ctrl-C, as a server of one's own would."""
        print(f"lapse: dashboard: {self.start(host, port)}", flush=True)
        try:
            while self.url is not None:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
        self.stop()

    # ---- the guide's graphs ---------------------------------------------------------------

    def create_loss_graph(self) -> dict[str, Any]:
        """Losses over time."""
        rows = [
            row for row in self._rows("training_metrics")
            if row.get("phase", "train") == "train" and row.get("loss") is not None
        ]  # fmt: skip
        return {
            "data": [_trace(rows, "Training Loss", "lines+markers", "loss")],
            "layout": {"title": "Training Loss Over Time", "xaxis": {"title": "Time"},
                       "yaxis": {"title": "Loss"}},
        }  # fmt: skip

    def create_resource_graph(self) -> dict[str, Any]:
        """CPUs on the left, memory of GPUs on the right."""
        rows = self._rows("system_metrics")
        memory = _trace(rows, "GPU Memory", "lines", "gpu_memory", "gpu_memory_mb")
        return {
            "data": [_trace(rows, "CPU Usage", "lines", "cpu_percent", "cpu_usage_percent"),
                     {**memory, "yaxis": "y2"}],
            "layout": {"title": "Resource Usage", "xaxis": {"title": "Time"},
                       "yaxis": {"title": "CPU Usage (%)"},
                       "yaxis2": {"title": "GPU Memory (MB)", "overlaying": "y",
                                  "side": "right"}},
        }  # fmt: skip

    def _rows(self, what: str) -> list[dict[str, Any]]:
        if self.metrics_data or self.url is None:
            return list(self.metrics_data)
        at = urllib.parse.urlsplit(self.url)
        asked = {"limit": str(ROWS), **({"run": _core.run_id()} if _core.run_id() else {})}
        token = urllib.parse.parse_qs(at.query).get("token")
        request = urllib.request.Request(
            at._replace(path=f"/api/{what}", query=urllib.parse.urlencode(asked)).geturl(),
            headers={"Authorization": f"Bearer {token[0]}"} if token else {},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        for row in found:
            row["timestamp"] = datetime.fromtimestamp(row["timestamp"], timezone.utc)
        return found


def _trace(rows: list[dict[str, Any]], name: str, mode: str, *keys: str) -> dict[str, Any]:
    """A line of Plotly's: the first of the keys that a row has."""
    return {
        "type": "scatter", "mode": mode, "name": name,
        "x": [row.get("timestamp") for row in rows],
        "y": [next((row[key] for key in keys if key in row), None) for row in rows],
    }  # fmt: skip
