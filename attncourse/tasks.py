"""Small tasks with a known answer, generated on the spot.

The one idea: a claim about a network is tested on a task where only the claimed ability helps.
First-token recall needs a memory that lasts; associative recall needs a memory that is large;
reversal needs to know positions; the negated reviews need the word "not".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Randomness = torch.Generator | int


def _generator(generator: Randomness) -> torch.Generator:
    if isinstance(generator, torch.Generator):
        return generator
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.Generator().manual_seed(generator)
    raise TypeError(f"generator must be a torch.Generator or an int, got {generator!r}")


def _check(**sizes: int) -> None:
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
        A function of this module, such as `first_token_recall`.
    *sizes, **options
        Its arguments, without the generator.

    Returns
    -------
    callable
        ``make_batch(generator) -> (inputs, target)``.

    Examples
    --------
    >>> make_batch = batches(first_token_recall, 64, 20)
    >>> inputs, target = make_batch(torch.Generator().manual_seed(0))
    >>> inputs.shape, target.shape
    (torch.Size([64, 20]), torch.Size([64]))
    """

    def make_batch(generator: torch.Generator) -> tuple[Any, torch.Tensor]:
        batch = task(*sizes, generator=generator, **options)
        return batch.inputs, batch.target

    return make_batch


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
    _check(batch_size=batch_size, seq_len=seq_len, num_symbols=num_symbols)
    random = _generator(generator)
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
    _check(batch_size=batch_size, num_pairs=num_pairs)
    if num_symbols < num_pairs:
        raise ValueError(
            f"{num_pairs} pairs need {num_pairs} different keys, "
            f"but num_symbols is only {num_symbols}"
        )
    random = _generator(generator)
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


GOOD = "good great excellent wonderful brilliant superb enjoyable funny".split()
BAD = "bad terrible awful boring dull poor horrible weak".split()
FRAME = "<pad> the film plot cast music was not really quite".split()
WORDS = tuple(FRAME + GOOD + BAD)
HELD_OUT = ("superb", "enjoyable", "funny", "poor", "horrible", "weak")


class Reviews(NamedTuple):
    """A batch of one-sentence reviews: the answer is whether the sentence praises."""

    words: torch.Tensor
    polarity: torch.Tensor
    target: torch.Tensor

    @property
    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What a model may see."""
        return self.words, self.polarity


def negated_reviews(batch_size: int, *, held_out: bool = False, generator: Randomness) -> Reviews:
    """Make reviews such as "the plot was not really boring" and ask whether they praise.

    Parameters
    ----------
    batch_size : int
        Number of reviews B. Half of them hold "not", half of the adjectives are kind: the
        adjective alone, or the "not" alone, is right in half of the cases.
    held_out : bool, default False
        Use only the adjectives of `HELD_OUT`, else only the others. A model that is trained
        without them meets these words for the first time.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    words : Tensor of int64, shape (B, 6)
        Indices into `WORDS`, filled up with 0 (``<pad>``) on the right.
    polarity : Tensor of int64, shape (B, 6)
        What a sentiment lexicon says of each word: 0 bad, 1 neither, 2 good.
    target : Tensor of int64, shape (B,)
        1 if the review praises, else 0.
    """
    _check(batch_size=batch_size)
    random = _generator(generator)
    good = [word for word in GOOD if (word in HELD_OUT) == held_out]
    bad = [word for word in BAD if (word in HELD_OUT) == held_out]
    words = torch.zeros(batch_size, 6, dtype=torch.int64)
    target = torch.zeros(batch_size, dtype=torch.int64)
    draws = torch.randint(2**31 - 1, (batch_size, 5), generator=random).tolist()
    for row, (subject, kind, negated, filler, adjective) in enumerate(draws):
        choices = good if kind % 2 else bad
        sentence = ["the", ("film", "plot", "cast", "music")[subject % 4], "was"]
        sentence += ["not"] * (negated % 2) + [[], ["really"], ["quite"]][filler % 3]
        sentence += [choices[adjective % len(choices)]]
        words[row, : len(sentence)] = torch.tensor([WORDS.index(word) for word in sentence])
        target[row] = (kind + negated) % 2
    lexicon = torch.tensor([2 if w in GOOD else 0 if w in BAD else 1 for w in WORDS])
    return Reviews(words, lexicon[words], target)
