# SPDX-License-Identifier: Apache-2.0
"""The classes for the package `lightning.pytorch`."""

from __future__ import annotations

from ._build import build

globals().update(build("lightning.pytorch", __name__))
