# SPDX-License-Identifier: Apache-2.0
"""MonitoringDashboard: what is missing for it is said when it is made."""

from __future__ import annotations


class MonitoringDashboard:
    """The guide's page with two charts. lapse has no server of pages yet."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "MonitoringDashboard: this version of lapse has no dashboard. What is recorded is "
            "shown by `lapse report`, by TensorBoard (TensorBoardMonitor) and by Prometheus "
            "(PrometheusMonitor)"
        )
