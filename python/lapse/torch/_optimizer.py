# SPDX-License-Identifier: Apache-2.0
"""The optimizer's settings as they change: learning rate, momentum, weight decay of each
parameter group."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from .. import _core
from ._helper import Helper, quiet
from ._later import asynchronous, later

GROUPS_MAX = 64
_HELP = {
    "lr": "learning rate",
    "momentum": "momentum; of Adam and its kin beta 1",
    "beta2": "beta 2 of Adam and its kin",
    "weight_decay": "weight decay",
}


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """What a group has of them, as it is: numbers, or tensors."""
    out = {name: group[name] for name in ("lr", "momentum", "weight_decay") if name in group}
    betas = group.get("betas")
    if betas is not None:
        out["momentum"] = betas[0]
        if len(betas) > 1:
            out["beta2"] = betas[1]
    return out


class OptimizerState(Helper):
    """Learning rate, momentum and weight decay of each parameter group, at each step.

        state = lapse.torch.OptimizerState(optimizer)
        optimizer.step()
        state.step()                    # before scheduler.step()

    The label `group` is the group's "name" if it has one, else its number. Groups beyond
    64 are left out. `last` has the values: [{"lr": 0.1, ...}, ...]. A learning rate that is
    a tensor on a device arrives later."""

    def __init__(self, optimizer: torch.optim.Optimizer, every: int = 1) -> None:
        super().__init__(every)
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                f"OptimizerState: an optimizer has param_groups; {type(optimizer).__name__} "
                "has none"
            )
        self.last: list[dict[str, float]] = []
        self._optimizer = optimizer
        self._metrics: dict[tuple[str, int], _core.Metric] = {}

    @quiet
    def step(self) -> None:
        """Record the values as they are now. Some 5 us a group."""
        if not self._due():
            return
        groups = self._optimizer.param_groups
        if len(groups) > GROUPS_MAX:
            self._note(f"{len(groups)} parameter groups: those beyond {GROUPS_MAX} are left out")
        for i, group in enumerate(groups[:GROUPS_MAX]):
            if i == len(self.last):
                self.last.append({})
            for name, value in _settings(group).items():
                if isinstance(value, torch.Tensor) and asynchronous(value.device):
                    later([value], partial(self._arrived, name, i))
                else:
                    self.last[i][name] = number = float(value)
                    self._metric(name, i, group).set(number)

    def _metric(self, name: str, i: int, group: dict[str, Any]) -> _core.Metric:
        metric = self._metrics.get((name, i))
        if metric is None:
            labels = {"group": str(group.get("name", i))}
            metric = _core.metric(f"optimizer/{name}", "1", "gauge", _HELP[name], labels)
            self._metrics[name, i] = metric
        return metric

    def _arrived(
        self, name: str, i: int, values: list[float], step: int | None, time_ns: int
    ) -> None:
        self.last[i][name] = values[0]
        group = self._optimizer.param_groups[i]
        self._metric(name, i, group).set_at(values[0], step, time_ns)
