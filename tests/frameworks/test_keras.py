# SPDX-License-Identifier: Apache-2.0
"""LapseCallback in keras.Model.fit() with the backends torch and jax."""

import pytest
from conftest import missing, need

pytestmark = [need("keras"), pytest.mark.timeout(300)]

FIT = """
    import json, sys
    import numpy as np
    import keras, lapse.keras
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.125), loss="mse", metrics=["mae"])
    x = np.random.rand(48, 4).astype("float32"); y = x.sum(1, keepdims=True)
    callback = lapse.keras.LapseCallback(project="k", batch_size=8, log_every=2)
    history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, validation_data=(x, y),
                        callbacks=[callback]).history
    loss, mae = model.evaluate(x, y, verbose=0, callbacks=[callback])
    model.predict(x, verbose=0, callbacks=[callback])
    print("RESULT " + json.dumps({"history": history, "loss": loss,
                                  "backend": keras.backend.backend()}))
"""


@pytest.fixture(params=["torch", "jax"])
def fit(request, program):
    if missing(request.param):
        pytest.skip(f"not installed: {request.param}")
    return program(
        FIT, key=request.param, env={"KERAS_BACKEND": request.param, "JAX_PLATFORMS": "cpu"}
    )


def test_steps_and_epochs(fit):
    stored = fit.stored
    assert [row["step"] for row in stored.spans("step")] == list(range(12))
    assert stored.values("lapse/step/samples") == [8] * 12
    assert [row["step"] for row in stored.spans("epoch")] == [5, 11]
    assert len(stored.spans("evaluate")) == 3 and len(stored.spans("predict")) == 1


def test_values(fit):
    recorded, history = fit.stored.recorded(), fit.said["history"]
    assert sorted(step for step, _ in recorded["loss"]) == [0, 2, 4, 6, 8, 10]
    for name, key in (("epoch/loss", "loss"), ("val/loss", "val_loss"), ("val/mae", "val_mae")):
        assert dict(recorded[name]) == pytest.approx(dict(zip((5, 11), history[key]))), name
    assert [value for _, value in recorded["learning_rate"]] == [0.125, 0.125]
    ((_, value),) = recorded["test/loss"]
    assert value == pytest.approx(fit.said["loss"])


SEVERAL = """
    import numpy as np
    import keras, lapse.keras
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=4)
    x = np.random.rand(80, 4).astype("float32"); y = x.sum(1, keepdims=True)
    callback = lapse.keras.LapseCallback(batch_size=8, log_every=5)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, validation_data=(x, y),
              callbacks=[callback])
"""


@pytest.mark.skipif(bool(missing("jax")), reason="not installed: jax")
def test_several_batches_an_execution(program):
    """10 batches an epoch, 4 an execution, 2 the last."""
    stored = program(SEVERAL, env={"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}).stored
    assert [row["step"] for row in stored.spans("step")] == [0, 4, 8, 10, 14, 18]
    assert stored.values("lapse/step/samples") == [32, 32, 16] * 2
    # Batches 0 and 5 of each epoch are in its first and second execution, none in the third.
    assert sorted(step for step, _ in stored.recorded()["loss"]) == [3, 7, 13, 17]
    assert [row["step"] for row in stored.spans("epoch")] == [8, 18]


def test_configuration(fit):
    attrs = fit.place.attrs()
    assert attrs["config/fit/epochs"] == "2" and attrs["config/model/parameters"] == "5"
    assert attrs["config/optimizer/learning_rate"] == "0.125"
    assert fit.stored.info["project"] == "k"


def test_wrong_arguments(monkeypatch):
    if missing("torch"):
        pytest.skip("not installed: torch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    from lapse.keras import LapseCallback

    for arguments in ({"log_every": 0}, {"batch_size": 0}, {"ranks": "some"}):
        with pytest.raises(ValueError, match=r"."):
            LapseCallback(**arguments)
