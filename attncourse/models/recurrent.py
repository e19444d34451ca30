"""Recurrent networks, written out step by step.

The one idea: a sequence is read one token at a time, and all that is kept of the past is one
vector of fixed size, h_t = tanh(W_x x_t + W_h h_(t-1) + b). The gated cells (LSTM, GRU) are
PyTorch's own: their idea is the same chain with a better-protected memory.
"""

from __future__ import annotations

import torch
from torch import nn


class ElmanCell(nn.Module):
    """One step of a plain recurrent network.

    Parameters
    ----------
    d_input, d_hidden : int
        Width of the input and of the state.

    Notes
    -----
    Both maps start as in `torch.nn.RNN`: uniform in +-1/sqrt(d_hidden).
    """

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.d_hidden = d_hidden
        self.input_map = nn.Linear(d_input, d_hidden)
        self.state_map = nn.Linear(d_hidden, d_hidden, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(d_hidden**-0.5), d_hidden**-0.5)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Compute the next state from one input and the state before.

        Parameters
        ----------
        x : Tensor, shape (B, d_input)
            One token of each sequence.
        state : Tensor, shape (B, d_hidden)
            h_(t-1).

        Returns
        -------
        Tensor, shape (B, d_hidden)
            h_t, each entry between -1 and 1.
        """
        return torch.tanh(self.input_map(x) + self.state_map(state))


class ElmanNetwork(nn.Module):
    """Apply one `ElmanCell` along a sequence.

    Parameters
    ----------
    d_input, d_hidden : int
        Width of the input and of the state.
    """

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.cell = ElmanCell(d_input, d_hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read a sequence from its first token to its last.

        Parameters
        ----------
        x : Tensor, shape (B, T, d_input)
            T may be 0.

        Returns
        -------
        Tensor, shape (B, T, d_hidden)
            All states; the last one is all that the network still has of the sequence.
        """
        if x.ndim != 3:
            raise ValueError(f"x must have shape (B, T, d_input), got {tuple(x.shape)}")
        state = x.new_zeros(x.shape[0], self.cell.d_hidden)  # (B, d_hidden)
        states = []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            states.append(state)
        if not states:
            return x.new_zeros(x.shape[0], 0, self.cell.d_hidden)
        return torch.stack(states, dim=1)  # (B, T, d_hidden)
