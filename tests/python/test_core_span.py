# SPDX-License-Identifier: Apache-2.0
"""Spans and steps: over exceptions, threads, generators and coroutines."""

import asyncio
import contextlib
import functools
import gc
import importlib.util
import inspect
import pickle
import sys
import threading
import types

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


def test_a_decorated_function_is_called_as_before(recording):
    seen = []

    @recording.span("called")
    def function(a, *rest, b=2, **more):
        seen.append((a, rest, b, more))
        return seen[-1]

    assert inspect.isfunction(function)
    before = recording.stats()["accepted"]
    assert function(1) == (1, (), 2, {})
    assert function(1, 2, b=3, c=4) == (1, (2,), 3, {"c": 4})
    assert function(*(1, 2), **{"c": 3}) == (1, (2,), 2, {"c": 3})
    assert list(map(function, "x")) == [("x", (), 2, {})]
    assert functools.partial(function, 1, c=2)(3) == (1, (3,), 2, {"c": 2})
    assert recording.stats()["accepted"] - before == 5
    for _ in range(2):  # a place that has been called before goes another way
        for bad in ((), {"b": 1}), ((1,), {"a": 1}):
            with pytest.raises(TypeError, match=r"function\(\)"):
                function(*bad[0], **bad[1])
    assert recording.stats()["accepted"] - before == 9
    # A copy, as tools that rewrite functions make it, runs the wrapper's own code.
    copy = types.FunctionType(function.__code__, {}, closure=function.__closure__)
    assert copy(1) == (1, (), 2, {})
    assert recording.stats()["accepted"] - before == 10


def test_an_exception_goes_through_a_function(recording):
    @recording.span("fails")
    def fail(n):
        if n == 0:
            raise ZeroDivisionError
        fail(n - 1)

    before = recording.stats()["accepted"]
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail(3)
    assert recording.stats()["accepted"] - before == 12


def test_recursion_without_end(place):
    """RecursionError, also where the limit is high: no crash."""
    out = place.run("""
        import lapse, sys
        lapse.init(capture=False)
        @lapse.span("endless")
        def endless(n): return endless(n + 1)
        for limit in (1000, 20000) if sys.version_info >= (3, 12) else (1000, 3000):
            sys.setrecursionlimit(limit)
            try: endless(0)
            except RecursionError: print("caught")
    """).stdout
    assert out == "caught\n" * 2


def test_the_cells_of_a_wrapper_can_be_written_to(recording):
    @recording.span("cells")
    def function():
        return 1

    cells = dict(zip(function.__code__.co_freevars, function.__closure__))
    assert sorted(cells) == ["function", "span"]
    cells["function"].cell_contents = lambda: 2
    assert [function() for _ in range(3)] == [2, 2, 2]
    for other in (None, "span", recording.metric("m"), recording.step()):
        cells["span"].cell_contents = other
        if other.__class__ is not recording.Step:
            with pytest.raises((TypeError, AttributeError)):
                function()
    del cells["span"].cell_contents
    with pytest.raises((TypeError, NameError)):
        function()
    for wrong in (None, len, lambda: 1, function):
        with pytest.raises(TypeError):
            recording._core.quicken(wrong)


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
            with lapse.span("use"):     # the user's time, not the generator's
                time.sleep(0.02)
    """)
    rows = sorted(run.spans("load") + run.spans("use"), key=lambda row: row["time_ns"])
    names = [run.names[row["series"]]["name"] for row in rows]
    assert names == ["load", "use"] * 3 + ["load"]  # the last one finds that there is none
    for row, after in zip(rows, rows[1:]):
        assert row["time_ns"] + row["duration_ns"] <= after["time_ns"]
    assert all(row["duration_ns"] >= 10_000_000 for row in run.spans("load")[:3])


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
    """Which begin and end one within the other, and one across the other."""
    run = place.script("""
        import asyncio, lapse
        lapse.init()
        @lapse.span("fetch")
        async def fetch(event):
            await event.wait()
        async def main():
            events = [asyncio.Event() for _ in range(3)]
            tasks = [asyncio.create_task(fetch(event)) for event in events]
            await asyncio.sleep(0)
            for i in (1, 0, 2):
                with lapse.span("held"):
                    await asyncio.sleep(0.002)
                events[i].set()
                await tasks[i]
        asyncio.run(main())
    """)
    first, second, third = (row["time_ns"] + row["duration_ns"] for row in run.spans("fetch"))
    held = [row["time_ns"] + row["duration_ns"] for row in run.spans("held")]
    assert held[0] <= second <= held[1] <= first <= held[2] <= third


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


@pytest.mark.parametrize("make", ["span", "step"])
def test_enter_and_exit_are_methods(recording, make):
    """However they are found: on the object, on the type, through __get__()."""
    thing = recording.span("methods") if make == "span" else recording.step()
    other = recording.step() if make == "span" else recording.span("methods")
    cls = type(thing)
    for name, signature in ("__enter__", "()"), ("__exit__", "(*exception)"):
        bound, plain = getattr(thing, name), getattr(cls, name)
        assert bound == getattr(thing, name)
        assert bound != getattr(other, name)
        assert isinstance(bound, types.BuiltinMethodType)
        assert (bound.__self__, bound.__name__) == (thing, name)
        assert bound.__qualname__ == f"{cls.__name__}.{name}"
        assert bound.__doc__ and bound.__doc__ == plain.__doc__
        assert str(inspect.signature(bound)) == signature
        assert isinstance(plain, types.MethodDescriptorType)
        assert (plain.__name__, plain.__objclass__) == (name, cls)
        found = cls.__dict__[name]
        assert found.__get__(thing) == found.__get__(thing, cls) == bound
        assert found.__get__(None, cls) is plain
        for wrong in (1, other, cls):
            with pytest.raises(TypeError, match="doesn't apply to"):
                found.__get__(wrong)
        with pytest.raises(TypeError):
            found.__get__(None, None)
        for bad in (), (1,), (other,):
            with pytest.raises(TypeError):
                plain(*bad)
        with pytest.raises((TypeError, AttributeError)):
            setattr(thing, name, None)
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(bound)
    assert cls.__enter__(thing) is thing
    assert cls.__exit__(thing, None, None, None) is False
    assert thing.__exit__() is False
    with pytest.raises(TypeError):
        thing.__enter__(1)
    with pytest.raises(TypeError):
        type("Sub", (cls,), {})


def test_exit_stacks(recording):
    """These look the methods up on the type and call them with the object."""
    span = recording.span("stacked")
    assert isinstance(span, contextlib.AbstractContextManager)
    before = recording.stats()["accepted"]
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(span) is span
        assert stack.enter_context(span) is span
        step = recording.step(10**9, samples=1)
        assert stack.enter_context(step) is step
        stack.push(span)  # its __exit__ alone: nothing to end is left for it
    assert recording.stats()["accepted"] - before == 3

    async def use():
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(span)

    asyncio.run(use())
    assert recording.stats()["accepted"] - before == 4


def test_a_method_that_is_kept_outlives_what_made_it(recording):
    enter, leave = recording.span("outlives").__enter__, recording.span("outlives").__exit__
    before = recording.stats()["accepted"]
    gc.collect()
    assert enter() is recording.span("outlives")
    assert leave(None, None, None) is False
    assert recording.stats()["accepted"] - before == 1


def test_steps_at_once_are_different_objects(recording):
    """A step's object is used again, but not while somebody has it."""
    one, two = recording.step(1), recording.step(2)
    assert one is not two
    del one, two
    kept = [recording.step() for _ in range(3)] + [recording.step().__enter__]
    assert len({id(getattr(k, "__self__", k)) for k in kept}) == 4
    del kept
    for name in "__enter__", "__exit__":
        kept = getattr(recording.step(), name)
        assert recording.step() is not kept.__self__
        del kept
    inside = []
    with recording.step():  # nothing but its __exit__ is held here
        inside += [recording.step(), recording.step()]
    assert recording.step() not in inside
    del inside
    with recording.step() as outer:
        with recording.step() as inner:
            assert inner is not outer
        with recording.step():
            assert recording.step() is not outer

    def generator():
        with recording.step() as step:
            yield step

    first, second = generator(), generator()
    assert next(first) is not next(second)
    first.close()
    second.close()


def test_steps_keep_what_they_were_given(place):
    run = place.script("""
        import lapse
        lapse.init(capture=False)
        later = lapse.step(20, samples=7, tokens=8)
        for i in range(3):
            with lapse.step(i, samples=i + 1, tokens=10 * i):
                lapse.step(99, samples=99)      # made, not entered
        with lapse.step(3):
            pass
        with later:
            pass
    """)
    assert run.steps("lapse/step/samples") == [0, 1, 2, 20]
    assert run.values("lapse/step/samples") == [1, 2, 3, 7]
    assert run.values("lapse/step/tokens") == [0, 10, 20, 8]


def test_a_generator_that_is_left_with_a_span_open(recording):
    span, inner = recording.span("left open"), recording.span("inner")

    def generator():
        with span:
            yield 1
            with inner:
                yield 2

    before = recording.stats()["accepted"]
    many = [generator() for _ in range(5)]
    for g in many:
        assert next(g) == 1
    with inner:
        assert [next(g) for g in many[::2]] == [2, 2, 2]
    del g, many  # closes them: GeneratorExit goes through `with`
    gc.collect()
    assert recording.stats()["accepted"] - before == 5 + 3 + 1


def test_a_module_is_collected_with_its_spans():
    """Types, methods and objects refer to each other, and go together."""
    name = "lapse._core"

    def use():
        spec = importlib.util.spec_from_file_location(name, sys.modules[name].__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.Span is not sys.modules[name].Span
        with module.step(), module.span("of another module") as span:
            assert span.__enter__.__self__ is span

    def alive():
        gc.collect()
        names = ("Span", "Step", "KeptMethod")
        return sum(
            type(o).__name__ in names or getattr(o, "__name__", "") in names
            for o in gc.get_objects()
            if isinstance(o, type) or type(o).__module__ == name
        )

    use()
    before = alive()
    for _ in range(5):
        use()
    assert alive() == before


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


def test_names_are_told_apart(recording):
    """Names that come and go have each other's addresses."""

    class Name(str):
        __slots__ = ()

    for _ in range(2):
        for i in range(500):
            assert recording.span(f"name{i}").name == f"name{i}"
            assert recording.span(Name(f"name{i}")) is recording.span(f"name{i}")
    names = [f"literal{i}" for i in range(50)]
    spans = [recording.span(name) for name in names]
    for _ in range(3):
        assert [recording.span(name) for name in names] == spans
    assert [span.name for span in spans] == names


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
