# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own readers on our event files: the Python loader and the data
server. Needs the packages of tests/requirements-tensorboard.txt; the tier `export`
of tools/test makes an environment with them. The run is that of
tests/unit/export/known_run.h."""
import math
import os
import subprocess

import pytest

from test_export import exporters, make_known, tree

pytestmark = pytest.mark.tensorboard

START = 1767323045
RUNS = (".", "rank_1", "host")


@pytest.fixture(name="loaders", scope="module")
def loaders_fixture():
    """{name: function from a folder to {run: {tag: [(step, wall_time, value)]}}}."""
    return {"python": read_python, "rust": read_rust}


def read_python(folder):
    from tensorboard.backend.event_processing import plugin_event_accumulator as accumulator
    from tensorboard.util import tensor_util
    all_of = {"scalars": 0, "histograms": 0, "text": 0}
    found = {}
    for path in [folder, *(p for p in folder.iterdir() if p.is_dir())]:
        loader = accumulator.EventAccumulator(str(path), size_guidance={},
                                              tensor_size_guidance=all_of)
        loader.Reload()
        found[str(path.relative_to(folder))] = {
            tag: [(e.step, e.wall_time, tensor_util.make_ndarray(e.tensor_proto).tolist())
                  for e in loader.Tensors(tag)] for tag in loader.Tags()["tensors"]}
    return found


def read_rust(folder):
    import tensorboard_data_server
    from tensorboard import context
    from tensorboard.data import provider, server_ingester
    from tensorboard.util import grpc_util
    ingester = server_ingester.SubprocessServerDataIngester(
        server_binary=server_ingester.ServerBinary(
            tensorboard_data_server.server_binary(),
            version=tensorboard_data_server.__version__),
        logdir=str(folder), reload_interval=3600,
        channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0, "histograms": 0, "text": 0})
    ingester.start()
    data, ctx, found = ingester.data_provider, context.RequestContext(), {}
    for plugin, tags_of, read in (("scalars", data.list_scalars, data.read_scalars),
                                  ("histograms", data.list_tensors, data.read_tensors),
                                  ("text", data.list_tensors, data.read_tensors),
                                  ("hparams", data.list_tensors, data.read_tensors)):
        for run, tags in tags_of(ctx, experiment_id="", plugin_name=plugin).items():
            rows = read(ctx, experiment_id="", plugin_name=plugin, downsample=10**9,
                        run_tag_filter=provider.RunTagFilter([run], list(tags)))
            for tag, points in rows[run].items():
                found.setdefault(run, {})[tag] = [
                    (p.step, p.wall_time, p.value if plugin == "scalars" else p.numpy.tolist())
                    for p in points]
    return found


def shown(steps):
    """{shown step: k}: what the newest attempt recorded at each step."""
    return {(k if k < steps * 6 // 10 else k - steps // 10): k for k in range(steps)}


def close(found, wanted, relative=1e-6):
    assert [p[0] for p in found] == [p[0] for p in wanted]
    for (_, found_time, value), (_, wanted_time, right) in zip(found, wanted):
        assert abs(found_time - wanted_time) < 1e-5
        assert value == right or math.isclose(value, right, rel_tol=relative)


@pytest.mark.parametrize("loader", ["python", "rust"])
def test_values(lapse, loaders, loader):
    """Steps, times and values of the newest attempt, to float32's precision."""
    steps = 1000
    make_known(lapse, steps)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "tb", check=True)
    found = loaders[loader](lapse.folder / "tb")
    newest, time_of = shown(steps), lambda k: START + 1 + k / 100
    assert set(found) == set(RUNS)
    root = found["."]
    close(root["loss"], [(s, time_of(k), 1 / (1 + k)) for s, k in newest.items()])
    close(root["tokens"], [(s, time_of(k), 128 * (k + 1)) for s, k in newest.items()])
    close(root["phase/forward_ms"], [(s, time_of(k) + 0.005, 5) for s, k in newest.items()])
    close(root['val{set="a"}'], [(s, time_of(k), k) for s, k in newest.items() if k % 10 == 0])
    close(root["seconds/early"], [(0, START + 0.5, 7)])
    close(found["rank_1"]["loss"], [(k, time_of(k), 2 / (1 + k)) for k in range(steps)])
    close(found["host"]["cpu/busy"], [(1 + k // 100, time_of(k), 0.25)
                                      for k in range(0, steps, 100)])
    assert [p[0] for p in root["grad"]] == [s for s, k in newest.items() if k % 20 == 0]
    assert root["grad"][0][2] == [[-1, -1, 1], [-1, 1, 0], [1, 1.0625, 3], [1.0625, 4, 0],
                                  [4, 4, 1]]


@pytest.mark.parametrize("loader", ["python", "rust"])
def test_texts(lapse, loaders, loader):
    make_known(lapse, 1000)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "tb", check=True)
    root = loaders[loader](lapse.folder / "tb")["."]
    run, attributes = root["run"], root["attributes"]
    assert len(run) == 1 and run[0][0] == 0 and b"| outcome | exited 0 |" in run[0][2]
    assert rb"| note | x\|y |" in attributes[0][2]
    assert [(p[0], p[2]) for p in root["events/note"]] == [
        (1, b"**info** at 0 (trainer 0 on node0) step 0"),
        (6, b"**info** at 500 (trainer 0 on node0) step 500")]
    assert "_hparams_/session_start_info" in root and "_hparams_/session_end_info" in root


def test_hparams(lapse):
    from tensorboard.backend.event_processing import plugin_event_accumulator as accumulator
    from tensorboard.plugins.hparams import metadata
    make_known(lapse, 100)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "tb", check=True)
    loader = accumulator.EventAccumulator(str(lapse.folder / "tb"))
    loader.Reload()
    content = loader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content)
    assert {name: getattr(value, value.WhichOneof("kind"))
            for name, value in start.hparams.items()} == {"lr": 0.001, "name": "tiny", "amp": True}
    assert start.start_time_secs == START
    content = loader.SummaryMetadata("_hparams_/session_end_info").plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(content).status == 1


def test_special_values(lapse, loaders):
    """NaN, infinities, negative zero, what float32 cannot hold; foreign names."""
    make_run = os.path.join(os.path.dirname(str(lapse.program)), "tests/unit/cli/make_run")
    subprocess.run([make_run, lapse.runs], check=True)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "tb", "20260104-030405-evil",
          check=True)
    root = loaders["python"](lapse.folder / "tb")["."]
    values = [p[2] for p in root['q"u,o?te?{k="a,b"}']]
    assert values[:2] == [pytest.approx(0.1), 0] and math.copysign(1, values[1]) == -1
    assert values[2] == math.inf and values[3] == 0 and math.isnan(values[4])
    assert values[5:] == [math.inf, -math.inf, 3]


@pytest.mark.parametrize("loader", ["python", "rust"])
def test_second_run_in_the_same_folder(lapse, loaders, loader):
    """A job that was started again into the same folder: the second run's points
    replace the first one's from its first step on."""
    make_run = os.path.join(os.path.dirname(str(lapse.program)), "tests/unit/cli/make_run")
    subprocess.run([make_run, lapse.runs], check=True)
    for run in ("20260102-030405-gold", "20260103-030405-rank"):
        lapse("export", "--to", "tensorboard", "-o", lapse.folder / "tb", run, check=True)
    root = loaders[loader](lapse.folder / "tb")["."]
    # gold: steps 0 to 19; rank: 0 to 9. 10 to 19 are of an attempt that is over.
    assert [p[0] for p in root["phase/step_ms"]] == list(range(10))
    assert [p[2] for p in root["phase/step_ms"]] == [10, 11, 12, 13, 14, 20, 20, 20, 20, 20]
    assert len(root["loss"]) == 20


@pytest.mark.parametrize("loader", ["python", "rust"])
def test_in_pieces(lapse, loaders, loader, wait_for):
    """Exported while it was written in three pieces: readers see the same."""
    out, pieces = lapse.folder / "tb", (0, 333, 700, 1000)
    for start, end in zip(pieces, pieces[1:]):
        make_known(lapse, 1000, start, end)
        lapse("export", "--to", "tensorboard", "-o", out, check=True)
    lapse("export", "--to", "tensorboard", "-o", lapse.folder / "once", check=True)
    found, wanted = loaders[loader](out), loaders[loader](lapse.folder / "once")
    assert found == wanted


def test_live_reader_sees_it_grow(lapse, charlm, wait_for):
    """The Python loader, open all the time, beside a live run."""
    from tensorboard.backend.event_processing import event_accumulator
    process = lapse.start("run", "--export", "tensorboard=tb", "--", charlm, "--seconds", "100")
    assert wait_for(lambda: tree(lapse.folder / "tb"))
    loader = event_accumulator.EventAccumulator(str(lapse.folder / "tb"),
                                                size_guidance={"scalars": 0})
    seen = set()

    def grows():
        loader.Reload()
        if "loss" in loader.Tags()["scalars"]:
            seen.add(len(loader.Scalars("loss")))
        return len(seen) > 1
    assert wait_for(grows)
    process.terminate()
    process.wait(60)
    assert lapse.settled() and wait_for(lambda: not exporters(lapse))
    loader.Reload()
    steps = [e.step for e in loader.Scalars("loss")]
    assert steps == sorted(set(steps)) and steps[0] in (0, 1)
    shown_last = next(s for s in lapse.json("show", "last")["series"] if s["name"] == "loss")
    assert steps[-1] == shown_last["last_step"] and len(steps) == shown_last["count"]
    assert max(seen) <= len(steps)
