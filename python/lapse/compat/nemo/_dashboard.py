# SPDX-License-Identifier: Apache-2.0
"""MonitoringDashboard: lapse's dashboard, by the guide's name."""

from __future__ import annotations

import time

from ... import _dashboard


class MonitoringDashboard:
    """The dashboard of this user's live runs, at host and port (default: this machine only,
    the first free port from 8080 on). One server goes with the agent: one that is there
    already stays where it is. It leaves a while after the last run."""

    def __init__(self, host: str | None = None, port: int | None = None) -> None:
        self.host, self.port = host, port
        self.url: str | None = None

    def start(self) -> str:
        """See that it is served; its address. RuntimeError with the reason: it is not."""
        self.url = _dashboard.start(self.host, self.port)
        return self.url

    def run(self) -> None:
        """start(), say where, and wait until Ctrl-C, as a server of one's own would."""
        print(f"lapse: dashboard: {self.start()}", flush=True)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
