# SPDX-License-Identifier: Apache-2.0
"""What is measured of a model: its gradients at each step, and inference on request."""

from __future__ import annotations

import importlib
from typing import Any

from ..._tell import tell_once
from ._metrics import ModelPerformanceMetrics


def to_device(inputs: Any, device: Any) -> Any:
    """Tensors of nested lists and dicts, on the device."""
    if isinstance(inputs, dict):
        return {name: to_device(value, device) for name, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(to_device(value, device) for value in inputs)
    return inputs.to(device) if hasattr(inputs, "to") and device is not None else inputs


def gradients_of(model: Any, plan: Any) -> Any:
    """Of each step. Layers that the model does not have are left out, and said."""
    kind = importlib.import_module("lapse.torch").Gradients
    layers: Any = list(plan.layers)
    for layer in list(layers):
        try:
            kind(model, layers=[layer])
        except ValueError as error:
            layers.remove(layer)
            tell_once("monitor", f"track_layers: {error}")
    if not layers:
        layers = 1 if plan.layer_stats else None
    options = {} if plan.exploding else {"exploding": None}
    try:
        return kind(model, every=1, layers=layers, **options)
    except ValueError as error:
        tell_once("monitor", f"gradients are not measured: {error}")
        return None


def inference(model: Any, inputs: Any, baseline: Any) -> ModelPerformanceMetrics:
    torch = importlib.import_module("lapse.torch")
    result = torch.benchmark(model, inputs)
    values = result.metrics()
    if baseline is not None:
        base = torch.benchmark(baseline, inputs, name=f"{type(baseline).__name__} (baseline)")
        values.update(result.against(base))
        values.update(torch.compare_outputs(baseline, model, inputs).metrics())
    found = ModelPerformanceMetrics()
    for name, value in values.items():
        if value is not None and hasattr(found, name):
            setattr(found, name, value)
    return found
