"""Hide some words of a text and ask for them: what BERT is trained on.

The one idea: a text sets its own exam. No label is needed, and the words on both sides of a gap
may be used. A hidden word is not always replaced by the sign for a gap, because no gap stands in
the texts that the model will read later.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attncourse import _validate
from attncourse.tasks.draw import Randomness, check_sizes, generator_of

__all__ = ["NOT_ASKED", "hide_words"]

NOT_ASKED = -100  # what torch's cross-entropy skips


def hide_words(
    ids: Tensor,
    may_hide: Tensor,
    *,
    mask_id: int,
    vocab_size: int,
    generator: Randomness,
    share: float = 0.15,
) -> tuple[Tensor, Tensor]:
    """Choose tokens to ask for, and hide most of them.

    Parameters
    ----------
    ids : Tensor of int64, shape (B, L)
        Texts.
    may_hide : Tensor of bool, shape (B, L)
        False for padding and special tokens.
    mask_id, vocab_size : int
        The token that marks a gap, and the number of tokens.
    generator : torch.Generator or int
        The source of randomness.
    share : float, default 0.15
        How many of the tokens to ask for.

    Returns
    -------
    shown : Tensor of int64, shape (B, L)
        Of the tokens asked for, 80 % became `mask_id`, 10 % a random token, and 10 % stayed.
    asked : Tensor of int64, shape (B, L)
        The original token where one is asked for, elsewhere `NOT_ASKED`.

    Raises
    ------
    TypeError
        When `may_hide` is not boolean, or `mask_id` or `vocab_size` not an integer.
    ValueError
        When the shapes differ, `vocab_size` is below 1 or `share` is not between 0 and 1.

    Notes
    -----
    **Source:** Devlin et al. 2019, section 3.1 (arXiv:1810.04805).
    """
    if ids.shape != may_hide.shape:
        raise ValueError(f"ids has shape {tuple(ids.shape)}, may_hide {tuple(may_hide.shape)}")
    if may_hide.dtype != torch.bool:
        raise TypeError(f"may_hide must be boolean (True = may be hidden), got {may_hide.dtype}")
    _validate.whole("mask_id", mask_id)
    check_sizes(vocab_size=_validate.whole("vocab_size", vocab_size))
    if not 0 < share <= 1:
        raise ValueError(f"share must lie above 0 and at most at 1, got {share}")
    random = generator_of(generator)
    chosen = may_hide & (torch.rand(ids.shape, generator=random) < share)
    how = torch.rand(ids.shape, generator=random)
    other = torch.randint(vocab_size, ids.shape, generator=random)
    shown = ids.where(~chosen | (how >= 0.8), torch.full_like(ids, mask_id))
    shown = shown.where(~chosen | (how < 0.8) | (how >= 0.9), other)
    return shown, ids.where(chosen, torch.full_like(ids, NOT_ASKED))
