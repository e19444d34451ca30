"""Extract a sentence: an attention whose weights are the answer.

The one idea: a query asks all sentences, and instead of mixing their values the model stops at the
weights and is trained to put them on the right sentence. Left out: writing new words.

**Source:** Vinyals, Fortunato and Jaitly 2015, pointer networks (arXiv:1506.03134).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attncourse._validate import tokens as check_tokens
from attncourse.layers import EncoderBlock, make_norm


class Pointer(nn.Module):
    """Score the sentences of a text.

    Parameters
    ----------
    vocabulary : int
        Number of words; word 0 pads.
    max_sentences : int
        Most sentences of a text.
    d_model, num_heads : int
        Width of a sentence's vector, and heads of the block in which the sentences compare.
    num_layers : int, default 1
        Such blocks. With 0, every sentence is judged without the others.
    """

    def __init__(
        self,
        vocabulary: int,
        max_sentences: int,
        d_model: int = 32,
        num_heads: int = 4,
        num_layers: int = 1,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d_model, padding_idx=0)
        self.position = nn.Parameter(torch.zeros(max_sentences, d_model))
        self.blocks = nn.ModuleList(
            EncoderBlock(d_model, num_heads, 2 * d_model) for _ in range(num_layers)
        )
        self.norm = make_norm("layer", d_model, 1e-5)
        self.query = nn.Parameter(torch.randn(d_model))
        self.to_key = nn.Linear(d_model, d_model)

    def forward(self, words: Tensor) -> Tensor:
        """Turn texts (B, sentences, words) into one score a sentence (B, sentences)."""
        if words.ndim != 3 or words.shape[1] > len(self.position):
            raise ValueError(
                "words must have shape (B, n, words) with "
                f"n at most {len(self.position)}, got {tuple(words.shape)}"
            )
        check_tokens("words", words, self.embed.num_embeddings)
        there = (words != 0).unsqueeze(-1)  # (B, n, words, 1)
        total = (self.embed(words) * there).sum(2)  # (B, n, d_model)
        x = total / there.sum(2).clamp(min=1) ** 0.5  # (B, n, d_model)
        x = x + self.position[: words.shape[1]]
        for block in self.blocks:
            x = block(x)
        key = self.to_key(self.norm(x))  # (B, n, d_model)
        return key @ self.query * len(self.query) ** -0.5
