"""How far the suite goes with a rung: what stands on the `Rung` itself, asked by name."""

from __future__ import annotations

import importlib.util

from attncourse.rungs import Limits, by_name

EXTRAS = {
    "scale": "scale: another factor than 1 / sqrt(E)",
    "half": "float16 and bfloat16 inputs, accumulated in float32 at least",
    "grad_twice": "gradients of gradients",
}


def limits_of(name: str) -> Limits:
    """Return the limits of a rung by its name."""
    return by_name(name).limits


def missing_package(name: str) -> str | None:
    """Name the package that a rung needs and this machine lacks; None when it can run."""
    package = by_name(name).package
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return package
