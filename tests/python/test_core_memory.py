# SPDX-License-Identifier: Apache-2.0
"""References: each call, its errors included, keeps no object too many and gives
none away."""

import gc
import sys
import tracemalloc
import warnings

import pytest

LOOPS = 2000


class Broken:
    def __float__(self):
        raise ZeroDivisionError


def enter(thing):
    with thing:
        pass


def raises(thing):
    with thing:
        raise ZeroDivisionError


def quiet(call):
    try:
        call()
    except Exception:
        pass


def calls(lapse):
    """name: (call, an object that it is given)."""
    key, text = "a key of its own" * 2, "some text" * 20
    number = float("12345.678")
    step = 10**15
    broken = Broken()
    name = "name of a metric" * 2
    metric, counter = lapse.metric(name), lapse.metric("c", kind="counter")
    span = lapse.span("span")
    plain = lambda *args, **kwargs: kwargs  # noqa: E731
    decorated, decorated_bad = span(plain), span(raises)
    deep = {"a": {"b": {"c": number}}}
    loop = {}
    loop["again"] = loop
    labels = {"label": text}
    return {
        "log": (lambda: lapse.log({key: number}, step, lapse.now()), key),
        "log value": (lambda: lapse.log({"x": number}), number),
        "log nested": (lambda: lapse.log(deep), deep),
        "log refused": (lambda: lapse.log({"refused": text}), text),
        "log broken": (lambda: lapse.log({"broken here": broken}), broken),
        "log too deep": (lambda: lapse.log(loop), loop),
        "log many": (lambda: lapse.log({f"m{i}": number for i in range(200)}), number),
        "log bad step": (lambda: lapse.log({"x": 1}, text), text),
        "log bad keyword": (lambda: lapse.log({"x": 1}, **{key: 1}), key),
        "log twice": (lambda: lapse.log({"x": 1}, values=text), text),
        "metric": (lambda: lapse.metric(name, text, "gauge", text, labels), name),
        "metric labels": (lambda: lapse.metric(name, labels=labels), text),
        "metric bad kind": (lambda: lapse.metric(name, kind=text), text),
        "metric bad labels": (lambda: lapse.metric(name, labels={"a": broken, "b": text}), text),
        "set": (lambda: metric.set(number), number),
        "set broken": (lambda: metric.set(broken), broken),
        "set_at": (lambda: metric.set_at(number, step, lapse.now()), step),
        "add": (lambda: counter.add(number), number),
        "name": (lambda: metric.name, metric.name),
        "span": (lambda: lapse.span("span"), span),
        "with span": (lambda: span.__exit__(span.__enter__() and None, None, None), span),
        "enter span": (lambda: enter(span), span),
        "enter by name": (lambda: enter(lapse.span("span")), span),
        "span raises": (lambda: raises(span), span),
        "methods": (lambda: (span.__enter__, type(span).__exit__, span.__exit__), span),
        "methods bad": (lambda: vars(type(span))["__exit__"].__get__(step), step),
        "call": (lambda: decorated(number, key, a=text), text),
        "call function": (decorated, plain),
        "call span": (decorated, span),
        "call bad": (lambda: decorated_bad(number), number),
        "call raises": (lambda: decorated_bad(span), span),
        "begin end": (lambda: span.end(span.begin()), span),
        "span bad": (lambda: lapse.span(step), step),
        "decorate": (lambda: span(quiet), quiet),
        "decorate bad": (lambda: span(text), text),
        "step": (lambda: lapse.step(step, number, number).__enter__(), number),
        "enter step": (lambda: enter(lapse.step(step, number, number)), number),
        "step raises": (lambda: raises(lapse.step()), number),
        "steps at once": (lambda: [lapse.step(step) for _ in range(3)], step),
        "step bad": (lambda: lapse.step(text), text),
        "event": (lambda: lapse.event("kind", text, a=text), text),
        "attr": (lambda: lapse.attr(key, text), text),
        "stats": (lapse.stats, number),
    }


NAMES = list(calls(__import__("lapse")))


@pytest.mark.parametrize("name", NAMES)
def test_references(recording, name):
    call, given = calls(recording)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(10):
            quiet(call)
        gc.collect()
        before = sys.getrefcount(given)
        for _ in range(LOOPS):
            quiet(call)
        gc.collect()
    assert abs(sys.getrefcount(given) - before) < 10


@pytest.mark.parametrize("name", NAMES)
def test_memory(recording, name):
    call, _ = calls(recording)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(50):
            quiet(call)
        gc.collect()
        tracemalloc.start()
        try:
            # Free lists fill up in the first loop.
            sizes = []
            for _ in range(2):
                for _ in range(LOOPS):
                    quiet(call)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    # An object leaked at each call is at least 16 bytes.
    assert sizes[1] - sizes[0] < LOOPS * 8


def test_cycles_are_collected(recording):
    """Types take part in the collection of garbage."""
    for thing in (recording.metric("m"), recording.span("s"), recording.step()):
        assert gc.is_tracked(thing)
