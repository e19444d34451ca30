"""Short made-up reviews, whose verdict hangs on the word "not"."""

from __future__ import annotations

from typing import NamedTuple

import torch

from attncourse.tasks.draw import Randomness, check_sizes, generator_of

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
    check_sizes(batch_size=batch_size)
    random = generator_of(generator)
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
