# SPDX-License-Identifier: Apache-2.0
"""ProfilerCallback: traces of chosen epochs of Lightning's training."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .. import _callback
from .._callback import guard
from .._console import style_of
from ..torch import Profile
from ._common import say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_hook = guard("lightning")


class ProfilerCallback:
    """Records profile_steps batches of each of profile_epochs (0-based) with PyTorch's
    profiler, after warmup_steps that it does not keep:

        Trainer(callbacks=[lapse.lightning.ProfilerCallback(enabled=True, profile_epochs=[1])])

    Traces are output_dir/chrome_trace_epoch_1.json; with several ranks the name has the
    rank, and only those of `ranks` record (None: all). Each is analysed by `lapse trace` in
    another process; the log_top_k_ops slowest operations are printed, and the verdict. An
    epoch that is shorter is recorded as far as it goes. export_chrome_trace=False: only
    the analysis stays. gz, profile_memory, with_flops, estimate and warn_mb are those of
    lapse.torch.Profile; console_style as of ThroughputMonitorCallback."""

    def __init__(
        self,
        enabled: bool = False,
        profile_epochs: Sequence[int] = (1, 5, 10),
        profile_steps: int = 100,
        warmup_steps: int = 5,
        activities: Sequence[str] = ("cpu", "cuda"),
        record_shapes: bool = True,
        with_stack: bool = False,
        output_dir: str | os.PathLike[str] = "profiler_traces",
        export_chrome_trace: bool = True,
        log_top_k_ops: int = 15,
        *,
        profile_memory: bool = False,
        with_flops: bool = False,
        ranks: Collection[int] | None = (0,),
        gz: bool = False,
        estimate: bool = True,
        warn_mb: float = 500.0,
        console_style: str | None = None,
    ) -> None:
        super().__init__()
        self.enabled = bool(enabled)
        self.profile_epochs = list(profile_epochs)
        self.log_top_k_ops = log_top_k_ops
        self._style = style_of(console_style)
        self._trainer: Any = None
        self.profile: Profile | None = None
        if not self.enabled:
            return
        self.profile = Profile(
            epochs=self.profile_epochs, wait=0, warmup=warmup_steps, active=profile_steps,
            activities=list(activities), record_shapes=record_shapes, with_stack=with_stack,
            profile_memory=profile_memory, with_flops=with_flops, output_dir=output_dir,
            export=export_chrome_trace, ranks=ranks, gz=gz, estimate=estimate, warn_mb=warn_mb,
            on_trace=self._show,
        )  # fmt: skip

    @_hook
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.profile is None:
            return
        ranks = (trainer.global_rank, trainer.local_rank, trainer.world_size)
        _callback.begin_run(None, None, None, ranks)
        self._trainer = trainer
        loop = getattr(trainer.fit_loop, "epoch_loop", None)
        self.profile.start(int(getattr(loop, "total_batch_idx", -1)) + 1)

    @_hook
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self.profile is not None:
            self.profile.epoch_begin(trainer.current_epoch)

    @_hook
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.profile is not None:
            self.profile.step(last=trainer.is_last_batch)

    @_hook
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self.profile is not None:
            self.profile.epoch_end()

    @_hook
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.profile is not None:
            self.profile.close()

    @_hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.profile is not None:
            self.profile.close()

    def _show(self, trace: Any) -> None:
        if self._style == "none" or self._trainer is None:
            return
        lines = []
        if self._style == "lapse":
            where = trace.path or trace.analysis or "nowhere"
            lines.append(f"lapse: epoch {trace.epoch}, steps {trace.first_step} to "
                         f"{trace.last_step} profiled: {trace.verdict or trace.error} "
                         f"({where})")  # fmt: skip
        if trace.operators and self.log_top_k_ops > 0:
            lines.extend(trace.top(self.log_top_k_ops).splitlines())
        if self._style == "lapse":
            lines.extend(f"lapse: {text}" for text in trace.findings[:3])
        say(self._trainer, *lines)

    def __getstate__(self) -> dict[str, Any]:
        """Of a Trainer that is sent to other processes: what runs here is not."""
        state = self.__dict__.copy()
        state["_trainer"] = None
        return state
