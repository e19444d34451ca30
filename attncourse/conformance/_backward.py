"""Run a function backward, and compare its gradients with autograd through plain PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._check import Mismatch, close
from attncourse.conformance._oracle import Problem
from attncourse.conformance._plain import plain
from attncourse.conformance._subject import Subject, to_numpy
from attncourse.conformance._tolerance import EPS, SPARE, largest, peak_score

NAMES = ("query", "key", "value")


def leaves(subject: Subject, inputs: Problem, dtype: str, wanted: Any = NAMES) -> dict[str, Any]:
    """Turn inputs into tensors, those in `wanted` with gradients."""
    natives = {
        name: subject.native(array, dtype) for name, array in zip(NAMES, inputs, strict=True)
    }
    for name in wanted:
        natives[name].requires_grad_()
    return natives


def gradients(
    subject: Subject,
    inputs: Problem,
    upstream: np.ndarray,
    dtype: str = "float64",
    wanted: Any = NAMES,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Call a function and push `upstream` back through it.

    Parameters
    ----------
    subject : Subject
        The function under test.
    inputs : Problem
        What it is given.
    upstream : ndarray, shape (..., L, Ev)
        Gradient of the output.
    dtype : str
        Type of the inputs.
    wanted : sequence of str
        Which inputs require gradients.
    **options
        Other arguments.

    Returns
    -------
    dict
        Name of each input in `wanted` to its gradient, in float64.
    """
    dtype = subject.dtype(dtype)
    natives = leaves(subject, inputs, dtype, wanted)
    others = {n: a for n, a in options.items() if n in ("attn_mask", "alibi_slopes")}
    arrays = {name: subject.native(array, dtype) for name, array in others.items()}
    answer = subject.call_native({**natives, **arrays}, options)
    answer.native_out.backward(subject.native(upstream, dtype))
    return {name: grad_of(natives[name], name) for name in wanted}


def grad_of(tensor: Any, name: str) -> np.ndarray:
    """Return a tensor's gradient, in float64.

    Raises
    ------
    Mismatch
        When nothing was collected there.
    """
    if tensor.grad is None:
        raise Mismatch(f"gradient of {name}", "numbers", "None: it does not depend on it")
    return to_numpy(tensor.grad)


def plain_gradients(
    inputs: Problem, upstream: np.ndarray, dtype: str, options: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return the gradients of plain PyTorch in a type."""
    import torch

    kind = getattr(torch, dtype)
    tensors = [torch.tensor(array).to(kind).requires_grad_() for array in inputs]
    out, _ = plain(tensors, options)
    out.backward(torch.tensor(upstream).to(out.dtype))
    grads = (torch.zeros_like(t) if t.grad is None else t.grad for t in tensors)
    return {name: to_numpy(grad) for name, grad in zip(NAMES, grads, strict=True)}


def hold_gradients(subject: Subject, inputs: Problem, wanted: Any = NAMES, **options: Any) -> None:
    """Compare gradients with autograd through plain PyTorch in float64.

    Parameters
    ----------
    subject : Subject
        The function under test.
    inputs : Problem
        What it is given, in float64.
    wanted : sequence of str
        Which inputs require gradients.
    **options
        Other arguments.

    Raises
    ------
    Mismatch
        When a gradient is further off than rounding explains.
    """
    dtype = subject.dtype("float64")
    inputs = inputs.map(lambda array: to_numpy(subject.native(array, dtype)))
    upstream = output_gradient(inputs)
    came = gradients(subject, inputs, upstream, wanted=wanted, **options)
    right = plain_gradients(inputs, upstream, "float64", options)
    eps = 2.0**-52 if dtype == "float64" else 2.0**-23
    peak = 1 + peak_score(inputs.query, inputs.key, options)
    for name in wanted:
        size = 1 + largest(right[name])
        close(f"gradient of {name}", came[name], right[name], 10 * SPARE * eps * peak * size)


def output_gradient(inputs: Problem) -> np.ndarray:
    """Draw a gradient of the output, different everywhere."""
    shape = (*inputs.query.shape[:-1], inputs.value.shape[-1])
    return np.random.default_rng(17).standard_normal(shape)


def hold_lse_gradients(subject: Subject, inputs: Problem, **options: Any) -> None:
    """Compare gradients of a log-sum-exp, alone and beside the output's, with plain PyTorch's.

    A function may cut its log-sum-exp off from the gradients; a wrong one raises `Mismatch`.
    """
    import torch

    dtype, upstream = subject.dtype("float64"), output_gradient(inputs)
    for share in (0.0, 1.0):
        natives = leaves(subject, inputs, dtype)
        arrays = {n: subject.native(a, dtype) for n, a in options.items() if hasattr(a, "shape")}
        answer = subject.call_native({**natives, **arrays}, {**options, "return_lse": True})
        if not answer.native_lse.requires_grad:
            return
        _lse_loss(answer.native_out, answer.native_lse, subject.native(share * upstream, dtype))
        right = [torch.tensor(array).requires_grad_() for array in inputs]
        _lse_loss(*plain(right, options), torch.tensor(share * upstream))
        for name, tensor in zip(NAMES, right, strict=True):
            wanted, came = (_collected(leaf) for leaf in (tensor, natives[name]))
            close(f"gradient of {name}", came, wanted, 1e4 * EPS[dtype])


def _lse_loss(out: Any, lse: Any, upstream: Any) -> None:
    """Send gradients back from the output and from every log-sum-exp that is a number."""
    ((out * upstream).sum() + (lse[lse.isfinite()] ** 2).sum()).backward()


def _collected(leaf: Any) -> np.ndarray:
    """Return a leaf's gradient; zeros where none came, as for values that no lse depends on."""
    return np.zeros(leaf.shape) if leaf.grad is None else to_numpy(leaf.grad)
