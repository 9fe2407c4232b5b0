# SPDX-License-Identifier: Apache-2.0
"""resource_logs/epoch_N.csv: a row of figures now and then, in columns that stay."""

from __future__ import annotations

import contextlib
import csv
import os
import time
from typing import TYPE_CHECKING, Any

from ._aliases import SETS
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_END = ("step", "timestamp", "epoch")


class ResourceLog:
    """Files of one fit. A row is written when it is added, and kept there only; None is an
    empty cell. When a GPU appears that no column is for, the file is written anew with its
    columns, which stay in all later files. What cannot be written is said once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.rank: int | None = None  #: in the names, if there are several
        self.path = ""  #: of the file that is written, or was last
        self._gpus: list[str] = []
        self._epoch: int | None = None
        self._resumed = self._goes_on = False  # are the rows of `path` of this file?
        self._file: Any = None
        self._writer: Any = None

    def begin(self, resumed: bool) -> None:
        """A fit begins. resumed: rows of files that are there stay; else they are another
        fit's, and replaced."""
        self.close()
        self._epoch, self._resumed = None, resumed

    def columns(self) -> list[str]:
        """In the order of the file."""
        each, machine = SETS["ocr"]
        gpus = [alias.name.format(i=gpu) for gpu in self._gpus for alias in each]
        return [*gpus, *(alias.name for alias in machine), *_END]

    def add(self, row: Mapping[str, float | None], step: int, epoch: int) -> None:
        """A row of this epoch, with the time now (seconds since 1970)."""
        full = {**row, "step": step, "timestamp": round(time.time(), 3), "epoch": epoch}
        try:
            if epoch != self._epoch:
                self._open(epoch)
            new = self._new_gpus(row)
            if new or self._file is None:
                self._gpus += new
                self._rewrite()
            self._writer.writerow(full)
            self._file.flush()
        except OSError as error:
            self.close()
            tell_once("resources", f"{self.path or self.folder}: {error.strerror}")

    def _new_gpus(self, names: Iterable[str]) -> list[str]:
        seen = [name[4:-5] for name in names if name.startswith("gpu_") and name.endswith("_util")]
        return [gpu for gpu in seen if gpu not in self._gpus]

    def _open(self, epoch: int) -> None:
        self.close()
        os.makedirs(self.folder, exist_ok=True)
        rank = "" if self.rank is None else f"_rank_{self.rank}"
        self.path = os.path.join(self.folder, f"epoch_{epoch}{rank}.csv")
        self._epoch, self._goes_on = epoch, self._resumed
        for row in self._rows():
            self._gpus += self._new_gpus(row)
            break

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Of the file as it is, whole ones."""
        if not self._goes_on or not os.path.exists(self.path):
            return
        with open(self.path, newline="", encoding="utf-8", errors="replace") as file:
            try:
                yield from (row for row in csv.DictReader(file) if row.get("epoch"))
            except csv.Error:
                return  # not a file of ours, or torn: what came before is kept

    def _rewrite(self) -> None:
        """The whole file, under another name first: a reader sees a whole one."""
        self.close()
        part = self.path + ".part"
        self._file = open(part, "w", newline="", encoding="utf-8")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, self.columns(), extrasaction="ignore")
        self._writer.writeheader()
        self._writer.writerows(self._rows())
        self._file.flush()
        os.replace(part, self.path)
        self._goes_on = True

    def close(self) -> None:
        """The epoch has ended: its file is complete."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # said when the row was added
                file.close()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.update(_file=None, _writer=None)
        return state
