# SPDX-License-Identifier: Apache-2.0
"""Spans and steps: over exceptions, threads, generators and coroutines."""

import asyncio
import inspect
import threading

import pytest


def test_steps_and_spans_are_stored(place):
    run = place.script("""
        import lapse, time
        lapse.init()
        for i in range(3):
            with lapse.step(samples=8, tokens=64):
                with lapse.span("outer"):
                    with lapse.span("inner"):
                        time.sleep(0.02)
                lapse.log({"loss": i})
        with lapse.step(10):
            pass
        lapse.step_begin(); lapse.step_end(2, 3)      # the last one plus 1
        with lapse.epoch(4):
            pass
    """)
    assert [row["step"] for row in run.spans("outer")] == [0, 1, 2]
    assert [row["step"] for row in run.spans("inner")] == [0, 1, 2]
    for outer, inner in zip(run.spans("outer"), run.spans("inner")):
        assert outer["time_ns"] <= inner["time_ns"]
        assert outer["duration_ns"] >= inner["duration_ns"] >= 20_000_000
    assert run.steps("loss") == [0, 1, 2]
    assert run.steps("lapse/step/samples") == [0, 1, 2, 11]
    assert run.values("lapse/step/samples") == [8, 8, 8, 2]
    assert run.values("lapse/step/tokens") == [64, 64, 64, 3]


def test_an_exception_passes_and_the_step_is_not_done(place):
    run = place.script("""
        import lapse
        lapse.init(capture=False)
        for i in range(3):
            try:
                with lapse.step(samples=1), lapse.span("work"):
                    if i == 1: raise ZeroDivisionError
            except ZeroDivisionError:
                print("passed")
    """)
    assert run.stdout == "passed\n"
    assert [row["step"] for row in run.spans("work")] == [0, 1, 2]
    assert run.steps("lapse/step/samples") == [0, 2]


def test_threads_share_a_span(place):
    run = place.script("""
        import lapse, threading
        lapse.init()
        span = lapse.span("shared")
        inside = threading.Barrier(4)
        def work():
            for i in range(5):
                with span, lapse.span("other"):
                    inside.wait()
        threads = [threading.Thread(target=work) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
    """)
    for name in ("shared", "other"):
        spans = run.spans(name)
        assert len(spans) == 20
        assert len({row["thread"] for row in spans}) == 4


def test_decorated_things_stay_what_they_were(recording):
    span = recording.span("decorated")

    @span
    def function(a: int, b: int = 2) -> int:
        """Its text."""
        return a + b

    @span
    def generator():
        got = yield 1
        yield got
        return 3

    @span
    async def coroutine():
        await asyncio.sleep(0)
        return 4

    @span
    async def asyncgen():
        got = yield 5
        yield got

    assert (function(1), function(1, b=1)) == (3, 2)
    assert (function.__name__, function.__doc__) == ("function", "Its text.")
    assert str(inspect.signature(function)).startswith("(a: ")
    assert inspect.isgeneratorfunction(generator)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isasyncgenfunction(asyncgen)
    g = generator()
    assert (next(g), g.send("sent")) == (1, "sent")
    with pytest.raises(StopIteration) as stop:
        next(g)
    assert stop.value.value == 3
    assert asyncio.run(coroutine()) == 4

    async def use():
        a = asyncgen()
        return [await a.asend(None), await a.asend("sent")]

    assert asyncio.run(use()) == [5, "sent"]


def test_methods(recording):
    class Model:
        @recording.span("forward")
        def forward(self, x):
            return x

        @recording.span("static")
        @staticmethod
        def static(x):
            return x

        @recording.span("class")
        @classmethod
        def of_class(cls):
            return cls

    assert Model().forward(1) == 1
    assert Model.static(2) == 2
    assert Model.of_class() is Model


def test_a_generator_has_a_span_for_each_item(place):
    run = place.script("""
        import lapse, time
        lapse.init()
        @lapse.span("load")
        def batches():
            for i in range(3):
                time.sleep(0.01)
                yield i
        for i in batches():
            time.sleep(0.2)         # the user's time, not the generator's
    """)
    assert len(run.spans("load")) == 4  # the last one finds that there is none
    assert all(row["duration_ns"] < 150_000_000 for row in run.spans("load"))


def test_a_generator_is_closed_and_thrown_into(recording):
    seen = []

    @recording.span("generator")
    def generator():
        try:
            while True:
                try:
                    yield len(seen)
                except ValueError as error:
                    seen.append(error)
        finally:
            seen.append("closed")

    g = generator()
    assert next(g) == 0
    error = ValueError()
    assert g.throw(error) == 1
    with pytest.raises(ZeroDivisionError):
        g.throw(ZeroDivisionError())
    assert seen == [error, "closed"]
    g = generator()
    next(g)
    g.close()
    assert seen[2:] == ["closed"]


def test_coroutines_each_have_their_own_span(place):
    run = place.script("""
        import asyncio, lapse
        lapse.init()
        @lapse.span("fetch")
        async def fetch(seconds):
            await asyncio.sleep(seconds)
        async def main():
            await asyncio.gather(fetch(0.3), fetch(0.01))
        asyncio.run(main())
    """)
    first, second = run.spans("fetch")  # by start
    assert first["duration_ns"] > 300_000_000 > second["duration_ns"]


def test_an_exception_goes_through_a_coroutine(recording):
    @recording.span("coroutine")
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())


def test_deep_recursion(recording):
    """More open spans than are kept: nothing but the deepest are lost."""
    span = recording.span("deep")

    def dive(n):
        with span:
            return dive(n - 1) if n else "bottom"

    before = recording.stats()["accepted"]
    assert dive(400) == "bottom"
    assert recording.stats()["accepted"] - before == 256
    with span:
        pass
    assert recording.stats()["accepted"] - before == 257


def test_an_exit_without_an_enter(recording):
    assert recording.span("never entered").__exit__(None, None, None) is False


def test_ends_out_of_order(recording):
    a, b = recording.span("a"), recording.span("b")
    before = recording.stats()["accepted"]
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    assert recording.stats()["accepted"] - before == 2


def test_the_object_of_a_name_is_made_once(recording):
    assert recording.span("once") is recording.span("".join(["on", "ce"]))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(recording.span("of threads")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({span.name for span in found}) == 1
    assert repr(found[0]) == "<lapse.Span 'of threads'>"


@pytest.mark.parametrize("token", [b"", b"x" * 15, None, "text", b"x" * 17])
def test_a_wrong_token(recording, token):
    with pytest.raises(TypeError):
        recording.span("token").end(token)
    recording.span("token").end(b"\xff" * 16)  # not ours: nothing happens


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda lapse: lapse.span()),
        (TypeError, lambda lapse: lapse.span(1)),
        (ValueError, lambda lapse: lapse.span("")),
        (UnicodeEncodeError, lambda lapse: lapse.span("\udc80")),
        (TypeError, lambda lapse: lapse.span("x")(1)),
        (TypeError, lambda lapse: lapse.span("x")(dict)),
        (TypeError, lambda lapse: lapse.span("x")()),
        (TypeError, lambda lapse: lapse.span("x")(len, key=1)),
        (TypeError, lambda lapse: lapse.step("1")),
        (TypeError, lambda lapse: lapse.step(samples="1")),
        (TypeError, lambda lapse: lapse.step(bad=1)),
        (OverflowError, lambda lapse: lapse.step(2**63)),
        (TypeError, lambda lapse: lapse.step_end("1")),
        (TypeError, lambda lapse: type(lapse.span("x"))()),
        (TypeError, lambda lapse: type(lapse.step())()),
    ],
)
def test_bad_arguments(recording, error, call):
    with pytest.raises(error):
        call(recording)
