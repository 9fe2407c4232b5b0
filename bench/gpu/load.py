# SPDX-License-Identifier: Apache-2.0
"""load.py - keep all GPUs busy with matrix products until killed, and tell each 2 s how many a second
each did. A slower second while something reads the GPUs is what that reading cost."""
import threading
import time

import torch

SIZE = 8192
PERIOD = 2.0


def work(device):
    a = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    while True:
        begin, done = time.monotonic(), 0
        while time.monotonic() - begin < PERIOD:
            for _ in range(20):
                torch.matmul(a, a)
            torch.cuda.synchronize(device)
            done += 20
        rate = done / (time.monotonic() - begin)
        print(f"   {device}: {rate:8.2f} products/s, {2 * SIZE**3 * rate / 1e12:6.1f} TFLOP/s", flush=True)


threads = [threading.Thread(target=work, args=(f"cuda:{i}",), daemon=True)
           for i in range(torch.cuda.device_count())]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
