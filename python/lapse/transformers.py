# SPDX-License-Identifier: Apache-2.0
"""Callbacks for transformers.Trainer: LapseCallback records a training, ProfilerCallback
traces some of its steps, SimpleGPUMemoryCallback prints the GPUs' memory. Importing this
module makes report_to="lapse" known to transformers. docs/callbacks.md."""

from __future__ import annotations

import importlib
import os
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._callback import Recorder, begin_run, folders, guard, is_number
from ._cli_args import DEFAULTS, HELP
from ._configure import as_plan
from ._console import style_of
from ._events import attr, event
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._configure import Plan

    class TrainerCallback:
        pass

    class ExportableState:
        pass

else:
    from transformers import TrainerCallback

    try:
        from transformers.trainer_callback import ExportableState
    except ImportError:  # before 4.41

        class ExportableState:
            pass


__all__ = [
    "LapseCallback",
    "ProfilerCallback",
    "ProfilingArguments",
    "SimpleGPUMemoryCallback",
    "callbacks_from_args",
]

GIB = 1 << 30

# The trainer's state object, and the LapseCallback that records it: with report_to="lapse"
# and a callback in the list there would be two.
_owner: tuple[weakref.ref[Any], weakref.ref[LapseCallback]] | None = None


def _config_of(args: Any, model: Any) -> dict[str, Any]:
    """The arguments and the model's configuration, as what lapse.init() takes."""
    found: dict[str, Any] = {}
    to_dict = getattr(args, "to_sanitized_dict", None)
    if to_dict is not None:
        found["args"] = to_dict()
    to_dict = getattr(getattr(model, "config", None), "to_dict", None)
    if to_dict is not None:
        found["model"] = to_dict()
    return found


class LapseCallback(TrainerCallback, ExportableState):
    """Records a training by transformers.Trainer.

    Steps carry Trainer's own numbers (the first is 1), the samples and tokens of the rank,
    and the spans forward_backward and optimizer; epochs, evaluations (span evaluate),
    checkpoints (span checkpoint, event checkpoint with step and path) and everything that
    Trainer logs: loss, grad_norm, learning_rate, eval/loss and so on. It opens the run if
    the program has not; project, name and `config` (Trainer's arguments and the model's
    configuration as attributes; False: none) are for that.

    ranks: "all": every rank records its steps and spans; what Trainer logs is the same on
    all ranks and recorded by rank 0. "zero": rank 0 alone. "aggregate": rank 0, with
    step/time and step/gap of `every` steps over all ranks.

    plan: what else to measure, of lapse.configure() or what it takes (a path, a dict): its
    helpers and its profile. Where `ranks` is not given, that of the plan holds.

    It changes no TrainerControl, and raises nothing in training."""

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: bool = True,
        ranks: str | None = None,
        every: int = 50,
        plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> None:
        self.project, self.name, self.config = project, name, config
        self.plan = as_plan(plan)
        if ranks is None:
            ranks = self.plan.ranks if self.plan else "all"
        self.recorder = Recorder(ranks, every)
        self.watch: Any = None  # lapse.torch.Watch, while training
        self.samples_seen = 0
        self.tokens_seen = 0
        self._world_zero = True
        self._silent = False
        self._epoch = 0
        self._tokens_before = 0
        self._batch = 0  # samples of a full step on this rank
        self._accumulation = 1
        self._left: int | None = None  # samples of this epoch that are to come, if known
        self._said: dict[str, tuple[int, float]] = {}
        self._world = 1
        self._inside = False

    # ---- kept in checkpoints ---------------------------------------------

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the arguments, and what was seen so far by this rank."""
        return {
            "args": {
                "project": self.project,
                "name": self.name,
                "config": self.config,
                "ranks": self.recorder.ranks.mode,
                "every": self.recorder.ranks.every,
                "plan": self.plan.to_dict() if self.plan else None,
            },
            "attributes": {"samples_seen": self.samples_seen, "tokens_seen": self.tokens_seen},
        }

    # ---- training --------------------------------------------------------

    @guard("transformers")
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        global _owner
        other = _owner[1]() if _owner and _owner[0]() is state else None
        if other is not None and other is not self:
            other._give_way()
            tell_once("transformers", "two LapseCallbacks (report_to and callbacks?): the last one "
                      "records", warning=False)  # fmt: skip
        self._silent = False
        _owner = (weakref.ref(state), weakref.ref(self))
        self._world_zero = bool(getattr(state, "is_world_process_zero", True))
        self.recorder.renew()
        self._epoch = int(getattr(state, "epoch", 0) or 0)
        self._tokens_before = int(getattr(state, "num_input_tokens_seen", 0) or 0)
        self._world = max(1, int(getattr(args, "world_size", 1) or 1))
        self._accumulation = int(getattr(args, "gradient_accumulation_steps", 1) or 1)
        batch = getattr(state, "train_batch_size", None) or getattr(args, "train_batch_size", 0)
        self._batch = int(batch or 0) * self._accumulation
        if self.recorder.records:
            self._open(args, state, kwargs.get("model"))
            if self._inside:
                event("training-interrupted", "a training began before the last one ended: it "
                      "was left by an exception", "warning")  # fmt: skip
        self._inside = True
        if self.watch is not None:
            self.watch.close()  # of a training that an exception left
        self.watch = None
        if self.plan is not None:
            helpers = importlib.import_module("lapse.torch")
            self.watch = helpers.from_config(
                self.plan, kwargs.get("model"), kwargs.get("optimizer")
            )

    def _open(self, args: Any, state: Any, model: Any) -> None:
        config = _config_of(args, model) if self.config else {}
        max_steps = int(getattr(state, "max_steps", 0) or 0)
        where = None
        if self._world > 1:
            where = (int(args.process_index), int(args.local_process_index), self._world)
        name = self.name or getattr(args, "run_name", None)
        if name == getattr(args, "output_dir", None):
            name = self.name  # older versions: no name was given
        begin_run(self.project, name, config or None, where)
        if max_steps > 0:
            attr("max_steps", max_steps)  # what `lapse run --status` counts towards

    def _give_way(self) -> None:
        """Another one records this training."""
        self._silent, self._inside = True, False
        if self.watch is not None:
            self.watch.close()
            self.watch = None

    @guard("transformers")
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        global _owner
        if self._silent:
            return
        _owner = None
        self._inside = False
        if self.watch is not None:
            self.watch.close()
            self.watch = None
        self.recorder.close()

    @guard("transformers")
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._silent:
            return
        self.recorder.epoch_begin(self._epoch)
        whole = float(getattr(state, "epoch", 0) or 0) == self._epoch  # not gone on within one
        self._left = self._epoch_samples(kwargs.get("train_dataloader")) if whole else None

    def _epoch_samples(self, loader: Any) -> int | None:
        """Samples of an epoch on this rank. Of several, each gets full batches alone."""
        try:
            if self._world == 1:
                return len(loader.dataset)
            return len(loader) * self._batch // max(1, self._accumulation)
        except (AttributeError, TypeError, NotImplementedError):
            return None  # a stream

    @guard("transformers")
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._silent:
            self.recorder.epoch_end()
            self._epoch += 1
            self._expect_checkpoint(control)

    # ---- steps -----------------------------------------------------------

    @guard("transformers")
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._silent:
            self.recorder.step_begin(state.global_step + 1)
            self.recorder.begin("forward_backward")

    @guard("transformers")
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._silent:
            self.recorder.end("forward_backward")
            if self.watch is not None:
                self.watch.gradients()
            self.recorder.begin("optimizer")

    @guard("transformers")
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._silent:
            self.recorder.end("optimizer")

    @guard("transformers")
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._silent:
            return
        self.recorder.end("forward_backward")  # before 4.4x there was no hook before it
        self.recorder.end("optimizer")
        seen = int(getattr(state, "num_input_tokens_seen", 0) or 0)
        tokens = (seen - self._tokens_before) / self._world  # Trainer adds up all ranks
        self._tokens_before = seen
        samples = self._batch
        if self._left is not None:  # the last batch of an epoch may be smaller
            samples = min(samples, self._left) or samples
            self._left -= samples
        self.samples_seen += samples
        self.tokens_seen += int(tokens)
        self.recorder.step_end(samples or None, tokens or None)
        if self.watch is not None:
            self.watch.step()
        self._expect_checkpoint(control)

    # ---- what Trainer says -----------------------------------------------

    @guard("transformers")
    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self._silent:
            return
        self._values(logs, state)
        self._expect_checkpoint(control)

    def _values(self, values: Mapping[str, Any] | None, state: Any) -> None:
        """Trainer has made them of all ranks: once is enough. It says the epoch with each
        evaluation again: so is that."""
        if not values or not self._world_zero or not self.recorder.records:
            return
        step = int(state.global_step)
        named = {folders(k): v for k, v in values.items() if is_number(v)}
        said = {k: (step, float(v)) for k, v in named.items() if isinstance(v, (int, float))}
        again = {name for name, pair in said.items() if self._said.get(name) == pair}
        self._said.update(said)
        self.recorder.log({k: v for k, v in named.items() if k not in again}, step)

    @guard("transformers")
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._silent:
            self.recorder.begin("evaluate")

    @guard("transformers")
    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        """The metrics have come by on_log already."""
        if not self._silent:
            self.recorder.end("evaluate")
            self._expect_checkpoint(control)

    @guard("transformers")
    def on_predict(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        if not self._silent:
            self.recorder.end("evaluate")
            self._values(metrics, state)

    def _expect_checkpoint(self, control: Any) -> None:
        """Trainer logs, then evaluates, then saves: is saving what it does next?"""
        waits = getattr(control, "should_log", False) or getattr(control, "should_evaluate", False)
        if getattr(control, "should_save", False) and not waits:
            self.recorder.begin("checkpoint")

    @guard("transformers")
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._silent:
            return
        self.recorder.end("checkpoint")
        if self._world_zero and self.recorder.records:
            step = int(state.global_step)
            path = os.path.abspath(os.path.join(args.output_dir, f"checkpoint-{step}"))
            if not os.path.isdir(path):  # a trial of a search has a folder of its own
                path = os.path.abspath(args.output_dir)
            event("checkpoint", path, step=step, path=path)


def _is_rank(ranks: Iterable[int], state: Any, args: Any) -> bool:
    """Is this one of the global ranks?"""
    index = getattr(args, "process_index", None)
    if index is None:
        index = 0 if getattr(state, "is_world_process_zero", True) else -1
    return int(index) in set(ranks)


class ProfilerCallback(TrainerCallback):
    """Traces some steps of a training: of each cycle, `wait_steps` are skipped, then the
    profiler warms up for `warmup_steps`, then `active_steps` are recorded into a trace;
    `repeat_times` cycles (0: until the end). Over lapse.torch.Profile, which writes the
    traces into `output_dir` and analyses them in another process. Only the global ranks
    of `ranks` profile.

    console_style: "classic" prints the lines of the guide that these names are from, "lapse"
    our own, "none" nothing; None: $LAPSE_CONSOLE_STYLE, else "lapse"."""

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
        ranks: Iterable[int] = (0,),
        console_style: str | None = None,
    ) -> None:
        if wait_steps < 0 or warmup_steps < 0 or active_steps < 1 or repeat_times < 0:
            raise ValueError("ProfilerCallback(): wait_steps, warmup_steps and repeat_times are "
                             "at least 0, active_steps is at least 1")  # fmt: skip
        self.output_dir = os.fspath(output_dir)
        self.wait_steps, self.warmup_steps = wait_steps, warmup_steps
        self.active_steps, self.repeat_times = active_steps, repeat_times
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops = with_stack, with_flops
        self.ranks = tuple(ranks)
        self.console_style = style_of(console_style)
        self.profile: Any = None

    @guard("transformers")
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()  # of a training that an exception left
        if not _is_rank(self.ranks, state, args):
            return
        self.profile = importlib.import_module("lapse.torch").Profile(
            wait=self.wait_steps,
            warmup=self.warmup_steps,
            active=self.active_steps,
            repeat=self.repeat_times,
            ranks=self.ranks,
            output_dir=self.output_dir,
            layout="tensorboard",
            gz=True,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
        )
        self.profile.start(int(state.global_step) + 1)
        if self.profile.reason:
            tell_once("transformers", f"ProfilerCallback: {self.profile.reason}")
        self._say_begin()

    def _say_begin(self) -> None:
        schedule = (
            f"wait={self.wait_steps}, warmup={self.warmup_steps}, "
            f"active={self.active_steps}, repeat={self.repeat_times}"
        )
        if self.console_style == "classic":
            print(f"PyTorch Profiler initialized. Traces will be saved to: {self.output_dir}")
            print(f"Profiler schedule: {schedule}")
        elif self.console_style == "lapse":
            print(f"lapse: profiling {schedule} steps into {self.output_dir}")

    @guard("transformers")
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.profile is not None:
            self.profile.step()

    @guard("transformers")
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        profile = self.profile
        if profile is None:
            return
        self._end()
        if self.console_style == "classic":
            print(f"Profiling complete! Traces saved to: {self.output_dir}")
            print("\nTo view traces, run:")
            print(f"  tensorboard --logdir={self.output_dir}")
        elif self.console_style == "lapse":
            for trace in profile.traces:
                print(f"lapse: steps {trace.first_step} to {trace.last_step}: "
                      f"{trace.verdict or trace.error or 'recorded'}\n"
                      f"lapse: to look at them: lapse trace summary {trace.path}")  # fmt: skip

    def _end(self) -> None:
        profile, self.profile = self.profile, None
        if profile is not None:
            profile.close()


class SimpleGPUMemoryCallback(TrainerCallback):
    """Prints, each `log_every_n_steps` steps, allocated, reserved and peak memory of
    PyTorch's allocator: of every visible GPU, or, of several ranks, each of its own GPU
    (of another rank's it knows nothing). It does not wait for the GPU.

    console_style as ProfilerCallback's: "classic" is the guide's line, whose GB are 2^30
    bytes; ours says GiB."""

    def __init__(
        self,
        log_every_n_steps: int = DEFAULTS["memory_log_steps"],
        console_style: str | None = None,
    ) -> None:
        if log_every_n_steps < 1:
            raise ValueError("SimpleGPUMemoryCallback(): log_every_n_steps is at least 1")
        self.log_every_n_steps = log_every_n_steps
        self.console_style = style_of(console_style)

    @guard("transformers")
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.log_every_n_steps or self.console_style == "none":
            return
        cuda = importlib.import_module("torch").cuda
        if not cuda.is_available():
            tell_once("transformers", "SimpleGPUMemoryCallback: there is no CUDA device, nothing "
                      "to print", warning=False)  # fmt: skip
            return
        alone = int(getattr(args, "world_size", 1) or 1) == 1
        unit, gap = ("GB", "") if self.console_style == "classic" else ("GiB", " ")
        for i in range(cuda.device_count()) if alone else [cuda.current_device()]:
            held = [
                f"{what}: {f(i) / GIB:.2f}{gap}{unit}"
                for what, f in (
                    ("Allocated", cuda.memory_allocated),
                    ("Reserved", cuda.memory_reserved),
                    ("Peak", cuda.max_memory_allocated),
                )
            ]
            print(f"[Step {state.global_step}] GPU {i}: {', '.join(held)}")


def _option(name: str) -> Any:
    return field(default=DEFAULTS[name], metadata={"help": HELP[name]})


@dataclass
class ProfilingArguments:
    """The options of lapse.add_cli_args() as a dataclass for HfArgumentParser."""

    enable_profiling: bool = _option("enable_profiling")
    enable_memory_logging: bool = _option("enable_memory_logging")
    profiler_output_dir: str = _option("profiler_output_dir")
    profiler_wait_steps: int = _option("profiler_wait_steps")
    profiler_warmup_steps: int = _option("profiler_warmup_steps")
    profiler_active_steps: int = _option("profiler_active_steps")
    profiler_repeat: int = _option("profiler_repeat")
    memory_log_steps: int = _option("memory_log_steps")


def callbacks_from_args(args: Any, console_style: str | None = None) -> list[Any]:
    """The callbacks that options ask for: a ProfilerCallback with --enable-profiling, a
    SimpleGPUMemoryCallback with --enable-memory-logging. args: a Namespace of a parser with
    lapse.add_cli_args(), a ProfilingArguments, or anything with such attributes."""

    def get(name: str) -> Any:
        return getattr(args, name, DEFAULTS[name])

    found: list[Any] = []
    if get("enable_profiling"):
        found.append(
            ProfilerCallback(
                output_dir=get("profiler_output_dir"),
                wait_steps=get("profiler_wait_steps"),
                warmup_steps=get("profiler_warmup_steps"),
                active_steps=get("profiler_active_steps"),
                repeat_times=get("profiler_repeat"),
                console_style=console_style,
            )
        )
    if get("enable_memory_logging"):
        found.append(SimpleGPUMemoryCallback(get("memory_log_steps"), console_style))
    return found


def _register() -> None:
    """report_to="lapse": transformers looks the name up in this table, and offers no entry
    point to add to it."""
    for module in ("transformers.integrations.integration_utils", "transformers.integrations"):
        try:
            table = importlib.import_module(module).INTEGRATION_TO_CALLBACK
        except (ImportError, AttributeError):
            continue
        table.setdefault("lapse", LapseCallback)
        return


_register()
