# SPDX-License-Identifier: Apache-2.0
"""Saying once that a callback or a helper cannot do something, and why: training goes on."""

from __future__ import annotations

import threading

from . import _core

_said: set[str] = set()
_lock = threading.Lock()
_INFO, _WARNING = 1, 2


def tell_once(who: str, text: str, warning: bool = True) -> None:
    """Event `lapse.WHO` with the text, the first time that it is said."""
    line = f"lapse.{who}: {text}"
    with _lock:
        if line in _said:
            return
        _said.add(line)
    _core.event(_WARNING if warning else _INFO, f"lapse.{who}", text[:2000])


def tell_helper(helper: str, text: str, warning: bool = True) -> None:
    """Event `lapse.torch` with "HELPER: TEXT", the first time that it is said."""
    tell_once("torch", f"{helper}: {text}", warning)
