# SPDX-License-Identifier: Apache-2.0
"""Saying once that a helper cannot measure, and why: training goes on."""

from __future__ import annotations

import threading

from .. import _core

_said: set[str] = set()
_lock = threading.Lock()
_INFO, _WARNING = 1, 2


def tell_once(helper: str, text: str, warning: bool = True) -> None:
    """Event `lapse.torch` with "HELPER: TEXT", the first time that it is said."""
    line = f"{helper}: {text}"
    with _lock:
        if line in _said:
            return
        _said.add(line)
    _core.event(_WARNING if warning else _INFO, "lapse.torch", line[:2000])
