#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_helpers - what watch_loader(), phase(), log() and Throughput of lapse.torch cost a
step, beside the same loop without them.

    python bench/python/torch_helpers.py        in an environment with torch and lapse

Prints one JSON object a figure, as the other benchmarks do: microseconds a step of the
training thread's CPU time, and the ratio of a 30 ms step with it to one without. Loops with
and without are run in turn, the medians are compared; on CUDA, if there is one, the events
of phases count too."""

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
    phases(lapse, lapse.torch, "cuda" if torch.cuda.is_available() else "cpu")
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
