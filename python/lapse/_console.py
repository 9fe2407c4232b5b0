# SPDX-License-Identifier: Apache-2.0
"""In which style callbacks write lines for people: our own, or exactly as the document
that a callback's name is from."""

from __future__ import annotations

import os

STYLES = ("lapse", "classic", "none")


def style_of(given: str | None) -> str:
    """What was given, else $LAPSE_CONSOLE_STYLE, else "lapse". ValueError for another
    word by argument; a bad variable counts as not set."""
    if given is not None:
        if given not in STYLES:
            raise ValueError(f"console_style must be one of {', '.join(STYLES)}, not {given!r}")
        return given
    word = os.environ.get("LAPSE_CONSOLE_STYLE", "")
    return word if word in STYLES else "lapse"
