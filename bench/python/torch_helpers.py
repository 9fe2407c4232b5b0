#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_helpers - what the helpers of lapse.torch cost a step, beside the same loop without them.

    python bench/python/torch_helpers.py        in an environment with torch and lapse

Prints one JSON object a figure, as the other benchmarks do: microseconds a step of the
training thread's CPU time, and the ratio of a 30 ms step with it to one without. Loops with
and without are run in turn, the medians are compared; on CUDA, if there is one, the events
of phases count too. `torch/cold/...` is CPU time of each helper at its defaults, and of all
together, where the caches hold other things."""

import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time

STEP = 30_000.0  # us, of the step that the ratio is for
ROUNDS, STEPS = 15, 400
COLD_STEPS = 200


def figure(name, us, goal=1.005):
    ratio = (STEP + us) / STEP
    row = {"name": name, "value": float(f"{us:.4g}"), "unit": "us a step",
           "peer": "a bare loop, 30 ms a step", "peer_value": STEP, "ratio": round(ratio, 7),
           "goal": f"ratio <= {goal:g}", "met": ratio <= goal}  # fmt: skip
    print(json.dumps(row), flush=True)


def in_turn(bare, other):
    """Microseconds a step that the other takes more than the bare one."""
    seen = {bare: [], other: []}
    for loop in seen:
        loop()
    for _ in range(ROUNDS):
        for loop, times in seen.items():
            start = time.thread_time()
            loop()
            times.append(time.thread_time() - start)
        time.sleep(0.02)
    return (statistics.median(seen[other]) - statistics.median(seen[bare])) / STEPS * 1e6


def loaders(lapse_torch):
    from torch.utils.data import DataLoader

    class Data:
        """Samples are there already: the loader's own work is left."""

        def __init__(self):
            self.transform = abs

        def __len__(self):
            return 8 * STEPS

        def __getitem__(self, i):
            return self.transform(i)

    def epochs(loader):
        def run():
            for _ in loader:
                pass

        return run

    for workers in (0, 2):
        options = {"batch_size": 8, "num_workers": workers, "persistent_workers": workers > 0}
        bare = DataLoader(Data(), **options)
        watched = lapse_torch.watch_loader(DataLoader(Data(), **options), f"{workers} workers")
        us = in_turn(epochs(bare), epochs(watched))
        figure(f"torch/watch-loader/{workers}-workers", us)
        if watched.total.load.count != (ROUNDS + 1) * STEPS:
            sys.exit("torch_helpers: not every batch was measured")


def phases(lapse, lapse_torch, device):
    import torch

    rates = lapse_torch.Throughput(flops=1e9, peak_flops=1e12)
    loss = torch.ones((), device=device)

    def bare():
        for _ in range(STEPS):
            pass

    def four():
        for _ in range(STEPS):
            for name in ("forward", "backward", "optimizer", "clip"):
                with lapse_torch.phase(name):
                    pass

    def throughput():
        for _ in range(STEPS):
            rates.step(samples=8, tokens=4096)

    def log():
        for _ in range(STEPS):
            lapse_torch.log({"loss": loss, "lr": 0.1})

    def everything():
        for _ in range(STEPS):
            with lapse.step():
                for name in ("forward", "backward", "optimizer", "clip"):
                    with lapse_torch.phase(name):
                        pass
                lapse_torch.log({"loss": loss, "lr": 0.1})
            rates.step(samples=8, tokens=4096)

    for name, loop in (("phase/4", four), ("throughput", throughput), ("log", log),
                       ("all", everything)):  # fmt: skip
        figure(f"torch/{name}/{device}", in_turn(bare, loop))
        lapse_torch.flush(wait=True)


def model_of(layers, device):
    """As many tensors as a small language model has, each small: what it costs to compute
    is not the question."""
    import torch

    torch.manual_seed(0)
    block = lambda: torch.nn.Sequential(  # noqa: E731
        torch.nn.LayerNorm(16), *(torch.nn.Linear(16, 16) for _ in range(4)), torch.nn.LayerNorm(16)
    )
    model = torch.nn.Sequential(*(block() for _ in range(layers))).to(device)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    return model


def spent(lapse, call, other, work):
    """us of this thread's CPU time that a call takes, the mean over steps."""
    total = 0
    for _ in range(COLD_STEPS):
        with lapse.step():
            other += 1
            for _ in range(100):
                work.add_(1).mul_(0.5)
            start = time.thread_time_ns()
            call()
            total += time.thread_time_ns() - start
    return total / COLD_STEPS / 1e3


def cold(lapse, lapse_torch, device):
    """CPU time of each helper at its defaults where the caches hold other things, as they
    do in a training loop: 64 MiB are written before each, and then some operations of
    PyTorch's made, as the loop itself would. The mean over steps, as most helpers do not
    measure at each."""
    import numpy
    import torch
    from torch.utils.data import DataLoader

    other = numpy.zeros(64 << 20, numpy.uint8)
    model = model_of(12, device)
    optimizer = torch.optim.AdamW(model.parameters())
    loss, work = torch.ones((), device=device), torch.ones(64)
    gradients, histograms = lapse_torch.Gradients(model, layers=2), lapse_torch.Histograms(model)
    state, memory = lapse_torch.OptimizerState(optimizer), lapse_torch.Allocator()
    rates = lapse_torch.Throughput(warmup=0, flops=1e9, peak_flops=1e12)
    data = [0] * (COLD_STEPS * 4)
    bare = iter(DataLoader(data, batch_size=1))
    batches = iter(lapse_torch.watch_loader(DataLoader(data, batch_size=1), "cold"))

    def phases():
        for name in ("forward", "backward", "optimizer"):
            with lapse_torch.phase(name):
                pass

    calls = {
        "nothing": lambda: None,
        "loader-bare": lambda: next(bare),
        "loader": lambda: next(batches),
        "phase-3": phases,
        "gradients": gradients.step,
        "histograms": histograms.step,
        "optimizer-state": state.step,
        "allocator": memory.step,
        "log": lambda: lapse_torch.log({"loss": loss}),
        "throughput": lambda: rates.step(samples=8, tokens=4096),
    }

    def everything():
        for name, call in calls.items():
            if name != "loader-bare":
                call()

    seen = {name: spent(lapse, call, other, work)
            for name, call in {**calls, "all": everything}.items()}
    for name in ("loader", "all"):
        seen[name] -= seen["loader-bare"]
    nothing = seen.pop("nothing")
    del seen["loader-bare"]
    for name in seen:
        seen[name] -= 0 if name == "loader" else nothing
    for name, us in seen.items():
        figure(f"torch/cold/{name}/{device}", us)
    for helper in (gradients, histograms, state):
        if helper.reason:
            sys.exit(f"torch_helpers: {helper.reason}")


def main():
    try:
        import torch

        import lapse
        import lapse.torch
    except ImportError as error:
        sys.exit(f"torch_helpers: needs an environment with torch and lapse: {error}")
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="lapse-bench-")
    shared = tempfile.mkdtemp(prefix="lapse-", dir="/dev/shm")
    os.environ.update(LAPSE_RENDEZVOUS=shared, LAPSE_DIR=os.path.join(folder, "runs"))
    run = lapse.init(capture=False, settings={"ring_kib": 65536})
    if not run.recording:
        sys.exit(f"torch_helpers: {run.error}")
    print(f"torch {torch.__version__}", file=sys.stderr)
    loaders(lapse.torch)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    phases(lapse, lapse.torch, device)
    cold(lapse, lapse.torch, device)
    if lapse.stats()["dropped"]:
        print(f"torch_helpers: {lapse.stats()['dropped']} records dropped", file=sys.stderr)
    lapse.finish()
    try:
        with open(f"{shared}/agent.lock") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
    except (OSError, ValueError, IndexError):
        pass
    for path in (shared, folder):
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
