# SPDX-License-Identifier: Apache-2.0
"""The profiling guide's two callbacks for transformers.Trainer under their own names and
with its lines: those of lapse.transformers with console_style="classic"."""

from __future__ import annotations

from .. import transformers as _transformers
from .._cli_args import DEFAULTS

__all__ = ["PyTorchProfilerCallback", "SimpleGPUMemoryCallback"]


class PyTorchProfilerCallback(_transformers.ProfilerCallback):
    """Profiles on the global rank 0 (the guide's: on each LOCAL_RANK 0, one a node)."""

    def __init__(
        self,
        output_dir: str = DEFAULTS["profiler_output_dir"],
        wait_steps: int = DEFAULTS["profiler_wait_steps"],
        warmup_steps: int = DEFAULTS["profiler_warmup_steps"],
        active_steps: int = DEFAULTS["profiler_active_steps"],
        repeat_times: int = DEFAULTS["profiler_repeat"],
        record_shapes: bool = True,
        profile_memory: bool = True,
        with_stack: bool = True,
        with_flops: bool = True,
    ) -> None:
        super().__init__(
            output_dir=output_dir,
            wait_steps=wait_steps,
            warmup_steps=warmup_steps,
            active_steps=active_steps,
            repeat_times=repeat_times,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            console_style="classic",
        )


class SimpleGPUMemoryCallback(_transformers.SimpleGPUMemoryCallback):
    """Its GB are 2^30 bytes."""

    def __init__(self, log_every_n_steps: int = DEFAULTS["memory_log_steps"]) -> None:
        super().__init__(log_every_n_steps, "classic")
