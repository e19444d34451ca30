"""The function under test: what it computes with, what it can do, and how it is called.

Every call goes through `Subject.call`: memory that was never written is poisoned, inputs
are compared with what they were before, and the result is checked for kind and shape. No
case has to remember any of this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from attncourse._needs import need
from attncourse.conformance._check import Mismatch, true
from attncourse.conformance._poison import poisoned

Arrange = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Answer:
    """What a call gave back, as float64 arrays, beside the library's own objects."""

    out: np.ndarray
    lse: np.ndarray | None
    native_out: Any
    native_lse: Any


@dataclass
class Subject:
    """A function under test.

    Attributes
    ----------
    name : str
        What reports call it.
    function : callable
        Takes query, key and value by position and the other arguments by name.
    library : {"numpy", "torch"}
        What it takes and returns.
    features : frozenset of str
        Keys of `attncourse.rungs.FEATURES` and of `EXTRAS`.
    found_by : str
        How the features became known.
    device : str
        Where tensors are put.
    dtypes : tuple of str
        Types it computes in; a float64 case falls back to the first.
    max_scores, max_gradcheck : int or None
        Largest cases it is tested with, as in `Limits`.
    strict : bool
        Whether a warning fails a case.
    two_axes : bool
        Whether it takes (L, E); if not, it is given (1, 1, L, E) instead.
    flaws : dict of str to str
        Cases that it is known to fail, as in `_flaws`.
    """

    name: str
    function: Callable[..., Any]
    library: str
    features: frozenset[str]
    found_by: str = "given"
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
    max_scores: int | None = None
    max_gradcheck: int | None = None
    strict: bool = False
    two_axes: bool = True
    flaws: dict[str, str] = field(default_factory=dict)

    def has(self, *features: str) -> bool:
        """Tell whether every feature named is there; so are "torch" and "float64"."""
        return set(features) <= self.features | {self.library, *self.dtypes}

    def dtype(self, wanted: str) -> str:
        """Return the type to test in when `wanted` is not available."""
        return wanted if wanted in self.dtypes else self.dtypes[0]

    def native(self, array: Any, dtype: str) -> Any:
        """Turn an array into a packed one of the function's library; booleans stay booleans."""
        array = np.array(array, order="C")
        if self.library == "numpy":
            return array if array.dtype == bool else array.astype(dtype)
        import torch

        tensor = torch.tensor(array, device=self.device)
        return tensor if array.dtype == bool else tensor.to(getattr(torch, dtype))

    def call(
        self,
        query: Any,
        key: Any,
        value: Any,
        *,
        dtype: str = "float64",
        arrange: Arrange | None = None,
        **options: Any,
    ) -> Answer:
        """Call the function on arrays of its own library.

        Parameters
        ----------
        query, key, value : ndarray
            Numbers, turned into `dtype`.
        dtype : str
            Type of the inputs.
        arrange : callable, optional
            Takes a name and an array; returns the same numbers in another memory layout.
        **options
            Other arguments; masks and slopes are turned into the function's library.

        Returns
        -------
        Answer

        Raises
        ------
        Mismatch
            When the result has the wrong kind or shape, or an input was changed.
        """
        dtype = self.dtype(dtype)
        arrays = {"query": query, "key": key, "value": value}
        arrays |= {n: a for n, a in options.items() if n in ("attn_mask", "alibi_slopes")}
        natives = {name: self.native(array, dtype) for name, array in arrays.items()}
        if arrange is not None:
            natives = {name: arrange(name, array) for name, array in natives.items()}
        return self.call_native(natives, options)

    def call_native(self, natives: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Call the function on arrays that are already in its library."""
        before = {name: to_numpy(array) for name, array in natives.items()}
        inputs = [natives[name] for name in ("query", "key", "value")]
        padded = not self.two_axes and inputs[0].ndim == 2
        if padded:
            inputs = [array[None, None] for array in inputs]
        rest = {name: arg for name, arg in natives.items() if name in options}
        with guarded(self.strict):
            result = self.function(*inputs, **{**options, **rest})
        for name, array in natives.items():
            if not np.array_equal(to_numpy(array), before[name], equal_nan=True):
                raise Mismatch(name, "an input that the call leaves as it was", "a changed input")
        if padded:
            result = (
                tuple(map(_without_axes, result))
                if isinstance(result, tuple)
                else (_without_axes(result))
            )
        return self._answer(result, before, bool(options.get("return_lse")))

    def _answer(self, result: Any, inputs: dict[str, np.ndarray], with_lse: bool) -> Answer:
        wanted = "a pair (out, lse)" if with_lse else "one array"
        true(isinstance(result, tuple) == with_lse, "result", wanted, f"a {type(result).__name__}")
        out, lse = result if with_lse else (result, None)
        kind = np.ndarray if self.library == "numpy" else type(self.native(0.0, "float32"))
        for what, array in (("out", out), ("lse", lse)):
            if what == "out" or with_lse:
                true(isinstance(array, kind), what, kind.__name__, type(array).__name__)
        shape = (*inputs["query"].shape[:-1], inputs["value"].shape[-1])
        _same_shape("out", shape, out)
        if lse is not None:
            _same_shape("lse", shape[:-1], lse)
        for what, array in (("out", out), ("lse", lse)):
            if array is not None and "complex" in str(array.dtype):
                raise Mismatch(what, "real numbers", str(array.dtype))
        numbers = None if lse is None else to_numpy(lse)
        return Answer(to_numpy(out), numbers, out, lse)


def check_library(library: str) -> None:
    """Refuse, before any case is run, a library that there is not, or not here.

    Raises
    ------
    ValueError
        For another name than "numpy" or "torch".
    ModuleNotFoundError
        For "torch", where it is not installed.
    """
    if library not in ("numpy", "torch"):
        raise ValueError(f'library must be "numpy" or "torch", got {library!r}')
    need(library)


@contextmanager
def guarded(strict: bool = False) -> Iterator[None]:
    """Poison memory that was never written while a function runs; if strict, let no warning by.

    Raises
    ------
    Mismatch
        For a warning, if strict.
    """
    with poisoned(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loud: Literal["warn", "ignore"] = "warn" if strict else "ignore"
        with np.errstate(divide=loud, over=loud, invalid=loud, under="ignore"):
            yield
    if strict:
        _no_warning(caught)


def to_numpy(array: Any) -> np.ndarray:
    """Copy an array or a tensor to NumPy: booleans as they are, numbers in float64."""
    if not isinstance(array, np.ndarray):
        array = array.detach().cpu()
        array = array.numpy() if str(array.dtype) == "torch.bool" else array.double().numpy()
    return array.copy() if array.dtype == bool else array.astype(np.float64)


def _without_axes(array: Any) -> Any:
    """Take the two axes of 1 off that (L, E) inputs were given."""
    return array[0, 0] if tuple(getattr(array, "shape", ())[:2]) == (1, 1) else array


def _same_shape(what: str, wanted: tuple, array: Any) -> None:
    true(tuple(array.shape) == wanted, f"shape of {what}", str(wanted), str(tuple(array.shape)))


def _no_warning(caught: list[warnings.WarningMessage]) -> None:
    for warning in caught:
        raise Mismatch("warnings", "none", f"{warning.category.__name__}: {warning.message}")
