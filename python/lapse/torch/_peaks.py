# SPDX-License-Identifier: Apache-2.0
"""Peak rates of accelerators: dense matrix products, in TFLOP/s a device, from the
vendors' data sheets. With sparsity they print twice as much."""

from __future__ import annotations

# (words that the device's name has, {kind of product: TFLOP/s}); the first that fits.
# fp32 is without tensor cores, tf32 with them. MI250X: one of its two dies, which is a
# device.
PEAKS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (("gb300",), {"bf16": 2500, "fp16": 2500, "fp8": 5000}),
    (("gb200",), {"bf16": 2500, "fp16": 2500, "fp8": 5000}),
    (("b300",), {"bf16": 2250, "fp16": 2250, "fp8": 4500}),
    (("b200",), {"bf16": 2250, "fp16": 2250, "fp8": 4500}),
    (("h200", "nvl"), {"bf16": 835.5, "fp16": 835.5, "fp8": 1671, "tf32": 417.5, "fp32": 60}),
    (("h200",), {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67}),
    (("gh200",), {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67}),
    (("h100", "nvl"), {"bf16": 835.5, "fp16": 835.5, "fp8": 1671, "tf32": 417.5, "fp32": 60}),
    (("h100", "pcie"), {"bf16": 756.5, "fp16": 756.5, "fp8": 1513, "tf32": 378, "fp32": 51}),
    (("h100",), {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67}),
    (("h800",), {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67}),
    (("h20",), {"bf16": 148, "fp16": 148, "fp8": 296, "tf32": 74, "fp32": 44}),
    (("a100",), {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5}),
    (("a800",), {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5}),
    (("a6000",), {"bf16": 154.85, "fp16": 154.85, "tf32": 77.4, "fp32": 38.7}),
    (("l40s",), {"bf16": 362, "fp16": 362, "fp8": 733, "tf32": 183, "fp32": 91.6}),
    (("l4",), {"bf16": 121, "fp16": 121, "fp8": 242, "tf32": 60, "fp32": 30.3}),
    (("v100",), {"fp16": 125, "fp32": 15.7}),
    (("t4",), {"fp16": 65, "fp32": 8.1}),
    (("mi355x",), {"bf16": 2500, "fp16": 2500, "fp8": 5000}),
    (("mi325x",), {"bf16": 1300, "fp16": 1300, "fp8": 2600}),
    (("mi300x",), {"bf16": 1300, "fp16": 1300, "fp8": 2600}),
    (("mi250x",), {"bf16": 191.5, "fp16": 191.5}),
)
KINDS = ("fp32", "tf32", "fp16", "bf16", "fp8")


def _words(device: str) -> list[str]:
    """NVIDIA A100-SXM4-80GB is nvidia, a100, sxm4, 80gb."""
    return device.lower().replace("-", " ").replace("_", " ").replace("/", " ").split()


def peak_of(device: str, kind: str) -> float | None:
    """FLOP/s of a device by its name and the kind of product ("bf16", ...); None: unknown.

    H100 and H200 without NVL or PCIe in the name are taken for SXM."""
    words = _words(device)
    for names, peaks in PEAKS:
        if all(name in words for name in names):
            tera = peaks.get(kind)
            return None if tera is None else tera * 1e12
    return None
