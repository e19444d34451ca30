"""What the ladder is made of: the rungs in teaching order, with all that is known about each.

New here: a rung declares its features, and the tests execute every declared yes and every
declared no. Its module is imported on first use, so that reading the ladder costs nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from attncourse.features import FEATURES

_ALL = frozenset(FEATURES)


class _OnThisRung:
    """`attncourse.attention` on one rung, whose module is imported on first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        name = f"attncourse.rungs.{self.name}"
        # torch.compile can follow a look-up, but not an import.
        return (sys.modules.get(name) or _load(name)).attend

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(sys.modules["attncourse.rungs"].attention)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return sys.modules["attncourse.rungs"].attention(*args, rung=self.name, **options)

    def __repr__(self) -> str:
        return f"<attncourse.attention on rung {self.name!r}>"


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
class Limits:
    """How far a rung is tested: a slow one is held to the same cases, up to a size.

    Attributes
    ----------
    max_scores : int or None
        Largest number of scores (batch x heads x L x S) in one case; None for no limit.
    max_gradcheck : int or None
        The same for cases that call the rung once for every number of its inputs.
    dtypes : tuple of str
        Types the rung computes in.
    device : str
        Where its tensors must be.
    slow : bool
        Whether its tests take more than a few seconds.
    """

    max_scores: int | None = None
    max_gradcheck: int | None = None
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
    device: str = "cpu"
    slow: bool = False


# Tensor cores have no float64 products, so native kernels start at float32.
_NATIVE = Limits(dtypes=("float32", "float16", "bfloat16"), device="cuda")


@dataclass(frozen=True)
class Rung:
    """One way to compute attention, and what is known about it.

    Attributes
    ----------
    name : str
        What ``rung=`` takes, and the name of its file.
    function : callable
        `attncourse.attention` on this rung.
    library : {"numpy", "torch"}
        What it computes with.
    features : frozenset of str
        Keys of `FEATURES`.
    cost : {"materialised", "strips", "tiled"}
        Which scores stand in memory at once, as `attncourse.measure.cost` counts.
    recomputes : bool
        Whether its backward pass makes the scores again.
    grad_twice : bool
        Whether gradients can be differentiated again.
    transforms : bool
        Whether `torch.func` (vmap, grad, jvp) and forward-mode derivatives reach into it.
    autocast : bool
        Whether it lowers precision well, and so may be lowered by autocast.
    package : str or None
        What it needs beside its library. Such a rung runs natively on a GPU only.
    timed : bool
        Whether `attncourse bench` times it; the one that it compares with is not.
    longest : int or None
        Longest sequence that is timed on a CPU: Python's loops take minutes beyond.
    on_cpu : Limits
        How far it is tested on a CPU.
    """

    name: str
    function: Any
    library: str
    features: frozenset[str]
    cost: str = "materialised"
    recomputes: bool = False
    grad_twice: bool = False
    transforms: bool = True
    autocast: bool = False
    package: str | None = None
    timed: bool = True
    longest: int | None = None
    on_cpu: Limits = field(default=Limits(), repr=False)

    @property
    def attend(self) -> Callable[..., Any]:
        """What the rung's file holds: from arrays of its library and a `Call` to (out, lse)."""
        return self.function.__wrapped__

    @property
    def limits(self) -> Limits:
        """How far it is tested on this machine."""
        return _NATIVE if self.package == "triton" and _on_gpu() else self.on_cpu


def _on_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


def _rung(name: str, library: str, features: frozenset[str], cost: str, **facts: Any) -> Rung:
    return Rung(name, _OnThisRung(name), library, features, cost, **facts)


_ONE_HEAD = frozenset({"bool_mask", "causal", "bottom_right", "window", "lse"})
_SHORT = frozenset({"batch", "causal", "bottom_right", "gqa", "lse"})
_WITHOUT_GRAD, _PYTORCHS = _ALL - {"grad"}, _ALL - {"softcap", "lse", "dropout_seed"}
_INTERPRETED: dict[str, Any] = {
    "package": "triton",
    "longest": 64,
    "transforms": False,
    "on_cpu": Limits(max_scores=25_000, max_gradcheck=60, slow=True),
}

LADDER = (
    _rung(
        *("loops", "numpy", _ONE_HEAD, "materialised"),
        longest=64,
        on_cpu=Limits(max_scores=30_000),
    ),
    _rung("matmul", "numpy", _WITHOUT_GRAD, "materialised"),
    _rung("by_hand", "numpy", _WITHOUT_GRAD, "materialised"),
    _rung("batched", "torch", _ALL, "materialised", grad_twice=True),
    _rung("strips", "torch", _ALL, "strips"),
    _rung("tiled", "torch", _ALL, "tiled"),
    _rung("recompute", "torch", _ALL, "tiled", recomputes=True, transforms=False),
    _rung("triton_forward", "torch", _SHORT, "tiled", autocast=True, **_INTERPRETED),
    _rung("triton", "torch", _ALL, "tiled", recomputes=True, autocast=True, **_INTERPRETED),
    _rung("sdpa", "torch", _PYTORCHS, "tiled", recomputes=True, autocast=True, timed=False),
)


_BY_NAME = {rung.name: rung for rung in LADDER}


def by_name(name: str) -> Rung:
    """Find a rung.

    Raises
    ------
    ValueError
        When no rung has that name; the message lists those that exist.
    """
    if name not in _BY_NAME:
        raise ValueError(f"no rung is called {name!r}; there are {[*_BY_NAME]}")
    return _BY_NAME[name]
