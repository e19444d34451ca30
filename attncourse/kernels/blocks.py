"""How large a tile: a table by kernel, GPU, head width and size of a number.

New here: no autotuning. A tile must fit a chip's registers and shared memory, which
`attncourse kernels` checks on a machine without that chip, for float16, bfloat16 and float32:
no entry of the table spills.

Left out: float64, which the compiler has not been asked about, and any promise that an entry
is the fastest; `benchmarks/gpu.py` measures that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = [
    "ARCHS",
    "KERNELS",
    "WIDTHS",
    "Tile",
    "block_width",
    "choose",
    "fits",
    "registers",
    "use",
]

KERNELS = ("forward", "dkdv", "dq")
WIDTHS = (64, 128, 256)
_ROW_BYTES = 512

# Shared memory that one program may have, in bytes.
ARCHS = {"sm_80": 166_912, "sm_86": 101_376, "sm_90": 232_448}


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

# For half types: by GPU, by kernel, and for head widths up to 64, 128 and 256.
_Rows = dict[str, tuple[Tile, Tile, Tile]]
_LIGHT: dict[str, _Rows] = {
    "sm_90": {
        "forward": (Tile(128, 128, 8, 3), Tile(128, 64, 8, 3), Tile(128, 32, 8, 2)),
        "dkdv": (Tile(64, 128, 8, 2), Tile(32, 128, 8, 2), Tile(32, 32, 8, 1)),
        "dq": (Tile(128, 64, 8, 3), Tile(128, 64, 8, 2), Tile(128, 16, 8, 2)),
    },
    "sm_86": {
        "forward": (Tile(128, 128, 8, 3), Tile(128, 64, 8, 3), Tile(64, 32, 8, 2)),
        "dkdv": (Tile(32, 128, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 8, 1)),
        "dq": (Tile(128, 64, 8, 3), Tile(64, 64, 8, 2), Tile(64, 32, 8, 1)),
    },
    "sm_80": {
        "forward": (Tile(128, 128, 8, 3), Tile(128, 64, 8, 3), Tile(64, 32, 8, 2)),
        "dkdv": (Tile(32, 128, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 8, 1)),
        "dq": (Tile(128, 64, 8, 3), Tile(64, 64, 8, 2), Tile(64, 32, 8, 2)),
    },
}
# The same where masks, softcap, ALiBi or dropout want registers of their own.
_OLDER_HEAVY: _Rows = {
    "forward": (Tile(64, 16, 4, 1), Tile(64, 32, 8, 2), Tile(32, 16, 8, 1)),
    "dkdv": (Tile(32, 64, 8, 1), Tile(32, 32, 8, 1), Tile(16, 32, 8, 1)),
    "dq": (Tile(64, 32, 8, 1), Tile(32, 16, 4, 1), Tile(32, 16, 8, 1)),
}
_HEAVY: dict[str, _Rows] = {
    "sm_90": {
        "forward": (Tile(128, 32, 8, 1), Tile(128, 16, 8, 1), Tile(32, 16, 8, 1)),
        "dkdv": (Tile(32, 64, 4, 1), Tile(16, 32, 4, 1), Tile(16, 32, 8, 1)),
        "dq": (Tile(64, 32, 4, 1), Tile(128, 16, 8, 1), Tile(32, 16, 8, 1)),
    },
    "sm_86": _OLDER_HEAVY
    | {"forward": (Tile(64, 16, 4, 1), Tile(64, 32, 8, 2), Tile(16, 16, 8, 1))},
    "sm_80": _OLDER_HEAVY,
}
# Float32 and float64 are multiplied without TF32, outside the matrix units, on any GPU:
# by kernel, light and heavy, for head widths up to 64 and 128.
_WIDE_NUMBERS: dict[str, tuple[tuple[Tile, Tile], tuple[Tile, Tile]]] = {
    "forward": (
        (Tile(32, 32, 8, 1), Tile(16, 16, 8, 1)),
        (Tile(32, 32, 4, 1), Tile(16, 16, 8, 1)),
    ),
    "dkdv": (
        (Tile(16, 16, 4, 1), Tile(16, 16, 8, 1)),
        (Tile(16, 32, 8, 1), Tile(16, 16, 8, 1)),
    ),
    "dq": ((Tile(16, 16, 8, 1), Tile(16, 16, 8, 1)),) * 2,
}

_override: ContextVar[Tile | None] = ContextVar("tile", default=None)


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
        For heads too wide for a GPU's registers.
    """
    forced = _override.get()
    if forced is not None:
        return forced
    if arch == "interpreter":
        return _INTERPRETED
    if not fits(width, itemsize):
        raise NotImplementedError(
            f"the Triton kernels take heads of up to {_ROW_BYTES} bytes a position on a GPU, got "
            f"width {width} at {itemsize} bytes a number; take rung='recompute'"
        )
    column = next(i for i, widest in enumerate(WIDTHS) if width <= widest)
    if itemsize > 2:
        return _WIDE_NUMBERS[kernel][heavy][column]
    return (_HEAVY if heavy else _LIGHT)[arch][kernel][column]


def fits(width: int, itemsize: int) -> bool:
    """Tell whether the table has a tile for a head, that is, one of the table.

    Examples
    --------
    >>> fits(256, 2), fits(256, 4), fits(128, 4)
    (True, False, True)
    """
    return width * itemsize <= _ROW_BYTES


def registers(width: int, itemsize: int) -> int | None:
    """Tell how many registers a thread may take; None leaves it to the compiler.

    Left alone, the compiler spills a few bytes of narrow float32 heads on purpose, so that more
    programs fit on a chip; of wide ones it does not.

    Examples
    --------
    >>> registers(64, 2), registers(64, 4), registers(128, 4)
    (None, 255, None)
    """
    return 255 if itemsize > 2 and width <= WIDTHS[0] else None


@contextmanager
def use(block_m: int, block_n: int, num_warps: int = 4, num_stages: int = 1) -> Iterator[None]:
    """Force the tile inside a `with`: small ones for tests, others to measure them.

    Parameters
    ----------
    block_m, block_n : int
        Powers of two, at least 16.
    num_warps, num_stages : int
        As in `Tile`.

    Raises
    ------
    ValueError
        For another size.
    """
    for size in (block_m, block_n):
        if size < 16 or size & (size - 1):
            raise ValueError(f"a tile side must be a power of two, at least 16; got {size}")
    token = _override.set(Tile(block_m, block_n, num_warps, num_stages))
    try:
        yield
    finally:
        _override.reset(token)
