"""A decode function under test: how it is called, with a cache in one piece or in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._check import Mismatch, close
from attncourse.conformance._oracle import Problem, Size, problem, rounded
from attncourse.conformance._subject import Answer, Arrange, Subject, guarded, to_numpy
from attncourse.conformance._tolerance import rounding

FEATURES = {
    "lengths": "lengths: how many keys each sequence has; NaN may stand behind them",
    "several": "several new queries at once, causal at the end of the cache",
    "gqa": "key heads shared by groups of query heads",
    "scale": "scale: another factor than 1 / sqrt(E)",
    "window": "window_size",
    "softcap": "softcap",
    "alibi": "alibi_slopes",
    "lse": "return_lse",
    "split": "split: keys in a part",
    "paged": "key_pages, value_pages and block_table instead of key and value",
    "half": "float16 and bfloat16 inputs, accumulated in float32 at least",
}
# What stands where nobody has written: far from all numbers that are drawn.
BEHIND = 50.0


@dataclass
class StepSubject(Subject):
    """A decode function under test.

    Attributes
    ----------
    enable_gqa : bool
        Whether it wants to be told that key heads are shared.
    """

    enable_gqa: bool = False

    def step(
        self,
        inputs: Problem,
        lengths: Any = None,
        *,
        dtype: str = "float64",
        arrange: Arrange | None = None,
        page: int = 3,
        behind: float = BEHIND,
        **options: Any,
    ) -> Answer:
        """Call the function on arrays of its own library.

        Parameters
        ----------
        inputs : Problem
            Query (B, H, L, E), key and value (B, Hkv, S, ·).
        lengths : sequence of int, optional
            How many of the S keys each sequence has; all by default.
        dtype, arrange
            As in `Subject.call`; pages are never arranged.
        page : int
            Keys in a page, where the function wants pages.
        behind : float
            What pages hold where nobody has written.
        **options
            Other arguments of the function.

        Returns
        -------
        Answer

        Raises
        ------
        Mismatch
            When the result has the wrong kind or shape, or an input was changed.
        """
        natives = self.natives(inputs, lengths, dtype, arrange, page, behind)
        if "alibi_slopes" in options:
            natives["alibi_slopes"] = self.native(options.pop("alibi_slopes"), dtype)
        if self.enable_gqa and inputs.query.shape[1] != inputs.key.shape[1]:
            options["enable_gqa"] = True
        return self.step_native(natives, options)

    def natives(
        self,
        inputs: Problem,
        lengths: Any = None,
        dtype: str = "float64",
        arrange: Arrange | None = None,
        page: int = 3,
        behind: float = BEHIND,
    ) -> dict[str, Any]:
        """Return the function's array arguments by name, in their order."""
        dtype = self.dtype(dtype)
        arrays = {"query": inputs.query, "key": inputs.key, "value": inputs.value}
        if self.has("paged"):
            arrays = _in_pages(inputs, lengths, page, behind)
        elif lengths is not None:
            arrays["lengths"] = np.array(lengths, np.int64)
        whole = {name for name, array in arrays.items() if array.dtype == np.int64}
        natives = {n: self.native(a, "int64" if n in whole else dtype) for n, a in arrays.items()}
        if arrange is not None and not self.has("paged"):
            natives |= {name: arrange(name, natives[name]) for name in ("query", "key", "value")}
        return natives

    def step_native(self, natives: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Call the function on arrays that are already in its library."""
        before = {name: to_numpy(array) for name, array in natives.items()}
        positional = list(natives)[: 5 if self.has("paged") else 3]
        named = {name: array for name, array in natives.items() if name not in positional}
        with guarded(self.strict):
            result = self.function(*(natives[name] for name in positional), **named, **options)
        for name, array in natives.items():
            if not np.array_equal(to_numpy(array), before[name], equal_nan=True):
                raise Mismatch(name, "an input that the call leaves as it was", "a changed input")
        value = before.get("value", before.get("value_pages"))
        assert value is not None
        shapes = {"query": before["query"], "value": value}
        return self._answer(result, shapes, bool(options.get("return_lse")))


def _in_pages(inputs: Problem, lengths: Any, page: int, behind: float) -> dict[str, np.ndarray]:
    """Scatter a cache over shuffled pages; unused entries of the table are -1."""
    batch, num_keys = inputs.key.shape[0], inputs.key.shape[2]
    ends = np.full(batch, num_keys) if lengths is None else np.array(lengths, np.int64)
    needed = [-(-int(end) // page) for end in ends]
    pool = sum(needed) + 2  # two pages that belong to nobody
    numbers = iter(np.random.default_rng([page, pool]).permutation(pool))
    table = np.full((batch, max(needed, default=0) + 1), -1, np.int64)
    pages = {
        f"{name}_pages": np.full((pool, array.shape[1], page, array.shape[3]), behind)
        for name, array in (("key", inputs.key), ("value", inputs.value))
    }
    for b, end in enumerate(ends):
        for place in range(needed[b]):
            table[b, place] = next(numbers)
            cut = slice(place * page, min((place + 1) * page, int(end)))
            for name, array in (("key_pages", inputs.key), ("value_pages", inputs.value)):
                pages[name][table[b, place], :, : cut.stop - cut.start] = array[b, :, cut]
    return {"query": inputs.query, **pages, "block_table": table, "lengths": ends.astype(np.int64)}


def draw(
    subject: StepSubject,
    size: Size,
    lengths: Any = None,
    seed: int = 0,
    gain: float = 1.0,
    behind: float = BEHIND,
) -> Problem:
    """Draw a step; behind each sequence's length the cache holds something else."""
    inputs = problem(subject, size, seed, gain)
    for b, end in enumerate(lengths if lengths is not None else ()):
        inputs.key[b, :, end:] = inputs.value[b, :, end:] = behind
    return inputs


def expected(inputs: Problem, lengths: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Ask the oracle, one sequence after the other."""
    ends = [inputs.key.shape[2]] * len(inputs.query) if lengths is None else lengths
    rule: dict[str, Any] = {"is_causal": True, "causal_align": "bottom_right"}
    options = {n: a for n, a in options.items() if n not in ("split", "return_lse")}
    outs, sums = [], []
    for b, end in enumerate(ends):
        own = dict(options)
        if np.ndim(own.get("alibi_slopes", 0)) == 2:
            own["alibi_slopes"] = own["alibi_slopes"][b]
        q, k, v = inputs.query[b], inputs.key[b, :, :end], inputs.value[b, :, :end]
        out, lse = reference.attention(q, k, v, **rule, **own, return_lse=True)
        outs.append(out)
        sums.append(lse)
    shape = inputs.query.shape[:-1]
    return np.reshape(outs, (*shape, inputs.value.shape[-1])), np.reshape(sums, shape)


def hold(
    subject: StepSubject,
    inputs: Problem,
    lengths: Any = None,
    *,
    dtype: str = "float64",
    arrange: Arrange | None = None,
    page: int = 3,
    behind: float = BEHIND,
    compare: tuple[str, ...] = ("out", "lse"),
    **options: Any,
) -> Answer:
    """Call the function and compare it with the oracle.

    Raises
    ------
    Mismatch
        When output or log-sum-exp are further off than rounding explains.
    """
    dtype = subject.dtype(dtype)
    seen = rounded(subject, inputs, dtype)
    read = dict(options)
    if "alibi_slopes" in read:
        read["alibi_slopes"] = to_numpy(subject.native(read["alibi_slopes"], dtype))
    wanted, wanted_lse = expected(seen, lengths, read)
    places: dict[str, Any] = {"arrange": arrange, "page": page, "behind": behind}
    answer = subject.step(inputs, lengths, dtype=dtype, **places, **options)
    for_out, for_lse = rounding(dtype, seen, read)
    if "out" in compare:
        close("out", answer.out, wanted, for_out)
    if answer.lse is not None and "lse" in compare:
        close("lse", answer.lse, wanted_lse, for_lse)
    return answer
