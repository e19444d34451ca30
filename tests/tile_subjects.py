"""Rungs cut otherwise than by default, as subjects of the suite.

A tile of the usual size holds most of the suite's problems whole. These are so small that each
problem is cut: ragged ends, tiles of one, tiles that nobody sees, groups of heads taken apart.
Every call goes through the ladder's own dispatch, with the rung's file told another size.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import torch

from attncourse import conformance
from attncourse._convert import to_numpy, widened
from attncourse.call import Call
from attncourse.rungs import FEATURES, by_hand, by_name
from attncourse.rungs._dispatch import run

# Scores of the largest case; where a tile holds two of them, each takes half a step of a loop.
MOST, MOST_BY_TWOS = 2600, 300
# Themes in which the size of a tile can matter; the others run at the usual size.
THEMES = ("exact", "order", "lse", "shapes", "masks", "values", "features")
THEMES += ("gradients", "backward", "floors")


def cut(name, budget=None, **tile):
    """Return `attention` on a rung whose tiles have another size."""
    file = import_module(f"attncourse.rungs.{name}")

    def attention(*arrays, **options):
        small = nullcontext() if budget is None else mock.patch.object(file, "BUDGET", budget)
        with small:
            return on_ladder(name, partial(file.attend, **tile), arrays, options)

    return attention


def on_ladder(name, attend, arrays, options, **facts):
    """Send a call through the ladder's dispatch to an `attend` that stands in for a rung's."""
    rung = replace(by_name(name), function=SimpleNamespace(__wrapped__=attend), **facts)
    call = Call.of(*arrays, **options)
    return run(rung, call.needs, *arrays, call)


def written_backward(*arrays, **options):
    """Attend on rung `by_hand`, and let autograd use the backward pass that it writes out."""
    facts = {"library": "torch", "features": frozenset(FEATURES), "transforms": False}
    return on_ladder("by_hand", _by_hand, arrays, options, **facts)


def _by_hand(q, k, v, call):
    return _ByHand.apply(*widened(q, k, v), call.attn_mask, call.alibi_slopes, call)


class _ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, attn_mask, slopes, call):
        masks = {"attn_mask": attn_mask, "alibi_slopes": slopes}
        masks = {name: None if x is None else to_numpy(x) for name, x in masks.items()}
        out, lse, kept = by_hand._forward(*map(to_numpy, (q, k, v)), replace(call, **masks))
        ctx.kept, ctx.mask, ctx.slopes = kept, attn_mask, slopes
        return torch.from_numpy(out), torch.from_numpy(lse)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        if torch.is_grad_enabled():
            raise RuntimeError("written out once, and not differentiable itself")
        grads = by_hand.attention_backward(to_numpy(grad_out), ctx.kept, to_numpy(grad_lse))
        q, k, v, scores = (torch.from_numpy(grad) for grad in grads)
        mask = slopes = None
        if ctx.needs_input_grad[3]:
            mask = scores.sum_to_size(ctx.mask.shape)
        if ctx.needs_input_grad[4]:
            distance = abs(ctx.kept.call.gap(scores))
            slopes = -(scores * distance).sum((-1, -2)).sum_to_size(ctx.slopes.shape)
        return q, k, v, mask, slopes, None


def _subject(name, function, rung, lacking=()):
    subject = conformance.subject_of(rung, strict=True)
    return replace(
        subject,
        name=name,
        function=function,
        features=subject.features - set(lacking),
        max_scores=MOST_BY_TWOS if name in ("tiled[2x1]", "recompute[1x2]") else MOST,
    )


# name: the rung, and how it is cut. At the usual size a tile is larger than most sequences.
CUTS = {
    "strips[1]": ("strips", {"strip": 1}),
    "strips[4]": ("strips", {"strip": 4}),
    "strips[head by head]": ("strips", {"budget": 1}),
    "tiled[2x1]": ("tiled", {"block_q": 2, "block_kv": 1}),
    "tiled[3x2]": ("tiled", {"block_q": 3, "block_kv": 2}),
    "tiled[4x16]": ("tiled", {"block_q": 4, "block_kv": 16}),
    "recompute[1x2]": ("recompute", {"block_q": 1, "block_kv": 2}),
    "recompute[3x2]": ("recompute", {"block_q": 3, "block_kv": 2}),
    "recompute[4x16]": ("recompute", {"block_q": 4, "block_kv": 16}),
}

SUBJECTS = {
    **{name: _subject(name, cut(rung, **how), rung) for name, (rung, how) in CUTS.items()},
    "by_hand[backward]": _subject(
        "by_hand[backward]", written_backward, "batched", lacking=["grad_twice"]
    ),
}
