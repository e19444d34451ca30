"""Self-attention, built up one idea at a time.

`import attncourse` costs numpy only: everything below is imported on first use,
so a machine without torch can still read, run and check the NumPy rungs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncourse.rungs import LADDER as LADDER
    from attncourse.rungs import attention as attention

__version__ = "0.1.0"

_MODULES = (
    "call",
    "conformance",
    "decode",
    "dropout",
    "features",
    "grouped",
    "kernels",
    "layers",
    "masks",
    "measure",
    "models",
    "notebook",
    "parallel",
    "plotting",
    "positions",
    "pretrained",
    "reference",
    "rungs",
    "softmax",
    "tasks",
    "text",
    "tiles",
    "train",
    "variants",
    "widgets",
)
_FROM_RUNGS = ("LADDER", "attention")

__all__ = ["LADDER", "__version__", "attention", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name the first time it is asked for."""
    if name in _FROM_RUNGS:
        return getattr(import_module("attncourse.rungs"), name)
    if name in _MODULES:
        return import_module(f"attncourse.{name}")
    raise AttributeError(f"module 'attncourse' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
