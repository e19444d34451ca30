"""Look up symbols by where they stand: two places at once, some places back, the latest mark."""

from __future__ import annotations

import torch

from attncourse.tasks.draw import Randomness, check_sizes, generator_of
from attncourse.tasks.recall import Recall


def two_lookups(
    batch_size: int, seq_len: int, num_symbols: int = 10, *, generator: Randomness
) -> Recall:
    """Ask every position for two symbols: its mirror image's, and that of two places before.

    Parameters
    ----------
    batch_size, seq_len : int
        Number of sequences B, and their length T. It must be even: then the two places differ at
        every position.
    num_symbols : int, default 10
        How many symbols there are.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    tokens : Tensor of int64, shape (B, T)
        Independent uniform symbols.
    target : Tensor of int64, shape (B, T, 2)
        The symbol at T - 1 - t, and the symbol at t - 2, counted round the end.

    Raises
    ------
    ValueError
        If `seq_len` is odd.
    """
    check_sizes(batch_size=batch_size, seq_len=seq_len, num_symbols=num_symbols)
    if seq_len % 2:
        raise ValueError(f"seq_len must be even, so that the two places differ; got {seq_len}")
    random = generator_of(generator)
    tokens = torch.randint(num_symbols, (batch_size, seq_len), generator=random)
    return Recall(tokens, torch.stack([tokens.flip(1), tokens.roll(2, dims=1)], dim=-1))


def some_places_back(
    batch_size: int, seq_len: int, num_symbols: int = 10, *, back: int = 3, generator: Randomness
) -> Recall:
    """Ask every position for the symbol that stands a fixed number of places before it.

    Parameters
    ----------
    batch_size, seq_len, num_symbols, generator
        As in `two_lookups`; any length.
    back : int, default 3
        How many places, at least 1.

    Returns
    -------
    tokens, target : Tensor of int64, shape (B, T)
        The first `back` positions have nothing that far before them. Their target is -100, which
        torch's cross-entropy leaves out.
    """
    check_sizes(batch_size=batch_size, seq_len=seq_len, num_symbols=num_symbols, back=back)
    random = generator_of(generator)
    tokens = torch.randint(num_symbols, (batch_size, seq_len), generator=random)
    target = tokens.roll(back, dims=1)
    target[:, :back] = -100
    return Recall(tokens, target)


def latest_mark(
    batch_size: int, seq_len: int, num_symbols: int = 10, *, generator: Randomness
) -> Recall:
    """Mark a quarter of the symbols and ask every position for the marked one seen last.

    Parameters
    ----------
    batch_size, seq_len, num_symbols, generator
        As in `two_lookups`; any length.

    Returns
    -------
    tokens : Tensor of int64, shape (B, T)
        Below `num_symbols` an unmarked symbol; a marked one is `num_symbols` larger. The first is
        always marked.
    target : Tensor of int64, shape (B, T)
        The symbol, without its mark, of the latest marked place up to and including this one.
    """
    check_sizes(batch_size=batch_size, seq_len=seq_len, num_symbols=num_symbols)
    random = generator_of(generator)
    symbols = torch.randint(num_symbols, (batch_size, seq_len), generator=random)
    marked = torch.rand(batch_size, seq_len, generator=random) < 0.25
    marked[:, 0] = True
    latest = torch.where(marked, torch.arange(seq_len), 0).cummax(dim=1).values  # (B, T)
    return Recall(symbols + num_symbols * marked, symbols.gather(1, latest))
