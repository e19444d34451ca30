"""What every task needs: a source of randomness, and sizes that make sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Randomness = torch.Generator | int


def generator_of(generator: Randomness) -> torch.Generator:
    """Return the generator, or a new one with this seed."""
    if isinstance(generator, torch.Generator):
        return generator
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.Generator().manual_seed(generator)
    raise TypeError(f"generator must be a torch.Generator or an int, got {generator!r}")


def check_sizes(**sizes: int) -> None:
    """Raise ValueError for a size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def batches(
    task: Callable[..., Any], *sizes: int, **options: Any
) -> Callable[[torch.Generator], tuple[Any, torch.Tensor]]:
    """Fix the sizes of a task, in the form that `attncourse.train.fit` wants.

    Parameters
    ----------
    task : callable
        A function of this package, such as `first_token_recall`.
    *sizes, **options
        Its arguments, without the generator.

    Returns
    -------
    callable
        ``make_batch(generator) -> (inputs, target)``.

    Examples
    --------
    >>> from attncourse.tasks import first_token_recall
    >>> make_batch = batches(first_token_recall, 64, 20)
    >>> inputs, target = make_batch(torch.Generator().manual_seed(0))
    >>> inputs.shape, target.shape
    (torch.Size([64, 20]), torch.Size([64]))
    """

    def make_batch(generator: torch.Generator) -> tuple[Any, torch.Tensor]:
        batch = task(*sizes, generator=generator, **options)
        return batch.inputs, batch.target

    return make_batch
