"""Inputs and options that the tests of single rungs share."""

import numpy as np
import torch

from attncourse._convert import give_back
from attncourse.call import Call

TILE = ("strip", "block_q", "block_kv")
# name: which options a call has. Masks and slopes are made to fit by `options`.
OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.7},
    "causal": {"is_causal": True},
    "causal-bottom-right": {"is_causal": True, "causal_align": "bottom_right"},
    "window": {"is_causal": True, "window_size": 3},
    "window-bottom-right": {"is_causal": True, "causal_align": "bottom_right", "window_size": 4},
    "softcap": {"softcap": 1.5},
    "softcap-causal": {"softcap": 0.8, "is_causal": True},
    "alibi": {"alibi_slopes": "slopes"},
    "alibi-causal": {"alibi_slopes": "slopes", "is_causal": True, "causal_align": "bottom_right"},
    "bool-mask": {"attn_mask": "bool"},
    "float-mask": {"attn_mask": "float"},
    "key-mask": {"attn_mask": "keys"},
    "everything": {
        "attn_mask": "float",
        "is_causal": True,
        "window_size": 6,
        "softcap": 2.0,
        "alibi_slopes": "slopes",
        "dropout_p": 0.3,
        "dropout_seed": 5,
        "scale": 0.6,
    },
    "dropout": {"dropout_p": 0.4, "dropout_seed": 11},
}

# L, S, H, Hkv: ragged, empty, grouped; more queries than keys and the reverse.
SIZES = {
    "one": (1, 1, 1, 1),
    "wide": (5, 9, 2, 2),
    "tall": (9, 5, 2, 2),
    "grouped": (7, 8, 6, 2),
    "one-group": (6, 7, 3, 1),
    "no-keys": (3, 0, 2, 1),
    "no-queries": (0, 3, 2, 2),
}


def inputs(size, seed=0, dtype=torch.float64, batch=(2,)):
    """Return query, key and value of a named size, with E = 4 and Ev = 3."""
    seq_len_q, seq_len_kv, num_heads, num_kv_heads = SIZES[size]
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (*batch, num_heads, seq_len_q, 4),
        (*batch, num_kv_heads, seq_len_kv, 4),
        (*batch, num_kv_heads, seq_len_kv, 3),
    )
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes)


def options(name, query, key, seed=1):
    """Return the named options, with masks and slopes in their place."""
    generator = torch.Generator().manual_seed(seed)
    *batch, num_heads, seq_len_q, _ = query.shape
    scores = (num_heads, seq_len_q, key.shape[-2])
    visible = torch.rand(scores, generator=generator) > 0.35
    numbers = torch.randn(scores, generator=generator, dtype=torch.float64)
    made = {
        "bool": visible,
        "float": numbers.masked_fill(~visible, -torch.inf),
        "keys": torch.rand((*batch, 1, 1, scores[-1]), generator=generator) > 0.5,
        "slopes": torch.rand(num_heads, generator=generator, dtype=torch.float64),
    }
    call = {k: made.get(v, v) if isinstance(v, str) else v for k, v in OPTIONS[name].items()}
    if num_heads != key.shape[-3]:
        call["enable_gqa"] = True
    return call


def on(rung, **tile):
    """Return a function with the arguments of `attention` that runs a rung's file as it stands."""

    def attention(query, key, value, *args, return_lse=False, **options):
        size = {name: options.pop(name) for name in TILE if name in options} | tile
        call = Call.of(query, key, value, *args, return_lse=return_lse, **options)
        out, lse = rung.attend(query, key, value, call, **size)
        out = give_back(out, query)
        return (out, lse) if return_lse else out

    return attention


def as_numpy(call):
    """Return the same options for a NumPy rung."""
    return {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in call.items()}


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
