"""Split a batch over ranks that train one model together.

New here: the loss is a mean over examples, so its gradient is a mean of the ranks' gradients. DDP
keeps a whole model on every rank and averages the gradients; FSDP2 also cuts parameters, gradients
and moments into one part a rank and brings a layer together when it is needed. Neither knows
anything about attention. A batch is made from the seed and the step alone, so it depends neither
on the number of ranks nor on whether training was interrupted.

Left out: splitting one sequence (`attncourse.parallel.ring`), mixed precision.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from attncourse import train
from attncourse.models.gpt import GPT, GPTConfig
from attncourse.parallel import checkpoint, launch, sockets
from attncourse.text import corpus

__all__ = ["STRATEGIES", "Report", "Training", "own_loss", "own_rows", "wrap"]

STRATEGIES = ("ddp", "fsdp")


@dataclass
class Report:
    """What a training has done.

    Attributes
    ----------
    strategy, world_size
        How, and on how many ranks.
    losses : list of float
        The loss of the whole batch, one a step, also those before an interruption.
    alone : list of float
        With ``--check``: the losses of the same training in one process.
    grad_errors : list of float
        With ``--check``: the distance of the gradients to that process's, relative to their norm.
    resumed_at : int
        Steps that were read from a checkpoint.
    parameters, own_parameters : int
        Of the whole model, and of those that rank 0 keeps.
    sent_a_step : float or None
        Bytes that rank 0 sent in a step, by the operating system's count; the median.
    """

    strategy: str
    world_size: int
    losses: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    grad_errors: list[float] = field(default_factory=list)
    resumed_at: int = 0
    parameters: int = 0
    own_parameters: int = 0
    sent_a_step: float | None = None


def own_rows(batch_size: int, rank: int, world_size: int) -> slice:
    """Tell which rows of a batch are a rank's.

    Raises
    ------
    ValueError
        When there are more ranks than rows.

    Examples
    --------
    >>> [own_rows(5, rank, 2) for rank in (0, 1)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    if batch_size < world_size:
        raise ValueError(f"every rank needs a row: {world_size} ranks, but a batch of {batch_size}")
    return slice(rank * batch_size // world_size, (rank + 1) * batch_size // world_size)


def wrap(model: GPT, strategy: str) -> nn.Module:
    """Let the ranks train one model together.

    Parameters
    ----------
    model : GPT
        The same on every rank.
    strategy : {"ddp", "fsdp"}
        A whole model on every rank, or a part of each layer.

    Returns
    -------
    nn.Module
        Called and differentiated as before; its gradients are the mean over the ranks.

    Notes
    -----
    The work is PyTorch's: `DistributedDataParallel` and `torch.distributed.fsdp.fully_shard`.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"wanted one of {STRATEGIES}, got {strategy!r}")
    if strategy == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def own_loss(
    model: nn.Module,
    inputs: Tensor,
    target: Tensor,
    share: float,
) -> Tensor:
    """Return a rank's part of the batch's mean loss, so that the mean over ranks is that loss.

    Parameters
    ----------
    model, inputs, target
        The rank's rows.
    share : float
        Its rows, divided by those that each rank would have if all had as many.
    """
    return share * train.cross_entropy(model(inputs), target)


class Training:
    """A model, its optimizer and its place among the ranks."""

    def __init__(self, options: argparse.Namespace, process: launch.Process, strategy: str) -> None:
        self.options, self.process = options, process
        self.folder = options.checkpoint / strategy if options.checkpoint else None
        text = corpus.python_docs()
        self.make_batch = text.batches(options.batch, options.seq_len)
        train.set_seed(options.seed)
        model = GPT(GPTConfig(len(text), options.seq_len, 64, 2, 4, num_kv_heads=2))
        model = model.to(process.device, getattr(torch, options.dtype))
        self.alone = copy.deepcopy(model) if options.check else None
        self.model = wrap(model, strategy)
        self.report = Report(strategy, process.world_size)
        self.report.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.report.own_parameters = sum(_own(p).numel() for p in self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), options.lr)
        self.sent: list[int] = []
        if self.alone is not None:
            self.alone_optimizer = torch.optim.AdamW(self.alone.parameters(), options.lr)

    @property
    def facts(self) -> dict[str, Any]:
        """Name what a checkpoint must have in common with the run that goes on from it."""
        names = ("batch", "seq_len", "lr", "seed", "dtype")
        return {name: getattr(self.options, name) for name in names}

    def resume(self) -> int:
        """Go on from the newest checkpoint, if there is one."""
        newest = checkpoint.latest(self.folder) if self.folder else None
        if newest is None:
            return 0
        found = checkpoint.facts_of(newest)
        for name, wanted in self.facts.items():
            if found.get(name) != wanted:
                was = found.get(name)
                raise ValueError(f"{newest} was made with {name} {was}, now it is {wanted}")
        if self.alone is not None:
            raise ValueError("--check compares from the first step on: take an empty folder")
        checkpoint.restore(newest, self.model, self.optimizer)
        self.report.losses, self.report.resumed_at = found["losses"], found["step"]
        return found["step"]

    def save(self, step: int) -> None:
        """Write a checkpoint."""
        assert self.folder is not None
        facts = {**self.facts, "losses": self.report.losses}
        checkpoint.save(self.folder, step, self.model, self.optimizer, facts)

    def step(self, step: int) -> None:
        """Take one step on the batch of this number."""
        seed = self.options.seed * 1_000_003 + step
        inputs, target = self.make_batch(torch.Generator().manual_seed(seed))
        inputs, target = inputs.to(self.process.device), target.to(self.process.device)
        rank, world_size = self.process.rank, self.process.world_size
        rows = own_rows(len(inputs), rank, world_size)
        share = (rows.stop - rows.start) * world_size / len(inputs)
        before = sockets.bytes_sent()
        loss = own_loss(self.model, inputs[rows], target[rows], share)
        loss.backward()
        if before is not None:
            self.sent.append((sockets.bytes_sent() or 0) - before)
        total = loss.detach() / world_size
        dist.all_reduce(total)
        self.report.losses.append(total.item())
        if self.alone is not None:
            self._compare(inputs, target)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _compare(self, inputs: Tensor, target: Tensor) -> None:
        """Take the same step in one process, and note how far apart the gradients are."""
        assert self.alone is not None
        loss = train.cross_entropy(self.alone(inputs), target)
        loss.backward()
        ours = [_whole(p.grad).double() for p in self.model.parameters() if p.grad is not None]
        theirs = [p.grad.double() for p in self.alone.parameters() if p.grad is not None]
        apart = _norm([a - b for a, b in zip(ours, theirs, strict=True)])
        self.report.alone.append(loss.item())
        self.report.grad_errors.append(apart / _norm(theirs))
        self.alone_optimizer.step()
        self.alone_optimizer.zero_grad()


def _own(tensor: Tensor) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _whole(tensor: Any) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _norm(tensors: list[Tensor]) -> float:
    return sum(x.square().sum().item() for x in tensors) ** 0.5
