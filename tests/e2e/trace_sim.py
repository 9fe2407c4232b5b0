# SPDX-License-Identifier: Apache-2.0
"""A host that launches work for one GPU, as a trace: what would have happened without the waits can
be had by running the same program again without them. Times are us."""
from trace_maker import row

LATENCY = 5  # from a launch's begin to the begin of its work, at least


class Sim:
    def __init__(self, waits=True):
        self.waits = waits
        self.rows, self.now, self.gpu, self.correlation = [], 0.0, 0.0, 0
        self.frames, self.begun, self.steps = [], None, 0

    def host(self, name, dur, cat="cpu_op"):
        """An operator that keeps the host busy; without a name nothing is recorded."""
        if name:
            self.rows.append(row(cat, name, self.now, dur, 100, 100))
        self.now += dur

    def work(self, cat, name, dur, **args):
        begin = max(self.now + LATENCY, self.gpu)
        self.gpu = begin + dur
        self.rows.append(row(cat, name, begin, dur, 0, 7, device=0, stream=7, correlation=self.correlation, **args))

    def launch(self, dur, host=10, name="gemm"):
        """An operator of `host` us that launches a kernel of `dur` us."""
        self.correlation += 1
        self.rows += [row("cpu_op", "aten::mm", self.now, host, 100, 100),
                      row("cuda_runtime", "cudaLaunchKernel", self.now + 1, host - 2, 100, 100,
                          correlation=self.correlation)]
        self.work("kernel", name, dur)
        self.now += host

    def item(self):
        """loss.item(): a copy, and a wait for all that was launched."""
        if not self.waits:
            return
        self.correlation += 1
        begin = self.now
        self.rows.append(row("cuda_runtime", "cudaMemcpyAsync", begin + 2, 3, 100, 100, correlation=self.correlation))
        self.work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1, bytes=4)
        self.correlation += 1
        end = max(begin + 8, self.gpu + 2)
        self.rows.append(row("cuda_runtime", "cudaStreamSynchronize", begin + 6, end - begin - 6, 100, 100,
                             correlation=self.correlation))
        self.rows += [row("cpu_op", name, begin + i, end + 2 - i - begin - i, 100, 100)
                      for i, name in enumerate(["aten::item", "aten::_local_scalar_dense"])]
        self.now = end + 2

    def cpu(self, dur=20):
        """tensor.cpu(): a copy to pageable memory, whose call returns when it is done."""
        if not self.waits:
            return
        self.correlation += 1
        begin = self.now
        self.work("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", dur, bytes=100000)
        self.rows += [row("cpu_op", "aten::_to_copy", begin, self.gpu + 4 - begin, 100, 100),
                      row("cuda_runtime", "cudaMemcpyAsync", begin + 1, self.gpu + 2 - begin, 100, 100,
                          correlation=self.correlation)]
        self.now = self.gpu + 4

    def load(self, ready):
        """The next batch, which is there at `ready`."""
        end = max(self.now + 20, ready)
        self.rows.append(row("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", self.now,
                             end - self.now, 100, 100))
        self.now = end

    def step(self):
        """The step that was begun ends here, the next begins."""
        if self.begun is not None:
            self.steps += 1
            self.rows += [row("user_annotation", f"ProfilerStep#{self.steps}", self.begun, self.now - self.begun, 100, 100),
                          row("python_function", "train.py(12): step", self.begun, self.now - self.begun, 100, 100)]
        self.begun = self.now

    def done(self):
        """The trace, and how long until the last work was done."""
        self.step()
        return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}],
                "traceEvents": self.rows}, max(self.now, self.gpu)
