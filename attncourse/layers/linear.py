"""A linear map that knows when it is given a single token.

New here: nothing but speed. One token is a vector, and torch's product of a matrix with a vector
reads bfloat16 weights faster on a CPU than its product of two matrices does; a model that writes
token by token spends most of its time in it. In float32 the two take the same time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """`torch.nn.Linear`, with a short way for a single bfloat16 token on a CPU.

    Notes
    -----
    Measured by ``benchmarks/pretrained_generate.py``. In float16 the short way is the longer one.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (..., in_features) to (..., out_features)."""
        weight, bias = self.weight, self.bias
        single = x.numel() == x.shape[-1] > 0 and x.device.type == "cpu"
        if not single or not x.dtype == weight.dtype == torch.bfloat16:
            return super().forward(x)
        row = x.reshape(-1)
        row = torch.mv(weight, row) if bias is None else torch.addmv(bias, weight, row)
        return row.view(*x.shape[:-1], -1)  # (..., out_features)
