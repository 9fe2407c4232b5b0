# SPDX-License-Identifier: Apache-2.0
"""What the measuring helpers have in common: they count their steps, they never raise
in training, and they say once why they cannot measure."""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, TypeVar, cast

from .._tell import tell_helper

_F = TypeVar("_F", bound=Callable[..., Any])


class Helper:
    """reason: why it does not measure; "" while it does."""

    def __init__(self, every: int = 1) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(
                f"{type(self).__name__}: every must be a whole number of steps from 1 on, "
                f"not {every!r}"
            )
        self.every = every
        self.reason = ""
        self._calls = 0

    def _due(self) -> bool:
        """Count a step: is it one that is measured? The first is."""
        due = self._calls % self.every == 0
        self._calls += 1
        return due and not self.reason

    def _note(self, text: str) -> None:
        """Say something once; measuring goes on."""
        tell_helper(type(self).__name__, text, False)

    def _cannot(self, why: str, warning: bool = True) -> None:
        """It does not measure from here on."""
        self.reason = why
        tell_helper(type(self).__name__, why, warning)


def quiet(method: _F) -> _F:
    """A method of a helper that must not raise: an error becomes its reason."""

    @wraps(method)
    def call(self: Helper, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._cannot(f"{type(error).__name__}: {error}")
            return None

    return cast(_F, call)


def moments(values: Any) -> dict[str, float]:
    """avg, max, min, std (of the population) and count of finite numbers; {} of none."""
    finite = [v for v in values if v - v == 0]
    if not finite:
        return {}
    avg = sum(finite) / len(finite)
    variance = sum((v - avg) ** 2 for v in finite) / len(finite)
    return {
        "avg": avg,
        "max": max(finite),
        "min": min(finite),
        "std": variance**0.5,
        "count": len(finite),
    }
