"""Fill memory that nobody has written yet with NaN, while a function under test runs.

A kernel that forgets rows of its output often passes tests by luck: fresh memory holds
zeros, or the right answer of the call before. Here `empty` of NumPy and of torch, in all
its forms, hands out NaN, so what was never written shows.
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
    torch = sys.modules.get("torch")
    places: list[tuple[Any, str]] = [(np, "empty"), (np, "empty_like")]
    if torch is not None:
        places += [(torch, name) for name in ("empty", "empty_like", "empty_strided")]
        places.append((torch.Tensor, "new_empty"))
    with ExitStack() as stack:
        for owner, name in places:
            stack.enter_context(patch.object(owner, name, _filled(getattr(owner, name))))
        yield


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that returns uninitialised memory."""

    def make_filled(*args: Any, **kwargs: Any) -> Any:
        array = make(*args, **kwargs)
        if isinstance(array, np.ndarray):
            if array.dtype.kind == "f":
                array.fill(np.nan)
        elif array.dtype.is_floating_point:
            array.detach().fill_(float("nan"))
        return array

    return make_filled
