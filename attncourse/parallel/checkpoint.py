"""Save what training has reached, so that a killed process costs one interval and no more.

New here: a checkpoint counts only when all of it is on the disk. The ranks write their parts into a
folder with a provisional name, and rank 0 renames it when everybody is done: a process that is
killed in the middle leaves the one before untouched. The parts know which piece of which tensor
they hold, so another number of ranks, or one with other sharding, can read them.

Left out: writing while training goes on, and where many machines keep one common disk.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer

__all__ = ["facts_of", "latest", "restore", "save"]

_PARTIAL, _FACTS = ".partial", "facts.json"


def save(
    folder: Path, step: int, model: nn.Module, optimizer: Optimizer, facts: dict[str, Any]
) -> Path:
    """Write a checkpoint, all ranks together.

    Parameters
    ----------
    folder : Path
        Where all checkpoints of this training lie; every rank must see it.
    step : int
        How many steps are done.
    model, optimizer
        Plain, or wrapped by DDP or FSDP2.
    facts : dict
        Anything else that JSON can hold; rank 0's is kept.

    Returns
    -------
    Path
        The finished checkpoint. The one before is kept, older ones are removed.

    Raises
    ------
    OSError
        On every rank, when one cannot write; what was finished before stays.
    """
    target = folder / f"step-{step:08d}"
    partial = target.with_suffix(_PARTIAL)
    if dist.get_rank() == 0:
        for unfinished in folder.glob(f"*{_PARTIAL}"):
            shutil.rmtree(unfinished, ignore_errors=True)
        partial.mkdir(parents=True)
        (partial / _FACTS).write_text(json.dumps({"step": step, **facts}), encoding="utf-8")
    dist.barrier()
    weights, moments = get_state_dict(model, optimizer)
    with _in_one_line(f"{target} cannot be written; the one before is whole"):
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=partial)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        for old in _finished(folder)[:-2]:
            shutil.rmtree(old, ignore_errors=True)
    dist.barrier()
    return target


def latest(folder: Path) -> Path | None:
    """Find the newest finished checkpoint; None where there is none."""
    finished = _finished(folder)
    return finished[-1] if finished else None


def facts_of(path: Path) -> dict[str, Any]:
    """Read the facts that a checkpoint was saved with, and its `step`.

    Raises
    ------
    OSError
        When they cannot be read.
    """
    try:
        return json.loads((path / _FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OSError(_unreadable(path) + f": {error}") from error


def restore(path: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Read a checkpoint into a model and its optimizer, all ranks together.

    Parameters
    ----------
    path : Path
        From `latest`.
    model, optimizer
        Of the same sizes; the number of ranks and the wrapping may be others than when saved.

    Raises
    ------
    OSError
        On every rank, when one cannot read its part, or finds other sizes in it.
    """
    weights, moments = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": weights, "optimizer": moments}
    with _in_one_line(_unreadable(path)):
        dcp.load(state, checkpoint_id=path)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )


def _unreadable(path: Path) -> str:
    return f"{path} cannot be read; remove it to go on from the one before"


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Turn PyTorch's pages about all ranks, no Exception to Python, into the first rank's line."""
    try:
        yield
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items(), key=lambda failure: failure[0])
        while cause.__context__ is not None:  # a full disk is behind an error about positions
            cause = cause.__context__
        why = f"{type(cause).__name__}: {cause}".strip().splitlines()[0]
        raise OSError(f"{what} (rank {rank}: {why})") from None


def _finished(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.suffix != _PARTIAL)
