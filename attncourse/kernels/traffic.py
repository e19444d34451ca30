"""Count the bytes that the interpreted kernels move, load by load and store by store.

New here: the interpreter carries out each `tl.load` and `tl.store` by itself, so it can be
asked for their sizes. Masked places move nothing and are not counted. The counts are held
to `attncourse.measure.cost.bytes_moved`, like those of the NumPy twins in
`attncourse.measure.traffic`.

Left out: caches, and anything on a GPU, where a profiler does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attncourse.kernels.runtime import INTERPRETED

__all__ = ["Traffic", "counted"]


@dataclass
class Traffic:
    """Bytes so far.

    Attributes
    ----------
    loaded, stored : int
        Bytes from memory, and to it.
    """

    loaded: int = 0
    stored: int = 0

    @property
    def moved(self) -> int:
        """Bytes in both directions."""
        return self.loaded + self.stored


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count what kernels move inside a `with`.

    Yields
    ------
    Traffic
        The counts, which grow as kernels run.

    Raises
    ------
    RuntimeError
        Where kernels run natively.
    """
    if not INTERPRETED:
        raise RuntimeError("bytes are counted in Triton's interpreter; set TRITON_INTERPRET=1")
    from triton.runtime.interpreter import interpreter_builder as builder

    traffic = Traffic()
    load, store = builder.create_masked_load, builder.create_masked_store

    def counting_load(pointers: Any, mask: Any, *rest: Any) -> Any:
        result = load(pointers, mask, *rest)
        traffic.loaded += int(mask.data.sum()) * result.data.itemsize
        return result

    def counting_store(pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        traffic.stored += int(mask.data.sum()) * value.data.itemsize
        return store(pointers, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store = counting_load, counting_store
    try:
        yield traffic
    finally:
        del builder.create_masked_load, builder.create_masked_store
