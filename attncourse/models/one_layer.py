"""One attention layer that answers at every position: the smallest model worth looking into.

The one idea: nothing but attention stands between the symbols and the answers, so what its
weights do is what the model does. Left out: several heads, feed-forward layers, normalisation.
"""

from __future__ import annotations

import torch
from torch import nn

from attncourse.rungs import attention


class OneLayer(nn.Module):
    """Read a sequence of symbols and give scores of the symbols at every position.

    Parameters
    ----------
    max_len : int
        Longest sequence.
    num_symbols : int, default 10
        Number of symbols, in and out.
    d_model : int, default 64
        Width of the vector that stands for a token.
    head_dim : int, default 64
        Width E of queries and keys.
    scale : float, optional
        Multiplies the scores; ``head_dim ** -0.5`` by default.

    Notes
    -----
    Tokens, and so queries and keys, start with components of mean 0 and variance 1: the premise
    under which the scale is derived. Values have the width of the tokens.
    """

    def __init__(
        self,
        max_len: int,
        num_symbols: int = 10,
        d_model: int = 64,
        head_dim: int = 64,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.embed = nn.Embedding(num_symbols, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.to_query = nn.Linear(d_model, head_dim, bias=False)
        self.to_key = nn.Linear(d_model, head_dim, bias=False)
        self.to_value = nn.Linear(d_model, d_model, bias=False)
        self.answer = nn.Linear(d_model, num_symbols)
        for table in (self.embed, self.position):
            nn.init.normal_(table.weight, std=0.5**0.5)
        for linear in (self.to_query, self.to_key, self.to_value):
            nn.init.normal_(linear.weight, std=d_model**-0.5)

    def project(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Turn tokens (B, T) into queries, keys and values (B, 1, T, E), one head."""
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]  # (B, T, d_model)
        x = x.unsqueeze(1)  # (B, 1, T, d_model)
        return self.to_query(x), self.to_key(x), self.to_value(x)

    def scores(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return what softmax is given, (B, T, T): the scaled product of every pair."""
        query, key, _ = self.project(tokens)
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        return scale * (query @ key.mT).squeeze(1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Turn tokens (B, T) into scores of the symbols (B, T, num_symbols)."""
        out = attention(*self.project(tokens), scale=self.scale)
        return self.answer(out.squeeze(1))
