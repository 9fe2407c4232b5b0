# SPDX-License-Identifier: Apache-2.0
"""The process's current step. What arrives late must keep the step that it belongs to,
so this is read when it is made."""

from __future__ import annotations

from .._core import step_now

NONE = -(2**63)  # belongs to no step: as the record library writes it

__all__ = ["NONE", "step_now"]
