"""Four ways to tell attention where a token stands.

Attention itself treats its keys as a set. Sinusoidal and learned positions are added to
the embeddings, rotary positions turn queries and keys, ALiBi lowers the scores of far
keys. Array functions take NumPy arrays; `rotary` also takes tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import masks
from attncourse._validate import is_float, library_of, whole

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "learned",
    "rotary",
    "rotary_table",
    "sinusoidal",
    "turn",
]


def sinusoidal(seq_len: int, d_model: int, base: float = 10000.0) -> np.ndarray:
    """Give each position a row of sines and cosines of falling frequency.

    Parameters
    ----------
    seq_len : int
        Number of positions, counted from 0.
    d_model : int
        Width of the embeddings, even.
    base : float, default 10000
        The longest wavelength is nearly 2π · `base` positions.

    Returns
    -------
    ndarray of float64, shape (seq_len, d_model)
        Component 2i is sin(t / base^(2i/d_model)), component 2i + 1 the cosine.

    Raises
    ------
    ValueError
        When `d_model` is odd, or a size is out of range.

    Notes
    -----
    **Source:** Vaswani et al. 2017, section 3.5 (arXiv:1706.03762).
    """
    steps = np.arange(_size("seq_len", seq_len, 0))
    angles = _angles(steps, d_model, base)  # (seq_len, d_model / 2)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(seq_len, d_model)


def learned(max_len: int, d_model: int, std: float = 0.02) -> Any:
    """Make a table with one trainable row a position.

    Parameters
    ----------
    max_len : int
        The longest sequence; there is no row for a position beyond it.
    d_model : int
        Width of the embeddings.
    std : float, default 0.02
        Spread of the initial values.

    Returns
    -------
    torch.nn.Embedding
        Maps positions (...,) to rows (..., d_model).

    Notes
    -----
    **Source:** the tables of BERT and GPT (Devlin et al. 2019, arXiv:1810.04805).
    """
    import torch

    _size("max_len", max_len, 1)
    _size("d_model", d_model, 1)
    table = torch.nn.Embedding(max_len, d_model)
    torch.nn.init.normal_(table.weight, 0.0, std)
    return table


def rotary(
    x: Any, positions: Any = None, *, base: float = 10000.0, pairing: str = "interleaved"
) -> Any:
    """Turn each pair of components by an angle that grows with the position.

    Parameters
    ----------
    x : ndarray or Tensor, shape (..., L, E)
        Queries or keys, E even.
    positions : array of int, shape (L,) or (1,), optional
        0 … L - 1 by default; pass others when decoding with a cache.
    base : float, default 10000
        Pair i turns by position / base^(2i/E) radians.
    pairing : {"interleaved", "half"}
        Which components form pair i: (2i, 2i + 1), as in the paper, or (i, i + E/2), as in
        GPT-NeoX and in Llama's weights on the Hugging Face Hub. A model trained with one is wrong
        with the other.

    Returns
    -------
    ndarray or Tensor, shape (..., L, E)
        Same type; norms are unchanged, and q·k depends on positions only by difference.

    Raises
    ------
    ValueError
        When E is odd, when `positions` does not fit L, or for another `pairing`.

    Notes
    -----
    **Source:** Su et al. 2024, section 3.2 (arXiv:2104.09864).
    """
    if not is_float(x):
        raise TypeError(f"x must hold floating-point numbers, got {x.dtype}")
    if x.ndim < 2:
        raise ValueError(f"x must have shape (..., L, E), got {tuple(x.shape)}")
    steps = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    if steps.ndim != 1 or len(steps) not in (1, x.shape[-2]):
        raise ValueError(
            f"positions must be one number for each of {x.shape[-2]} tokens, "
            f"got shape {steps.shape}"
        )
    return turn(x, *rotary_table(steps, x.shape[-1], base=base), pairing)


def rotary_table(
    positions: Any, width: int, *, base: float = 10000.0
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the cosines and sines that `rotary` turns with.

    Parameters
    ----------
    positions : array or sequence of int, shape (L,)
        Where the tokens stand.
    width : int
        E, even.
    base : float, default 10000
        As in `rotary`.

    Returns
    -------
    cos, sin : ndarray of float64, shape (L, E / 2)
        Of the angle of each pair at each position.

    Raises
    ------
    ValueError
        When `width` is odd.
    """
    angles = _angles(np.asarray(positions), width, base)  # (L, E / 2)
    return np.cos(angles), np.sin(angles)


def turn(x: Any, cos: Any, sin: Any, pairing: str = "interleaved") -> Any:
    """Turn each pair of components by an angle that is given by its cosine and sine.

    Parameters
    ----------
    x : ndarray or Tensor, shape (..., L, E)
        Queries or keys, E even.
    cos, sin : ndarray or Tensor, shape (L, E / 2)
        From `rotary_table`; of any type.
    pairing : {"interleaved", "half"}
        As in `rotary`.

    Returns
    -------
    ndarray or Tensor, shape (..., L, E)
        Same type as `x`; computed in float32 or wider, and rounded once.

    Raises
    ------
    ValueError
        For another `pairing`.
    """
    if not is_float(x):
        raise TypeError(f"x must hold floating-point numbers, got {x.dtype}")
    if pairing not in ("interleaved", "half"):
        raise ValueError(f"pairing must be 'interleaved' or 'half', got {pairing!r}")
    library, half = library_of(x), x.shape[-1] // 2
    wide = _typed(x, library.promote_types(x.dtype, library.float32))
    cos, sin = _alike(cos, wide), _alike(sin, wide)
    if pairing == "half":
        first, second = wide[..., :half], wide[..., half:]
    else:
        first, second = wide[..., 0::2], wide[..., 1::2]
    turned = [first * cos - second * sin, first * sin + second * cos]
    if pairing == "half":
        return _typed(library.concatenate(turned, axis=-1), x.dtype)
    return _typed(library.stack(turned, axis=-1).reshape(x.shape), x.dtype)


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Give each head its penalty per position of distance.

    Parameters
    ----------
    num_heads : int
        H, at least 1.

    Returns
    -------
    ndarray of float64, shape (H,)
        2^(-8/H), 2^(-16/H), … for a power of two; else the slopes of the next lower power,
        then every other slope of the next higher one.

    Raises
    ------
    ValueError
        When `num_heads` is below 1.

    Notes
    -----
    **Source:** Press et al. 2022, section 3 (arXiv:2108.12409); the rule for other head
    counts stands in the authors' code only.

    Examples
    --------
    >>> alibi_slopes(6).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    num_heads = whole("num_heads", num_heads)
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, got {num_heads}")
    power = 2 ** (num_heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
    if power == num_heads:
        return slopes
    between = alibi_slopes(2 * power)[::2]
    return np.concatenate([slopes, between[: num_heads - power]])


def alibi_bias(
    num_heads: int, seq_len_q: int, seq_len_kv: int | None = None, *, align: str = "top_left"
) -> np.ndarray:
    """Write ALiBi as a float mask.

    Parameters
    ----------
    num_heads : int
        H.
    seq_len_q : int
        L, the number of queries.
    seq_len_kv : int, optional
        S, the number of keys; L by default.
    align : {"top_left", "bottom_right"}
        Where distance 0 lies, as in `attncourse.masks.causal`.

    Returns
    -------
    ndarray of float64, shape (H, L, S)
        ``-slope * |distance|``, to be added to the scaled scores.

    Notes
    -----
    **Source:** Press et al. 2022, section 3 (arXiv:2108.12409).
    """
    seq_len_kv = seq_len_q if seq_len_kv is None else seq_len_kv
    _size("seq_len_q", seq_len_q, 0)
    _size("seq_len_kv", seq_len_kv, 0)
    rows = np.arange(seq_len_q) + masks.offset(seq_len_q, seq_len_kv, align)
    distance = abs(rows[:, None] - np.arange(seq_len_kv))  # (L, S)
    return -alibi_slopes(num_heads)[:, None, None] * distance


def _size(name: str, size: int, least: int) -> int:
    """Return a size as an int, or say why it is none."""
    if whole(name, size) < least:
        raise ValueError(f"{name} must be at least {least}, got {size}")
    return size


def _angles(steps: np.ndarray, width: int, base: float) -> np.ndarray:
    """Return position times frequency, shape (L, width / 2), in radians."""
    if not base > 0:
        raise ValueError(f"base must be positive, got {base}")
    if _size("the width", width, 1) % 2:
        raise ValueError(
            f"positions come in pairs of components: the width must be even, got {width}"
        )
    frequencies = base ** (-np.arange(0, width, 2) / width)
    return steps[:, None] * frequencies


def _typed(array: Any, dtype: Any) -> Any:
    """Return an array in a type; the same one if it has it."""
    return array.astype(dtype, copy=False) if isinstance(array, np.ndarray) else array.to(dtype)


def _alike(array: np.ndarray, like: Any) -> Any:
    """Bring a float64 table to the type and the device of `like`."""
    library = library_of(like)
    if library is np:
        return array.astype(like.dtype, copy=False)
    return library.as_tensor(array, dtype=like.dtype, device=like.device)
