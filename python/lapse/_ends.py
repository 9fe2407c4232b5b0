# SPDX-License-Identifier: Apache-2.0
"""The end of a run, for what records values some time after they were made: it is asked
by finish() and at exit. A device that makes nothing any more keeps no process alive."""
from __future__ import annotations

import atexit
import sys
import time
from typing import Callable

QUIET_S = 2.0  # that nothing arrives: the device is stuck, or far behind
WAIT_S = 10.0  # of waiting in all
_PAUSE_S = 0.005  # between two looks at most

_settlers: list[Callable[[bool], object]] = []


def failing() -> bool:
    """Is this thread handling an exception? The ways to end a loop or a program are none."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None and not isinstance(
        error, (GeneratorExit, StopAsyncIteration, StopIteration)
    )


def drain(poll: Callable[[], int], left: Callable[[], bool]) -> int:
    """Call poll(), which says how many it took, until nothing is left, or nothing has come
    for QUIET_S, or WAIT_S are over; how many it took in all."""
    begun = last = time.monotonic()
    taken, pause = 0, 0.00005
    while left():
        n = poll()
        now = time.monotonic()
        if n:
            taken, last, pause = taken + n, now, 0.00005
        if now - last > QUIET_S or now - begun > WAIT_S:
            break
        if not n:
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_S)
    return taken


def at_end(settle: Callable[[bool], object]) -> None:
    """settle(wait) is called when the run ends; wait is False if an exception ends it. To be
    called at the first value: at exit it then runs before the run is closed, and before
    the framework that made the value goes."""
    if settle not in _settlers:
        _settlers.append(settle)
        atexit.register(_exit, settle)


def _exit(settle: Callable[[bool], object]) -> None:
    """The interpreter has printed the exception that ends it, and kept it."""
    settle(getattr(sys, "last_value", None) is None)


def finish() -> None:
    """The run is about to be closed."""
    wait = not failing()
    for settle in list(_settlers):
        settle(wait)
