"""What the interpreter cannot show of the Triton rungs, checked on a GPU; see `gpu.py`.

Half types in the matrix units, 65,536 and more heads, more than 2**31 numbers, outputs that
start as NaN, two equal runs. Each check is a dictionary with its error and the error allowed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import attncourse
from attncourse import dropout

FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "bottom_right": {"is_causal": True, "causal_align": "bottom_right"},
    "window": {"is_causal": True, "causal_align": "bottom_right", "window_size": 65},
    "softcap": {"softcap": 20.0},
    "alibi": {"alibi_slopes": "drawn"},
    "bool_mask": {"attn_mask": "bool"},
    "float_mask": {"attn_mask": "float"},
    "dropout": {"dropout_p": 0.2, "dropout_seed": 2**63 + 5},
    "everything": {
        "is_causal": True,
        "causal_align": "bottom_right",
        "window_size": 100,
        "softcap": 20.0,
        "alibi_slopes": "drawn",
        "attn_mask": "float",
        "dropout_p": 0.2,
        "dropout_seed": 11,
    },
}


class Budget:
    """The time that is left, and what it was too short for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.left_out: list[str] = []
        self.start = time.perf_counter()

    def allows(self, name: str, reserve: float = 0.0) -> bool:
        """Tell whether there is time to start, and write down what there is none for."""
        if time.perf_counter() - self.start + reserve < self.seconds:
            return True
        self.left_out.append(name)
        return False


def draw(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> Tensor:
    """Draw standard normal numbers."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)


def poison(device: str, dry: bool) -> None:
    """Leave NaN in the memory that the next outputs will be given."""
    if not dry:
        junk = [torch.full((2**size,), torch.nan, device=device) for size in range(8, 26)]
        del junk


def filled(features: dict[str, Any], query: Tensor, key: Tensor) -> dict[str, Any]:
    """Draw the masks and slopes that a set of features names."""
    options = dict(features)
    device, shape = str(query.device), (query.shape[2], key.shape[2])
    if "alibi_slopes" in options:
        slopes = draw(query.shape[1], dtype=torch.float32, device=device, seed=7)
        options["alibi_slopes"] = slopes.abs() / 20
    if options.get("attn_mask") == "bool":
        options["attn_mask"] = draw(*shape, dtype=torch.float32, device=device, seed=8) > -0.5
    if options.get("attn_mask") == "float":
        mask = draw(*shape, dtype=torch.float32, device=device, seed=9)
        options["attn_mask"] = mask.masked_fill(mask > 1.5, -math.inf)
    return options


def results(tensors: list[Tensor], rung: str, options: dict[str, Any]) -> list[Tensor]:
    """Return out and the three gradients for a fixed gradient of out."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = attncourse.attention(*leaves, enable_gqa=True, rung=rung, **options)
    dout = draw(*out.shape, dtype=tensors[0].dtype, device=str(out.device), seed=5).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, leaves, dout)]


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Return |found - exact| / |exact|, inf where something is not finite."""
    error = ((found.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()
    return error if math.isfinite(error) else math.inf


def planned(dry: bool) -> list[tuple[str, int, str]]:
    """List (dtype, width, features), the most telling first: each costs compilations."""
    if dry:
        return [("float16", 8, label) for label in FEATURES] + [("float32", 8, "everything")]
    plan = [("bfloat16", 64, label) for label in FEATURES]
    plan += [("bfloat16", width, "causal") for width in (128, 80, 256)]
    plan += [("float16", 128, "everything"), ("float32", 64, "causal")]
    plan += [("bfloat16", width, "everything") for width in (128, 256)]
    return [*plan, ("float16", 64, "causal"), ("float32", 40, "everything")]


def check_features(device: str, dry: bool, budget: Budget) -> Iterator[dict[str, Any]]:
    """Compare every feature with float64, allowing twice the error of plain PyTorch."""
    lengths = (300, 417) if not dry else (20, 33)
    for name, width, label in planned(dry):
        if not budget.allows(f"check {label} {name} {width}", 0 if dry else 170):
            continue
        dtype = getattr(torch, name)
        shapes = (2, 4, lengths[0]), (2, 2, lengths[1]), (2, 2, lengths[1])
        tensors = [
            draw(*shape, width, dtype=dtype, device=device, seed=i)
            for i, shape in enumerate(shapes)
        ]
        options = filled(FEATURES[label], tensors[0], tensors[1])
        exact = results([tensor.double() for tensor in tensors], "batched", options)
        plain = results(tensors, "batched", options)
        poison(device, dry)
        found = results(tensors, "triton", options)
        again = results(tensors, "triton", options)
        # The kernels round weights to the type of the values, `batched` does not.
        floor = 2 * torch.finfo(dtype).eps if dtype != torch.float32 else 1e-5
        parts = zip(("out", "dq", "dk", "dv"), found, plain, exact, again, strict=True)
        for part, ours, theirs, truth, twin in parts:
            error, theirs_error = relative_error(ours, truth), relative_error(theirs, truth)
            allowed = 2 * theirs_error + floor
            yield {
                "check": f"{label} {part}",
                "dtype": name,
                "width": width,
                "error": error,
                "pytorch_error": theirs_error,
                "allowed": allowed,
                "equal_twice": torch.equal(ours, twin),
                "ok": error <= allowed and torch.equal(ours, twin),
            }


def check_dropout(device: str) -> dict[str, Any]:
    """Read the mask of dropout off the weights and compare every bit."""
    query = draw(2, 3, 70, 16, dtype=torch.float32, device=device)
    value = torch.eye(70, device=device).expand(2, 3, 70, 70)
    options = {"dropout_p": 0.3, "dropout_seed": 2**64 - 7, "rung": "triton"}
    weights = attncourse.attention(query, query, value, scale=0.1, **options)
    wrong = int(((weights != 0) != dropout.keep(weights, 0.3, 2**64 - 7)).sum())
    return {"check": "dropout bits", "error": wrong, "allowed": 0, "ok": wrong == 0}


def check_many_heads(device: str, dry: bool) -> dict[str, Any]:
    """Attend with more heads than a grid's second axis holds."""
    heads = 66_000 if not dry else 12
    query = draw(heads // 4, 4, 17, 16, dtype=torch.float16, device=device)
    poison(device, dry)
    found = attncourse.attention(query, query, query, is_causal=True, rung="triton")
    exact = attncourse.attention(*[query.double()] * 3, is_causal=True, rung="batched")
    error = relative_error(found, exact)
    return {"check": f"{heads} heads", "error": error, "allowed": 2e-3, "ok": error <= 2e-3}


def check_many_numbers(device: str, dry: bool) -> dict[str, Any]:
    """Attend, forward and backward, over more than 2**31 numbers; look at the last head."""
    heads, seq_len, width = (8200, 2048, 128) if not dry else (3, 32, 8)
    need = 10 * heads * seq_len * width * 2
    name = f"{heads * seq_len * width} numbers"
    if device == "cuda" and torch.cuda.mem_get_info()[0] < need:
        return {"check": name, "skipped": f"wants {need} bytes", "ok": True}
    shape = (1, heads, seq_len, width)
    tensors = [torch.empty(shape, dtype=torch.bfloat16, device=device) for _ in range(3)]
    for seed, tensor in enumerate(tensors):
        tensor.normal_(generator=torch.Generator(device).manual_seed(seed)).requires_grad_()
    out = attncourse.attention(*tensors, is_causal=True, rung="triton")
    gradients = torch.autograd.grad(out, tensors, out.detach())
    last = [tensor.detach()[:, -1:].double().requires_grad_() for tensor in tensors]
    exact = attncourse.attention(*last, is_causal=True, rung="batched")
    truth = [exact, *torch.autograd.grad(exact, last, out.detach()[:, -1:].double())]
    error = max(
        relative_error(ours[:, -1:], theirs)
        for ours, theirs in zip((out.detach(), *gradients), truth, strict=True)
    )
    return {"check": name, "error": error, "allowed": 2e-2, "ok": error <= 2e-2}
