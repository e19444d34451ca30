"""An encoder and a decoder: read one sequence, then write another while looking at the first.

The one idea: the decoder's second attention takes its queries from what is being written, and its
keys and values from what was read. Everything else is the encoder's block with a causal mask.
Left out: a cache while writing, beam search, sharing embeddings between the two sides.

**Source:** Vaswani et al. 2017 (arXiv:1706.03762), with learned positions and pre-norm.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from attncourse._validate import tokens as check_tokens
from attncourse._validate import whole
from attncourse.layers import DecoderBlock, EncoderBlock, attention_weights, make_norm

__all__ = ["PAD", "Seq2Seq", "Seq2SeqConfig"]

PAD = 0


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Sizes of a `Seq2Seq`.

    Attributes
    ----------
    source_vocabulary, target_vocabulary : int
        Number of tokens on each side; token 0 pads on both.
    max_source, max_target : int
        Longest sequences.
    d_model, num_heads, d_ff : int
        Width of the tokens, number of heads, width inside the feed-forward layers.
    num_layers : int, default 1
        Blocks in the encoder, and as many in the decoder.
    causal : bool, default True
        Whether the decoder hides what it has not written yet. False is a mistake, here to be made
        on purpose.
    """

    source_vocabulary: int
    target_vocabulary: int
    max_source: int
    max_target: int
    d_model: int = 64
    num_heads: int = 4
    d_ff: int = 128
    num_layers: int = 1
    causal: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if field.name != "causal" and whole(field.name, size) < 1:
                raise ValueError(f"{field.name} must be at least 1, got {size}")


class Seq2Seq(nn.Module):
    """Turn a source sequence into scores of the next token at every place of a target sequence.

    Parameters
    ----------
    config : Seq2SeqConfig
        The sizes.

    Examples
    --------
    >>> model = Seq2Seq(Seq2SeqConfig(9, 7, max_source=5, max_target=4))
    >>> source, written = torch.tensor([[3, 8, 2, 0, 0]]), torch.tensor([[1, 4]])
    >>> model(source, written).shape
    torch.Size([1, 2, 7])
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.d_model, config.num_heads, config.d_ff
        self.source_embed = nn.Embedding(config.source_vocabulary, config.d_model)
        self.source_position = nn.Embedding(config.max_source, config.d_model)
        self.target_embed = nn.Embedding(config.target_vocabulary, config.d_model)
        self.target_position = nn.Embedding(config.max_target, config.d_model)
        self.encoder = nn.ModuleList(EncoderBlock(*sizes) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(DecoderBlock(*sizes) for _ in range(config.num_layers))
        self.memory_norm = make_norm("layer", config.d_model, 1e-5)
        self.norm = make_norm("layer", config.d_model, 1e-5)
        self.answer = nn.Linear(config.d_model, config.target_vocabulary)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.5)

    def encode(self, source: Tensor) -> Tensor:
        """Read a source (B, S), padded with 0 on the right, into a memory (B, S, d_model)."""
        x = _embed(source, self.source_embed, self.source_position, "source")
        for block in self.encoder:
            x = block(x, attn_mask=_real(source))
        return self.memory_norm(x)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Score the next token after each place of a target.

        Parameters
        ----------
        target : Tensor of int64, shape (B, L)
            What has been written so far, from its start token on.
        memory : Tensor, shape (B, S, d_model)
            From `encode`.
        source : Tensor of int64, shape (B, S)
            Tells which places of the memory are padding.

        Returns
        -------
        Tensor, shape (B, L, target_vocabulary)
        """
        x = _embed(target, self.target_embed, self.target_position, "target")
        see, causal = _real(source), self.config.causal
        for block in self.decoder:
            x = block(x, memory, memory_mask=see, is_causal=causal)
        return self.answer(self.norm(x))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Do both: a source (B, S) and a target (B, L) give (B, L, target_vocabulary)."""
        return self.decode(target, self.encode(source), source)

    @torch.no_grad()
    def generate(self, source: Tensor, start: int, steps: int) -> Tensor:
        """Write one token after the other, each time the one with the highest score.

        Parameters
        ----------
        source : Tensor of int64, shape (B, S)
            What to read.
        start : int
            The token that every target begins with.
        steps : int
            How many tokens to write, at most `max_target`.

        Returns
        -------
        Tensor of int64, shape (B, steps)
            Without the start token.
        """
        if not 0 <= whole("steps", steps) <= self.config.max_target:
            raise ValueError(f"steps must lie in 0 to {self.config.max_target}, got {steps}")
        memory = self.encode(source)
        written = torch.full_like(source[:, :1], start)  # (B, 1)
        for _ in range(steps):
            scores = self.decode(written, memory, source)[:, -1]  # (B, target_vocabulary)
            written = torch.cat([written, scores.argmax(-1, keepdim=True)], dim=1)
        return written[:, 1:]

    def attention_weights(self, source: Tensor, target: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Return the weights of all layers, for looking at.

        Parameters
        ----------
        source, target
            As in `forward`.

        Returns
        -------
        dict of str to tuple of Tensor
            "encoder" (B, H, S, S), "decoder" (B, H, L, L) and "cross" (B, H, L, S), one tensor a
            layer.
        """
        seen = attention_weights(self, source, target)
        layers = self.config.num_layers
        return {
            "encoder": seen[:layers],
            "decoder": seen[layers::2],
            "cross": seen[layers + 1 :: 2],
        }


def _embed(tokens: Tensor, table: nn.Embedding, position: nn.Embedding, name: str) -> Tensor:
    """Turn tokens (B, n) into vectors (B, n, d_model) that know their place."""
    if tokens.ndim != 2 or tokens.shape[1] > position.num_embeddings:
        raise ValueError(
            f"{name} must have shape (B, n) with n at most {position.num_embeddings}, "
            f"got {tuple(tokens.shape)}"
        )
    check_tokens(name, tokens, table.num_embeddings)
    return table(tokens) + position.weight[: tokens.shape[1]]


def _real(source: Tensor) -> Tensor:
    """Tell which places are no padding, shape (B, 1, 1, S); True = attend."""
    return (source != PAD)[:, None, None, :]
