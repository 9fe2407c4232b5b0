# SPDX-License-Identifier: Apache-2.0
"""Gradients: norms in total and by layer, and which of them explode, vanish or are no
numbers. One fused operation on the device, its result read some steps later."""

from __future__ import annotations

from collections import deque
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch

from .. import _core, _events
from .._tell import tell_helper
from ._helper import Helper, moments, quiet
from ._later import later
from ._names import Layers, Model, layers, module_of, parameters
from ._norms import Norms, groups_of, plain, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAMED_MAX = 16  # layers that one event names
LABELS_MAX = 64  # layers that get a series of bad gradients when none were asked for
_WORDS = {
    "exploding": "are larger than",
    "vanishing": "are smaller than",
    "bad": "hold NaN or infinite elements",
}


def _scale(scaler: Any, optimizer: Any) -> torch.Tensor | None:
    """What the gradients are multiplied by now, on the device; None: by nothing."""
    if scaler is None or not scaler.is_enabled():
        return None
    states = scaler._per_optimizer_states
    if optimizer is not None:
        stages = [states[id(optimizer)]["stage"]] if id(optimizer) in states else []
    else:
        stages = [state["stage"] for state in states.values()]
    if any(getattr(stage, "name", "READY") != "READY" for stage in stages):
        return None  # unscale_() was called
    scale: torch.Tensor | None = scaler._scale
    return scale


class Measured:
    """Norms of one step on their way: from as many devices as there are. `total`: once they
    have arrived."""

    def __init__(self, owner: Gradients, norms: Norms, expected: int, scaled: bool) -> None:
        self.owner, self.order = owner, norms.order
        self.total: float | None = None
        self._number = owner._measured
        self.values: dict[int, list[float]] = {}
        self.expected, self.scaled = expected, scaled

    def put(self, k: int, values: list[float], step: int | None, time_ns: int) -> None:
        self.values[k] = values
        if len(self.values) == self.expected:
            scale = self.values.pop(-1)[0] if self.scaled else 1.0
            numbers, norms = self.order[0], self.values[0]
            if len(self.order) > 1:
                numbers = [i for of in self.order for i in of]
                norms = [v for k in range(len(self.order)) for v in self.values[k]]
            if scale and scale != 1.0:
                norms = [v / scale for v in norms]
            self.total = together(norms, self.owner.norm)
            self.owner._arrived_number = self._number
            self.owner._arrived(numbers, norms, self.total, step, time_ns, self.scaled)

    @property
    def is_over(self) -> bool:
        """Is there nothing to wait for? (Those of a later step come later.)"""
        owner = self.owner
        return owner._arrived_number >= self._number or bool(owner.reason)


class Gradients(Helper):
    """Norms of a model's gradients.

        gradients = lapse.torch.Gradients(model, layers=["encoder", "decoder"])
        loss.backward()
        gradients.step()                # before clipping and optimizer.step()

    model: a module, or pairs of name and parameter. every: measure each so many calls of
    step(), the first among them: all parameters at once, as a norm of some would be of
    little use. layers: which parts get a series of their own: a depth (2: the first two
    components of the modules' names), names or globs (each is one layer: all parameters
    whose dotted name has it as whole components, or matches), or a function from a
    parameter's name to a layer or None; at most 256. exploding, vanishing: limits of a
    layer's norm beyond which an event names it (None: none); without `layers` each module
    that has parameters is looked at. window: how many measured steps stats() sums up. norm:
    2, another p, or inf. count_bad: count the NaN and infinite elements at each measured
    step (True, 3 operations a parameter), never (False), or only of parameters that were
    found bad (None): on the CPU at once, on a device at the next measured steps. reduce:
    put the parts of distributed tensors together, by one all-reduce that all ranks must
    make at the same step."""

    def __init__(
        self,
        model: Model,
        every: int = 10,
        layers: Layers = None,
        exploding: float | None = 10.0,
        vanishing: float | None = 1e-7,
        window: int = 100,
        norm: float = 2.0,
        count_bad: bool | None = None,
        reduce: bool = True,
    ) -> None:
        super().__init__(every)
        if not norm > 0:
            raise ValueError(f"Gradients: norm must be above 0, not {norm!r}")
        if window < 1:
            raise ValueError(f"Gradients: window must be 1 or more, not {window!r}")
        self.exploding, self.vanishing = exploding, vanishing
        self.norm, self.count_bad, self.reduce = float(norm), count_bad, reduce
        self.window = window
        self.total: float | None = None  # the last one that has arrived
        self.layers: dict[str, float] = {}  # the same, by layer
        self.last_step: int | None = None  # which step these are of
        self.newest: Measured | None = None  # of the last step(); None: it measured nothing
        self._measured = 0  # steps so far, and which of them was the last to arrive
        self._arrived_number = 0
        self.bad: dict[str, int] = {}  # parameter: measured steps at which it was bad
        self.elements = {"nan": 0, "inf": 0}  # counted so far
        self._model, self._wanted = model, layers
        # Total and norms by layer of the last measured steps.
        self._window: deque[tuple[float, dict[str, float]]] = deque(maxlen=window)
        self._state: dict[str, str] = {}  # what began, and is not over
        self._sums: tuple[Sequence[int], list[tuple[str, Any]]] | None = None
        self._suspects: set[int] = set()
        self._metrics: dict[tuple[str, str | None], _core.Metric] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the model's parameters again: after layers were added, or the model was
        wrapped or sharded. The first step() does it by itself."""
        pairs = parameters(self._model)
        if not pairs:
            raise ValueError("Gradients: the model has no parameters")
        if not isinstance(self._model, torch.nn.Module):
            self._model = pairs  # an iterator is used up
        names = [name for name, _ in pairs]
        self._parameters: list[torch.Tensor] = [parameter for _, parameter in pairs]
        self._groups = groups_of(self._model, self._parameters)
        # Nothing is distributed or empty: looking at each gradient can be left out.
        self._whole = not any(self._groups) and all(p.numel() for p in self._parameters)
        self._sums = None
        if not self.reduce:
            self._groups = [()] * len(pairs)
        self._names = names
        self._series = layers(names, self._wanted, "Gradients")
        self._watched = self._series
        if self._wanted is None:
            modules: dict[str, list[int]] = {}
            for i, name in enumerate(names):
                modules.setdefault(module_of(name), []).append(i)
            self._watched = modules

    @quiet
    def step(self, scaler: Any = None, optimizer: Any = None) -> None:
        """Measure the gradients as they are now: after backward(), before clipping. With a
        GradScaler the norms are of unscaled gradients, whether unscale_(optimizer) was
        called already or not. No waiting for a device."""
        self.newest = None
        if not self._due():
            return
        if self._calls == 1:
            self.refresh()
        with torch.no_grad():
            self._measure(_scale(scaler, optimizer))

    def _measure(self, scale: torch.Tensor | None) -> None:
        norms = Norms()
        if not (self._whole and norms.of_alike(self._parameters, self.norm)):
            norms.of(self._parameters, self._groups, self.norm)
        if norms.left_out:
            tell_helper("Gradients", "sparse gradients on a device are left out: their norm "
                      f"would be waited for ({self._names[norms.left_out[0]]})")  # fmt: skip
        if not norms.vectors:
            return
        scaled = scale is not None
        self._measured += 1
        step = self.newest = Measured(self, norms, len(norms.vectors) + scaled, scaled)
        for k, vector in enumerate(norms.vectors):
            if scale is not None and scale.device == vector.device:
                self._send_with_scale(step, k, vector, scale)
                scale = None
            else:
                later([vector], partial(step.put, k))
        if scale is not None:
            later([scale], partial(step.put, -1))
        if self.count_bad is not False:
            self._count(range(len(self._names)) if self.count_bad else self._suspects)

    def _send_with_scale(
        self, step: Measured, k: int, vector: torch.Tensor, scale: torch.Tensor
    ) -> None:
        def then(values: list[float], at: int | None, time_ns: int) -> None:
            step.put(-1, values[-1:], at, time_ns)
            step.put(k, values[:-1], at, time_ns)

        later([vector, scale], then)

    # ---- what arrives ------------------------------------------------------------

    def _metric(self, name: str, layer: str | None) -> _core.Metric:
        metric = self._metrics.get((name, layer))
        if metric is None:
            kind, help = {
                "gradients/norm": ("gauge", "norm of the gradients"),
                "gradients/bad": ("counter", "gradients with NaN or infinite elements"),
                "gradients/nan": ("counter", "elements that are NaN"),
                "gradients/inf": ("counter", "elements that are infinite"),
            }[name]
            metric = _core.metric(
                name,
                unit="1",
                kind=kind,  # type: ignore[arg-type]
                help=help,
                labels={"layer": layer} if layer else None,
            )
            self._metrics[name, layer] = metric
        return metric

    def _record(
        self, name: str, layer: str | None, value: float, step: int | None, time_ns: int
    ) -> None:
        metric = self._metric(name, layer)
        at = metric.set_at if metric.kind == "gauge" else metric.add_at
        at(value, step, time_ns)

    def _parts(self, numbers: Sequence[int]) -> list[tuple[str, Any]]:
        """For each layer what takes its norms out of a list in this order."""
        if self._sums is None or self._sums[0] != numbers:
            at = {number: k for k, number in enumerate(numbers)}
            parts = [
                (layer, itemgetter(*there, *there[:1]))  # two at least, so it is a tuple
                for layer, of in self._watched.items()
                if (there := [at[i] for i in of if i in at])
            ]
            self._sums = numbers, parts
        return self._sums[1]

    def _arrived(
        self,
        numbers: Sequence[int],
        norms: list[float],
        total: float,
        step: int | None,
        time_ns: int,
        scaled: bool,
    ) -> None:
        self.total, self.last_step = total, step
        parts = self._parts(numbers)
        if self.norm == 2.0:
            squares = [v * v for v in norms]
            watched = {layer: sum(take(squares)[:-1]) ** 0.5 for layer, take in parts}
        else:
            watched = {layer: together(take(norms)[:-1], self.norm) for layer, take in parts}
        self.layers = watched
        self._window.append((total, watched))
        self._record("gradients/norm", None, total, step, time_ns)
        for layer in self._series:
            if layer in watched:
                self._record("gradients/norm", layer, watched[layer], step, time_ns)
        bad = [i for i, v in zip(numbers, norms) if v - v != 0] if total - total != 0 else []
        self._take_bad(bad, step, time_ns)
        if self._state or not self._calm(total, watched):
            self._tell(watched, step, scaled)

    def _calm(self, total: float, watched: dict[str, float]) -> bool:
        """Is nothing beyond a limit, or no number?"""
        most, least = max(watched.values(), default=0.0), min(watched.values(), default=1.0)
        states = [self._state_of(value) for value in (total, most, least)]
        return not any(states) and total - total == 0

    def _layers_of(self, number: int) -> Iterable[str | None]:
        """The labels under which a parameter's bad gradients are counted, and None: the
        series without one."""
        yield None
        if self._wanted is not None:
            yield from (layer for layer, of in self._series.items() if number in of)
            return
        layer = module_of(self._names[number])
        labels = {label for name, label in self._metrics if name == "gradients/bad"}
        yield layer if layer in labels or len(labels) <= LABELS_MAX else "(others)"

    def _take_bad(self, bad: list[int], step: int | None, time_ns: int) -> None:
        counts: dict[str | None, int] = {}
        for number in bad:
            name = self._names[number]
            self.bad[name] = self.bad.get(name, 0) + 1
            for layer in self._layers_of(number):
                counts[layer] = counts.get(layer, 0) + 1
        for layer, count in counts.items():
            self._record("gradients/bad", layer, count, step, time_ns)
        self._suspects = set(bad)

    def _state_of(self, value: float) -> str:
        if value - value != 0:
            return "bad"
        if self.exploding is not None and value > self.exploding:
            return "exploding"
        if self.vanishing is not None and value < self.vanishing:
            return "vanishing"
        return ""

    def _tell(self, watched: dict[str, float], step: int | None, scaled: bool) -> None:
        """One event for each thing that begins at this step, naming where."""
        begins: dict[str, dict[str, float]] = {}
        states = dict(self._state)
        for layer, value in watched.items():
            state = self._state_of(value)
            if state and state != self._state.get(layer):
                begins.setdefault(state, {})[layer] = value
            states[layer] = state
        total = self.total if self.total is not None else 0.0
        state = self._state_of(total)
        if state == "exploding" and state != self._state.get("") and state not in begins:
            top = sorted(watched, key=lambda layer: -watched[layer])[:NAMED_MAX]
            begins[state] = {layer: watched[layer] for layer in top}
        states[""] = state
        self._state = {layer: state for layer, state in states.items() if state}
        for state, where in begins.items():
            self._event(state, where, total, step, scaled)

    def _event(
        self, state: str, where: dict[str, float], total: float, step: int | None, scaled: bool
    ) -> None:
        names = sorted(where, key=lambda layer: -where[layer])
        if state == "vanishing":
            names.reverse()
        limit = {"exploding": self.exploding, "vanishing": self.vanishing}.get(state)
        text = f"gradients {_WORDS[state]}" + ("" if limit is None else f" {limit:g}")
        named = ", ".join(f"{name} ({where[name]:.3g})" for name in names[:4])
        text += f" in {named}" + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        text += f"; total {total:.3g}"
        if state == "bad" and scaled:
            text += "; the scaler leaves this step out and lowers its scale"
        _events.event(
            f"gradient-{state}",
            text,
            "info" if state == "bad" and scaled else "warning",
            layers={name: where[name] for name in names[:NAMED_MAX]},
            total=total,
            limit=limit,
            step=step,
        )

    # ---- elements that are no numbers ----------------------------------------------

    def _count(self, numbers: Iterable[int]) -> None:
        by_device: dict[torch.device, tuple[list[int], list[torch.Tensor]]] = {}
        for number in numbers:
            gradient = self._parameters[number].grad
            values = None if gradient is None else plain(gradient)
            if values is None:
                continue
            if hasattr(values, "to_local"):
                values = values.to_local()
            of, tensors = by_device.setdefault(values.device, ([], []))
            of.append(number)
            tensors += [values.isnan().sum(), values.isinf().sum()]
        for of, tensors in by_device.values():
            later(tensors, partial(self._counted, of))

    def _counted(
        self, numbers: list[int], values: list[float], step: int | None, time_ns: int
    ) -> None:
        counts: dict[tuple[str, str | None], float] = {}
        for k, number in enumerate(numbers):
            for what, value in zip(("nan", "inf"), values[2 * k : 2 * k + 2]):
                if value:
                    self.elements[what] += int(value)
                    for layer in self._layers_of(number):
                        key = (f"gradients/{what}", layer)
                        counts[key] = counts.get(key, 0) + value
        for (name, layer), count in counts.items():
            self._record(name, layer, count, step, time_ns)

    # ---- for the program -------------------------------------------------------------

    def stats(self) -> dict[str, dict[str, float]]:
        """avg, max, min, std and count over the last `window` measured steps, of the norms
        that are finite: of "total", and of each layer."""
        kept: dict[str, list[float]] = {}
        for total, watched in list(self._window):
            kept.setdefault("total", []).append(total)
            for layer, norm in watched.items():
                kept.setdefault(layer, []).append(norm)
        return {layer: moments(values) for layer, values in kept.items()}

    def report(self) -> str:
        """Norms in lines, the largest layers first."""
        lines = [f"{'layer':40} {'norm':>10} {'avg':>10} {'min':>10} {'max':>10}"]
        stats = self.stats()
        last = {"total": self.total if self.total is not None else float("nan")}
        names = sorted(self.layers, key=lambda layer: -self.layers[layer])
        for name in ["total", *names]:
            of = stats.get(name, {})
            value = {**self.layers, **last}[name]
            row = [value, *(of.get(key, float("nan")) for key in ("avg", "min", "max"))]
            lines.append(f"{name[:40]:40} " + " ".join(f"{x:10.4g}" for x in row))
        return "\n".join(lines)
