"""Wrong attention functions, each one small change away from a right one.

A mutant names the file it changes, the text it replaces and the case that must catch it.
Most are mistakes that were made: in homework, in kernels, or in this course's own code.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One small change of a correct function.

    Attributes
    ----------
    name : str
        What is wrong with it.
    base : {"dense", "flash"}
        The correct file beside this one.
    changes : tuple of (str, str)
        Text to find, and what replaces it; each text stands there exactly once.
    caught_by : str
        Name of the case that must fail.
    """

    name: str
    base: str
    changes: tuple[tuple[str, str], ...]
    caught_by: str

    def source(self) -> str:
        """Return the changed source.

        Raises
        ------
        ValueError
            When a text to replace does not stand in the file exactly once.
        """
        text = (HERE / f"{self.base}.py").read_text(encoding="utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} stands {text.count(old)} times, wanted 1")
            text = text.replace(old, new)
        return text

    def load(self) -> Any:
        """Return the wrong function."""
        return load(self.source(), f"<{self.name}>")


def load(source: str, name: str) -> Any:
    """Execute a source and return its `attention`, with lines that tracebacks can show."""
    module = ModuleType(name)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module.attention


def correct(base: str) -> Any:
    """Return the correct function of a file."""
    return load((HERE / f"{base}.py").read_text(encoding="utf-8"), f"<{base}>")


def _dense(name: str, caught_by: str, *changes: tuple[str, str]) -> Mutant:
    return Mutant(name, "dense", changes, caught_by)


def _flash(name: str, caught_by: str, *changes: tuple[str, str]) -> Mutant:
    return Mutant(name, "flash", changes, caught_by)


_SCALE = "scale = width**-0.5 if scale is None else scale"
_HIDE = "scores = np.where(seen, scores, -np.inf)"
_CAP = "        scores = softcap * np.tanh(scores / softcap)\n"
_NORMALISE = "weights = weights / np.where(total == 0, 1, total)"

MUTANTS = (
    # Which keys a query sees.
    _dense("causal ignored", "exact/causal", ("seen &= gap >= 0", "pass")),
    _dense("causal hides the own key", "exact/causal", ("gap >= 0", "gap >= 1")),
    _dense("causal shows the next key", "metamorphic/the-future-cannot-be-read",
           ("gap >= 0", "gap >= -1")),
    _dense("causal inverted", "exact/causal", ("gap >= 0", "gap <= 0")),
    _dense("causal always bottom right", "exact/causal-more-keys",
           ('num_keys - num_queries if causal_align == "bottom_right" else 0',
            "num_keys - num_queries")),
    _dense("bottom right ignored", "exact/bottom-right",
           ('num_keys - num_queries if causal_align == "bottom_right" else 0', "0")),
    _dense("bottom right without empty rows", "exact/bottom-right-empty-rows",
           ('num_keys - num_queries if causal_align', 'max(0, num_keys - num_queries) if causal_align')),
    _dense("causal given up when there is a mask", "exact/mask-and-causal",
           ("if is_causal:", "if is_causal and attn_mask is None:")),
    _dense("window one key too wide", "exact/window", ("gap < window_size", "gap <= window_size")),
    _dense("window one key too narrow", "exact/window-of-one",
           ("gap < window_size", "gap < window_size - 1")),
    _dense("window pinned top left", "exact/window-bottom-right",
           ("seen &= gap < window_size", "seen &= gap - shift < window_size")),
    _dense("boolean mask inverted", "exact/bool-mask", ("seen &= attn_mask\n", "seen &= ~attn_mask\n")),
    _dense("mask combined by OR", "exact/mask-and-causal", ("seen &= attn_mask\n", "seen |= attn_mask\n")),
    _dense("mask of the first sequence for all", "layouts/bool-mask-one-a-sequence",
           ("seen &= attn_mask\n", "seen &= attn_mask[:1] if attn_mask.ndim == 4 else attn_mask\n")),
    _dense("first head's mask for all", "layouts/bool-mask-one-a-head",
           ("seen &= attn_mask\n",
            "seen &= attn_mask[:, :1] if attn_mask.ndim == 4 else attn_mask\n")),
    # How hidden keys are hidden.
    _dense("mask after the softmax", "exact/causal", (_HIDE, "pass"),
           (_NORMALISE, _NORMALISE + " * seen")),
    _dense("-1e6 instead of -inf", "values/lower-than-any-substitute-for-minus-infinity",
           (_HIDE, "scores = np.where(seen, scores, -1e6)")),
    _dense("-1e9 instead of -inf", "exact/bool-mask-empty-row",
           (_HIDE, "scores = np.where(seen, scores, -1e9)")),
    _dense("finfo.min instead of -inf", "exact/bottom-right-empty-rows",
           (_HIDE, "scores = np.where(seen, scores, np.finfo(scores.dtype).min)")),
    _dense("finfo.min hides like -inf", "values/smallest-number-is-a-number",
           ("seen &= attn_mask != -np.inf", "seen &= attn_mask > np.finfo(np.float64).min")),
    _dense("empty rows are NaN", "exact/bool-mask-empty-row",
           (_NORMALISE, "weights = weights / total")),
    _dense("NaN of hidden keys leaks", "values/nan-in-keys-nobody-sees",
           ("np.where(used, key, 0), np.where(used, value, 0)", "key, value")),
    _dense("hidden weights are tiny, not 0", "values/minus-infinity-leaves-no-trace",
           ("weights = np.exp(scores - peak)", "weights = np.exp(scores - peak) + 1e-30")),
    # Scores.
    _dense("sqrt(d_model)", "exact/default-scale-with-heads",
           (_SCALE, "scale = (query.shape[-1] * (query.shape[-3] if query.ndim > 2 else 1))**-0.5"
            " if scale is None else scale")),
    _dense("scale fixed at 1/8", "exact/log-of-integers",
           (_SCALE, "scale = 0.125 if scale is None else scale")),
    _dense("no scale", "exact/default-scale-at-width-4",
           (_SCALE, "scale = 1.0 if scale is None else scale")),
    _dense("scale of the values' width", "exact/default-scale-at-width-9",
           (_SCALE, "scale = value.shape[-1]**-0.5 if scale is None else scale")),
    _dense("divided by E", "exact/default-scale-at-width-4",
           (_SCALE, "scale = 1 / width if scale is None else scale")),
    _dense("scale argument ignored", "exact/scale-argument", (_SCALE, "scale = width**-0.5")),
    _dense("scale 0 means default", "exact/scale-zero", (_SCALE, "scale = scale or width**-0.5")),
    _dense("float mask scaled too", "order/float-mask-after-scale",
           ("np.where(attn_mask == -np.inf, 0, attn_mask)",
            "scale * np.where(attn_mask == -np.inf, 0, attn_mask)")),
    _dense("float mask multiplied", "order/float-mask",
           ("scores = scores + np.where(attn_mask == -np.inf, 0, attn_mask)",
            "scores = scores * np.where(attn_mask == -np.inf, 0, attn_mask)")),
    _dense("softcap after the mask", "order/softcap-before-bool-mask", (_CAP, "        pass\n"),
           (_HIDE, _HIDE + "\n    scores = scores if softcap is None else softcap * "
            "np.tanh(scores / softcap)")),
    _dense("softcap before the float mask", "order/softcap-after-float-mask",
           (_CAP, "        pass\n"),
           ("scores = scale * (query @ key.swapaxes(-1, -2))",
            "scores = scale * (query @ key.swapaxes(-1, -2))\n"
            "    scores = scores if softcap is None else softcap * np.tanh(scores / softcap)")),
    _dense("softcap without its factor", "order/softcap",
           (_CAP, "        scores = np.tanh(scores / softcap)\n")),
    _dense("softcap clips", "order/softcap",
           (_CAP, "        scores = np.clip(scores, -softcap, softcap)\n")),
    _dense("ALiBi without distance beyond the diagonal", "order/alibi",
           ("* abs(gap)", "* np.maximum(gap, 0)")),
    _dense("ALiBi with the wrong sign", "order/alibi",
           ("scores = scores - alibi_slopes", "scores = scores + alibi_slopes")),
    _dense("ALiBi pinned top left", "features/alibi-bottom-right-alone",
           ("* abs(gap)", "* abs(gap - shift)")),
    # Softmax and what follows.
    _dense("no running maximum", "values/scores-of-10000",
           ("peak = np.where(peak == -np.inf, 0, peak)", "peak = np.zeros_like(peak)")),
    _dense("maximum of the whole matrix", "values/first-score-is-largest",
           ("peak = scores.max(-1, keepdims=True, initial=-np.inf)",
            "peak = scores.max((-1, -2), keepdims=True, initial=-np.inf)")),
    _dense("softmax over the queries", "exact/log-of-integers",
           ("total = weights.sum(-1, keepdims=True)", "total = weights.sum(-2, keepdims=True)"),
           ("lse = (np.log(np.where(total == 0, 1, total)) + peak)[..., 0]",
            "lse = peak[..., 0]"),
           ("lse = np.where(total[..., 0] == 0, -np.inf, lse)", "pass")),
    _dense("1e-6 added to the denominator", "exact/log-of-integers",
           ("weights / np.where(total == 0, 1, total)", "weights / (total + 1e-6)")),
    _dense("weights in float16", "precision/thirds-in-float32",
           (_NORMALISE, _NORMALISE + "\n    weights = weights.astype(np.float16)")),
    _dense("scores in float32", "exact/log-of-integers",
           (_HIDE, _HIDE.replace("scores, -np.inf", "scores.astype(np.float32), -np.inf"))),
    _dense("sums in the type of the input", "precision/half-scores-of-9-million",
           ("wide = np.promote_types(kind, np.float32)", "wide = kind")),
    _dense("result always float32", "precision/float64-stays",
           ("(weights @ value).astype(kind)", "(weights @ value).astype(np.float32)")),
    _dense("lse in base 2", "order/lse", ("lse = lse.astype(wide)", "lse = lse.astype(wide) / np.log(2)")),
    _dense("lse without the maximum", "order/lse",
           ("lse = (np.log(np.where(total == 0, 1, total)) + peak)[..., 0]",
            "lse = np.log(np.where(total == 0, 1, total))[..., 0]")),
    _dense("lse in the type of the input", "precision/half-stays",
           ("lse = lse.astype(wide)", "lse = lse.astype(kind)")),
    _dense("lse of empty rows is 0", "order/lse-of-what-is-seen",
           ("lse = np.where(total[..., 0] == 0, -np.inf, lse)", "pass")),
    _dense("lse after dropout", "features/dropout-keeps-lse",
           ("weights = weights * kept / (1 - dropout_p)",
            "weights = weights * kept / (1 - dropout_p)\n"
            "        lse = lse + np.log(weights.sum(-1) + 1e-300)")),
    # Heads, dropout, inputs.
    _dense("grouped heads interleaved", "order/grouped-heads",
           ("np.repeat(key, groups, -3), np.repeat(value, groups, -3)",
            "np.concatenate([key] * groups, -3), np.concatenate([value] * groups, -3)")),
    _dense("values of grouped heads interleaved", "metamorphic/grouped-is-repeated",
           ("np.repeat(value, groups, -3)", "np.concatenate([value] * groups, -3)")),
    _dense("heads see each other's keys", "metamorphic/heads-apart",
           ("key, value = query.astype(wide), key.astype(wide), value.astype(wide)",
            "key, value = query.astype(wide), key.astype(wide), value.astype(wide)\n"
            "    key = key if key.ndim < 4 else np.roll(key, 1, 1)")),
    _dense("keys sorted before the causal mask", "exact/causal",
           ("key, value = np.where(used, key, 0), np.where(used, value, 0)",
            "order = np.argsort((key**2).sum(-1), -1)[..., None]\n"
            "    key, value = (np.take_along_axis(x, order, -2) for x in (key, value))")),
    _dense("dropout without scaling up", "order/dropout",
           ("weights = weights * kept / (1 - dropout_p)", "weights = weights * kept")),
    _dense("dropout shared anew", "order/dropout",
           ("weights = weights * kept / (1 - dropout_p)",
            "weights = weights * kept\n        weights = weights / (weights.sum(-1, keepdims=True) + 1e-300)")),
    _dense("one dropout mask for all heads", "features/dropout-rows-differ",
           ("kept = dropout.keep(weights, dropout_p, int(seed))",
            "kept = dropout.keep(weights[..., :1, :, :] if weights.ndim > 2 else weights, "
            "dropout_p, int(seed))")),
    _dense("dropout seed cut to 32 bits", "features/dropout-mask-of-the-seed",
           ("dropout_p, int(seed))", "dropout_p, int(seed) % 2**32)")),
    _dense("dropout seed always 0", "features/dropout-drawn-afresh",
           ("np.random.default_rng().integers(2**63) if dropout_seed is None", "0 if dropout_seed is None")),
    _dense("query scaled in place", "layouts/inputs-unchanged",
           ("    kind = query.dtype\n", "    kind = query.dtype\n    query *= 1.0 + 2.0**-20\n")),
    _dense("mask written to", "layouts/inputs-unchanged",
           ("seen &= attn_mask != -np.inf", "seen &= attn_mask != -np.inf\n        attn_mask[...] = 0")),
    _dense("transposed memory read as packed", "layouts/transposed-plain",
           ("key, value = query.astype(wide), key.astype(wide), value.astype(wide)",
            "key, value = query.astype(wide), key.ravel(order='K').reshape(key.shape)"
            ".astype(wide), value.astype(wide)")),
    # Tiles, forward.
    _flash("last partial tile dropped", "shapes/17x33-w8-v5-plain",
           ("for j in range(first, last, BLOCK_N)]",
            "for j in range(first, last, BLOCK_N) if j + BLOCK_N <= num_keys or num_keys < BLOCK_N]")),
    _flash("last partial strip of queries not written", "shapes/17x33-w8-v5-plain",
           ("for start in range(0, q.shape[-2], BLOCK_M):\n            rows = slice(start, min(start"
            " + BLOCK_M, q.shape[-2]))\n            row_max",
            "for start in range(0, q.shape[-2] // BLOCK_M * BLOCK_M or 1, BLOCK_M):\n"
            "            rows = slice(start, min(start + BLOCK_M, q.shape[-2]))\n            row_max")),
    _flash("old output not shrunk", "values/first-score-is-largest",
           ("acc = acc * shrink +", "acc = acc +")),
    _flash("old sum not shrunk", "values/first-score-is-largest",
           ("row_sum = row_sum * shrink +", "row_sum = row_sum +")),
    _flash("maximum of the last tile only", "values/first-score-is-largest",
           ("new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))",
            "new_max = scores.amax(-1, keepdim=True)")),
    _flash("running maximum starts at 0", "values/all-scores-very-low",
           ("1), -torch.inf, dtype=wide)", "1), 0.0, dtype=wide)")),
    _flash("running maximum of -inf subtracted", "exact/bool-mask-empty-row",
           ("centre = new_max.masked_fill(new_max == -torch.inf, 0.0)", "centre = new_max")),
    _flash("dropped weights leave the sum", "order/dropout",
           ("                row_sum = row_sum * shrink + weights.sum(-1, keepdim=True)\n"
            "                weights = weights * tile_dropout(weights, rows, cols, options)\n",
            "                weights = weights * tile_dropout(weights, rows, cols, options)\n"
            "                row_sum = row_sum * shrink + weights.sum(-1, keepdim=True)\n")),
    _flash("dropout counts within its tile", "features/dropout-mask-of-the-seed",
           ('options["dropout_seed"], rows, cols)', 'options["dropout_seed"])')),
    _flash("causal skips the diagonal tile", "shapes/17x33-w8-v5-causal",
           ("min(num_keys, rows.stop + shift)", "min(num_keys, rows.start + shift)")),
    _flash("window skips a tile too many", "shapes/window-of-one-tile",
           ('- options["window_size"] + 1) // BLOCK_N * BLOCK_N',
            '- options["window_size"] + 1 + BLOCK_N - 1) // BLOCK_N * BLOCK_N')),
    _flash("tiles skipped as if pinned top left", "shapes/17x33-w8-v5-bottom-right",
           ("last = max(0, min(num_keys, rows.stop + shift))", "last = min(num_keys, rows.stop)")),
    _flash("merge of parts forgets an empty first part", "values/nan-beyond-the-triangle",
           ("if attn_mask is not None or is_causal:", "if attn_mask is not None:")),
    # Backward.
    _flash("gradient of the first head of a group only", "backward/grouped-gradients-add-up",
           ("(-1, ctx.groups)).sum(2)", "(-1, ctx.groups))[:, :, 0]")),
    _flash("gradient of a group averaged", "gradients/finite-differences-grouped",
           ("(-1, ctx.groups)).sum(2)", "(-1, ctx.groups)).mean(2)")),
    _flash("another dropout mask in the backward", "backward/same-dropout-in-both-passes",
           ("                kept = tile_dropout(weights, rows, cols, options)\n",
            "                kept = tile_dropout(weights, rows, cols, {**options, "
            "'dropout_seed': (options['dropout_seed'] or 0) + 1})\n")),
    _flash("dropout forgotten in the gradient of weights", "gradients/finite-differences-dropout",
           ("@ v[..., cols, :].mT * kept", "@ v[..., cols, :].mT")),
    _flash("delta left out", "gradients/finite-differences-plain",
           ("(dp - delta[..., rows, :])", "dp")),
    _flash("gradient of the key without scale", "gradients/finite-differences-plain",
           ("dk[..., cols, :] += ds.mT @", "dk[..., cols, :] += ds.mT / scale @")),
    _flash("slope of the softcap forgotten", "gradients/finite-differences-softcap",
           ("- delta[..., rows, :]) * slope * scale", "- delta[..., rows, :]) * scale")),
    _flash("lse of empty rows subtracted in the backward", "backward/no-key-no-gradient",
           ("centre = lse.masked_fill(lse == -torch.inf, 0.0)[..., None]", "centre = lse[..., None]")),
    _flash("last keys get no gradient", "gradients/autograd-18x35-plain",
           ("                dk[..., cols, :] += ds.mT @ q[..., rows, :]",
            "                if cols.stop - cols.start == BLOCK_N or k.shape[-2] < BLOCK_N:\n"
            "                    dk[..., cols, :] += ds.mT @ q[..., rows, :]")),
    _flash("gradients collected in the type of the input", "backward/half-sum-over-8192-rows",
           ("torch.zeros_like(k), torch.zeros_like(v)",
            "torch.zeros_like(k), torch.zeros_like(v, dtype=ctx.kind)"),
           ("dv[..., cols, :] += (weights * kept).mT @ grad_out[..., rows, :]",
            "dv[..., cols, :] += ((weights * kept).mT @ grad_out[..., rows, :]).to(ctx.kind)")),
    _flash("upstream gradient read as packed", "backward/strided-leaves",
           ("grad_out = grad_out.to(q.dtype)",
            "grad_out = torch.as_strided(grad_out.to(q.dtype), (grad_out.numel(),), (1,), 0)"
            ".reshape(grad_out.shape)")),
    _flash("gradient tensors not cleared", "gradients/finite-differences-causal",
           ("torch.zeros_like(k), torch.zeros_like(v)", "torch.empty_like(k), torch.zeros_like(v)")),
)
