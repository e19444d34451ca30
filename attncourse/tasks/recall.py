"""Give back a part of what was read: its first symbol, a paired one, or all of it backwards."""

from __future__ import annotations

from typing import NamedTuple

import torch

from attncourse.tasks.draw import Randomness, check_sizes, generator_of


class Recall(NamedTuple):
    """A batch of first-token recall: the answer is the symbol that came first."""

    tokens: torch.Tensor
    target: torch.Tensor

    @property
    def inputs(self) -> torch.Tensor:
        """What a model may see."""
        return self.tokens


def first_token_recall(
    batch_size: int, seq_len: int, num_symbols: int = 10, *, generator: Randomness
) -> Recall:
    """Make random sequences and ask for their first symbol.

    Parameters
    ----------
    batch_size, seq_len : int
        Number of sequences B, and their length T.
    num_symbols : int, default 10
        How many symbols there are. Guessing is right in 1 of `num_symbols` cases.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    tokens : Tensor of int64, shape (B, T)
        Independent uniform symbols.
    target : Tensor of int64, shape (B,)
        ``tokens[:, 0]``, which a reader of the last position has to bring across T - 1 steps.

    Examples
    --------
    >>> tokens, target = first_token_recall(2, 5, generator=0)
    >>> bool((tokens[:, 0] == target).all())
    True
    """
    check_sizes(batch_size=batch_size, seq_len=seq_len, num_symbols=num_symbols)
    random = generator_of(generator)
    tokens = torch.randint(num_symbols, (batch_size, seq_len), generator=random)
    return Recall(tokens, tokens[:, 0])


class Pairs(NamedTuple):
    """A batch of associative recall: the answer is the value paired with the key asked for."""

    keys: torch.Tensor
    values: torch.Tensor
    query: torch.Tensor
    target: torch.Tensor
    position: torch.Tensor

    @property
    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What a model may see."""
        return self.keys, self.values, self.query


def associative_recall(
    batch_size: int, num_pairs: int, num_symbols: int = 64, *, generator: Randomness
) -> Pairs:
    """Make lists of key-value pairs and ask for the value of one key.

    Parameters
    ----------
    batch_size, num_pairs : int
        Number of lists B, and the number of pairs N in each.
    num_symbols : int, default 64
        Size of the two alphabets, keys and values; at least `num_pairs`, for the keys of one list
        are all different.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    keys, values : Tensor of int64, shape (B, N)
        The pairs, in order; values may repeat.
    query, target : Tensor of int64, shape (B,)
        A key of the list, and its value.
    position : Tensor of int64, shape (B,)
        Where in the list that key stands.

    Raises
    ------
    ValueError
        If there are fewer symbols than pairs.
    """
    check_sizes(batch_size=batch_size, num_pairs=num_pairs)
    if num_symbols < num_pairs:
        raise ValueError(
            f"{num_pairs} pairs need {num_pairs} different keys, "
            f"but num_symbols is only {num_symbols}"
        )
    random = generator_of(generator)
    order = torch.rand(batch_size, num_symbols, generator=random).argsort(dim=1)
    keys = order[:, :num_pairs].contiguous()  # (B, N)
    values = torch.randint(num_symbols, (batch_size, num_pairs), generator=random)  # (B, N)
    position = torch.randint(num_pairs, (batch_size,), generator=random)  # (B,)
    rows = torch.arange(batch_size)
    return Pairs(keys, values, keys[rows, position], values[rows, position], position)


def reversal(
    batch_size: int, seq_len: int, num_symbols: int = 10, *, generator: Randomness
) -> Recall:
    """Make random sequences and ask for each of them backwards.

    Parameters
    ----------
    batch_size, seq_len, num_symbols : int
        As in `first_token_recall`.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    tokens, target : Tensor of int64, shape (B, T)
        A sequence, and the same sequence from its end to its start.
    """
    tokens, _ = first_token_recall(batch_size, seq_len, num_symbols, generator=generator)
    return Recall(tokens, tokens.flip(1))
