# SPDX-License-Identifier: Apache-2.0
"""Histograms of parameters and gradients, made on the device: a bin is a part of an
octave, so its number is the upper bits of the element, and nothing is searched for."""

from __future__ import annotations

import math
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _core
from ._helper import Helper, quiet
from ._later import later
from ._names import Model, matches, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OCTAVES = (-32, 16)  # elements are told apart from 2^-32 up to 2^16
NAMES_MAX = 2048  # histograms of one helper
_HALVES = 256  # octaves that the exponent of a float counts, for each sign


class Counts(NamedTuple):
    """A histogram that has arrived, of the elements that were looked at. edges has one
    more element than counts; those below the first and above the last edge are in the
    outermost bins, or in `outside` of uniform bins. NaN and infinite elements are in none.
    `size`: elements that the tensor has; min, max: of all of them, NaN if one is."""

    step: int | None
    edges: list[float]
    counts: list[int]
    nan: int
    inf: int
    outside: int
    size: int = 0
    min: float = math.nan
    max: float = math.nan

    @property
    def elements(self) -> int:
        """Those that are in a bin."""
        return sum(self.counts)


class _Log:
    """lapse's own scale, 16 bins an octave, or a coarser one that divides it."""

    def __init__(self, per_octave: int) -> None:
        self.per_octave = per_octave
        self.shift = 24 - per_octave.bit_length()
        self.keys = _HALVES * per_octave  # of each sign
        self.low = (127 + OCTAVES[0]) * per_octave
        self.high = (127 + OCTAVES[1]) * per_octave
        each = [self._edge(key) for key in range(self.low, self.high + 1)]
        self.edges = [-x for x in reversed(each)] + each
        self.middles = [(a + b) / 2 for a, b in zip(self.edges, self.edges[1:])]

    def _edge(self, key: int) -> float:
        octave, part = divmod(key, self.per_octave)
        return float(2.0 ** (octave - 127) * (1 + part / self.per_octave))

    def count(self, values: torch.Tensor) -> torch.Tensor:
        """How many elements have each key; a key is the float's sign, exponent and first
        bits of the mantissa."""
        keys = values.float().contiguous().view(torch.int32) >> self.shift
        # Floats count to 2^24 only: integers where they can be counted, else doubles.
        keys = keys if keys.is_cuda else keys.double()
        counts = torch.histc(keys, bins=2 * self.keys, min=-self.keys, max=self.keys)
        return counts if counts.is_cuda else counts.long()

    def take(self, row: list[Any], step: int | None) -> Counts:
        # The first half of the keys has the sign bit, so is negative; its keys ascend
        # with the magnitude, those of infinity and NaN come last.
        end = 255 * self.per_octave
        halves = row[: self.keys], row[self.keys :]
        negative, positive = (half[self.low : self.high] for half in halves)
        for half, bins in zip(halves, (negative, positive)):
            bins[-1] += sum(half[self.high : end])
        near = sum(sum(half[: self.low]) for half in halves)
        inf = sum(half[end] for half in halves)
        nan = sum(sum(half[end + 1 :]) for half in halves)
        return Counts(step, self.edges, [*negative[::-1], near, *positive], nan, inf, 0)


class _Uniform:
    """Bins of one width between two limits."""

    def __init__(self, bins: int, low: float, high: float) -> None:
        self.bins, self.low, self.high = bins, low, high
        self.edges = [low + (high - low) * i / bins for i in range(bins + 1)]
        self.middles = [(a + b) / 2 for a, b in zip(self.edges, self.edges[1:])]

    def count(self, values: torch.Tensor) -> torch.Tensor:
        # On the CPU older versions take NaN for a number; on CUDA choosing would wait.
        wide = values.float() if values.is_cuda else values[values.isfinite()].double()
        bins = torch.histc(wide, bins=self.bins, min=self.low, max=self.high)
        nan, inf = values.isnan().sum(), values.isinf().sum()
        size = torch.full((), float(values.numel()), dtype=bins.dtype, device=bins.device)
        head = torch.stack([nan.to(bins.dtype), inf.to(bins.dtype), size])
        return torch.cat([head, bins])

    def take(self, row: list[Any], step: int | None) -> Counts:
        nan, inf, size, *counts = (int(x) for x in row)
        return Counts(step, self.edges, counts, nan, inf, size - nan - inf - sum(counts))


class _Found:
    """What is counted at one step on one device."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.counts: list[torch.Tensor] = []
        self.ends: list[torch.Tensor] = []  # least and greatest, of each
        self._ends: list[float] = []

    def ends_arrived(self, values: list[float], step: int | None, time_ns: int) -> None:
        self._ends = values

    def ends_of(self, k: int) -> tuple[float, float]:
        low, high = self._ends[2 * k : 2 * k + 2] or (math.nan, math.nan)
        return low, high


def shares(counts: list[int], points: int) -> list[int]:
    """Counts made smaller to `points` together, or a few more: what was there at all stays
    at least 1. Fewer stay as they are."""
    total = sum(counts)
    if total <= points:
        return counts
    half = total // 2
    return [(c * points + half) // total or 1 for c in counts]


def _flat(values: torch.Tensor) -> torch.Tensor:
    """Its elements in one dimension, in whichever order: not copied if it is dense."""
    if not values.is_contiguous():
        strides = values.stride()
        values = values.permute(sorted(range(values.dim()), key=lambda d: -strides[d]))
    return values.reshape(-1)


def stride_for(n: int, most: int) -> int:
    """To take at most so many of n elements evenly. It shares no factor with n, so that
    of a matrix it does not meet the same columns in each row."""
    stride = -(-n // most)
    while math.gcd(stride, n) > 1 and stride < n:
        stride += 1
    return stride


class Histograms(Helper):
    """Histograms of a model's parameters and gradients.

        histograms = lapse.torch.Histograms(model)
        loss.backward()
        histograms.step()               # before zero_grad()

    Each tensor is looked at once in `every` steps, at different steps, so that no step has
    all the work; at no more than `elements` of it, evenly spread (None: at all of them), and
    at all for the least and the greatest. bins: None: lapse's own scale, made coarser to
    `per_octave` bins (1, 2, 4, 8 or 16) for each power of two, from 2^-32 to 2^16; or a
    number of bins of one width between `limits`. names: parameters by name or glob (None:
    all); `gradients` and `parameters` say of what.

    A histogram is recorded as at most about `points` observations in the proportion of the
    counts, because a record for each element would be too many; each bin that holds
    anything has at least one, and so have the least and the greatest element. `last` has
    the counts themselves: {"gradients/NAME": Counts}. Of distributed tensors each rank
    counts the part that it holds."""

    def __init__(
        self,
        model: Model,
        every: int = 1000,
        bins: int | None = None,
        limits: tuple[float, float] | None = None,
        per_octave: int = 4,
        names: str | Iterable[str] | None = None,
        parameters: bool = True,
        gradients: bool = True,
        points: int = 256,
        elements: int | None = 1 << 20,
    ) -> None:
        super().__init__(every)
        if per_octave not in (1, 2, 4, 8, 16):
            raise ValueError(f"Histograms: per_octave is 1, 2, 4, 8 or 16, not {per_octave!r}")
        if (bins is None) != (limits is None):
            raise ValueError("Histograms: bins of one width need limits, and limits need bins")
        self._scale: _Log | _Uniform = _Log(per_octave)
        if bins is not None and limits is not None:
            if bins < 1 or not limits[0] < limits[1]:
                raise ValueError(f"Histograms: bins={bins!r}, limits={limits!r}")
            self._scale = _Uniform(bins, *limits)
        if not 1 <= points <= 32768:
            raise ValueError(f"Histograms: points is 1 to 32768, not {points!r}")
        if elements is not None and elements < 1:
            raise ValueError(f"Histograms: elements is 1 or more, or None, not {elements!r}")
        self.points, self.elements = points, elements
        self.last: dict[str, Counts] = {}
        self._model, self._wanted = model, [names] if isinstance(names, str) else names
        self._kinds = [k for k, on in (("parameters", parameters), ("gradients", gradients)) if on]
        self._metrics: dict[str, _core.Metric] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the model's parameters again; the first step() does it by itself."""
        pairs = parameters(self._model)
        if not isinstance(self._model, torch.nn.Module):
            self._model = pairs
        if self._wanted is not None:
            self._wanted = list(self._wanted)
            pairs = [p for p in pairs if any(matches(p[0], w) for w in self._wanted)]
        self._tensors = [(f"{kind}/{name}", p) for kind in self._kinds for name, p in pairs]
        if not self._tensors:
            raise ValueError("Histograms: there is no parameter of these names")
        if len(self._tensors) > NAMES_MAX:
            raise ValueError(
                f"Histograms: {len(self._tensors)} histograms, more than {NAMES_MAX}: "
                "choose some by names="
            )

    @quiet
    def step(self) -> None:
        """Count what is due at this step: after backward(), before zero_grad().
        No waiting for a device."""
        turn = self._calls % self.every
        first = not self._calls
        self._calls += 1
        if self.reason:
            return
        if first:
            self.refresh()
        n = len(self._tensors)
        # Those i with i * every // n == turn.
        due = self._tensors[-(-turn * n // self.every) : -(-(turn + 1) * n // self.every)]
        if due:
            with torch.no_grad():
                self._measure(due)

    def _measure(self, due: Sequence[tuple[str, torch.Tensor]]) -> None:
        found: dict[torch.device, _Found] = {}
        for name, parameter in due:
            values = parameter.grad if name.startswith("gradients/") else parameter.detach()
            if values is None or not values.is_floating_point():
                continue
            if hasattr(values, "to_local"):
                values = values.to_local()
            if values.layout is torch.strided and values.numel():
                of = found.get(values.device)
                if of is None:
                    of = found[values.device] = _Found()
                self._count(of, name, _flat(values))
        for of in found.values():
            later(of.ends, of.ends_arrived)  # on the same stream: it arrives first
            later(of.counts, partial(self._arrived, of))

    def _count(self, of: _Found, name: str, values: torch.Tensor) -> None:
        of.names.append(name)
        n = values.numel()
        of.sizes.append(n)
        half = values.dtype is torch.float16 and not values.is_cuda  # not in older versions
        of.ends += (values.float() if half else values).aminmax()
        if self.elements is not None and n > self.elements:
            values = values[:: stride_for(n, self.elements)]
        of.counts.append(self._scale.count(values))

    def _arrived(self, of: _Found, values: list[float], step: int | None, time_ns: int) -> None:
        width = len(values) // len(of.names)
        for k, name in enumerate(of.names):
            low, high = of.ends_of(k)
            counts = self._scale.take(values[k * width : (k + 1) * width], step)
            counts = counts._replace(size=of.sizes[k], min=low, max=high)
            self.last[name] = counts
            self._record(name, counts, step, time_ns)

    def _record(self, name: str, of: Counts, step: int | None, time_ns: int) -> None:
        metric = self._metrics.get(name)
        if metric is None:
            metric = _core.metric(name, "1", "histogram", "of the elements; a sample of them")
            self._metrics[name] = metric
        middles = list(compress(self._scale.middles, of.counts))
        counts = shares([count for count in of.counts if count], self.points)
        if of.elements + of.nan + of.inf + of.outside < of.size:
            ends = [end for end in (of.min, of.max) if end - end == 0]
            middles, counts = middles + ends, counts + [1] * len(ends)
        metric.observe_bins(middles, counts, step, time_ns)

    def document(self, name: str) -> dict[str, Any]:
        """A histogram in the form that TensorBoard's writer takes: limits of the bins that
        hold anything, and counts."""
        of = self.last[name]
        held = [i for i, count in enumerate(of.counts) if count]
        return {
            "bucket_limits": [of.edges[i + 1] for i in held],
            "bucket_counts": [of.counts[i] for i in held],
            "num": of.elements,
        }
