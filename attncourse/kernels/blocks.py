"""How large a tile: a table by kernel, GPU, head width and size of a number.

New here: no autotuning. A tile must fit a chip's registers and shared memory, which can be
checked on a machine without that chip (`attncourse kernels`), and every entry is.

Left out: any promise that an entry is the fastest; `benchmarks/gpu.py` measures that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["ARCHS", "KERNELS", "WIDTHS", "Tile", "block_width", "choose", "use"]

KERNELS = ("forward", "dkdv", "dq")
WIDTHS = (64, 128, 256)

# Shared memory that one program may have, in bytes.
ARCHS = {"sm_75": 65_536, "sm_80": 166_912, "sm_86": 101_376, "sm_90": 232_448}


@dataclass(frozen=True)
class Tile:
    """The size of a tile, and how a GPU works on it.

    Attributes
    ----------
    block_m, block_n : int
        Queries and keys in a tile.
    num_warps : int
        Groups of 32 threads that share a program.
    num_stages : int
        Tiles on their way from memory at once, the one in use included.
    """

    block_m: int
    block_n: int
    num_warps: int = 4
    num_stages: int = 1


_INTERPRETED = Tile(64, 64)

# By GPU and bytes in a number; then by kernel; then for head widths up to 64, 128, 256.
_TABLE: dict[tuple[str, int], dict[str, tuple[Tile, Tile, Tile]]] = {
    ("sm_90", 2): {
        "forward": (Tile(128, 128, 8, 3), Tile(128, 64, 8, 3), Tile(128, 64, 8, 2)),
        "dkdv": (Tile(64, 128, 8, 2), Tile(64, 64, 8, 2), Tile(32, 64, 8, 1)),
        "dq": (Tile(128, 64, 8, 2), Tile(128, 64, 8, 2), Tile(64, 32, 8, 1)),
    },
    ("sm_80", 2): {
        "forward": (Tile(128, 64, 4, 3), Tile(128, 64, 8, 2), Tile(64, 32, 4, 2)),
        "dkdv": (Tile(64, 64, 4, 2), Tile(64, 64, 8, 1), Tile(32, 32, 8, 1)),
        "dq": (Tile(64, 64, 4, 2), Tile(64, 64, 8, 1), Tile(32, 32, 8, 1)),
    },
}

_override: ContextVar[tuple[int, int] | None] = ContextVar("tile", default=None)


def block_width(width: int) -> int:
    """Round a head width up to a power of two, at least 16, the smallest matrix unit.

    Examples
    --------
    >>> [block_width(width) for width in (1, 16, 24, 80)]
    [16, 16, 32, 128]
    """
    return max(16, 1 << max(width - 1, 0).bit_length())


def choose(kernel: str, arch: str, width: int, itemsize: int, heavy: bool = False) -> Tile:
    """Look up the tile of a kernel.

    Parameters
    ----------
    kernel : {"forward", "dkdv", "dq"}
        Which kernel.
    arch : str
        A key of `ARCHS`, or "interpreter".
    width : int
        The larger of E and Ev.
    itemsize : int
        Bytes in a number: 2, 4 or 8.
    heavy : bool, default False
        Masks, softcap, ALiBi or dropout take part: they need registers of their own.

    Returns
    -------
    Tile
        The entry of the table, or the tile of an enclosing `use`.

    Raises
    ------
    NotImplementedError
        For heads wider than the widest in the table, on a GPU.
    """
    forced = _override.get()
    if arch == "interpreter":
        return _INTERPRETED if forced is None else Tile(*forced)
    if width > WIDTHS[-1]:
        raise NotImplementedError(
            f"the Triton kernels take heads of width up to {WIDTHS[-1]} on a GPU, got {width}; "
            "take rung='recompute'"
        )
    column = next(i for i, widest in enumerate(WIDTHS) if width <= widest)
    tile = _TABLE[arch, itemsize][kernel][column]
    return tile if forced is None else Tile(*forced, tile.num_warps, 1)


@contextmanager
def use(block_m: int, block_n: int) -> Iterator[None]:
    """Force the size of the tiles inside a `with`, for tests that want ragged ones.

    Parameters
    ----------
    block_m, block_n : int
        Powers of two, at least 16.

    Raises
    ------
    ValueError
        For another size.
    """
    for size in (block_m, block_n):
        if size < 16 or size & (size - 1):
            raise ValueError(f"a tile side must be a power of two, at least 16; got {size}")
    token = _override.set((block_m, block_n))
    try:
        yield
    finally:
        _override.reset(token)
