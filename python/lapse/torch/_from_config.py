# SPDX-License-Identifier: Apache-2.0
"""The helpers that a configuration asks for, together: made, stepped and closed as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import torch

from .._configure import Plan, configure
from .._tell import tell_helper

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


GRADIENTS = ("gradients", "histograms")  # what must be measured before they are cleared


class Watch:
    """The helpers of a plan, by name in `helpers`; `missing` says which of it could not be
    made, and why. Nothing raises in training."""

    def __init__(
        self,
        plan: Plan,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self.plan = plan
        self.helpers: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self.profile: Any = None
        self._measured = False
        for name in plan.helpers:
            try:
                helper = self._make(name, model, optimizer)
            except Exception as error:
                self._lacks(name, f"{type(error).__name__}: {error}")
                continue
            if helper is not None:
                self.helpers[name] = helper
        if plan.profile:
            self._start_profile(plan.profile)

    def _lacks(self, name: str, why: str) -> None:
        self.missing[name] = why
        tell_helper("from_config", f"{name}: {why}")

    def _start_profile(self, wanted: dict[str, Any]) -> None:
        from ._profile import Profile

        options = dict(wanted)
        self.profile = Profile(output_dir=options.pop("dir"), **options)
        self.profile.start()

    def _make(
        self,
        name: str,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
    ) -> Any:
        import lapse.torch as helpers

        every, rarely = self.plan.every, 10 * self.plan.every  # what costs more
        if model is None and name in GRADIENTS:
            self._lacks(name, "needs the model: from_config(plan, model)")
            return None
        if optimizer is None and name == "optimizer":
            self._lacks(name, "needs the optimizer: from_config(plan, model, optimizer)")
            return None
        make: dict[str, Callable[[], Any]] = {
            "gradients": lambda: helpers.Gradients(model, every=every, **self._gradients()),
            "histograms": lambda: helpers.Histograms(model, every=rarely),
            "optimizer": lambda: helpers.OptimizerState(optimizer, every=every),
            "allocator": lambda: helpers.Allocator(every=every),
            "gc": helpers.GarbageCollector,
            "tracemalloc": lambda: helpers.TraceMalloc(every=rarely),
            "compile": helpers.CompileMonitor,
        }
        return make[name]()

    def _gradients(self) -> dict[str, Any]:
        """Arguments of Gradients. Without named layers each outermost module is one."""
        plan = self.plan
        found: dict[str, Any] = {"layers": list(plan.layers) or (1 if plan.layer_stats else None)}
        if not plan.exploding:
            found["exploding"] = None
        return found

    def gradients(self) -> None:
        """Measure what needs the gradients now, where step() would come too late: before
        clipping, or before they are cleared. That of this step, step() leaves out."""
        self._measured = True
        for name in GRADIENTS:
            if name in self.helpers:
                self.helpers[name].step()

    def step(self) -> None:
        """A step has ended; its gradients are still there, or gradients() was called."""
        if not self._measured:
            self.gradients()
        self._measured = False
        for name, helper in self.helpers.items():
            if name not in GRADIENTS and hasattr(helper, "step"):
                helper.step()
        if self.profile is not None:
            self.profile.step()

    def report(self) -> str:
        """What the helpers have to say."""
        texts = [h.report() for h in self.helpers.values() if hasattr(h, "report")]
        return "\n".join(text for text in texts if text)

    def close(self) -> None:
        """The training has ended."""
        if self.profile is not None:
            self.profile.close()
        for helper in self.helpers.values():
            for name in ("close", "stop"):
                if hasattr(helper, name):
                    getattr(helper, name)()
                    break

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def from_config(
    config: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    model: torch.nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Watch:
    """The helpers that a configuration asks for: a Plan of lapse.configure(), or what it
    takes (a path, a dict, None).

        watch = lapse.torch.from_config("lapse.yaml", model, optimizer)
        ...
        watch.step()        # at the end of each step, gradients not yet cleared
        watch.close()

    In ranks modes other than "all" only the global rank 0 measures."""
    from .._ranks import rank_and_world

    plan = config if isinstance(config, Plan) else configure(config)
    if plan.ranks != "all" and rank_and_world()[0] != 0:
        plan = Plan(ranks=plan.ranks)
    return Watch(plan, model, optimizer)
