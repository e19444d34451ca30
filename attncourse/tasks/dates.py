"""Dates as people write them in seven languages, to be rewritten as ISO 8601.

The one idea: a translation whose answer is beyond dispute. Days, months and years must be found
wherever a language puts them, names of months must become numbers, and the order changes.
The formats are those of the Unicode CLDR, which the package `babel` carries.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from attncourse.tasks.draw import Randomness, check_sizes, generator_of

__all__ = [
    "ISO",
    "START",
    "STYLES",
    "Dates",
    "foreign_dates",
    "from_iso",
    "read",
    "source_alphabet",
    "write",
]

LENGTHS = ("short", "medium", "long", "full")
STYLES = (
    ("en_US", "long"),
    ("en_US", "medium"),
    ("en_GB", "long"),
    ("de", "long"),
    ("de", "medium"),
    ("fr", "long"),
    ("it", "long"),
    ("tr", "long"),
    ("ja", "long"),
)
ISO = ("<pad>", "<start>", *"0123456789-")
START = 1
FIRST, DAYS = datetime.date(1950, 1, 1), 36524
LONGEST = 18


def write(day: datetime.date, locale: str, style: str) -> str:
    """Write a day as people do in a locale, in CLDR's style: short, medium, long or full.

    Examples
    --------
    >>> write(datetime.date(2019, 3, 7), "fr", "long")
    '7 mars 2019'
    """
    if style not in LENGTHS:
        raise ValueError(f"style must be one of {LENGTHS}, got {style!r}")
    try:
        from babel.dates import format_date
    except ImportError as error:
        raise ImportError(
            "dates of many languages come from babel, which is not installed; "
            "get it with: python -m pip install 'attncourse[course]'"
        ) from error
    return format_date(day, style, locale=locale)


@lru_cache(maxsize=1)
def source_alphabet() -> tuple[str, ...]:
    """Return every character that the styles use, after ``<pad>``; its place is its number."""
    months = [datetime.date(2000, month, 1) for month in range(1, 13)]
    text = "".join(write(day, *style) for style in STYLES for day in months)
    return "<pad>", *sorted(set(text) | set("0123456789"))


def read(texts: Sequence[str]) -> torch.Tensor:
    """Turn texts into numbers, padded with 0 on the right.

    Parameters
    ----------
    texts : sequence of str
        B dates of at most 18 characters.

    Returns
    -------
    Tensor of int64, shape (B, 18)

    Raises
    ------
    TypeError
        For a single text in place of a list.
    ValueError
        For a longer text, or a character that no style uses.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of dates, got the single text {texts!r}")
    number = {character: i for i, character in enumerate(source_alphabet())}
    source = torch.zeros(len(texts), LONGEST, dtype=torch.int64)
    for row, text in enumerate(texts):
        strange = sorted(set(text) - number.keys())
        if strange or len(text) > LONGEST:
            raise ValueError(
                f"{text!r} must have at most {LONGEST} characters, all used by the styles; "
                f"it has {len(text)}, and unknown ones are {strange}"
            )
        source[row, : len(text)] = torch.tensor([number[character] for character in text])
    return source


def from_iso(tokens: torch.Tensor) -> list[str]:
    """Turn rows of numbers (B, n) back into texts."""
    return ["".join(ISO[token] for token in row) for row in tokens.tolist()]


class Dates(NamedTuple):
    """Dates in many styles, and the same dates in ISO 8601.

    Attributes
    ----------
    texts, iso : list of str
        What is read, and what is to be written.
    styles : list of tuple of (str, str)
        The locale and style of each text.
    source : Tensor of int64, shape (N, 18)
        The texts as numbers.
    written, target : Tensor of int64, shape (N, 10)
        What the decoder is given, from the start token on, and what it has to answer.
    """

    texts: list[str]
    iso: list[str]
    styles: list[tuple[str, str]]
    source: torch.Tensor
    written: torch.Tensor
    target: torch.Tensor

    @property
    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What a model may see."""
        return self.source, self.written

    def batch(
        self, size: int, generator: torch.Generator
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Draw rows, in the form that `attncourse.train.fit` wants."""
        rows = torch.randint(len(self.texts), (size,), generator=generator)
        return (self.source[rows], self.written[rows]), self.target[rows]


def foreign_dates(number: int, *, held_out: bool = False, generator: Randomness) -> Dates:
    """Write random days between 1950 and 2049 in random styles.

    Parameters
    ----------
    number : int
        N, how many.
    held_out : bool, default False
        Take only every tenth day of the calendar, else only the others: a model meets these days
        for the first time, in whatever language.
    generator : torch.Generator or int
        The source of randomness; an int is a seed.

    Returns
    -------
    Dates
    """
    check_sizes(number=number)
    random = generator_of(generator)
    start = FIRST.toordinal()
    calendar = [day for day in range(start, start + DAYS) if (day % 10 == 0) == held_out]
    picks = torch.randint(len(calendar), (number,), generator=random).tolist()
    days = [datetime.date.fromordinal(calendar[pick]) for pick in picks]
    choice = torch.randint(len(STYLES), (number,), generator=random).tolist()
    styles = [STYLES[style] for style in choice]
    texts = [write(day, *style) for day, style in zip(days, styles, strict=True)]
    iso = [day.isoformat() for day in days]
    target = torch.tensor([[ISO.index(character) for character in text] for text in iso])
    written = torch.cat([torch.full((number, 1), START), target[:, :-1]], dim=1)
    return Dates(texts, iso, styles, read(texts), written, target)
