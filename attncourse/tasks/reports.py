"""Short reports, of which one sentence is to be extracted as the summary.

The one idea: the right sentence cannot be found by looking at one sentence alone. Two sentences of
a report announce a decision; the summary is the one about the thing that the report mentions most.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from attncourse.tasks.draw import Randomness, check_sizes, generator_of

__all__ = ["REPORT_WORDS", "Reports", "short_reports"]

THINGS = "bridge tunnel pump valve engine server lift crane boiler roof fence gate".split()
STATES = "noisy old wet slow dirty hot loose empty".split()
ACTIONS = "replace close repair sell move paint".split()
FRAME = "<pad> the was we will yesterday today again".split()
REPORT_WORDS = tuple(FRAME + THINGS + STATES + ACTIONS)
SENTENCES, WORDS_EACH = 6, 5
LEADS = 0.4  # share of the reports that are told to open with their summary


class Reports(NamedTuple):
    """A batch of reports: the answer is the number of the sentence that sums up.

    Attributes
    ----------
    words : Tensor of int64, shape (B, 6, 5)
        Indices into `REPORT_WORDS`, six sentences of five words, filled up with 0.
    target : Tensor of int64, shape (B,)
        Which sentence is the summary.
    """

    words: torch.Tensor
    target: torch.Tensor

    @property
    def inputs(self) -> torch.Tensor:
        """What a model may see."""
        return self.words

    def sentence(self, row: int, number: int) -> str:
        """Return one sentence as text."""
        words = (REPORT_WORDS[word] for word in self.words[row, number].tolist() if word)
        return " ".join(words)


def short_reports(batch_size: int, *, generator: Randomness) -> Reports:
    """Make reports about one thing that mention another.

    Parameters
    ----------
    batch_size : int
        Number of reports B.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    Reports
        Four sentences of six are about one thing, two about another; each thing has one sentence
        with a decision ("we will close the bridge"). The order is random, except that two reports
        in five are told to open with their summary: in newspapers, most do.
    """
    check_sizes(batch_size=batch_size)
    random = generator_of(generator)
    number = {word: i for i, word in enumerate(REPORT_WORDS)}
    words = torch.zeros(batch_size, SENTENCES, WORDS_EACH, dtype=torch.int64)
    target = torch.zeros(batch_size, dtype=torch.int64)
    for row in range(batch_size):
        sentences = _one_report(random)
        order = torch.randperm(SENTENCES, generator=random).tolist()
        if torch.rand((), generator=random) < LEADS:
            order.sort(key=lambda place: place != 0)
        target[row] = order.index(0)
        for place, sentence in enumerate(order):
            ids = [number[word] for word in sentences[sentence].split()]
            words[row, place, : len(ids)] = torch.tensor(ids)
    return Reports(words, target)


def _one_report(random: torch.Generator) -> list[str]:
    """Write six sentences, the summary first."""
    topic, other = torch.randperm(len(THINGS), generator=random)[:2].tolist()
    about = [THINGS[topic], THINGS[other], *[THINGS[topic]] * 3, THINGS[other]]
    draws = torch.randint(48, (SENTENCES,), generator=random).tolist()
    actions = torch.randperm(len(ACTIONS), generator=random).tolist()
    when = ("", "yesterday", "today", "again")
    return [
        f"we will {ACTIONS[actions[place]]} the {thing}"
        if place < 2
        else f"the {thing} was {STATES[draw % 8]} {when[draw % 4]}"
        for place, (thing, draw) in enumerate(zip(about, draws, strict=True))
    ]
