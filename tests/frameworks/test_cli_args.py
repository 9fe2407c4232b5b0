# SPDX-License-Identifier: Apache-2.0
"""lapse.add_cli_args(): the flags and defaults of the profiling guide, for argparse and
HfArgumentParser, and the callbacks that they ask for."""

import argparse
import re
from types import SimpleNamespace

import pytest
from conftest import need

import lapse

# The table of the guide: flag, default, description.
GUIDE = """
| `--enable-profiling` | False | Enable PyTorch profiler |
| `--enable-memory-logging` | False | Enable simple GPU memory logging |
| `--profiler-output-dir` | `./profiler_traces` | Directory to save traces |
| `--profiler-wait-steps` | 5 | Steps to skip before profiling |
| `--profiler-warmup-steps` | 2 | Warmup steps before active profiling |
| `--profiler-active-steps` | 3 | Steps to actively profile |
| `--profiler-repeat` | 1 | Times to repeat profiling cycle |
| `--memory-log-steps` | 10 | Log GPU memory every N steps |
"""
ROWS = re.findall(r"\| `--([a-z-]+)` \| `?([^|`]+?)`? \| (.+?) \|", GUIDE)
WHOLE = ("--enable-profiling --profiler-output-dir ./my_traces --profiler-wait-steps 10 "
         "--profiler-warmup-steps 2 --profiler-active-steps 5 --profiler-repeat 2 "
         "--enable-memory-logging --memory-log-steps 5").split()  # fmt: skip
CUSTOM = {
    "enable_profiling": True,
    "enable_memory_logging": True,
    "profiler_output_dir": "./my_traces",
    "profiler_wait_steps": 10,
    "profiler_warmup_steps": 2,
    "profiler_active_steps": 5,
    "profiler_repeat": 2,
    "memory_log_steps": 5,
}


def parser():
    one = argparse.ArgumentParser(prog="train")
    assert lapse.add_cli_args(one) is one
    return one


def test_flags_and_defaults_are_the_guides():
    assert len(ROWS) == 8
    parsed = vars(parser().parse_args([]))
    assert {name: str(value) for name, value in parsed.items()} == {
        flag.replace("-", "_"): default for flag, default, _ in ROWS
    }
    text = " ".join(parser().format_help().split())
    for flag, default, what in ROWS:
        assert f"--{flag}" in text and f"{what} (default: {default})" in text


@pytest.mark.parametrize("spell", [str, lambda word: word.replace("-", "_").replace("__", "--")])
def test_command_line_of_the_guide(spell):
    words = [spell(word) if word.startswith("--") else word for word in WHOLE]
    assert vars(parser().parse_args(words)) == CUSTOM


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--profiler-active-steps", "0"], "whole number, 1 or more, value: '0'"),
        (["--profiler-wait-steps", "-1"], "whole number, 0 or more, value: '-1'"),
        (["--memory-log-steps", "x"], "whole number, 1 or more, value: 'x'"),
    ],
)
def test_what_cannot_be_is_refused(words, what, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(words)
    assert what in capsys.readouterr().err


def test_nothing_is_imported_for_the_flags(place):
    done = place.run("""
        import argparse, sys, lapse
        lapse.add_cli_args(argparse.ArgumentParser()).parse_args([])
        print([m for m in ("torch", "transformers") if m in sys.modules])
    """)
    assert done.stdout == "[]\n"


# ---- with transformers -----------------------------------------------------------------

transformers = need("transformers", "torch")


@transformers
def test_hf_argument_parser_with_the_flags():
    from transformers import HfArgumentParser, TrainingArguments

    parser = lapse.add_cli_args(HfArgumentParser(TrainingArguments))
    training, ours = parser.parse_args_into_dataclasses(
        ["--output_dir", "out", "--max_steps", "50", *WHOLE]
    )
    assert training.max_steps == 50 and vars(ours) == CUSTOM


@transformers
def test_hf_argument_parser_with_the_dataclass():
    from transformers import HfArgumentParser

    from lapse.transformers import ProfilingArguments

    parse = HfArgumentParser(ProfilingArguments).parse_args_into_dataclasses
    (ours,) = parse([])
    assert {k: str(v) for k, v in vars(ours).items()} == {
        flag.replace("-", "_"): default for flag, default, _ in ROWS
    }
    (ours,) = parse(WHOLE)
    assert vars(ours) == CUSTOM


@transformers
def test_callbacks_of_the_flags():
    import lapse.transformers as ours

    assert lapse.callbacks_from_args(parser().parse_args([])) == []
    (only,) = lapse.callbacks_from_args(parser().parse_args(["--enable-profiling"]))
    assert isinstance(only, ours.ProfilerCallback)
    for arguments in (parser().parse_args(WHOLE), ours.ProfilingArguments(**CUSTOM),
                      SimpleNamespace(**CUSTOM, more=1)):  # fmt: skip
        profiler, memory = lapse.callbacks_from_args(arguments)
        assert (profiler.output_dir, profiler.wait_steps) == ("./my_traces", 10)
        assert (profiler.warmup_steps, profiler.active_steps) == (2, 5)
        assert profiler.repeat_times == 2
        assert profiler.record_shapes and profiler.profile_memory
        assert profiler.with_stack and profiler.with_flops
        assert isinstance(memory, ours.SimpleGPUMemoryCallback)
        assert memory.log_every_n_steps == 5
