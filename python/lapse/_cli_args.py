# SPDX-License-Identifier: Apache-2.0
"""The command line options that ask a training script to profile itself."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import argparse

    _P = argparse.ArgumentParser

DEFAULTS: dict[str, Any] = {
    "enable_profiling": False,
    "enable_memory_logging": False,
    "profiler_output_dir": "./profiler_traces",
    "profiler_wait_steps": 5,
    "profiler_warmup_steps": 2,
    "profiler_active_steps": 3,
    "profiler_repeat": 1,
    "memory_log_steps": 10,
}

HELP = {
    "enable_profiling": "Enable PyTorch profiler",
    "enable_memory_logging": "Enable simple GPU memory logging",
    "profiler_output_dir": "Directory to save traces",
    "profiler_wait_steps": "Steps to skip before profiling",
    "profiler_warmup_steps": "Warmup steps before active profiling",
    "profiler_active_steps": "Steps to actively profile",
    "profiler_repeat": "Times to repeat profiling cycle",
    "memory_log_steps": "Log GPU memory every N steps",
}

_LEAST = {"profiler_active_steps": 1, "memory_log_steps": 1}


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(text)
        return value

    number.__name__ = f"whole number, {least} or more,"  # argparse: invalid NAME value: 'x'
    return number


def add_cli_args(parser: _P) -> _P:
    """Add --enable-profiling, --enable-memory-logging, --profiler-output-dir,
    --profiler-wait-steps, --profiler-warmup-steps, --profiler-active-steps,
    --profiler-repeat and --memory-log-steps to an argparse.ArgumentParser, which
    HfArgumentParser is too (its parse_args_into_dataclasses() returns them last, as a
    Namespace). Underscores are taken as well. Returns the parser. ArgumentError if it has
    one of them already."""
    group = parser.add_argument_group("profiling")
    for name, default in DEFAULTS.items():
        options = [f"--{name.replace('_', '-')}", f"--{name}"]
        text = f"{HELP[name]} (default: {default})"
        if isinstance(default, bool):
            group.add_argument(*options, action="store_true", help=text)
        elif isinstance(default, int):
            kind = _whole(_LEAST.get(name, 0))
            group.add_argument(*options, type=kind, default=default, metavar="N", help=text)
        else:
            group.add_argument(*options, default=default, metavar="DIR", help=text)
    return parser


def callbacks_from_args(args: Any, console_style: str | None = None) -> list[Any]:
    """The callbacks of lapse.transformers that the options of add_cli_args() ask for."""
    found: list[Any] = importlib.import_module("lapse.transformers").callbacks_from_args(
        args, console_style
    )
    return found
