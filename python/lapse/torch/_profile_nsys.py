# SPDX-License-Identifier: Apache-2.0
"""Nsight Systems records only some steps: `nsys profile -c cudaProfilerApi` waits for
cudaProfilerStart(), which the program calls."""

from __future__ import annotations

import os

import torch

from .._tell import tell_helper

VARIABLES = ("LAPSE_NSYS_PROFILE_STEP_RANGE", "NRL_NSYS_PROFILE_STEP_RANGE")


def parse_range(text: str) -> tuple[int, int]:
    """START:STOP, both from 1, STOP not included. ValueError."""
    first, colon, last = text.partition(":")
    try:
        start, stop = int(first), int(last)
    except ValueError:
        start = stop = 0
    if not colon or start < 1 or stop <= start:
        raise ValueError(f"a range of steps is START:STOP with 1 <= START < STOP, STOP not "
                         f"included ('3:5': steps 3 and 4), not {text!r}")  # fmt: skip
    return start, stop


class NsysCapture:
    """Calls cudaProfilerStart() and Stop() around a range of steps.

        capture = lapse.torch.NsysCapture()     # nsys profile -c cudaProfilerApi python ...
        for batch in loader:
            with capture:                       # a step
                ...

    steps: "START:STOP", counted from 1, STOP not included; None: what the variable
    LAPSE_NSYS_PROFILE_STEP_RANGE, or else NRL_NSYS_PROFILE_STEP_RANGE says, and nothing if
    there is none. ValueError for a bad range given; a bad variable is left out and said.
    Where CUDA is absent nothing is called: `reason` says so."""

    def __init__(self, steps: str | None = None) -> None:
        self.range: tuple[int, int] | None = None
        self.reason = ""
        self.step = 0  #: number of the step that runs, or ran last; 0: none yet
        self.capturing = False
        if steps is not None:
            self.range = parse_range(steps)
        else:
            self._from_environment()
        if self.range and not torch.cuda.is_available():
            self.reason = "torch.cuda.is_available() is False"
            tell_helper("NsysCapture", self.reason)

    def _from_environment(self) -> None:
        for name in VARIABLES:
            value = os.environ.get(name)
            if value:
                try:
                    self.range = parse_range(value)
                except ValueError as error:
                    self.reason = f"{name}: {error}"
                    tell_helper("NsysCapture", self.reason)
                return

    def step_begin(self) -> None:
        """A step begins."""
        self.step += 1
        if self.range is None or self.reason:
            return
        start, stop = self.range
        if start <= self.step < stop:
            if not self.capturing:
                self.capturing = True
                torch.cuda.profiler.start()  # type: ignore[no-untyped-call,unused-ignore]
        else:
            self.close()

    def close(self) -> None:
        """Stop, if it captures: also when the training ends inside the range."""
        if self.capturing:
            self.capturing = False
            torch.cuda.profiler.stop()  # type: ignore[no-untyped-call,unused-ignore]

    def __enter__(self) -> NsysCapture:
        self.step_begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self.range is not None and self.step + 1 >= self.range[1]:
            self.close()
