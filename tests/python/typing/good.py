# SPDX-License-Identifier: Apache-2.0
"""A use of each name: mypy --strict must accept it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import lapse


class Tensor:
    def __float__(self) -> float:
        return 1.0


@lapse.span("function")
def function(x: int, *, y: str = "") -> bool:
    return bool(x) or bool(y)


@lapse.span("generator")
def generator() -> Iterator[int]:
    yield 1


@lapse.span("coroutine")
async def coroutine(x: int) -> str:
    return str(x)


@lapse.span("asyncgen")
async def asyncgen() -> AsyncIterator[int]:
    yield 1


def train() -> float:
    run: lapse.Run = lapse.init(
        project="p",
        name="n",
        config={"lr": 1e-3},
        dir=Path("runs"),
        tags=["a"],
        notes="text",
        rank=0,
        settings={"ring_kib": 1024},
        capture={"git", "exit"},
    )
    loss: lapse.Metric = lapse.metric("loss", unit="nat", kind="histogram", labels={"a": 1})
    lapse.init(settings=Path("lapse.yaml"))
    lapse.init(settings="lapse.yaml")
    forward: lapse.Span = lapse.span("forward")
    with run, lapse.epoch(0):
        with lapse.step(samples=4, tokens=Tensor()), forward:
            loss.observe(Tensor())
        lapse.log({"loss": Tensor(), "o": {"lr": 1}}, step=3, time=lapse.now())
        loss.set_at(1, step=None, time_ns=lapse.now())
    lapse.event("eval", "good", severity="warning", top=0.5)
    lapse.attr("key", 3)
    lapse.artifact(Path("x"), kind="file")
    lapse.rank(0, world_size=1)
    lapse.heartbeat()
    ok: bool = function(3, y="x")
    item: int = next(generator())
    text: str = asyncio.run(coroutine(1))
    recording: bool = run.recording
    why: str = run.error + run.id + text
    lapse.finish(exit_code=0)
    reader: lapse.RunReader = lapse.open_run("last", dir=Path("runs"))
    names: list[str] = [series.name for series in reader.series("loss*")]
    dropped: int = lapse.stats()["dropped"]
    return float(ok + item + recording + len(why) + dropped + len(names))
