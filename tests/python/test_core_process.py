# SPDX-License-Identifier: Apache-2.0
"""Processes: fork, spawn, forkserver, pools, a leaked fork, interpreters in one
process; with `lapse run` and without it the same series."""

import itertools
import os
import signal
import sys

import pytest

LOOP = """
    import lapse, math
    lapse.init(config={"lr": 0.1})
    loss = lapse.metric("loss", unit="nat")
    for i in range(20):
        with lapse.step(samples=4):
            with lapse.span("forward"):
                loss.set(math.exp(-i))
            lapse.log({"optim": {"lr": 0.1 * i}, "flag": i % 2 == 0})
"""

WORKERS = """
    import multiprocessing, sys, lapse
    def work(i):
        lapse.init()
        lapse.log({"worker": i})
        return i
    if __name__ == "__main__":
        run = lapse.init()
        lapse.log({"parent": 1})
        context = multiprocessing.get_context(sys.argv[1])
        with context.Pool(2) as pool:
            assert pool.map(work, range(8)) == list(range(8))
            pool.close()
            pool.join()
        lapse.log({"parent": 2})
"""


def test_the_same_with_and_without_the_launcher(place):
    alone = place.script(LOOP)
    under = place.script(LOOP, launcher=True)
    assert len(place.ids()) == 2
    assert alone.recorded() == under.recorded()
    assert len(alone.recorded()) >= 3
    spans = [[row["step"] for row in run.spans("forward")] for run in (alone, under)]
    assert spans[0] == spans[1] == list(range(20))
    for run in (alone, under):
        assert (run.info["outcome"], run.info["exit_code"]) == ("exited", 0)
        assert run.info["name"] == "script.py"


def test_arguments_reach_a_run_of_the_launcher(place):
    run = place.script(
        "import lapse; lapse.init(name='n', project='p', tags='t,u', notes='o')", launcher=True
    )
    assert [run.info[k] for k in ("name", "project", "tags", "notes")] == ["n", "p", "t,u", "o"]


@pytest.mark.parametrize("launcher", [False, True], ids=["alone", "launcher"])
def test_a_pool_of_forked_workers(place, launcher):
    run = place.script(WORKERS, "fork", launcher=launcher)
    assert sorted(run.values("worker")) == list(range(8))
    assert run.values("parent") == [1, 2]
    roles = sorted(p["role"] for p in run.processes())
    assert roles[0] == "trainer"
    assert set(roles[1:]) == {"worker"}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_of_new_interpreters(place, method):
    """LAPSE_RUN, which the launcher sets, makes them one run."""
    run = place.script(WORKERS, method, launcher=True)
    assert sorted(run.values("worker")) == list(range(8))
    assert run.values("parent") == [1, 2]
    assert {p["role"] for p in run.processes()} == {"trainer", "worker"}


def test_spawn_without_the_launcher_makes_runs_of_their_own(place, wait_for):
    place.run(WORKERS, "spawn")

    def values():
        stored = [place.stored(run) for run in place.ids()]
        return sorted(v for run in stored for v in run.values("worker"))

    assert wait_for(lambda: len(values()) == 8)
    assert values() == list(range(8))


def test_a_forked_child_without_init(place):
    run = place.script("""
        import lapse, os
        lapse.init()
        metric, span = lapse.metric("of child"), lapse.span("work")
        pid = os.fork()
        if pid == 0:
            metric.set(1)
            with span: pass
            lapse.log({"also": 2})
            os._exit(3)
        os.waitpid(pid, 0)
        metric.set(9)
    """)
    assert sorted(run.values("of child")) == [1, 9]
    assert run.values("also") == [2]
    assert len(run.spans("work")) == 1
    assert (run.info["outcome"], run.info["exit_code"]) == ("exited", 0)


def test_a_leaked_fork_does_not_keep_the_run(place):
    """A child that outlives its parent, without a record: the run still ends."""
    run = place.script("""
        import lapse, os, sys, time
        lapse.init()
        lapse.log({"a": 1})
        child = os.fork()
        if child == 0:
            for fd in range(3): os.close(fd)
            time.sleep(100)
            os._exit(0)
        print(child)
    """)
    try:
        assert run.values("a") == [1]
        assert run.info["outcome"] == "exited"
    finally:
        os.kill(int(run.stdout), signal.SIGKILL)  # it was there all the time


def test_fork_while_a_thread_initialises(place):
    out = place.run("""
        import lapse, os, threading
        from lapse import _run
        held, go = threading.Event(), threading.Event()
        def hold():
            with _run._lock:
                held.set(); go.wait()
        lapse.init()
        thread = threading.Thread(target=hold); thread.start(); held.wait()
        pid = os.fork()
        if pid == 0:
            lapse.init(); lapse.log({"child": 1})
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        go.set(); thread.join()
        print("fine")
    """).stdout
    assert out == "fine\n"


@pytest.mark.parametrize(
    ("ending", "status", "outcome", "code"),
    [
        ("", 0, "exited", 0),
        ("sys.exit(3)", 3, "exited", 3),
        ("raise ZeroDivisionError", 1, "exited", 1),
        ("os._exit(5)", 5, "exited", 5),
    ],
)
@pytest.mark.parametrize("launcher", [False, True], ids=["alone", "launcher"])
def test_how_it_ended(place, ending, status, outcome, code, launcher):
    run = place.script(
        f"import lapse, os, sys\nlapse.init()\nlapse.log({{'a': 1}})\n{ending}\n",
        check=status,
        launcher=launcher,
    )
    assert (run.info["outcome"], run.info["exit_code"]) == (outcome, code)
    assert run.values("a") == [1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_killed_under_the_launcher(place, number):
    run = place.script(
        "import lapse, os, sys; lapse.init(); lapse.log({'a': 1}); "
        "os.kill(os.getpid(), int(sys.argv[1]))",
        str(int(number)),
        check=None,
        launcher=True,
    )
    assert (run.info["outcome"], run.info["signal"]) == ("signaled", number.name)
    assert run.values("a") == [1]


def test_killed_alone(place):
    run = place.script(
        "import lapse, os\nlapse.init()\nlapse.log({'a': 1})\nos.kill(os.getpid(), 9)\n", check=-9
    )
    assert run.info["outcome"] == "lost"
    assert run.values("a") == [1]


SUBINTERPRETERS = """
    import sys, lapse
    try:
        import _interpreters as interpreters        # 3.13
    except ImportError:
        import _xxsubinterpreters as interpreters
    lapse.init(capture=False)
    lapse.log({"main": 1})
    code = "import lapse; lapse.log({'sub': 2}); lapse.metric('m').set(3)\\n" \\
           "with lapse.span('of sub'): pass"
    for isolated in (False, True):
        for _ in range(3):
            if sys.version_info >= (3, 13):
                one = interpreters.create("isolated" if isolated else "legacy")
                failed = interpreters.run_string(one, code)
                assert failed is None, failed.formatted
            else:
                one = interpreters.create(isolated=isolated)
                failed = interpreters.run_string(one, code)
                assert failed is None, failed
            interpreters.destroy(one)
    lapse.log({"main": 2})
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="own GIL from 3.12 on")
def test_subinterpreters(place):
    run = place.script(SUBINTERPRETERS)
    assert run.values("main") == [1, 2]
    assert run.values("sub") == [2] * 6
    assert run.values("m") == [3] * 6
    assert len(run.spans("of sub")) == 6


def test_threads_record_at_once(place):
    run = place.script("""
        import lapse, threading
        lapse.init()
        together = threading.Barrier(8)     # each with a lane of its own
        def work(k):
            together.wait()
            for i in range(1000):
                lapse.log({f"t{k}": i, "shared": {"x": k}})
            together.wait()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        s = lapse.stats()
        assert s["accepted"] >= 8000 and s["dropped"] == 0, s
    """)
    for k in range(8):
        assert run.values(f"t{k}") == list(range(1000))
    assert len(run.values("shared/x")) == 8000


@pytest.mark.timeout(200)  # each worker that is spawned imports PyTorch
@pytest.mark.parametrize(
    ("workers", "method"),
    [(0, None), *itertools.product((2, 4), ("fork", "spawn", "forkserver"))],
)
def test_data_loader(place, workers, method):
    pytest.importorskip("torch")
    run = place.script(
        """
        import sys, lapse, torch
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 16
            def __getitem__(self, i):
                lapse.init()
                lapse.log({"item": i})
                return torch.tensor(float(i))
        if __name__ == "__main__":
            lapse.init()
            workers = int(sys.argv[1])
            loader = torch.utils.data.DataLoader(
                Data(), batch_size=4, num_workers=workers,
                multiprocessing_context=sys.argv[2] if workers else None)
            for batch in loader:
                with lapse.step(samples=len(batch)):
                    lapse.log({"mean": batch.mean()})
        """,
        str(workers),
        str(method),
        launcher=True,
        timeout=150,
    )
    assert sorted(run.values("item")) == list(range(16))
    assert run.values("mean") == [1.5, 5.5, 9.5, 13.5]
    assert run.info["exit_code"] == 0
