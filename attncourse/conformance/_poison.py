"""Fill memory that nobody has written yet with NaN, while a function under test runs.

A kernel that forgets rows of its output often passes tests by luck: fresh memory holds
zeros, or the right answer of the call before. Here `numpy.empty` and `torch.empty` (with
their `_like` and `new_` forms) hand out NaN, so what was never written shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np


@contextmanager
def poisoned() -> Iterator[None]:
    """Hand out NaN for uninitialised memory inside a ``with`` block."""
    with ExitStack() as stack:
        for name in ("empty", "empty_like"):
            stack.enter_context(patch.object(np, name, _filled(getattr(np, name))))
        if "torch" in sys.modules:
            stack.enter_context(_torch_poisoned())
        yield


def _filled(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def make_filled(*args: Any, **kwargs: Any) -> np.ndarray:
        array = make(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    return make_filled


@contextmanager
def _torch_poisoned() -> Iterator[None]:
    """Use torch's own switch: with deterministic algorithms, `empty` is filled with NaN."""
    import torch

    was_on = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=only_warned)
