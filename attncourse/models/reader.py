"""One layer of heads between symbols and answers, with any way of telling positions.

The one idea: everything that chapters 05 and 06 ask about (how many heads, which positions, which
readout) is an argument, and nothing else stands in the way. Left out: residual connections,
normalisation, several layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attncourse import positions
from attncourse.layers import MultiHeadAttention

POSITIONS = ("none", "learned", "sinusoidal", "rotary", "alibi")


class Reader(nn.Module):
    """Read a sequence of symbols and answer at every position.

    Parameters
    ----------
    num_symbols : int, default 10
        Number of symbols, in and out.
    answers : int, default 1
        How many symbols to name at each position.
    num_heads : int, default 1
        Heads of the layer, each ``d_model / num_heads`` wide: the parameters stay as many.
    d_model : int, default 64
        Width of a token.
    position : {"learned", "none", "sinusoidal", "rotary", "alibi"}
        How a token's place is told.
    max_len : int, default 64
        Longest sequence, for learned positions only.
    causal : bool, default False
        Hide later symbols.
    hidden : int, default 0
        Width of a layer with a ReLU between attention and answers; 0 leaves a linear readout.

    Raises
    ------
    ValueError
        For another `position`, no answer to give, tokens that are not (B, T), or a sequence longer
        than `max_len` with learned positions.
    """

    def __init__(
        self,
        num_symbols: int = 10,
        *,
        answers: int = 1,
        num_heads: int = 1,
        d_model: int = 64,
        position: str = "learned",
        max_len: int = 64,
        causal: bool = False,
        hidden: int = 0,
    ) -> None:
        super().__init__()
        if position not in POSITIONS:
            raise ValueError(f"position must be one of {POSITIONS}, got {position!r}")
        if answers < 1:
            raise ValueError(f"answers must be at least 1, got {answers}")
        self.answers, self.position, self.causal = answers, position, causal
        self.embed = nn.Embedding(num_symbols, d_model)
        self.places = positions.learned(max_len, d_model) if position == "learned" else None
        pairing = "interleaved" if position == "rotary" else None
        self.heads = MultiHeadAttention(d_model, num_heads, rotary=pairing)
        self.readout = _readout(d_model, hidden, answers * num_symbols)
        for linear in (self.heads.to_query, self.heads.to_key, self.heads.to_value):
            nn.init.normal_(linear.weight, std=d_model**-0.5)

    def place(self, tokens: Tensor) -> Tensor:
        """Turn tokens (B, T) into vectors (B, T, d_model), places added where they are added."""
        if tokens.ndim != 2:
            raise ValueError(f"tokens must have shape (B, T), got {tuple(tokens.shape)}")
        x = self.embed(tokens)  # (B, T, d_model)
        length, width = x.shape[1:]
        if self.places is not None:
            if length > self.places.num_embeddings:
                raise ValueError(
                    f"expected at most {self.places.num_embeddings} symbols, the positions that "
                    f"the table holds, got {length}"
                )
            return x + self.places.weight[:length]
        if self.position == "sinusoidal":
            return x + torch.as_tensor(positions.sinusoidal(length, width)).to(x)
        return x

    def hiding(self) -> dict[str, Any]:
        """Return what the attention is told besides the tokens."""
        slopes = positions.alibi_slopes(self.heads.num_heads)
        told = {"alibi_slopes": slopes} if self.position == "alibi" else {}
        return {"is_causal": self.causal, **told}

    def weights(self, tokens: Tensor) -> Tensor:
        """Return who reads whom, (B, H, T, T)."""
        with torch.no_grad():
            return self.heads.weights(self.place(tokens), **self.hiding())

    def forward(self, tokens: Tensor) -> Tensor:
        """Turn tokens (B, T) into scores (B, T, C), or (B, T, answers, C) if there are several."""
        read = self.heads(self.place(tokens), **self.hiding())  # (B, T, d_model)
        scores = self.readout(read)  # (B, T, answers * C)
        return scores if self.answers == 1 else scores.unflatten(-1, (self.answers, -1))


def _readout(d_model: int, hidden: int, out: int) -> nn.Module:
    """Return the map from what was read to the answers."""
    if not hidden:
        return nn.Linear(d_model, out)
    return nn.Sequential(nn.Linear(d_model, hidden), nn.ReLU(), nn.Linear(hidden, out))
