#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lapse.torch.Gradients costs beside clip_grad_norm_, and Histograms: medians of
time on the host, and on CUDA of the time until the device is done too.

    python bench/python/torch_gradients.py [--layers 48] [--width 256] [--device cuda]

Needs PyTorch and the package. Nothing is recorded: recording adds some 40 ns a value."""

import argparse
import statistics
import time

import torch

from lapse.torch import Gradients, Histograms, flush


def model_of(layers, width, device, dtype):
    torch.manual_seed(0)
    blocks = [torch.nn.Linear(width, width) for _ in range(layers)]
    model = torch.nn.Sequential(*blocks).to(device, dtype)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    return model


def measured(call, device, runs):
    """Medians of microseconds: until the call returns, until the device is done."""
    host, whole = [], []
    for i in range(runs + 10):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        host.append(time.perf_counter() - start)
        if device == "cuda":
            torch.cuda.synchronize()
        whole.append(time.perf_counter() - start)
        if i % 16 == 0:
            flush(wait=True)
    flush(wait=True)
    return statistics.median(host[10:]) * 1e6, statistics.median(whole[10:]) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = options.device
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"torch {torch.__version__} on {name}: {2 * options.layers} parameters, "
          f"{options.layers * options.width * (options.width + 1) / 1e6:.1f} million elements")
    print(f"{'':44} {'host us':>9} {'whole us':>9}")
    for dtype in (torch.float32, torch.bfloat16):
        model = model_of(options.layers, options.width, device, dtype)
        gradients, by_layer = Gradients(model), Gradients(model, layers=1)
        histograms = Histograms(model, every=100)
        rows = {
            "clip_grad_norm_": lambda m=model: torch.nn.utils.clip_grad_norm_(m.parameters(), 1e9),
            "Gradients, total": gradients.step,
            f"Gradients, {options.layers} layers": by_layer.step,
            "Histograms, a step in 100": histograms.step,
        }
        for what, call in rows.items():
            host, whole = measured(call, device, options.runs)
            print(f"{str(dtype)[6:] + ' ' + what:44} {host:9.1f} {whole:9.1f}")
        for helper in (gradients, by_layer, histograms):
            if helper.reason:
                raise SystemExit(helper.reason)


if __name__ == "__main__":
    main()
