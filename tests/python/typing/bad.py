# SPDX-License-Identifier: Apache-2.0
"""What mypy --strict must refuse, and nothing else."""

from __future__ import annotations

import lapse


@lapse.span("function")
def function(x: int) -> str:
    return str(x)


lapse.log([1, 2])  # bad
lapse.log({"a": 1}, step="3")  # bad
lapse.metric("loss", kind="meter")  # bad
lapse.metric("loss").set("1")  # bad
lapse.metric(1)  # bad
lapse.span(1)  # bad
lapse.Metric("x")  # bad
function("1")  # bad
number: int = function(1)  # bad
lapse.step(sample=1)  # bad
lapse.init(projet="x")  # bad
lapse.init(settings=5)  # bad
lapse.no_such_name  # bad
