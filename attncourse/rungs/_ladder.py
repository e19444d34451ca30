"""What the ladder is made of: the features, the rungs in teaching order, and their lookup.

New here: a rung declares its features, and the tests execute every declared yes and every
declared no. Its function is imported on first use, so that reading the ladder costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

FEATURES = {
    "batch": "axes in front of (L, E): batches and heads",
    "bool_mask": "a boolean attn_mask, True = attend",
    "float_mask": "a float attn_mask, added to the scores",
    "causal": "is_causal",
    "bottom_right": 'causal_align="bottom_right"',
    "window": "window_size",
    "softcap": "softcap",
    "alibi": "alibi_slopes",
    "gqa": "enable_gqa: key heads shared by groups of query heads",
    "dropout": "dropout_p",
    "dropout_seed": "dropout_seed: the same mask on every rung",
    "lse": "return_lse",
    "grad": "gradients of tensors that require them",
}
_ALL = frozenset(FEATURES)


class _OnFirstCall:
    """A rung's function, imported the first time it is called or looked at."""

    def __init__(self, module: str) -> None:
        self.module = module

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        name = f"attncourse.rungs.{self.module}"
        # torch.compile can follow a look-up, but not an import.
        return (sys.modules.get(name) or _load(name)).attention

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<attncourse.rungs.{self.module}.attention>"


def _load(name: str) -> ModuleType:
    """Import a rung's module, and name the extra where torch is not there."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        rung = name.rpartition(".")[2]
        raise ImportError(
            f"rung {rung!r} needs torch: pip install 'attncourse[torch]', or take a NumPy rung"
        ) from missing


@dataclass(frozen=True)
class Rung:
    """One way to compute attention.

    Attributes
    ----------
    name : str
        What ``rung=`` takes, and the name of its file.
    function : callable
        Takes checked arrays of its library and the arguments its features name.
    library : {"numpy", "torch"}
        What it computes with.
    features : frozenset of str
        Keys of `FEATURES`.
    """

    name: str
    function: Callable[..., Any]
    library: str
    features: frozenset[str]


LADDER = (
    Rung(
        "loops",
        _OnFirstCall("loops"),
        "numpy",
        frozenset({"bool_mask", "causal", "bottom_right", "window", "lse"}),
    ),
    Rung("matmul", _OnFirstCall("matmul"), "numpy", _ALL - {"grad"}),
    Rung("by_hand", _OnFirstCall("by_hand"), "numpy", _ALL - {"grad"}),
    Rung("batched", _OnFirstCall("batched"), "torch", _ALL),
    Rung("strips", _OnFirstCall("strips"), "torch", _ALL),
    Rung("tiled", _OnFirstCall("tiled"), "torch", _ALL),
    Rung("recompute", _OnFirstCall("recompute"), "torch", _ALL),
    Rung(
        "triton_forward",
        _OnFirstCall("triton_forward"),
        "torch",
        frozenset({"batch", "causal", "bottom_right", "gqa", "lse"}),
    ),
    Rung("triton", _OnFirstCall("triton"), "torch", _ALL),
    Rung("sdpa", _OnFirstCall("sdpa"), "torch", _ALL - {"softcap", "lse", "dropout_seed"}),
)


def by_name(name: str) -> Rung:
    """Find a rung.

    Raises
    ------
    ValueError
        When no rung has that name; the message lists those that exist.
    """
    for rung in LADDER:
        if rung.name == name:
            return rung
    raise ValueError(f"no rung is called {name!r}; there are {[rung.name for rung in LADDER]}")
