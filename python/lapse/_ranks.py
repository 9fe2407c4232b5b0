# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, as far as it is known now: the process group of
torch.distributed if there is one, else the variables that launchers set. Nothing is
imported for it."""

from __future__ import annotations

import os
import sys

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _group() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available():
            return None
        if not distributed.is_initialized():
            return None
        return int(distributed.get_rank()), int(distributed.get_world_size())
    except (AttributeError, RuntimeError, ValueError):
        return None


def _number(names: tuple[str, ...]) -> int | None:
    for name in names:
        try:
            return int(os.environ[name])
        except (KeyError, ValueError):
            continue
    return None


def _variables() -> tuple[int, int]:
    """A step of Slurm that one launcher process fills has SLURM_PROCID without being a
    rank of that job, so a rank counts only with a world that holds it."""
    for rank_name, world_name in zip(_RANK, _WORLD):
        rank, world = _number((rank_name,)), _number((world_name,))
        if rank is not None and world is not None and 0 <= rank < world:
            return rank, world
    return 0, 1


def rank_and_world() -> tuple[int, int]:
    """(global rank, number of ranks); (0, 1) if nothing says otherwise. About 1 us."""
    return _group() or _variables()
