"""A text to train a small language model on, one character a token.

The one idea: Python carries its own manual (`pydoc_data.topics`, 0.4 MB of English), so a real text
needs no download. It is cut at one place: what comes after the cut is never trained on.
Left out: larger vocabularies (`attncourse.text` has byte-pair encoding).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from attncourse._validate import whole

HELD_OUT = 0.1
_PLAIN = re.compile(r"[^\x20-\x7e\n]")


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as numbers, one a character, in a part for training and a part held out.

    Parameters
    ----------
    text : str
        At least 20 characters. Its last tenth is held out.

    Attributes
    ----------
    alphabet : tuple of str
        Every character that occurs, in order; its place is its number.
    training, held_out : Tensor of int64, shapes (n,), (m,)
        The two parts.
    """

    text: str = field(repr=False)
    alphabet: tuple[str, ...] = field(init=False)
    training: torch.Tensor = field(init=False, repr=False)
    held_out: torch.Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.text) < 20:
            raise ValueError(f"text must have at least 20 characters, got {len(self.text)}")
        object.__setattr__(self, "alphabet", tuple(sorted(set(self.text))))
        ids = self.encode(self.text)
        cut = round(len(ids) * (1 - HELD_OUT))
        object.__setattr__(self, "training", ids[:cut])
        object.__setattr__(self, "held_out", ids[cut:])

    def __len__(self) -> int:
        """Return the number of different characters: the size of the vocabulary."""
        return len(self.alphabet)

    def encode(self, text: str) -> torch.Tensor:
        """Turn a text into numbers, shape (len(text),); a character it lacks raises ValueError."""
        number = {character: i for i, character in enumerate(self.alphabet)}
        strange = sorted(set(text) - number.keys())
        if strange:
            raise ValueError(f"these characters do not occur in the corpus: {strange}")
        return torch.tensor([number[character] for character in text], dtype=torch.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn numbers back into text; one that stands for no character raises ValueError."""
        numbers = [int(i) for i in ids]
        strange = sorted(set(numbers) - set(range(len(self))))
        if strange:
            raise ValueError(f"numbers must lie in 0 ... {len(self) - 1}, got {strange}")
        return "".join(self.alphabet[i] for i in numbers)

    def batches(
        self, batch_size: int, seq_len: int, *, held_out: bool = False
    ) -> Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]:
        """Cut pieces at random places, in the form that `attncourse.train.fit` wants.

        Parameters
        ----------
        batch_size, seq_len : int
            B pieces of L characters.
        held_out : bool, default False
            Cut them from the part that is held out.

        Returns
        -------
        callable
            ``make_batch(generator) -> (inputs, target)``, both (B, L): the target is the
            character that follows each character of the input.

        Raises
        ------
        ValueError
            If the part is not longer than `seq_len`, or there is no piece to cut.
        """
        part = self.held_out if held_out else self.training
        if whole("batch_size", batch_size) < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 < whole("seq_len", seq_len) < len(part):
            raise ValueError(f"seq_len must lie between 1 and {len(part) - 1}, got {seq_len}")
        pieces = part.unfold(0, seq_len + 1, 1)  # (n - L, L + 1), a view

        def make_batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
            starts = torch.randint(len(pieces), (batch_size,), generator=generator)
            chosen = pieces[starts]  # (B, L + 1)
            return chosen[:, :-1], chosen[:, 1:]

        return make_batch

    def bigram_loss(self) -> float:
        """Return the nats a held-out character costs when only the one before it is known.

        The guess is the share of each pair in the training part, with 1 added to every count.
        """
        size = len(self)
        pairs = self.training[:-1] * size + self.training[1:]
        counts = torch.bincount(pairs, minlength=size**2).reshape(size, size).double() + 1
        log_share = (counts / counts.sum(1, keepdim=True)).log()  # (size, size)
        return -log_share[self.held_out[:-1], self.held_out[1:]].mean().item()


def python_docs() -> Corpus:
    """Read the language reference that Python carries with it.

    Returns
    -------
    Corpus
        Printable ASCII characters and line breaks. The topics overlap, so a paragraph that has
        occurred before is left out: else some of what is held out would also be in training.

    Notes
    -----
    The text is that of the running Python, so its length differs a little between versions.
    **Source:** `pydoc_data.topics`, Python Software Foundation, PSF licence.

    Examples
    --------
    >>> docs = python_docs()
    >>> docs.decode(docs.encode("import attention"))
    'import attention'
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    kept = []
    for topic in topics.values():
        for paragraph in _PLAIN.sub("", topic).split("\n\n"):
            if paragraph.strip() and paragraph.strip() not in seen:
                seen.add(paragraph.strip())
                kept.append(paragraph.strip("\n"))
    return Corpus("\n\n".join(kept))
