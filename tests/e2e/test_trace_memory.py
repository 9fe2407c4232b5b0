# SPDX-License-Identifier: Apache-2.0
"""Every subcommand of `lapse trace` stays within --memory, and a stated room beside it, in resident
memory; where not all of a trace fits it looks at a part and says so, or says what it needs."""
import json
import re
import subprocess
import sys

import pytest

from test_trace import schema

pytestmark = pytest.mark.timeout(240)  # the long trace is made within that of the first test

BUDGET = 16 << 20
# What is beside the budget: the program and its libraries, the texts of the trace, the blocks that
# are unpacked, the output (docs/trace.md, "Memory").
BESIDE = 32 << 20
STEPS, OPERATORS = 120, 440  # operators of a step; each is six rows and an instant


def rows_of_step(number):
    begin, id_ = number * 10000000, number * OPERATORS  # ns
    yield (f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{number}","pid":100,"tid":100,'
           f'"ts":{begin / 1000},"dur":9999.0,"args":{{"External id":{10 ** 6 + number}}}}}')
    for i in range(OPERATORS):
        ts, key = begin / 1000 + 20 * i + 1, id_ + i + 1
        common = f'"pid":100,"tid":100,"ts":{ts}'
        yield (f'{{"ph":"X","cat":"python_function","name":"model.py({i % 90}): forward",{common},"dur":18.5,'
               f'"args":{{"Python id":{key},"Ev Idx":{key}}}}}')
        yield (f'{{"ph":"X","cat":"cpu_op","name":"aten::op{i % 60}",{common},"dur":18.0,'
               f'"args":{{"External id":{key},"Input Dims":[[{i % 60},64],[]],"Ev Idx":{key}}}}}')
        yield (f'{{"ph":"X","cat":"cpu_op","name":"aten::inner{i % 7}","pid":100,"tid":100,"ts":{ts + 1},'
               f'"dur":10.0,"args":{{"External id":{10 ** 7 + key}}}}}')
        yield (f'{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":100,"tid":100,'
               f'"ts":{ts + 3},"args":{{"Total Reserved":9000000,"Total Allocated":{8000 + i % 2 * 512},'
               f'"Bytes":{512 if i % 2 else -512},"Addr":{7 * 10 ** 13 + i // 2},"Device Id":0,"Device Type":1}}}}')
        yield (f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":100,"tid":100,"ts":{ts + 5},'
               f'"dur":4.0,"args":{{"External id":{key},"correlation":{key}}}}}')
        yield (f'{{"ph":"X","cat":"kernel","name":"sm90_gemm_{i % 40}","pid":0,"tid":7,"ts":{ts + 12},"dur":15.0,'
               f'"args":{{"device":0,"stream":7,"correlation":{key},"External id":{key},"blocks per SM":2.0,'
               f'"est. achieved occupancy %":50,"grid":[{i % 40 + 1},1,1],"block":[128,1,1]}}}}')
        if i % 9 == 0:
            yield (f'{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,'
                   f'"ts":{ts + 27.5},"dur":0.5,"args":{{"device":0,"stream":7,"correlation":{10 ** 7 + key},'
                   f'"bytes":1000,"memory bandwidth (GB/s)":2.0}}}}')


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    """Some 60 MB of operators, launches, kernels, Python calls and memory events."""
    path = tmp_path_factory.mktemp("long") / "long.pt.trace.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"Test GPU","totalGlobalMem":8589934592,'
                   '"computeMajor":9,"computeMinor":0,"numSms":100,"warpSize":32}],"traceEvents":[\n')
        for step in range(1, STEPS + 1):
            file.write(("" if step == 1 else ",\n") + ",\n".join(rows_of_step(step)))
        file.write("\n]}\n")
    assert path.stat().st_size > 50 << 20
    return path


# A process's peak counts what it was before exec() too: a small one starts the program, not pytest.
MEASURE = """import os, sys
_, status, usage = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))"""


def run_measured(lapse, *arguments):
    """(exit status, stdout, stderr, resident bytes at the peak) of `lapse trace`."""
    peak = lapse.folder / "peak"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, peak, lapse.program, "trace",
                           *map(str, arguments)], env=lapse.env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, done.stderr, int(peak.read_text()) * 1024


# What to run, and what it does about the trace being too long: all of it is looked at, a part
# is, or it says what it needs.
ALL, PART, NEEDS = "all", "part", "needs"
CASES = [
    ("summary", PART), ("top", ALL), ("top --by shape", ALL), ("top --by stack", PART), ("top --modules", PART),
    ("top --plugin", NEEDS), ("steps", PART), ("steps --plugin", NEEDS), ("temporal", PART),
    ("temporal --hta", NEEDS), ("idle", PART), ("idle --hta --no-rounding", NEEDS), ("kernels", PART),
    ("kernels --hta", NEEDS), ("overlap", PART), ("launch", PART), ("launch --pairs", PART),
    ("launch --operators --syncs", PART), ("launch --hta", NEEDS), ("queue", PART), ("queue --points", PART),
    ("bandwidth", PART), ("bandwidth --points", PART), ("annotations --host", PART), ("annotations --hta", NEEDS),
    ("gpu", PART), ("gpu --plugin", NEEDS), ("memory", PART), ("memory --timeline", PART),
    ("memory --plugin", NEEDS), ("critical-path", PART), ("critical-path --path", PART),
    ("critical-path --hta", NEEDS), ("sequences", PART), ("sequences --hta", NEEDS), ("stacks", PART),
    ("stacks --device", PART), ("diff", PART), ("diff --hta", NEEDS), ("ranks", PART), ("ranks --hta", NEEDS),
    ("ranks --plugin", NEEDS), ("score", PART), ("validate", PART), ("tables", PART), ("tables --hta", NEEDS),
]


def test_every_subcommand_is_here():
    """A new subcommand that is not measured fails here."""
    others = {"convert", "merge", "repair", "timeline", "import"}  # import: of other files
    assert {case.split()[0] for case, _ in CASES} | others == set(schema())


FORMS = [(case, does, form) for case, does in CASES for form in ("text", "json", "csv")
         if form == "text" or (does != NEEDS and (form == "json" or " --" in case))]


@pytest.mark.parametrize("case, does, form", FORMS, ids=[f"{case} {form}" for case, _, form in FORMS])
def test_stays_within(lapse, long_trace, case, does, form):
    files = [long_trace] * (2 if case.startswith("diff") else 1)
    status, out, err, resident = run_measured(lapse, *case.split(), *([f"--{form}"] if form != "text" else []),
                                              "--memory", BUDGET, *files)
    assert resident <= BUDGET + BESIDE, f"{resident / 2 ** 20:.1f} MiB"
    if does == NEEDS:
        assert status == 1 and out == ""
        assert re.search(r"needs all \d+ rows in memory, about .*--memory \d+M is enough", err), err
        return
    assert status in ((0, 1) if case == "validate" else (0,)), err
    told = re.search(r"The memory given \(16\.0 MiB\) does not hold all \d+ rows: only steps \d+ to \d+ ",
                     re.sub(r"\s+", " ", err if form == "csv" else out))
    assert bool(told) == (does == PART)
    if form == "json":
        cuts = json.loads(out)["inputs"]["cuts"]
        assert len(cuts) == (len(files) if does == PART else 0)
        for cut in cuts:
            assert 0 < cut["rows"] < cut["of"] and 1 < cut["step_first"] <= cut["step_last"] < STEPS
            assert cut["from_ns"] < cut["to_ns"]


@pytest.mark.parametrize("case", ["convert", "merge", "repair", "timeline"])
def test_writers_stay_within(lapse, long_trace, tmp_path, case):
    budget = [] if case == "repair" else ["--memory", BUDGET]
    status, _, err, resident = run_measured(lapse, case, "-o", tmp_path / "new.json", *budget, long_trace)
    assert status == 0, err
    assert resident <= BUDGET + BESIDE, f"{resident / 2 ** 20:.1f} MiB"


def test_what_it_needs_is_enough(lapse, long_trace):
    """The --memory that an error names is enough, and is kept too."""
    for case in ("top --plugin", "memory --plugin", "temporal --hta", "critical-path --hta"):
        _, _, err, _ = run_measured(lapse, *case.split(), "--memory", BUDGET, long_trace)
        budget = int(re.search(r"--memory (\d+)M is enough", err)[1]) << 20
        status, _, err, resident = run_measured(lapse, *case.split(), "--memory", budget, long_trace)
        assert status == 0, err
        assert resident <= budget + BESIDE, case


def test_without_a_budget_it_takes_more(lapse, long_trace):
    """What is measured here can be exceeded: all of the trace takes more than budget and room."""
    for case in ("top", "steps", "memory"):
        status, _, err, resident = run_measured(lapse, case, long_trace)
        assert status == 0, err
        assert resident > BUDGET + BESIDE, case


def test_top_by_windows_is_that_of_the_whole(lapse, long_trace):
    for more in ([], ["--by", "shape"], ["--by-thread", "--gpu-annotations"]):
        whole = lapse.json("trace", "top", *more, long_trace)
        some = lapse.json("trace", "top", *more, "--memory", BUDGET, long_trace)
        assert some["sheets"] == whole["sheets"] and some["notes"] == whole["notes"]
        assert some["inputs"]["cuts"] == []
    launch = next(r for r in whole["sheets"]["operators"] if r["name"] == "cudaLaunchKernel")
    assert launch["calls"] == STEPS * OPERATORS


def test_top_falls_back_to_a_part(lapse, long_trace, tmp_path):
    """An annotation around everything, or an id that comes back, leaves no windows: a part is told."""
    text = long_trace.read_text(encoding="utf-8")
    around = ('{"ph":"X","cat":"user_annotation","name":"train","pid":100,"tid":100,"ts":1,"dur":99999999,"args":{}},\n')
    for name, edited in (("around", text.replace('"traceEvents":[\n', '"traceEvents":[\n' + around)),
                         ("twice", text.replace(f'"correlation":{(STEPS + 1) * OPERATORS}}}', f'"correlation":{OPERATORS + 1}}}'))):
        path = tmp_path / f"{name}.json"
        path.write_text(edited, encoding="utf-8")
        document = lapse.json("trace", "top", "--memory", BUDGET, path)
        assert len(document["inputs"]["cuts"]) == 1, name
        assert [n["key"] for n in document["notes"]].count("part") == 1


def test_steps_that_do_not_fit_are_told(lapse, long_trace):
    """More steps asked for than fit: those in their middle; few enough: all of them."""
    document = lapse.json("trace", "temporal", "--steps", "10:100", "--memory", BUDGET, long_trace)
    [cut] = document["inputs"]["cuts"]
    assert 10 <= cut["step_first"] < cut["step_last"] < 100 and cut["rows"] < cut["of"]
    assert "of these steps: only steps" in next(n["text"] for n in document["notes"] if n["key"] == "part")
    few = ["trace", "temporal", "--steps", "50:54", long_trace]
    document = lapse.json(*few, "--memory", BUDGET)
    assert document["inputs"]["cuts"] == []
    assert document["sheets"] == lapse.json(*few)["sheets"]


def test_ranks_are_cut_alike(lapse, long_trace, tmp_path):
    """Of ranks of a job the same steps, whatever fits of each."""
    text = long_trace.read_text(encoding="utf-8")
    for rank in (0, 1):
        told = f'"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}}'
        lines = text.replace('"schemaVersion":1', told, 1).split("\n")
        # The second rank records more at the end, so that its middle would be elsewhere.
        keep = [line for line in lines if rank or '"python_function"' not in line]
        (tmp_path / f"rank{rank}.json").write_text("\n".join(keep), encoding="utf-8")
    for case in ("ranks", "summary"):
        cuts = lapse.json("trace", case, "--memory", 2 * BUDGET, tmp_path)["inputs"]["cuts"]
        assert len({(c["step_first"], c["step_last"]) for c in cuts}) == 1 and len(cuts) == 2


def test_times_of_a_window_are_those_of_the_whole(lapse, long_trace, tmp_path):
    """--begin and --end count from the trace's begin, also where not all of it is in memory."""
    written = []
    for more in ([], ["--memory", BUDGET]):
        for case in ("convert", "merge"):
            document = lapse.json("trace", case, "--begin", "0.2s", "--end", "0.4s", "-o", tmp_path / "part.json",
                                  *more, long_trace)
            written.append(document["sheets"]["written"])
            assert not [n for n in document["notes"] if n["key"] == "part"] and document["inputs"]["cuts"] == []
    assert written[0] == written[2] and written[1] == written[3]
    assert written[0][0]["from_ns"] == 10000000 + 200000000
