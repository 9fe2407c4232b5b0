# SPDX-License-Identifier: Apache-2.0
"""resource_logs/epoch_N.csv: a row of figures now and then, in columns that stay."""

from __future__ import annotations

import csv
import os
import time
from typing import TYPE_CHECKING, Any

from ._aliases import SETS
from ._tell import tell_once

if TYPE_CHECKING:
    from collections.abc import Mapping

_END = ("step", "timestamp", "epoch")


class ResourceLog:
    """Files of one fit. A row is written when it is added; None is an empty cell. When a
    GPU appears that no column is for, the file is written anew with its columns, which
    stay in all later files. What cannot be written is said once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.rank: int | None = None  #: in the names, if there are several
        self.path = ""  #: of the file that is written, or was last
        self._gpus: list[str] = []
        self._epoch: int | None = None
        self._rows: list[dict[str, Any]] = []
        self._file: Any = None
        self._writer: Any = None

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
            self._rows.append(full)
            if new or self._file is None:
                self._gpus += new
                self._rewrite()
            else:
                self._writer.writerow(full)
            self._file.flush()
        except OSError as error:
            self.close()
            tell_once("resources", f"{self.path or self.folder}: {error.strerror}")

    def _new_gpus(self, row: Mapping[str, float | None]) -> list[str]:
        seen = [name[4:-5] for name in row if name.startswith("gpu_") and name.endswith("_util")]
        return [gpu for gpu in seen if gpu not in self._gpus]

    def _open(self, epoch: int) -> None:
        self.close()
        os.makedirs(self.folder, exist_ok=True)
        rank = "" if self.rank is None else f"_rank_{self.rank}"
        self.path = os.path.join(self.folder, f"epoch_{epoch}{rank}.csv")
        self._epoch, self._rows = epoch, []

    def _rewrite(self) -> None:
        """The whole file, under another name first: a reader sees a whole one."""
        if self._file is not None:
            self._file.close()
        part = self.path + ".part"
        self._file = open(part, "w", newline="", encoding="utf-8")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, self.columns(), extrasaction="ignore")
        self._writer.writeheader()
        self._writer.writerows(self._rows)
        self._file.flush()
        os.replace(part, self.path)

    def close(self) -> None:
        """The epoch has ended: its file is complete."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.update(_file=None, _writer=None)
        return state
