#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_trans - what only a CUDA device can show of the callbacks for Transformers, of a
configuration's helpers and of figures over ranks.

    python tests/gpu/check_trans.py        with torch and lapse; transformers is not needed:
                                           its Trainer's events are called in its order
    torchrun --nproc-per-node=2 tests/gpu/check_trans.py
                                           with NCCL for training: figures over ranks too

Prints "ok NAME FIGURE" and "not ok NAME WHY" lines; exit status 1 if one is not ok, 2
without a device."""

import contextlib
import glob
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import types

import torch

import lapse
import lapse.torch

if importlib.util.find_spec("transformers") is None:
    stand_in = types.ModuleType("transformers")
    stand_in.TrainerCallback = type("TrainerCallback", (), {})
    sys.modules["transformers"] = stand_in

import lapse.transformers as ours
from lapse._distributed import Ranks

BAD = []
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
GIB = 1 << 30


def check(name, ok, figure):
    print(f"{'ok' if ok else 'not ok'} {name} {figure}", flush=True)
    if not ok:
        BAD.append(name)


class Loop:
    """A training whose events are called as Trainer does."""

    def __init__(self, callbacks, steps, folder):
        self.callbacks, self.steps = callbacks, steps
        self.model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.x = torch.randn(256, 1024, device="cuda")
        self.args = types.SimpleNamespace(
            world_size=1, train_batch_size=256, gradient_accumulation_steps=1,
            output_dir=folder, process_index=0, local_process_index=0,
        )  # fmt: skip
        self.state = State()
        self.state.max_steps = steps
        self.control = types.SimpleNamespace(should_save=False)

    def call(self, event, **more):
        for callback in self.callbacks:
            hook = getattr(callback, event, None)
            if hook is not None:
                hook(self.args, self.state, self.control, model=self.model,
                     optimizer=self.optimizer, **more)  # fmt: skip

    def begin(self):
        self.call("on_train_begin")

    def run(self, steps):
        for _ in range(steps):
            self.call("on_step_begin")
            self.optimizer.zero_grad()
            self.model(self.x).square().mean().backward()
            self.call("on_pre_optimizer_step")
            self.optimizer.step()
            self.call("on_optimizer_step")
            self.state.global_step += 1
            self.call("on_step_end")

    def end(self):
        self.call("on_train_end")


class State:
    """What of TrainerState is read."""

    global_step, epoch, num_input_tokens_seen = 0, 0.0, 0
    max_steps, train_batch_size, is_world_process_zero = 0, 256, True


def waits(loop, folder):
    """How often the host waits in 20 steps of a training that goes on."""
    loop.begin()
    loop.run(10)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        loop.run(20)
        torch.cuda.synchronize()
    path = os.path.join(folder, "trace.json")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    found = dict.fromkeys(SYNCS, 0)
    found["pageable"] = 0
    for event in events:
        if event.get("name") in SYNCS:
            found[event["name"]] += 1
        if event.get("cat") == "gpu_memcpy" and "Pageable" in event.get("name", ""):
            found["pageable"] += 1
    loop.end()
    return found


def no_synchronisation(folder):
    plan = lapse.configure(helpers=["gradients", "histograms", "optimizer", "allocator", "gc"],
                           every=1, layer_stats=True)  # fmt: skip
    bare = waits(Loop([], 30, folder), folder)
    with contextlib.redirect_stdout(io.StringIO()):
        watched = waits(
            Loop([ours.LapseCallback(plan=plan, config=False),
                  ours.SimpleGPUMemoryCallback(1, "classic")], 30, folder), folder)  # fmt: skip
    check("no_synchronisation", watched == bare, f"with {watched}, without {bare}")


def memory_line(folder):
    loop = Loop([], 1, folder)
    loop.run(1)
    torch.cuda.synchronize()
    said = io.StringIO()
    callback = ours.SimpleGPUMemoryCallback(1, "classic")
    with contextlib.redirect_stdout(said):
        callback.on_step_end(loop.args, loop.state, loop.control)
    lines = said.getvalue().splitlines()
    expected = [
        f"[Step 1] GPU {i}: Allocated: {torch.cuda.memory_allocated(i) / GIB:.2f}GB, "
        f"Reserved: {torch.cuda.memory_reserved(i) / GIB:.2f}GB, "
        f"Peak: {torch.cuda.max_memory_allocated(i) / GIB:.2f}GB"
        for i in range(torch.cuda.device_count())
    ]
    check("memory_line", lines == expected, " / ".join(lines))


def profile(folder):
    """Steps 4 and 5 of 8, with the device's kernels, shapes, stacks, memory."""
    traces = os.path.join(folder, "traces")
    loop = Loop([ours.ProfilerCallback(traces, 2, 1, 2, console_style="none")], 8, folder)
    loop.begin()
    loop.run(8)
    loop.end()
    import gzip

    files = glob.glob(os.path.join(traces, "*.pt.trace.json.gz"))
    if len(files) != 1:
        check("profile", False, f"{len(files)} traces: {files}")
        return
    with gzip.open(files[0]) as file:
        events = json.load(file)["traceEvents"]
    kernels = sum(event.get("cat") == "kernel" for event in events)
    marks = sorted({e["name"] for e in events if str(e.get("name")).startswith("ProfilerStep#")})
    check("profile", kernels > 0 and marks == ["ProfilerStep#4", "ProfilerStep#5"],
          f"{kernels} kernels, {' '.join(marks)}")  # fmt: skip


def over_ranks(rank):
    """With NCCL for training: the exchange goes by gloo and adds no wait on the device."""
    ranks = Ranks("aggregate", every=5)
    value = torch.ones(1 << 20, device="cuda")
    for step in range(10):
        torch.distributed.all_reduce(value)
        ranks.log({"x": float(step + 100 * rank)}, step)
    ranks.close()
    if rank == 0:
        good = ranks.last == {"x/min": 7, "x/mean": 57, "x/max": 107, "x/min/rank": 0,
                              "x/max/rank": 1}  # fmt: skip
        check("over_ranks", good, ranks.last or ranks.reason)


def main():
    if not torch.cuda.is_available():
        print("not ok device there is no CUDA device")
        return 2
    folder = tempfile.mkdtemp(prefix="lapse-trans-")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    os.environ.setdefault("LAPSE_DIR", folder)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        lapse.init(capture=False)
        if world > 1:
            torch.distributed.init_process_group("nccl")
            over_ranks(rank)
            torch.distributed.destroy_process_group()
        else:
            no_synchronisation(folder)
            memory_line(folder)
            profile(folder)
        lapse.finish()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
