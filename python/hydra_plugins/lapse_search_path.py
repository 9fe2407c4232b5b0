# SPDX-License-Identifier: Apache-2.0
"""Hydra finds this plugin by its place and puts lapse's configurations on the search
path of every application, behind its own."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class LapseSearchPathPlugin(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="lapse", path="pkg://lapse.hydra.conf")
