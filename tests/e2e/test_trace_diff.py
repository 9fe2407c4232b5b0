# SPDX-License-Identifier: Apache-2.0
"""lapse trace diff: which test judges what, with numbers of scipy 1.17.1
(stats.mannwhitneyu, stats.ttest_ind(equal_var=False))."""
import json

import pytest

from trace_maker import row, write_trace

# Lengths of one kernel in us, a step each.
CALM = [1000.0, 1010, 1020, 1030, 1040, 1050, 1060, 1070]
SLOWER = [1100.0, 1110, 1120, 1130, 1140, 1150, 1160, 1170]
SPIKES = [1001.0, 1011, 1021, 1031, 1041, 1051, 1061, 9000]  # one step is far off


def trace_of(path, lengths):
    rows = []
    for i, length in enumerate(lengths):
        begin = i * 20000
        rows += [row("user_annotation", f"ProfilerStep#{i + 1}", begin, 20000, 100, 100),
                 row("cuda_runtime", "cudaLaunchKernel", begin + 100, 10, 100, 100, correlation=i + 1),
                 row("kernel", "gemm", begin + 200, length, 0, 7, device=0, stream=7, correlation=i + 1)]
    return write_trace(path, {"schemaVersion": 1, "traceEvents": rows})


def change(lapse, tmp_path, before, after):
    done = lapse("trace", "diff", "--json", trace_of(tmp_path / "a.json", before), trace_of(tmp_path / "b.json", after))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    [gemm] = [r for r in document["sheets"]["changes"] if r["name"] == "gemm"]
    return gemm, " ".join(n["text"] for n in document["notes"])


def test_calm_steps_are_judged_by_welch(lapse, tmp_path):
    gemm, _ = change(lapse, tmp_path, CALM, SLOWER)
    assert (gemm["test"], gemm["verdict"]) == ("welch", "slower")
    assert gemm["p"] == pytest.approx(1.078976044897776e-06, rel=1e-9)
    assert gemm["p_rank"] == pytest.approx(2 / 12870, rel=1e-9)  # 2 of 16 choose 8


def test_skewed_steps_are_judged_by_ranks(lapse, tmp_path):
    # The mean of the first side is larger for one step only; ranks see that most became slower.
    gemm, _ = change(lapse, tmp_path, SPIKES, SLOWER)
    # Of two names, the other (the launch) does not change: q is twice the p.
    assert (gemm["test"], gemm["q"]) == ("ranks", pytest.approx(2 * gemm["p_rank"]))
    assert gemm["p_rank"] == pytest.approx(0.010411810411810413, rel=1e-9)
    assert gemm["p"] == pytest.approx(0.40024040279263756, rel=1e-9)


def test_few_steps_are_said_to_be_few(lapse, tmp_path):
    gemm, notes = change(lapse, tmp_path, [1000, 1001, 1500], [1100, 1101, 1102])
    assert gemm["test"] == "welch" and gemm["p_rank"] >= 0.1 and "Steps this few" in notes
    gemm, notes = change(lapse, tmp_path, [1000, 1001, 1002, 1500], [1100, 1101, 1102, 1103])
    assert gemm["test"] == "ranks" and "Steps this few" not in notes
    gemm, notes = change(lapse, tmp_path, [1000], [1100])
    assert gemm["verdict"] == "untested" and gemm["test"] is None and gemm["p_rank"] is None


def test_people_see_which(lapse, tmp_path):
    text = lapse("trace", "diff", trace_of(tmp_path / "a.json", SPIKES), trace_of(tmp_path / "b.json", SLOWER)).stdout
    assert "TEST" in text and "ranks" in text and "Mann and Whitney" in text
