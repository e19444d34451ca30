"""Linear attention: a feature map instead of the exponential, and the n x n matrix is gone.

New here: with weights phi(q)·phi(k) the sum over the keys can be taken before any query is
known. What is left of the past is one matrix, whatever its length. The same numbers come out
in three ways: `parallel` builds all pairs, `recurrent` reads token by token and keeps the
matrix, `chunked` does pairs inside a chunk and the matrix between chunks.

Left out: masks other than causal, grouped heads, dropout, and feature maps that approximate
softmax. These weights do not: multiplying q or k by a factor hardly makes them sharper.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attncourse import _validate

__all__ = [
    "State",
    "add",
    "attention",
    "chunked",
    "empty_state",
    "feature_map",
    "parallel",
    "read",
    "recurrent",
    "step",
]

CHUNK = 64


class State(NamedTuple):
    """Everything that a recurrent reader keeps of the past.

    Attributes
    ----------
    pairs : Tensor, shape (..., E, Ev)
        Sum of phi(k) v^T over the tokens so far.
    keys : Tensor, shape (..., E)
        Sum of phi(k).
    """

    pairs: Tensor
    keys: Tensor


def feature_map(x: Tensor) -> Tensor:
    """Return elu(x) + 1, which is positive: x + 1 above zero and exp(x) below.

    Notes
    -----
    Written as relu(x) + exp(min(x, 0)), since elu(x) + 1 in floating point is exactly 0 for
    x below about -17 in float32: the -1 inside has eaten the digits.
    **Source:** Katharopoulos et al. 2020, equation 7 (arXiv:2006.16236).

    Examples
    --------
    >>> feature_map(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3679, 1.0000, 3.0000])
    """
    return x.relu() + x.clamp(max=0).exp()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    form: str = "chunked",
    chunk: int = CHUNK,
) -> Tensor:
    """Attend with weights phi(q)·phi(k), divided by their sum over the keys.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., H, S, E), (..., H, S, Ev)
        Any floating-point type, any device.
    is_causal : bool, default False
        Hide later keys; needs L = S.
    form : {"chunked", "parallel", "recurrent"}
        How to compute it. All three give the same numbers up to rounding.
    chunk : int, default 64
        Tokens in a chunk; only "chunked" looks at it.

    Returns
    -------
    Tensor, shape (..., H, L, Ev)
        In the type of `query`; 0 in rows whose weights are all 0 (there are no keys, or
        every feature has underflowed).

    Raises
    ------
    ValueError, TypeError
        For shapes or types that do not fit, another `form`, or a `chunk` below 1.

    Notes
    -----
    Scores are not scaled: a factor on q would not make the weights sharper, as it does under
    an exponential. **Source:** Katharopoulos et al. 2020, section 3.2 (arXiv:2006.16236).
    """
    _validate.options(is_causal=is_causal)
    q, k, v = _prepared(query, key, value)
    if form == "chunked":
        out = chunked(q, k, v, is_causal=is_causal, chunk=chunk)
    elif form in ("parallel", "recurrent"):
        out = (parallel if form == "parallel" else recurrent)(q, k, v, is_causal=is_causal)
    else:
        raise ValueError(f"form must be chunked, parallel or recurrent, got {form!r}")
    return out.to(query.dtype)


def parallel(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False) -> Tensor:
    """Build the weights of every pair, as softmax attention does.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., L, E), (..., S, E), (..., S, Ev)
        Queries and keys before the feature map, float32 or wider.
    is_causal : bool, default False
        As in `attention`.

    Returns
    -------
    Tensor, shape (..., L, Ev)

    Notes
    -----
    2·L·S·(E + Ev) FLOPs, and L·S weights in memory.
    """
    weights = feature_map(q) @ feature_map(k).mT  # (..., L, S)
    if is_causal:
        _check_lengths(q, k)
        weights = weights.tril()
    return _divided(weights @ v, weights.sum(-1, keepdim=True))


def recurrent(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False) -> Tensor:
    """Read token by token into a matrix of fixed size.

    Parameters and result are those of `parallel`.

    Notes
    -----
    About 4·E·Ev FLOPs a token whatever came before, and E·Ev + E numbers of memory: this is
    how linear attention generates text. One token at a time is slow to train with.
    """
    state = empty_state(k, v)
    if not is_causal:
        return read(q, add(state, k, v))
    _check_lengths(q, k)
    outs = []
    for i in range(q.shape[-2]):
        here = slice(i, i + 1)
        state = add(state, k[..., here, :], v[..., here, :])
        outs.append(read(q[..., here, :], state))
    return torch.cat(outs, dim=-2) if outs else read(q, state)


def chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    is_causal: bool = False,
    chunk: int = CHUNK,
) -> Tensor:
    """Build pairs inside a chunk, and read all earlier chunks from the matrix.

    Parameters and result are those of `parallel`; `chunk` is the tokens in a chunk.

    Notes
    -----
    2·n·(chunk + 2·E)·Ev FLOPs and more, linear in n; chunk·chunk weights in memory. A chunk of
    1 is the recurrent form, a chunk of n the parallel one.
    """
    chunk = _validate.whole("chunk", chunk)
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    state = empty_state(k, v)
    if not is_causal:
        return read(q, add(state, k, v))
    _check_lengths(q, k)
    outs = []
    chunks = (x.split(chunk, dim=-2) for x in (q, k, v))
    for q_c, k_c, v_c in zip(*chunks, strict=True):
        q_c, k_c = feature_map(q_c), feature_map(k_c)  # (..., c, E)
        weights = (q_c @ k_c.mT).tril()  # (..., c, c)
        mixed = weights @ v_c + q_c @ state.pairs  # (..., c, Ev)
        total = weights.sum(-1, keepdim=True)  # (..., c, 1)
        total = total + q_c @ state.keys.unsqueeze(-1)
        outs.append(_divided(mixed, total))
        state = State(state.pairs + k_c.mT @ v_c, state.keys + k_c.sum(-2))
    return torch.cat(outs, dim=-2)


def empty_state(k: Tensor, v: Tensor) -> State:
    """Return the state before any token, for keys (..., S, E) and values (..., S, Ev)."""
    return State(
        k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]),
        k.new_zeros(*k.shape[:-2], k.shape[-1]),
    )


def add(state: State, k: Tensor, v: Tensor) -> State:
    """Fold keys (..., S, E) and values (..., S, Ev) into the state; their order is lost."""
    k = feature_map(k)
    return State(state.pairs + k.mT @ v, state.keys + k.sum(-2))


def read(q: Tensor, state: State) -> Tensor:
    """Answer queries (..., L, E) from the state alone, (..., L, Ev)."""
    q = feature_map(q)
    return _divided(q @ state.pairs, q @ state.keys.unsqueeze(-1))


def step(state: State | None, query: Tensor, key: Tensor, value: Tensor) -> tuple[State, Tensor]:
    """Read one or more new tokens, then answer the query of the last one: a decoding step.

    Parameters
    ----------
    state : State or None
        What earlier steps have returned; None before the first.
    query : Tensor, shape (..., H, 1, E)
        Of the newest token.
    key, value : Tensor, shapes (..., H, new, E), (..., H, new, Ev)
        Of the new tokens, the newest last; for the first step, of the whole prompt.

    Returns
    -------
    state : State
        Of the same size as before.
    out : Tensor, shape (..., H, 1, Ev)
        What causal `attention` gives in its last row.

    Raises
    ------
    ValueError, TypeError
        For shapes or types that do not fit each other, or a state of other sizes.
    """
    if query.shape[-2] != 1:
        raise ValueError(f"query must hold the newest token only, got shape {tuple(query.shape)}")
    q, k, v = _prepared(query, key, value)
    if k.shape[-2] == 0:
        raise ValueError("key must hold at least the newest token, got none")
    if state is None:
        state = empty_state(k, v)
    _check_state(state, empty_state(k, v))
    state = add(state, k, v)
    return state, read(q, state).to(query.dtype)


def _prepared(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Check the inputs, and return them in a type wide enough to add up in."""
    if _validate.library_of(query, key, value) is not torch:
        raise TypeError("linear attention takes torch tensors, got arrays; use torch.from_numpy")
    _validate.dtypes(query, key, value)
    _validate.shapes(query, key, value, False)
    wide = torch.promote_types(query.dtype, torch.float32)
    return query.to(wide), key.to(wide), value.to(wide)


def _check_lengths(q: Tensor, k: Tensor) -> None:
    """Check that query i stands at key i, as a causal mask supposes."""
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"is_causal needs as many queries as keys, got {q.shape[-2]} and {k.shape[-2]}; "
            "with a cache, use step"
        )


def _check_state(state: State, wanted: State) -> None:
    """Check that a state is one, and of the sizes and type that these tokens make."""
    if not isinstance(state, State):
        raise TypeError(f"state must be a State or None, got {type(state).__name__}")
    for name, there, fits in zip(State._fields, state, wanted, strict=True):
        if (there.shape, there.dtype) != (fits.shape, fits.dtype):
            raise ValueError(
                f"state.{name} must be {tuple(fits.shape)}, {fits.dtype}, for these tokens; "
                f"got {tuple(there.shape)}, {there.dtype}"
            )


def _divided(mixed: Tensor, total: Tensor) -> Tensor:
    """Divide the mixture of values by the sum of its weights, which are never negative."""
    return mixed / torch.where(total == 0, 1, total)
