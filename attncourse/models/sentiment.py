"""A sentence classifier that adds self-attention to a recurrent network.

The one idea: attention first came as a helper of recurrence. Channels of features are mixed by
self-attention, and a bidirectional LSTM reads the result.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attncourse.rungs import attention

CHANNELS = ("word", "polarity", "position")


class BiLSTMWithAttention(nn.Module):
    """Judge a sentence by self-attention over channels, then a bidirectional LSTM.

    Parameters
    ----------
    num_words : int
        Size of the vocabulary; word 0 is padding.
    d_model : int, default 16
        Width of every channel and of each direction's state.
    max_len : int, default 6
        Longest sentence.
    channels : collection of {"word", "polarity", "position"}, optional
        What is read of each word: which one it is, what the lexicon says of it, and where it
        stands; all three by default.
    use_attention : bool, default True
        Whether self-attention mixes the words before the LSTM reads them.

    Raises
    ------
    ValueError
        For a channel of another name, or none.

    Notes
    -----
    After Li, Qi, Tang, Yu, Neurocomputing 387 (2020), doi:10.1016/j.neucom.2020.01.006: several
    feature channels, self-attention to strengthen the sentiment information, a BiLSTM on top. It
    is a sketch of that idea, much smaller, and not a reproduction of their model: their formulas
    were not at hand. Attention is an addition to a recurrent network here, not its replacement.
    """

    def __init__(
        self,
        num_words: int,
        d_model: int = 16,
        max_len: int = 6,
        *,
        channels: Collection[str] = CHANNELS,
        use_attention: bool = True,
    ) -> None:
        super().__init__()
        if not channels or not {*channels} <= {*CHANNELS}:
            raise ValueError(f"channels must be some of {CHANNELS}, got {channels!r}")
        self.use_attention = use_attention
        sizes = dict(zip(CHANNELS, (num_words, 3, max_len), strict=True))
        self.channels = nn.ModuleDict(
            {name: nn.Embedding(size, d_model) for name, size in sizes.items() if name in channels}
        )
        self.to_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True, bidirectional=True)
        self.judge = nn.Linear(2 * d_model, 2)

    def forward(self, words: torch.Tensor, polarity: torch.Tensor) -> torch.Tensor:
        """Score each sentence as criticism (0) and praise (1).

        Parameters
        ----------
        words, polarity : Tensor of int64, shape (B, L)
            As `attncourse.tasks.negated_reviews` makes them: at least one word each, padding on
            the right.

        Returns
        -------
        Tensor, shape (B, 2)
        """
        position = torch.arange(words.shape[1], device=words.device)
        position = position.expand_as(words)
        read = {"word": words, "polarity": polarity, "position": position}
        # (B, L, d_model), the sum of the channels
        x = sum(embed(read[name]) for name, embed in self.channels.items())
        if self.use_attention:
            qkv = self.to_qkv(x).unsqueeze(1)  # (B, 1, L, 3 * d_model)
            query, key, value = qkv.chunk(3, dim=-1)
            attend = (words != 0)[:, None, None, :]  # (B, 1, 1, L)
            x = x + attention(query, key, value, attn_mask=attend).squeeze(1)
        # Packed, so that backwards starts at the last word and not in the padding.
        lengths = (words != 0).sum(dim=1).cpu()  # (B,)
        packed = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf
        )  # (B, longest length, 2 * d_model)
        return self.judge(states.amax(dim=1))
