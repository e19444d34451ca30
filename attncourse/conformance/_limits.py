"""What is declared about single rungs, and nowhere else.

A slow rung is held to the same cases as a fast one, up to a size that its speed allows;
the report and the capability table show that size. A rung that is not listed here has no
limit, so a new rung of the ladder is tested in full without a line being written.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

EXTRAS = {
    "scale": "scale: another factor than 1 / sqrt(E)",
    "half": "float16 and bfloat16 inputs, accumulated in float32 at least",
    "grad_twice": "gradients of gradients",
}


@dataclass(frozen=True)
class Limits:
    """How far a rung is tested.

    Attributes
    ----------
    max_scores : int or None
        Largest number of scores (batch x heads x L x S) in one case; None for no limit.
    max_gradcheck : int or None
        The same for cases that call the rung once for every number of its inputs.
    grad_twice : bool
        Whether torch's autograd does the backward, so that it can be differentiated again.
    dtypes : tuple of str
        Types the rung computes in.
    needs : str or None
        A package without which the rung cannot run.
    device : str
        Where its tensors must be.
    slow : bool
        Whether its tests take more than a few seconds.
    """

    max_scores: int | None = None
    max_gradcheck: int | None = None
    grad_twice: bool = False
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
    needs: str | None = None
    device: str = "cpu"
    slow: bool = False


def _on_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


_INTERPRETED = Limits(max_scores=25_000, max_gradcheck=60, needs="triton", slow=True)
# Tensor cores have no float64 products, so native kernels start at float32.
_NATIVE = Limits(dtypes=("float32", "float16", "bfloat16"), needs="triton", device="cuda")

_LIMITS = {
    "loops": Limits(max_scores=30_000),
    "batched": Limits(grad_twice=True),
}


def limits_of(name: str) -> Limits:
    """Return the limits of a rung by its name.

    Returns
    -------
    Limits
        Without any limit for a rung that is not listed.
    """
    if name.startswith("triton"):
        return _NATIVE if _on_gpu() else _INTERPRETED
    return _LIMITS.get(name, Limits())


def missing_package(name: str) -> str | None:
    """Name the package that a rung needs and this machine lacks; None when it can run."""
    package = limits_of(name).needs
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return package
