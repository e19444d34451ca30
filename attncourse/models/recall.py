"""Readers for the recall tasks: the same embedding and output, another way to remember.

The one idea: only the memory differs. A recurrent reader keeps one vector, a softmax reader keeps
every token and looks them up, a linear-attention reader keeps one matrix.
"""

from __future__ import annotations

import torch
from torch import nn

from attncourse.models.recurrent import ElmanNetwork
from attncourse.rungs import attention
from attncourse.variants import linear

RECURRENT = {"elman": ElmanNetwork, "gru": nn.GRU, "lstm": nn.LSTM}


def make_network(kind: str, d_model: int) -> nn.Module:
    """Make a recurrent network of kind "elman", "gru" or "lstm"."""
    if kind == "elman":
        return ElmanNetwork(d_model, d_model)
    if kind in RECURRENT:
        return RECURRENT[kind](d_model, d_model, batch_first=True)
    raise ValueError(f"kind must be one of {sorted(RECURRENT)}, got {kind!r}")


def make_embedding(num: int, d_model: int) -> nn.Embedding:
    """Make a table of `num` vectors, normal with standard deviation 0.5.

    With PyTorch's 1.0 the first scores are so far apart that softmax starts almost saturated, and
    an attention reader now and then learns slowly.
    """
    table = nn.Embedding(num, d_model)
    nn.init.normal_(table.weight, std=0.5)
    return table


def last_state(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Read a sequence (B, T, E) and return the last state (B, E), whatever the kind of network."""
    states = network(x)
    return (states[0] if isinstance(states, tuple) else states)[:, -1]


class RecurrentReader(nn.Module):
    """Answer a question about a sequence from the last state of a recurrent network.

    Parameters
    ----------
    kind : {"elman", "gru", "lstm"}
        The cell.
    num_symbols : int, default 10
        Number of symbols, in and out.
    d_model : int, default 64
        Width of the embedding and of the state.
    """

    def __init__(self, kind: str = "elman", num_symbols: int = 10, d_model: int = 64) -> None:
        super().__init__()
        self.embed = make_embedding(num_symbols, d_model)
        self.network = make_network(kind, d_model)
        self.answer = nn.Linear(d_model, num_symbols)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Turn tokens (B, T) into scores of the symbols (B, num_symbols)."""
        return self.answer(last_state(self.network, self.embed(tokens)))


class AttentionReader(nn.Module):
    """Answer a question about a sequence with one query, from the last token, over all tokens.

    Parameters
    ----------
    max_len : int
        Longest sequence.
    num_symbols, d_model : int
        As in `RecurrentReader`.
    use_positions : bool, default True
        Add a learned vector per position. Without it the reader sees a bag of symbols.
    """

    def __init__(
        self,
        max_len: int,
        num_symbols: int = 10,
        d_model: int = 64,
        *,
        use_positions: bool = True,
    ) -> None:
        super().__init__()
        self.use_positions = use_positions
        self.embed = make_embedding(num_symbols, d_model)
        self.position = make_embedding(max_len, d_model)
        self.to_query, self.to_key, self.to_value = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(3)
        )
        self.answer = nn.Linear(d_model, num_symbols)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Turn tokens (B, T) into scores of the symbols (B, num_symbols)."""
        x = self.embed(tokens)  # (B, T, E)
        if self.use_positions:
            x = x + self.position.weight[: tokens.shape[1]]
        x = x.unsqueeze(1)  # (B, 1, T, E): one head
        out = attention(self.to_query(x[:, :, -1:]), self.to_key(x), self.to_value(x))
        return self.answer(out[:, 0, 0])


class PairReader(nn.Module):
    """Answer an associative-recall question with one of three kinds of memory.

    Parameters
    ----------
    memory : {"softmax", "linear", "elman", "gru", "lstm"}
        Softmax attention keeps every pair; linear attention keeps one matrix of
        d_model x d_model, with feature map elu(x) + 1; the others keep one vector.
    num_symbols : int, default 64
        Size of the two alphabets.
    d_model : int, default 32
        Width of embeddings and states.

    Notes
    -----
    **Source** of linear attention: Katharopoulos et al. 2020 (arXiv:2006.16236). Keys and values of
    a pair arrive together, as one token: the easy form of the task.
    """

    def __init__(self, memory: str, num_symbols: int = 64, d_model: int = 32) -> None:
        super().__init__()
        self.memory = memory
        self.embed_key = nn.Embedding(num_symbols, d_model)
        self.embed_value = nn.Embedding(num_symbols, d_model)
        self.to_query, self.to_key, self.to_value = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(3)
        )
        self.answer = nn.Linear(d_model, num_symbols)
        attentive = memory in ("softmax", "linear")
        self.network = None if attentive else make_network(memory, d_model)

    def forward(
        self, keys: torch.Tensor, values: torch.Tensor, query: torch.Tensor
    ) -> torch.Tensor:
        """Turn keys (B, N), values (B, N) and queries (B,) into scores (B, num_symbols)."""
        x = self.embed_key(keys) + self.embed_value(values)  # (B, N, E)
        asked = self.embed_key(query).unsqueeze(1)  # (B, 1, E)
        if self.network is not None:
            return self.answer(last_state(self.network, torch.cat([x, asked], dim=1)))
        q, k, v = self.to_query(asked), self.to_key(x), self.to_value(x)
        if self.memory == "softmax":
            out = attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1))[:, 0]  # (B, 1, E)
        else:
            out = linear.attention(q, k, v)  # (B, 1, E)
        return self.answer(out[:, 0])
