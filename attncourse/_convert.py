"""Arrays between NumPy and torch: what comes in goes out, and masks lose no infinity.

Left out: checks of shapes and options (`attncourse._validate`).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from attncourse._validate import is_float, library_of

__all__ = ["alike", "from_numpy", "give_back", "to_numpy", "widened", "without_autocast"]


def to_numpy(array: Any) -> np.ndarray:
    """Return a NumPy array, at least float32 when it holds floating-point numbers."""
    if not isinstance(array, np.ndarray):
        array = array.detach().cpu()
        array = (array.float() if array.element_size() == 2 else array).numpy()
    return array.astype(np.float32) if array.dtype == np.float16 else array


def from_numpy(array: np.ndarray, torch: Any) -> Any:
    """Return a tensor with a copy of an array, whatever its strides, byte order and width."""
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))


def without_autocast(tensor: Any) -> Any:
    """Return a context in which autocast leaves what is computed where a tensor lives alone."""
    torch = library_of(tensor)
    device = tensor.device.type
    if not torch.amp.is_autocast_available(device):  # as on "meta", where nothing is computed
        return nullcontext()
    on = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def give_back(result: Any, like: Any, keep_dtype: bool = False) -> Any:
    """Turn a result into the library and device of `like`, and into its type."""
    if isinstance(like, np.ndarray):
        result = result if isinstance(result, np.ndarray) else result.numpy()
        return result if keep_dtype else result.astype(like.dtype, copy=False)
    if isinstance(result, np.ndarray):
        result = from_numpy(result, library_of(like)).to(like.device)
    return result if keep_dtype or result.dtype == like.dtype else result.to(like.dtype)


def alike(array: Any, query: Any) -> Any:
    """Bring a mask or slopes to the query's library, device and working precision."""
    if isinstance(array, list | tuple | np.generic):
        array = np.asarray(array)
    library_of(array)
    if isinstance(query, np.ndarray):
        array = to_numpy(array)
        if not is_float(array):
            return array
        wide = np.promote_types(query.dtype, np.float32)
        return _within(array, np.finfo(wide)).astype(wide)
    torch = library_of(query)
    array = from_numpy(array, torch) if isinstance(array, np.ndarray) else array
    array = array.to(query.device)
    if not is_float(array):
        return array
    wide_type = torch.promote_types(query.dtype, torch.float32)
    return _within(array, torch.finfo(wide_type)).to(wide_type)


def _within(array: Any, limits: Any) -> Any:
    """Keep finite numbers finite in a narrower type: only -inf may hide."""
    if array.dtype.itemsize * 8 <= limits.bits:
        return array
    library = library_of(array)
    finite = library.clip(array, float(limits.min), float(limits.max))
    return library.where(library.isinf(array), array, finite)


def widened(*tensors: Any) -> Any:
    """Return tensors of one type as float32, or wider if they are: sums need the room."""
    torch = library_of(*tensors)
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    return tuple(tensor.to(wide) for tensor in tensors)
