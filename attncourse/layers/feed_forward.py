"""What happens to each token by itself: a small network, and normalisation.

The one idea: attention moves information between tokens; this layer works on one token at a time,
the same way at every position. Gated variants multiply two maps of the token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.layers.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
GATED = {"swiglu": "silu", "geglu": "gelu"}


class FeedForward(nn.Module):
    """Widen each token, bend it, and narrow it again.

    Parameters
    ----------
    d_model, d_ff : int
        Width outside and inside.
    activation : str, default "gelu"
        "relu", "gelu", "gelu_tanh" (GPT-2's approximation) or "silu"; "swiglu" and "geglu" use
        silu and gelu as a gate: activation(gate(x)) · up(x).
    bias : bool, default True
        Whether the maps add a bias.

    Raises
    ------
    ValueError
        For an unknown activation.

    Notes
    -----
    **Source:** Vaswani et al. 2017, section 3.3 (arXiv:1706.03762); Shazeer 2020 for the gated
    variants (arXiv:2002.05202).
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "gelu", *, bias: bool = True
    ) -> None:
        super().__init__()
        known = [*ACTIVATIONS, *GATED]
        if activation not in known:
            raise ValueError(f"activation must be one of {known}, got {activation!r}")
        self.activation = activation
        self.up = Linear(d_model, d_ff, bias)
        self.gate = Linear(d_model, d_ff, bias) if activation in GATED else None
        self.down = Linear(d_ff, d_model, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Turn tokens (..., d_model) into tokens of the same shape."""
        bend = ACTIVATIONS[GATED.get(self.activation, self.activation)]
        if self.gate is None:
            return self.down(bend(self.up(x)))
        return self.down(bend(self.gate(x)) * self.up(x))


def make_norm(kind: str, d_model: int, eps: float = 1e-5) -> nn.Module:
    """Make a normalisation of tokens.

    Parameters
    ----------
    kind : {"layer", "rms"}
        "layer" subtracts the mean and divides by the spread; "rms" only divides, by the root of
        the mean square.
    d_model : int
        Width of a token.
    eps : float, default 1e-5
        Added under the root.

    Returns
    -------
    torch.nn.LayerNorm or torch.nn.RMSNorm
    """
    if kind == "layer":
        return nn.LayerNorm(d_model, eps)
    if kind == "rms":
        return nn.RMSNorm(d_model, eps)
    raise ValueError(f"norm must be 'layer' or 'rms', got {kind!r}")
