# SPDX-License-Identifier: Apache-2.0
"""Types of the extension lapse._store: stored runs, as C calls."""

import os
from types import TracebackType
from typing import Any, Optional, Union, final

from typing_extensions import Buffer

_Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
_Range = Optional[tuple[Optional[int], Optional[int]]]

STEP_NONE: int

def runs(root: Optional[_Path] = None) -> list[str]: ...
def find(what: _Path, root: Optional[_Path] = None) -> str: ...

@final
class Column(Buffer):
    def __len__(self) -> int: ...

@final
class Reader:
    def __new__(cls, path: _Path) -> Reader: ...
    @property
    def path(self) -> str: ...
    def info(self) -> dict[str, Any]: ...
    def processes(self) -> list[dict[str, Any]]: ...
    def series(self) -> list[dict[str, Any]]: ...
    def events(self) -> list[dict[str, Any]]: ...
    def attrs(self) -> list[tuple[int, int, str, str]]: ...
    def points(
        self,
        host: int,
        series: int,
        time: _Range = None,
        steps: _Range = None,
        *,
        all_segments: bool = False,
    ) -> tuple[Column, Column, Column, list[dict[str, Any]]]: ...
    def summary(
        self,
        host: int,
        series: int,
        time: _Range = None,
        steps: _Range = None,
        *,
        all_segments: bool = False,
    ) -> dict[str, Any]: ...
    def warning(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Reader: ...
    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> None: ...
