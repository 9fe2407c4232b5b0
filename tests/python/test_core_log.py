# SPDX-License-Identifier: Apache-2.0
"""log() and metrics: what is taken, what is refused, and what is stored of it."""

import warnings

import pytest


class Scalar:
    """Like a 0-d tensor: a number by __float__ alone."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


def refused(lapse, value, key):
    """The warnings that a value under a key of its own gives, logged twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lapse.log({key: value})
        lapse.log({key: value})
    return [str(w.message) for w in caught]


def test_values_are_stored(place):
    run = place.script("""
        import lapse, math
        class Scalar:
            def __float__(self): return 2.5
        class Index:
            def __index__(self): return 7
        lapse.init()
        lapse.log({"float": 0.1, "int": -3, "bool": True, "scalar": Scalar(), "index": Index(),
                   "nan": math.nan, "inf": math.inf, "big": 2**70,
                   "outer": {"inner": 1, "deep": {"er": 2}}, 5: 6}, step=40)
        lapse.log({"outer": {"inner": 3}}, step=41, time=1_700_000_000_000_000_000)
    """)
    assert run.values("float") == [0.1]
    assert run.values("int") == [-3]
    assert run.values("bool") == [1]
    assert run.values("scalar") == [2.5]
    assert run.values("index") == [7]
    assert run.values("nan") == ["NaN"]
    assert run.values("inf") == ["Infinity"]
    assert run.values("big") == [2.0**70]
    assert run.values("outer/deep/er") == [2]
    assert run.values("5") == [6]
    inner = run.of("sample", "outer/inner")
    assert [(row["step"], row["value"]) for row in inner] == [(41, 3), (40, 1)]
    assert inner[0]["time_ns"] == 1_700_000_000_000_000_000
    frame = {row["time_ns"] for row in run.rows if row["type"] == "sample" and row["step"] == 40}
    assert len(frame) == 1


def test_a_frame_of_many(place):
    run = place.script("""
        import lapse
        lapse.init()
        lapse.log({f"m{i}": i for i in range(3000)}, step=1)
        print(lapse.stats()["dropped"])
    """)
    assert run.stdout == "0\n"
    assert [run.values(f"m{i}") for i in (0, 64, 1024, 2999)] == [[0], [64], [1024], [2999]]


def test_metrics_are_stored(place):
    run = place.script("""
        import lapse
        early = lapse.metric("early")     # before init()
        lapse.init()
        early.set(1)
        gauge = lapse.metric("loss", unit="nat", help="training loss", labels={"b": 2, "a": "x"})
        counter = lapse.metric("seen", unit="1", kind="counter")
        histogram = lapse.metric("wait", unit="s", kind="histogram")
        with lapse.step(10):
            gauge.set(4)
            counter.add(2); counter.add(3)
            for i in range(4): histogram.observe(0.5)
        gauge.set_at(5, step=12, time_ns=lapse.now())
        gauge.set_at(6)
        counter.add_at(1, 13)
        histogram.observe_at(2.0, step=14)
    """)
    assert run.values("early") == [1]
    loss = next(row for row in run.names.values() if row["name"] == "loss")
    assert (loss["unit"], loss["help"], loss["kind"]) == ("nat", "training loss", "gauge")
    assert loss["labels"] == 'a="x",b="2"'
    assert list(zip(run.steps("loss"), run.values("loss"))) == [(10, 4), (12, 5), (None, 6)]
    # A counter stores what was added.
    assert list(zip(run.steps("seen"), run.values("seen"))) == [(10, 2), (10, 3), (13, 1)]
    assert sum(row["count"] for row in run.rows if row["type"] == "histogram") == 5


@pytest.mark.parametrize(
    "value", ["1", None, [1.0], object(), 1j, 10**400, b"1"], ids=lambda v: type(v).__name__
)
def test_no_number_is_refused_once(recording, value):
    key = f"bad {type(value).__name__}"
    said = refused(recording, value, key)
    assert len(said) == 1
    assert key in said[0]


def test_the_rest_of_a_frame_is_kept(place):
    run = place.script("""
        import lapse, warnings
        warnings.simplefilter("ignore")
        lapse.init(capture=False)
        for i in range(3):
            lapse.log({"a": i, "bad": "text", "b": -i}, step=i)
        lapse.log({"bad": 7}, step=3)     # a number at last
    """)
    assert run.values("a") == [0, 1, 2]
    assert run.values("b") == [0, -1, -2]
    assert run.values("bad") == [7]


def test_the_warning_names_the_caller(recording):
    with pytest.warns(RuntimeWarning, match="where") as caught:
        recording.log({"where": "x"})
    assert caught[0].filename == __file__


def test_warnings_as_errors(recording):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            recording.log({"strict": "x"})


def test_numpy(recording):
    np = pytest.importorskip("numpy")
    fine = {
        "np/f32": np.float32(1),
        "np/i8": np.int8(3),
        "np/bool": np.bool_(True),
        "np/0d": np.array(2.0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording.log(fine, step=np.int64(3))
        recording.metric("np").set(np.float16(2))
    assert len(refused(recording, np.zeros(3), "np/array")) == 1


def test_a_float_that_fails(recording):
    class Broken:
        def __float__(self):
            raise ZeroDivisionError

    assert len(refused(recording, Broken(), "broken")) == 1
    with pytest.raises(ZeroDivisionError):
        recording.metric("broken metric").set(Broken())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [False, True], ids=["first", "refused before"])
def test_what_ends_the_program_is_not_swallowed(recording, stop, before):
    class Stop:
        def __float__(self):
            raise stop

    key = f"stop {stop.__name__} {before}"
    if before:
        refused(recording, "text", key)
    accepted = recording.stats()["accepted"]
    with pytest.raises(stop):
        recording.log({"fine": 1, key: Stop()})
    assert recording.stats()["accepted"] == accepted, "half a frame was recorded"


def test_a_dict_that_changes(recording):
    values = {}

    class Grow:
        def __float__(self):
            values[len(values)] = 1.0
            return 0.0

    values["grow"] = Grow()
    with pytest.raises(RuntimeError, match="changed"):
        recording.log(values)


def test_a_dict_that_is_emptied_and_filled(recording):
    values = {}

    class Swap:
        def __float__(self):
            values.clear()
            values["other"] = object()
            return 0.0

    values["swap"] = Swap()
    recording.log(values)  # same size: must not crash


def test_a_nested_dict_that_lets_itself_go(recording):
    outer = {}

    class Drop:
        def __float__(self):
            outer["in"] = 1
            return 0.0

    outer["in"] = {"a": Drop(), "b": 2}
    recording.log(outer)


def test_too_deep(recording):
    deep = {}
    deep["again"] = deep
    with pytest.raises(ValueError, match="deeper than 16"):
        recording.log(deep)


def test_other_mappings(recording):
    from collections import OrderedDict
    from types import MappingProxyType

    recording.log(OrderedDict(a=1))
    recording.log(MappingProxyType({"a": 1}))
    with pytest.raises(TypeError, match="takes a dict, not list"):
        recording.log([1, 2])


@pytest.mark.parametrize(
    ("error", "arguments", "keywords"),
    [
        (TypeError, (), {}),
        (TypeError, (1,), {}),
        (TypeError, ({}, "1"), {}),
        (TypeError, ({}, 1.5), {}),
        (OverflowError, ({}, 2**63), {}),
        (TypeError, ({}, 1, 2, 3), {}),
        (TypeError, ({},), {"when": 1}),
        (TypeError, ({}, 1), {"step": 1}),
    ],
)
def test_bad_arguments_of_log(recording, error, arguments, keywords):
    with pytest.raises(error):
        recording.log(*arguments, **keywords)


@pytest.mark.parametrize(
    ("error", "arguments", "keywords"),
    [
        (TypeError, (), {}),
        (TypeError, (1,), {}),
        (ValueError, ("",), {}),
        (UnicodeEncodeError, ("\ud800",), {}),
        (ValueError, ("x",), {"kind": "meter"}),
        (ValueError, ("x",), {"kind": None}),
        (TypeError, ("x", 3), {}),
        (TypeError, ("x",), {"labels": "a=b"}),
        (ValueError, ("x",), {"labels": {str(i): i for i in range(33)}}),
    ],
)
def test_bad_arguments_of_metric(recording, error, arguments, keywords):
    with pytest.raises(error):
        recording.metric(*arguments, **keywords)


def test_labels_that_misbehave(recording):
    labels = {}

    class Clear:
        def __str__(self):
            labels.clear()
            return "gone"

    labels.update(a=Clear(), b=object())
    recording.metric("labels", labels=labels)

    class Broken:
        def __str__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recording.metric("labels", labels={"a": Broken()})


def test_metric_is_what_it_says(recording):
    metric = recording.metric("grad/norm", kind="histogram")
    assert (metric.name, metric.kind) == ("grad/norm", "histogram")
    assert repr(metric) == "<lapse.Metric 'grad/norm', histogram>"
    with pytest.raises(TypeError):
        type(metric)()
    with pytest.raises(AttributeError):
        metric.name = "x"
    with pytest.raises(TypeError):
        metric.set("1")
    with pytest.raises(TypeError):
        metric.set_at()
