# SPDX-License-Identifier: Apache-2.0
"""lapse.configure(): which measuring helpers a program wants, said by arguments, the
environment, a YAML file or a dict, and checked by the same parser everywhere."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ._distributed import MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._run import Run

HELPERS = ("gradients", "histograms", "optimizer", "allocator", "gc", "tracemalloc", "compile")
PROFILE = {"dir": "./profiler_traces", "wait": 5, "warmup": 2, "active": 3, "repeat": 1}
# Names in monitoring.metrics, and the helper that measures them.
_METRICS = {
    "gradient_norms": "gradients",
    "gradient_norm": "gradients",
    "grad_norm": "gradients",
    "model_parameters": "histograms",
    "learning_rate": "optimizer",
}
_PLACE = re.compile(r"^.*?:\d+:\d+: ")


@dataclass(frozen=True)
class Plan:
    """What is to be measured; lapse.torch.from_config() makes the helpers of it."""

    helpers: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    layer_stats: bool = False  # each outermost module's gradients, without `layers`
    exploding: bool = True  # gradients that explode are an event
    every: int = 10
    ranks: str = "all"
    profile: dict[str, Any] | None = None  # dir, wait, warmup, active, repeat
    notes: tuple[str, ...] = ()  # what was asked for and has no effect here
    path: str = ""  # the file, "" without one
    run: tuple[tuple[str, Any], ...] = ()  # what the file or dict says to lapse.init()

    def init(self, **arguments: Any) -> Run:
        """lapse.init() with what the file or the dict says; arguments go before that. A
        rank that does not record (ranks) opens no run."""
        from . import _run
        from ._ranks import rank_and_world

        if self.ranks != "all" and rank_and_world()[0] != 0:
            other = _run.Run()
            other.error = f'ranks="{self.ranks}": rank 0 alone records'
            return other
        if self.path:
            arguments.setdefault("settings", self.path)
        elif self.run:
            arguments.setdefault("settings", dict(self.run))
        return _run.init(**arguments)

    def to_dict(self) -> dict[str, Any]:
        """What configure() makes the same plan of."""
        found = asdict(self)
        for name in ("notes", "path", "run"):
            del found[name]
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def _checked(config: Any) -> tuple[dict[str, Any], dict[str, str], list[str], dict[str, Any]]:
    """(values by key, where each is from, notes, settings of init()) of a file, a dict, or
    None: the file of LAPSE_CONFIG."""
    from . import _file

    if config is None or isinstance(config, (str, os.PathLike)):
        arguments = [] if config is None else ["--", os.fsdecode(config)]
        return _of_document(_file.document(*arguments))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        json.dump(dict(config), file, ensure_ascii=False, default=str)
        file.flush()
        try:
            values, sources, notes, run = _of_document(_file.document("--", file.name))
        except ValueError as error:
            raise ValueError(_PLACE.sub("", str(error))) from None
    return values, sources, [_PLACE.sub("", note) for note in notes], run


def _of_document(
    document: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, str], list[str], dict[str, Any]]:
    values, sources, run = {}, {}, {}
    for key in document["keys"]:
        if "value" not in key:
            continue
        values[key["path"]], sources[key["path"]] = key["value"], key["from"]
        if key["python"] and key["from"] == "file":
            run[key["python"]] = key["value"]
    return values, sources, list(document["notes"]), run


def _words(what: str, given: Any, known: Iterable[str]) -> tuple[str, ...]:
    """True: all, False or None: none, text with commas, or a list."""
    if given is None or given is False:
        return ()
    if given is True:
        return tuple(known)
    words = given.split(",") if isinstance(given, str) else list(given)
    found = tuple(str(word).strip() for word in words if str(word).strip())
    for word in found:
        if word not in set(known):
            raise ValueError(f"configure(): {what}: no {word!r}; {_near(word, known)}")
    return found


def _near(word: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _profile(given: Any, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Argument profile: True, False, a dict with some of PROFILE, or None: not given."""
    found = {name: values.get(f"profile.{name}", usual) for name, usual in PROFILE.items()}
    if given is None:
        return found if values.get("profile.enabled") else None
    if isinstance(given, bool):
        return found if given else None
    for name in given:
        if name not in PROFILE:
            raise ValueError(f"configure(): profile: no {name!r}; {_near(name, PROFILE)}")
    return {**found, **given}


def _helpers(values: Mapping[str, Any]) -> tuple[str, ...]:
    """What the file, the dict and the environment ask for, under any of their names."""
    wanted = list(_words("torch.helpers", values.get("torch.helpers"), HELPERS))
    wanted += [_METRICS[word] for word in values.get("monitoring.metrics") or ()
               if word in _METRICS]  # fmt: skip
    if (
        values.get("track_gradients")
        or values.get("torch.layers")
        or values.get("gradient_monitoring.compute_layer_stats")
    ):
        wanted.append("gradients")
    return tuple(name for name in HELPERS if name in wanted)


def _ranks(given: str | None, values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    if given is None:
        given = values.get("torch.ranks") or "all"
        if sources.get("torch.ranks", "default") == "default" and values.get("track_rank_0_only"):
            given = "zero"
    if given not in MODES:
        raise ValueError(f"configure(): ranks: no {given!r}; {_near(str(given), MODES)}")
    return given


def configure(
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    helpers: bool | str | Iterable[str] | None = None,
    layers: str | Iterable[str] | None = None,
    layer_stats: bool | None = None,
    exploding: bool | None = None,
    every: int | None = None,
    ranks: str | None = None,
    profile: bool | Mapping[str, Any] | None = None,
) -> Plan:
    """What a program wants to have measured. Arguments go before environment variables
    (LAPSE_TORCH_HELPERS, LAPSE_PROFILE, ...), these before config: the path of a YAML file,
    a dict with the same keys (docs/config.md), or None: the file of LAPSE_CONFIG, if set.

    helpers: True (all), or some of gradients, histograms, optimizer, allocator, gc,
    tracemalloc, compile. layers: names or patterns of layers; layer_stats: without them
    each outermost module; exploding: an event when gradients explode. every: steps between
    measurements (ten times as many for histograms and tracemalloc, which cost more).
    ranks: "all", "zero" or "aggregate". profile: True, or a dict with some of dir, wait,
    warmup, active, repeat.

    ValueError for an unknown key or a wrong value, with the nearest name. What is known and
    has no effect here is in .notes, and each of them a RuntimeWarning when config is given."""
    if every is not None and every < 1:
        raise ValueError(f"configure(): every is a whole number from 1 on, not {every!r}")
    values, sources, notes, run = _read(config)
    named = os.fspath(config) if isinstance(config, (str, os.PathLike)) else ""
    off = values.get("monitoring.enabled") is False
    if layers is None:
        layers = values.get("torch.layers") or ()
    if helpers is None:
        chosen = () if off else _helpers(values)
    else:
        chosen = _words("helpers", helpers, HELPERS)
    return Plan(
        helpers=chosen,
        layers=tuple(layers.split(",") if isinstance(layers, str) else layers),
        layer_stats=_one(layer_stats, values, "gradient_monitoring.compute_layer_stats", False),
        exploding=_one(exploding, values, "gradient_monitoring.detect_gradient_explosion", True),
        every=every or int(values.get("torch.every") or 10),
        ranks=_ranks(ranks, values, sources),
        profile=None if off and profile is None else _profile(profile, values),
        notes=tuple(notes),
        path=named,
        run=() if named else tuple(run.items()),
    )


def _read(config: Any) -> tuple[dict[str, Any], dict[str, str], list[str], dict[str, Any]]:
    """As _checked(). What is wrong with a file or dict that was given is a ValueError; a
    file of LAPSE_CONFIG that is wrong is left out."""
    from . import _file

    try:
        found = _checked(config)
    except (ValueError, _file.UnreadableError) as error:
        if config is not None:
            raise ValueError(f"configure(): {error}") from None
        if isinstance(error, ValueError):
            warnings.warn(f"lapse.configure(): LAPSE_CONFIG: {error}; it is left out",
                          RuntimeWarning, stacklevel=3)  # fmt: skip
        return {}, {}, [], {}
    for note in found[2] if config is not None else ():
        warnings.warn(f"lapse.configure(): {note}", RuntimeWarning, stacklevel=3)
    return found


def _one(given: bool | None, values: Mapping[str, Any], key: str, usual: bool) -> bool:
    value = values.get(key) if given is None else given
    return usual if value is None else bool(value)


def as_plan(plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None) -> Plan | None:
    """A plan, or what configure() or Plan.to_dict() takes, as a plan."""
    if plan is None or isinstance(plan, Plan):
        return plan
    if isinstance(plan, (str, os.PathLike)) or "helpers" not in plan:
        return configure(plan)
    return configure(**plan)
