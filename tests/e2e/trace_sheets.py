# SPDX-License-Identifier: Apache-2.0
"""What the tests of lapse trace share: the traces of one process and of a job of two, and the
sheets of an answer."""
import pytest

from trace_maker import make_trace, write_trace


@pytest.fixture
def one(tmp_path):
    return write_trace(tmp_path / "one.json", make_trace())


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    write_trace(folder / "a10.pt.trace.json.gz", make_trace(rank=0))
    write_trace(folder / "a9.pt.trace.json", make_trace(rank=1, late=500))
    return folder


def sheets(lapse, *arguments):
    return lapse.json("trace", *arguments)["sheets"]
