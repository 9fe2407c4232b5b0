# SPDX-License-Identifier: Apache-2.0
"""Phases of training out of the names of actions that Lightning tells its profiler: the
one place that sees fetching of data, backward and the optimizer alike for all of them."""

from __future__ import annotations

from typing import Any

from ..torch import phase

# What an action is, by the end of its name: behind the brackets, which hold class names.
_PLAIN = {
    "train_dataloader_next": "data",
    "training_step": "forward",
    "backward": "backward",
    "save_checkpoint": "checkpoint",
    "val_next": "data/val",
    "validation_step": "forward/val",
    "sanity_check_next": "data/val",
}
_OPTIMIZER, _BEFORE = "optimizer_step", "on_before_optimizer_step"


def kind_of(action: str) -> str:
    """`[Strategy]SingleDeviceStrategy.backward`: `backward`."""
    return action.rpartition(".")[2] if action.startswith("[") else action


class Phases:
    """Opens and ends phases as actions start and stop.

    data: waiting for a batch. forward: training_step(). backward. optimizer: from the
    hooks before its step, clipping among it, to its end; without the closure that computes
    the gradients. checkpoint: saving one. Of validation data/val and forward/val."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Any, Any]] = []
        self._phases: dict[str, phase] = {}

    def start(self, action: str) -> None:
        name = self._name(action)
        if name is not None:
            self.begin(name)

    def stop(self, action: str) -> None:
        if not self._open and not action.startswith("[LightningModule]"):
            return
        kind = kind_of(action)
        if kind == _BEFORE and action.startswith("[LightningModule]"):
            self.begin("optimizer")
        elif kind == _OPTIMIZER:
            self.end("optimizer")
        else:
            name = self._name(action)
            if name is not None:
                self.end(name)

    @staticmethod
    def _name(action: str) -> str | None:
        if action.startswith(("[LightningModule]", "[Callback]", "[LightningDataModule]")):
            return None  # a hook of that name, not the thing itself
        return _PLAIN.get(kind_of(action))

    def begin(self, name: str) -> None:
        one = self._phases.get(name)
        if one is None:
            one = self._phases[name] = phase(name)
        self._open.append((name, one, one.begin()))

    def end(self, name: str) -> None:
        """End it, and what was begun within it and not ended."""
        if not any(opened[0] == name for opened in self._open):
            return
        while self._open:
            found, one, token = self._open.pop()
            one.end(token)
            if found == name:
                return

    def close(self) -> None:
        """End all that is open: an exception came between."""
        while self._open:
            _, one, token = self._open.pop()
            one.end(token)
