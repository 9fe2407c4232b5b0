# SPDX-License-Identifier: Apache-2.0
"""Is it the waiting for the GPU (.item(), .cpu()) that a step is bound by? The same program is run
by a simulation with and without its waits: what lapse counts under them must be the difference,
and it must not be said where the waits only wait for what binds anyway."""
import json

import pytest

from trace_maker import write_trace
from trace_sim import Sim

STEPS = 4


def run(program, waits=True):
    sim = Sim(waits)
    for i in range(STEPS):
        sim.step()
        program(sim, i)
    return sim.done()


def verdict(lapse, tmp_path, program):
    """Kind, shares in percent of the trace's time, evidence, findings, and the percent of it that go when
    the waits are left out."""
    trace, end = run(program)
    _, without = run(program, waits=False)
    done = lapse("trace", "summary", "--json", write_trace(tmp_path / "t.json", trace))
    assert done.returncode == 0, done.stderr
    sheets = json.loads(done.stdout)["sheets"]
    shares = {s["kind"]: s["pct"] for s in sheets["shares"]}
    return sheets["verdict"][0]["behind"], shares, sheets, 100 * (end - without) / end


def metrics_each_block(sim, _):
    # 20 times: 6 kernels of 60 us that 6 x 10 us launch; then the loss is looked at and written down.
    for _ in range(20):
        for _ in range(6):
            sim.launch(60)
        sim.item()
        sim.host("aten::metrics", 340)


def test_item_and_logging(lapse, tmp_path):
    kind, shares, sheets, gone = verdict(lapse, tmp_path, metrics_each_block)
    assert kind == "sync" and sheets["verdict"][0]["bound"] in ("sync", "profiler")
    assert gone > 40 and shares["sync"] == pytest.approx(gone, abs=3)
    evidence = [e for e in sheets["evidence"] if e["kind"] == "sync"]
    assert evidence[0]["name"] == "cudaStreamSynchronize" and evidence[0]["count"] == 20 * STEPS
    assert (evidence[0]["within"], evidence[0]["stack"]) == ("aten::item", "train.py(12): step")
    assert any(f["rule"] == "bound-sync" and ".item()" in f["advice"] for f in sheets["findings"])
    text = lapse("trace", "summary", tmp_path / "t.json").stdout
    assert "cudaStreamSynchronize" in text and "ynchronisation" in text
    # Where, with the cost of each place.
    [site] = [r for r in json.loads(lapse("trace", "launch", "--json", "--syncs", tmp_path / "t.json").stdout)[
        "sheets"]["syncs"] if r["call"] == "cudaStreamSynchronize"]
    assert site["operator"] == "aten::item" and site["python"] == "train.py(12): step"
    # 60 us are launched while the GPU works 360: the wait is some 300, and the gap behind it longer.
    assert site["cost_ns"] == min(site["wait_ns"], site["cost_ns"]) > 0.9 * site["wait_ns"]


def test_logging_without_rows(lapse, tmp_path):
    """Code that leaves no rows (a print, a file) after the wait: the wait is what keeps it from the GPU's
    back."""
    def program(sim, _):
        for _ in range(4):
            for _ in range(30):
                sim.launch(60)
            sim.item()
            sim.host(None, 1400)

    kind, shares, _, gone = verdict(lapse, tmp_path, program)
    assert shares["sync"] == pytest.approx(gone, abs=3) and shares.get("host", 0) < 3
    assert shares["sync"] > 35 and kind == "sync"


def test_blocking_copy(lapse, tmp_path):
    def program(sim, _):
        for _ in range(20):
            for _ in range(6):
                sim.launch(60)
            sim.cpu()
            sim.host("aten::metrics", 380)

    kind, shares, sheets, gone = verdict(lapse, tmp_path, program)
    assert kind == "sync"
    evidence = [e for e in sheets["evidence"] if e["kind"] == "sync"]
    assert (evidence[0]["name"], evidence[0]["within"]) == ("cudaMemcpyAsync", "aten::_to_copy")
    assert shares["sync"] == pytest.approx(gone, abs=3)


def test_two_places_are_told_apart(lapse, tmp_path):
    def program(sim, _):
        for _ in range(10):
            for _ in range(6):
                sim.launch(60)
            sim.item()
            sim.host("aten::metrics", 340)
            for _ in range(6):
                sim.launch(60)
            sim.cpu()
            sim.host("aten::metrics", 340)

    _, _, sheets, _ = verdict(lapse, tmp_path, program)
    names = {(e["name"], e["within"]) for e in sheets["evidence"] if e["kind"] == "sync"}
    assert names == {("cudaStreamSynchronize", "aten::item"), ("cudaMemcpyAsync", "aten::_to_copy")}


def test_lead_lost_is_felt_later(lapse, tmp_path):
    """One wait at the end of a step; the next begins with short kernels that the host launches slower
    than they run, and would have launched ahead."""
    def program(sim, _):
        for _ in range(50):
            sim.launch(10, host=60)
        for _ in range(50):
            sim.launch(150, host=60)
        sim.item()

    kind, shares, _, gone = verdict(lapse, tmp_path, program)
    assert gone > 12
    assert shares["sync"] == pytest.approx(gone, abs=3)
    assert kind == "compute"  # most of the time the GPU works


# ---- where it is not the waits ---------------------------------------------------------


def test_waits_for_a_busy_gpu(lapse, tmp_path):
    """The GPU works all the time; one .item() a step waits long and costs nothing."""
    def program(sim, _):
        for _ in range(200):
            sim.launch(60)
        sim.item()

    kind, shares, sheets, gone = verdict(lapse, tmp_path, program)
    assert kind == "compute" and gone < 1 and shares.get("sync", 0) < 1
    assert sheets["verdict"][0]["sync_wait_ns"] > 1e6 * STEPS
    assert not any(f["rule"] in ("bound-sync", "sync-each-step") for f in sheets["findings"])


def test_launch_bound_with_items(lapse, tmp_path):
    """Kernels of 2 us that take 30 to launch, and a look at a number now and then: the waits are short, and
    without them it would hardly be faster."""
    def program(sim, _):
        for _ in range(20):
            for _ in range(10):
                sim.launch(2, host=30)
            sim.item()

    kind, shares, _, gone = verdict(lapse, tmp_path, program)
    assert kind == "launch" and gone < 8
    assert shares.get("sync", 0) < 8 and shares["launch"] + shares["profiler"] > 75


def test_data_bound_with_items(lapse, tmp_path):
    """The next batch comes each 30 ms whatever the host does; waiting for the GPU before is not to blame."""
    def program(sim, i):
        sim.load(30000 * (i + 1))
        for _ in range(100):
            sim.launch(60)
        sim.item()

    kind, shares, _, gone = verdict(lapse, tmp_path, program)
    assert kind == "data" and gone < 10 and shares.get("sync", 0) < 3


def test_long_code_after_a_short_wait(lapse, tmp_path):
    """A checkpoint: a wait of some ms and then a second on the disk. Only as much as the wait could have
    been saved."""
    def program(sim, _):
        for _ in range(50):
            sim.launch(60)
        sim.item()
        sim.host(None, 50000)

    kind, shares, _, gone = verdict(lapse, tmp_path, program)
    assert kind == "host"
    assert shares["sync"] == pytest.approx(gone, abs=2) and shares["sync"] < 8
