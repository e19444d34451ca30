"""Inputs, and ways of looking at a call, that the tests of single rungs share."""

import numpy as np
import torch

from attncourse._convert import give_back
from attncourse.call import Call

TILE = ("strip", "block_q", "block_kv")

# L, S, H, Hkv: more keys than queries, more queries than keys, and heads in groups.
SIZES = {
    "wide": (5, 9, 2, 2),
    "tall": (9, 5, 2, 2),
    "grouped": (7, 8, 6, 2),
}


def inputs(size, seed=0, dtype=torch.float64):
    """Return query, key and value of a named size, with E = 4 and Ev = 3."""
    seq_len_q, seq_len_kv, num_heads, num_kv_heads = SIZES[size]
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (2, num_heads, seq_len_q, 4),
        (2, num_kv_heads, seq_len_kv, 4),
        (2, num_kv_heads, seq_len_kv, 3),
    )
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes)


def on(rung, **tile):
    """Return a function with the arguments of `attention` that runs a rung's file as it stands."""

    def attention(query, key, value, *args, return_lse=False, **options):
        size = {name: options.pop(name) for name in TILE if name in options} | tile
        call = Call.of(query, key, value, *args, return_lse=return_lse, **options)
        out, lse = rung.attend(query, key, value, call, **size)
        out = give_back(out, query)
        return (out, lse) if return_lse else out

    return attention


def assert_like_oracle(result, expected, atol=1e-11):
    """Compare (out, lse) with the oracle's."""
    for name, ours, theirs in zip(("out", "lse"), result, expected, strict=True):
        ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else ours
        assert ours.shape == theirs.shape, name
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, err_msg=name)


def gradients(function, tensors, call, **extra):
    """Return the gradients of a fixed loss on out and lse, float masks and slopes included."""
    call = dict(call)
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    for name in ("attn_mask", "alibi_slopes"):
        if name in call and call[name].dtype != torch.bool:
            call[name] = call[name].detach().clone().requires_grad_()
            leaves.append(call[name])
    out, lse = function(*leaves[:3], **call, **extra, return_lse=True)
    generator = torch.Generator().manual_seed(9)
    loss = (out * torch.randn(out.shape, generator=generator, dtype=torch.float64)).sum()
    weight = torch.randn(lse.shape, generator=generator, dtype=torch.float64)
    loss = loss + (lse * weight)[lse.isfinite()].sum()
    return torch.autograd.grad(loss, leaves, materialize_grads=True)


def assert_same_gradients(ours, theirs, atol=1e-11):
    """Compare two lists of gradients."""
    assert len(ours) == len(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert torch.isfinite(mine).all(), number
        torch.testing.assert_close(mine, other, rtol=0, atol=atol)


def assert_the_past_stays(function, call, seq_len=23, **extra):
    """Change keys and values from i on: no bit of the rows before i may change."""
    generator = torch.Generator().manual_seed(4)
    query, key, value = (torch.randn(2, seq_len, 8, generator=generator) for _ in range(3))
    before = function(query, key, value, **call, **extra)
    for i in (1, 4, 5, 8, 16, seq_len - 1):
        late_key, late_value = key.clone(), value.clone()
        late_key[:, i:] = 50 * torch.randn(2, seq_len - i, 8, generator=generator)
        late_value[:, i:] = 1e4
        after = function(query, late_key, late_value, **call, **extra)
        assert torch.equal(before[:, :i], after[:, :i]), i
        assert not torch.equal(before[:, i:], after[:, i:]), i


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Note the most numbers that any tensor made inside has."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // 4)
        return result
