# SPDX-License-Identifier: Apache-2.0
"""The classes for the package `pytorch_lightning`."""

from __future__ import annotations

from ._build import build

globals().update(build("pytorch_lightning", __name__))
