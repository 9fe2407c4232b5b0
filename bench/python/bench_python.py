#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_python - what recording from Python costs, beside calls that do nothing, the
same loop in C, and the usual ways to record a scalar.

Prints one JSON object a figure, as the other benchmarks do. It makes build/venv-bench
(the wheel, and what requirements.txt pins) and goes on there; needs build/ (make) for
the C library. Each figure is the median over rounds that measure it and its peer in
turn; the bare loop is taken off.
"""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("LAPSE_BUILD") or os.path.join(ROOT, "build")
VENV = os.path.join(BUILD, "venv-bench")
ROUNDS = 15
SIGNS = {"<=": lambda x, goal: x <= goal, ">=": lambda x, goal: x >= goal}


def figure(name, value, unit, peer=None, peer_value=None, goal=None):
    """goal: (on, sign, number); on is "value" or "ratio"."""
    ratio = value / peer_value if peer else None
    row = {"name": name, "value": float(f"{value:.6g}"), "unit": unit, "peer": peer,
           "peer_value": peer_value, "ratio": ratio, "goal": None, "met": None}  # fmt: skip
    if goal:
        on, sign, number = goal
        row["goal"] = f"{'ratio ' if on == 'ratio' else ''}{sign} {number:g}"
        row["met"] = bool(SIGNS[sign](ratio if on == "ratio" else value, number))
    print(json.dumps(row), flush=True)


# ---- where it runs ---------------------------------------------------------------


def sh(*command, **options):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode != 0:
        sys.exit(f"bench_python: {' '.join(command)} failed\n{done.stdout}")


def go_into_venv():
    """Go on with the Python of build/venv-bench, made for it."""
    python = os.path.join(VENV, "bin", "python")
    requirements = os.path.join(HERE, "requirements.txt")
    if os.path.realpath(sys.prefix) == os.path.realpath(VENV):
        return
    sh(sys.executable, "-m", "venv", "--clear", VENV)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install")
    sh(*pip, "-r", requirements)
    sh(*pip, "--no-deps", ROOT, env={**os.environ, "PIP_CONSTRAINT": requirements})
    os.execv(python, [python, os.path.abspath(__file__)])


def compile_calls(folder):
    out = os.path.join(folder, "bench_calls.so")
    library = os.path.join(BUILD, "src", "record", "liblapse.a")
    if not os.path.exists(library):
        sys.exit(f"bench_python: {library} is missing; run make")
    include = sysconfig.get_paths()["include"]
    sh("gcc", "-O2", "-fPIC", "-shared", "-std=gnu17", f"-I{include}",
       f"-I{os.path.join(ROOT, 'include')}", os.path.join(HERE, "bench_calls.c"), library,
       "-o", out, "-lpthread")  # fmt: skip
    sys.path.insert(0, folder)


# ---- how it is measured ------------------------------------------------------------


def loop(call, argument, n):
    """Seconds of n calls with one argument."""
    start = time.perf_counter()
    for _ in itertools.repeat(None, n):
        call(argument)
    return time.perf_counter() - start


def bare(n):
    start = time.perf_counter()
    for _ in itertools.repeat(None, n):
        pass
    return time.perf_counter() - start


def spans(span, n):
    start = time.perf_counter()
    for _ in itertools.repeat(None, n):
        with span:
            pass
    return time.perf_counter() - start


def in_turn(measures, n, rounds=ROUNDS):
    """{name: ns a call}, medians over rounds; each measure gives seconds of n. Between
    rounds the agent gets time to empty the rings: a full one is another case."""
    seen = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            seen[name].append(measure(n) / n * 1e9)
        time.sleep(0.02)
    return {name: statistics.median(values) for name, values in seen.items()}


def spans_by_name(span, n):
    start = time.perf_counter()
    for _ in itertools.repeat(None, n):
        with span("by name"):
            pass
    return time.perf_counter() - start


def steps(step, n):
    start = time.perf_counter()
    for _ in itertools.repeat(None, n):
        with step():
            pass
    return time.perf_counter() - start


def nothing(_):
    pass


def calls(lapse, bench_calls):
    class Least:
        """Functions in C are not bound: what is left is `with` and two calls."""

        __enter__, __exit__ = bench_calls.__enter__, bench_calls.__exit__

    metric, span = lapse.metric("value"), lapse.span("span")
    manager, least, decorated = bench_calls.Manager(), Least(), lapse.span("decorated")(nothing)
    t = in_turn(
        {
            "bare": bare,
            "empty": lambda n: loop(bench_calls.empty, 1.5, n),
            "python": lambda n: loop(nothing, 1.5, n),
            "set": lambda n: loop(metric.set, 1.5, n),
            "c set": bench_calls.set_loop,
            "span": lambda n: spans(span, n),
            "manager": lambda n: spans(manager, n),
            "least": lambda n: spans(least, n),
            "by name": lambda n: spans_by_name(lapse.span, n),
            "decorated": lambda n: loop(decorated, 1.5, n),
            "step": lambda n: steps(lapse.step, n),
            "c span": bench_calls.span_loop,
        },
        20000,
    )
    t.update({name: t[name] - t["bare"] for name in t if name[:2] != "c "})
    figure("python/metric-set", t["set"], "ns", "empty call + 1.2 lapse_set()",
           t["empty"] + 1.2 * t["c set"], ("ratio", "<=", 1))  # fmt: skip
    # The goal is "4 empty calls", which can be read in two ways. Of functions in C it is
    # out of reach: "`with` and 2 empty calls" and "the pair in C" together take more.
    at_most = ("ratio", "<=", 1)
    figure("python/span-pair", t["span"], "ns", "4 empty calls in C", 4 * t["empty"], at_most)
    figure("python/span-pair", t["span"], "ns", "4 empty calls in Python", 4 * t["python"], at_most)
    figure("python/span-pair", t["span"], "ns", "an empty manager in C", t["manager"])
    figure("python/span-pair", t["span"], "ns", "`with` and 2 empty calls in C", t["least"])
    figure("python/span-pair-over-with", t["span"] - t["least"], "ns", "the pair in C", t["c span"])
    figure("python/span-by-name", t["by name"], "ns", "an empty manager in C", t["manager"])
    figure("python/span-decorated", t["decorated"] - t["python"], "ns", "an empty manager in C",
           t["manager"])  # fmt: skip
    figure("python/step-pair", t["step"], "ns", "an empty manager in C", t["manager"])


def scalars(lapse, folder):
    from prometheus_client import CollectorRegistry, Gauge
    from tensorboardX import SummaryWriter

    values = {f"scalar{i}": i + 0.5 for i in range(5)}
    registry = CollectorRegistry()
    gauges = [(Gauge(name, "a scalar", registry=registry), v) for name, v in values.items()]
    writer = SummaryWriter(folder)
    step = itertools.count()

    def tensorboard(values):
        n = next(step)
        for name, value in values.items():
            writer.add_scalar(name, value, n)

    def prometheus(_):
        for gauge, value in gauges:
            gauge.set(value)

    t = in_turn(
        {
            "bare": bare,
            "lapse": lambda n: loop(lapse.log, values, n),
            "prometheus": lambda n: loop(prometheus, None, n),
        },
        5000,
    )
    ours = t["lapse"] - t["bare"]
    figure("python/log-5", ours, "ns", "5 prometheus_client gauges", t["prometheus"] - t["bare"],
           ("ratio", "<=", 1))  # fmt: skip
    slow = in_turn({"tensorboard": lambda n: loop(tensorboard, values, n)}, 200)["tensorboard"]
    figure("python/log-5", ours, "ns", "5 add_scalar() of tensorboardX", slow,
           ("ratio", "<=", 1 / 200))  # fmt: skip
    writer.close()


def work(n):
    return sum(range(n))


def calibrate():
    """Rounds of work that take a millisecond."""
    n = 1000
    while min(timed(work, n) for _ in range(20)) < 1e-3:
        n = int(n * 1.05) + 1
    return n


def timed(call, *arguments):
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def whole_loop(lapse):
    """1,000 steps a second with 5 spans and 20 metrics each, beside the same steps
    without; in turn, the median of each kind."""
    n = calibrate()
    metrics = [lapse.metric(f"metric{i}") for i in range(20)]
    names = [lapse.span(f"phase{i}") for i in range(5)]
    part = n // 5

    def recorded():
        with lapse.step(samples=32):
            for i, span in enumerate(names):
                with span:
                    work(part)
                for metric in metrics[4 * i : 4 * i + 4]:
                    metric.set(0.5)

    def plain():
        for i, _ in enumerate(names):
            work(part)
            for _ in metrics[4 * i : 4 * i + 4]:
                pass

    seen = {recorded: [], plain: []}
    for _ in range(4000):
        for step, times in seen.items():
            times.append(timed(step))
    with_, without = (statistics.median(seen[step]) for step in (recorded, plain))
    figure("python/loop-slowdown", (with_ / without - 1) * 100, "%",
           goal=("value", "<=", 0.3))  # fmt: skip


def import_time():
    def start(code):
        times = [timed(subprocess.run, [sys.executable, "-S", "-c", code]) for _ in range(11)]
        return statistics.median(times) * 1e3

    path = f"import sys; sys.path.append({sysconfig.get_paths()['platlib']!r})\n"
    figure("python/import", start(path + "import lapse") - start(path), "ms")


def main():
    go_into_venv()
    with tempfile.TemporaryDirectory(prefix="lapse-bench-") as folder:
        shared = tempfile.mkdtemp(prefix="lapse-", dir="/dev/shm")
        os.environ.update(LAPSE_RENDEZVOUS=shared, LAPSE_DIR=os.path.join(folder, "runs"))
        compile_calls(folder)
        import bench_calls

        import lapse

        run = lapse.init(capture=False, settings={"ring_kib": 65536})
        if not run.recording:
            sys.exit(f"bench_python: {run.error}")
        bench_calls.open()
        calls(lapse, bench_calls)
        scalars(lapse, os.path.join(folder, "tensorboard"))
        whole_loop(lapse)
        import_time()
        if lapse.stats()["dropped"]:
            print(f"bench_python: {lapse.stats()['dropped']} records dropped", file=sys.stderr)
        lapse.finish()
        end_agent(shared)


def end_agent(shared):
    import shutil
    import signal

    with contextlib.suppress(OSError, ValueError), open(f"{shared}/agent.lock") as file:
        os.kill(int(file.read().split()[0]), signal.SIGKILL)
    shutil.rmtree(shared, ignore_errors=True)


if __name__ == "__main__":
    main()
