"""Train a small model: one loop, the same for every chapter.

The one idea: a model, a function that makes batches, a loss, and nothing hidden. The loop seeds
what is random, clips the gradients, and stops early when a metric on unseen batches is reached.
Left out: learning-rate schedules, mixed precision, checkpoints, several devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from attncourse.notebook.progress import counted

Batch = tuple[Any, torch.Tensor]
MakeBatch = Callable[[torch.Generator], Batch]
Measure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | float]

# Unseen batches come from a seed far from the one that training uses.
_UNSEEN = 1_000_003
# torch's cross-entropy skips targets of this value; so does the accuracy.
_LEFT_OUT = -100


@dataclass
class History:
    """What happened during training.

    Attributes
    ----------
    losses, grad_norms : list of float
        One a step; the norm is that of all gradients together, before clipping.
    metric_steps, metrics : list
        After which steps the metric was measured on an unseen batch, and its values.
    stopped_at : int or None
        The step after which the metric reached `stop`; None if it never did.
    seconds : float
        Time that the loop took.
    device : str
        Where it ran.
    """

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    metric_steps: list[int] = field(default_factory=list)
    metrics: list[float] = field(default_factory=list)
    stopped_at: int | None = None
    seconds: float = 0.0
    device: str = "cpu"


def set_seed(seed: int) -> None:
    """Seed torch's generators on every device, so that the next model starts the same way."""
    torch.manual_seed(seed)


def pick_device(device: str | torch.device | None = None) -> torch.device:
    """Choose where to compute: the device asked for, else CUDA, else Apple's MPS, else the CPU.

    Raises
    ------
    ValueError
        If the device asked for is not on this machine.
    """
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device is None:
        return torch.device(next((name for name, there in found.items() if there), "cpu"))
    chosen = torch.device(device)
    if not found.get(chosen.type, True):
        raise ValueError(f"device {str(chosen)!r} was asked for, but this machine has none")
    return chosen


def accuracy(output: torch.Tensor, target: torch.Tensor) -> float:
    """Return the share of targets that are the largest entry of `output` on its last axis.

    Parameters
    ----------
    output : Tensor, shape (..., C)
        Scores of C classes.
    target : Tensor of int64, shape (...)
        The right classes; -100 leaves a place out, as in torch's cross-entropy.

    Raises
    ------
    ValueError
        If the shapes do not belong together.
    """
    if output.shape[:-1] != target.shape:
        raise ValueError(
            f"output has shape {tuple(output.shape)}, target {tuple(target.shape)}; "
            "wanted output (..., C) for target (...)"
        )
    asked = target != _LEFT_OUT
    return (output.argmax(-1) == target)[asked].float().mean().item()


def cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy in nats; shapes as in `accuracy`."""
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def fit(
    model: nn.Module,
    make_batch: MakeBatch,
    loss: Measure = cross_entropy,
    *,
    steps: int,
    lr: float,
    seed: int,
    device: str | torch.device | None = None,
    stop: float | None = None,
    metric: Measure = accuracy,
    measure_every: int = 25,
    clip: float | None = 1.0,
    progress: bool = True,
) -> History:
    """Train a model with Adam.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(*inputs)``. It is trained in place, and ends on the device that it came
        from. Its initial parameters are the caller's: `set_seed` before it is made.
    make_batch : callable
        ``make_batch(generator) -> (inputs, target)``, where `inputs` is a tensor or a tuple of
        tensors. The generator lives on the CPU.
    loss : callable, default `cross_entropy`
        ``loss(output, target) -> scalar tensor``, to be made small.
    steps : int
        Number of steps at most, at least 1.
    lr : float
        Adam's learning rate.
    seed : int
        Decides the batches and everything random inside the model.
    device : str or torch.device, optional
        See `pick_device`.
    stop : float, optional
        Stop once the metric on an unseen batch is at least this.
    metric : callable, default `accuracy`
        ``metric(output, target) -> float``, larger is better.
    measure_every : int, default 25
        Steps between two measurements. Without `stop` the metric is measured at the end only.
    clip : float or None, default 1.0
        Largest norm of all gradients together; None leaves them as they are.
    progress : bool, default True
        Show a text progress bar where somebody can watch: a terminal or a live notebook.

    Returns
    -------
    History

    Raises
    ------
    ValueError
        If `steps`, `lr`, `measure_every` or `clip` is not positive.
    FloatingPointError
        If the loss is no longer finite.
    """
    for name, number in {"steps": steps, "lr": lr, "measure_every": measure_every}.items():
        _check_positive(name, number)
    if clip is not None:
        _check_positive("clip", clip)
    home = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    place = pick_device(device)
    model.to(place).train()
    history = History(device=str(place))
    set_seed(seed)
    batches = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    start = time.perf_counter()
    for step in counted(steps, "training", progress):
        inputs, target = _to(make_batch(batches), place)
        _one_step(model, inputs, target, loss, optimizer, clip, history)
        if step == steps or (stop is not None and step % measure_every == 0):
            value = evaluate(model, make_batch, metric, seed=seed + step)
            history.metric_steps.append(step)
            history.metrics.append(value)
            if stop is not None and value >= stop:
                history.stopped_at = step
                break
    history.seconds = time.perf_counter() - start
    model.to(home).eval()
    return history


def evaluate(
    model: nn.Module, make_batch: MakeBatch, metric: Measure = accuracy, *, seed: int
) -> float:
    """Measure a model on one batch that training has not seen, where the model lives.

    Parameters
    ----------
    model, make_batch, metric
        As in `fit`; dropout is switched off meanwhile.
    seed : int
        Decides the batch; it is moved away from the seeds that `fit` trains with.
    """
    place = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    unseen = torch.Generator().manual_seed(seed + _UNSEEN)
    inputs, target = _to(make_batch(unseen), place)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return float(metric(model(*inputs), target))
    finally:
        model.train(training)


def _one_step(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    target: torch.Tensor,
    loss: Measure,
    optimizer: torch.optim.Optimizer,
    clip: float | None,
    history: History,
) -> None:
    optimizer.zero_grad()
    value = loss(model(*inputs), target)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise ValueError(f"loss must return a scalar tensor, got {type(value).__name__}")
    if not math.isfinite(value.item()):
        raise FloatingPointError(
            f"the loss became {value.item()} at step {len(history.losses) + 1}; "
            "try a smaller lr or a smaller clip"
        )
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf if clip is None else clip)
    optimizer.step()
    history.losses.append(value.item())
    history.grad_norms.append(norm.item())


def _check_positive(name: str, number: float) -> None:
    if not number > 0:
        raise ValueError(f"{name} must be positive, got {number}")


def _to(batch: Batch, place: torch.device) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    inputs, target = batch
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    return tuple(part.to(place) for part in inputs), target.to(place)
