"""What every kernel does with one tile of scores, whichever way round it lies.

New here: the order of operations of `attncourse.call`, for a tile held in registers.
`rows` and `cols` hold positions as a column and a row, [BLOCK_M, 1] and [1, BLOCK_N], or
the other way round, [1, BLOCK_M] and [BLOCK_N, 1]: broadcasting does the rest.

Scores are FOLDED: multiplied by log2(e), so that a weight is one exp2, the exponential
that a GPU has. A float mask may hold finfo.min, which log2(e) would turn into -inf: then
they stay in nats, and the difference to the maximum is folded instead.
"""

from __future__ import annotations

from attncourse.kernels.runtime import tl, triton

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def wide(number):
    """Give an offset 64 bits: 2**31 numbers are soon reached. Loop counters may be Python's."""
    return tl.cast(number, tl.int64)


@triton.jit
def tile_pointers(base, stride_row, stride_col, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Point at the first ROWS x COLS tile of a matrix; offsets are 64 bits wide."""
    rows = tl.arange(0, ROWS).to(tl.int64)
    cols = tl.arange(0, COLS).to(tl.int64)
    return base + rows[:, None] * stride_row + cols[None, :] * stride_col


@triton.jit
def load_tile(
    pointers,
    positions,
    first,
    stop,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    CHECK: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Load the rows from `first` to `stop` - 1, and zeros outside them and past WIDTH."""
    inside = (tl.arange(0, BLOCK) < WIDTH)[None, :]
    if CHECK:
        inside = inside & ((positions >= first) & (positions < stop))[:, None]
        tile = tl.load(pointers, mask=inside, other=0.0)
    elif WIDTH != BLOCK:
        tile = tl.load(pointers, mask=inside, other=0.0)
    else:
        tile = tl.load(pointers)
    if UPCAST:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def product(a, b, ACC: tl.constexpr):
    """Multiply a [M, E] by the transpose of b [N, E], giving [M, N].

    Float32 is multiplied outside the matrix units, where a thread holds whole
    rows of both: wide ones in two halves, or they spill from its registers.
    """
    M: tl.constexpr = a.shape[0]
    N: tl.constexpr = b.shape[0]
    E: tl.constexpr = a.shape[1]
    if a.dtype == tl.float32 and E >= 128:
        even, odd = tl.split(tl.reshape(a, [M, E // 2, 2]))
        b_even, b_odd = tl.split(tl.reshape(b, [N, E // 2, 2]))
        out = tl.dot(even, tl.trans(b_even), input_precision="ieee", out_dtype=ACC)
        return tl.dot(odd, tl.trans(b_odd), out, input_precision="ieee", out_dtype=ACC)
    else:
        return tl.dot(a, tl.trans(b), input_precision="ieee", out_dtype=ACC)


@triton.jit
def key_range(
    row0,
    seq_len_q,
    seq_len_kv,
    shift,
    window,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Tell which keys a tile of queries sees: some do from `first`, all from `full_first`."""
    last = tl.minimum(row0 + BLOCK_M, seq_len_q) - 1
    first = row0 * 0
    full_first = first
    stop = first + seq_len_kv
    full_stop = stop
    if CAUSAL:
        stop = tl.minimum(tl.maximum(last + shift + 1, 0), seq_len_kv)
        full_stop = tl.minimum(tl.maximum(row0 + shift + 1, 0), seq_len_kv)
    if WINDOW:
        first = tl.maximum(row0 + shift - window + 1, 0)
        full_first = tl.maximum(last + shift - window + 1, 0)
    # Divided only once they are not negative: // rounds towards 0 on a GPU.
    full_first = (full_first + BLOCK_N - 1) // BLOCK_N * BLOCK_N
    return first, full_first, full_stop // BLOCK_N * BLOCK_N, stop


@triton.jit
def query_range(
    col0,
    seq_len_q,
    seq_len_kv,
    shift,
    window,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Tell which queries see a tile of keys: some of it from `first`, all from `full_first`."""
    last = tl.minimum(col0 + BLOCK_N, seq_len_kv) - 1
    first = col0 * 0
    full_first = first
    stop = first + seq_len_q
    full_stop = stop
    if CAUSAL:
        first = tl.minimum(tl.maximum(col0 - shift, 0), seq_len_q)
        full_first = tl.minimum(tl.maximum(last - shift, 0), seq_len_q)
    if WINDOW:
        stop = tl.minimum(tl.maximum(last - shift + window, 0), seq_len_q)
        full_stop = tl.minimum(tl.maximum(col0 - shift + window, 0), seq_len_q)
    full_first = (full_first + BLOCK_M - 1) // BLOCK_M * BLOCK_M
    return first, full_first, full_stop // BLOCK_M * BLOCK_M, stop


@triton.jit
def tanh(x):
    """Compute tanh from exp2; near 0, where that loses digits, from its series."""
    shrunk = tl.exp2(tl.abs(x) * (-2.0 * LOG2E))
    size = (1.0 - shrunk) / (1.0 + shrunk)
    result = tl.where(x < 0, -size, size)
    near: tl.constexpr = 0.15 if x.dtype == tl.float32 else 0.005
    square = x * x
    series = 1.0 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315)))
    return tl.where(tl.abs(x) < near, x * series, result)


@triton.jit
def finish_scores(
    scores,
    rows,
    cols,
    slope,
    mask,
    mask_stride_l,
    mask_stride_s,
    seq_len_q,
    seq_len_kv,
    shift,
    window,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    ALIBI: tl.constexpr,
    MASK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    CHECK: tl.constexpr,
):
    """Take scaled scores through ALiBi, masks and softcap; also tell what is seen."""
    gap = rows + shift - cols
    seen = (rows < seq_len_q) & (cols < seq_len_kv)
    inside = seen
    if ALIBI:
        scores = scores - slope * tl.abs(gap)
    if MASK != "none":
        where = rows.to(tl.int64) * mask_stride_l + cols.to(tl.int64) * mask_stride_s
        given = tl.load(mask + where, mask=inside, other=0)
        if MASK == "bool":
            seen = seen & (given != 0)
        else:
            hidden = given == float("-inf")
            seen = seen & (hidden == 0)
            scores = scores + tl.where(hidden, 0.0, given)
    if SOFTCAP != 0.0:
        scores = tanh(scores / SOFTCAP) * SOFTCAP
    if CHECK and CAUSAL:
        seen = seen & (gap >= 0)
    if CHECK and WINDOW:
        seen = seen & (gap < window)
    if CHECK or MASK != "none":
        scores = tl.where(seen, scores, float("-inf"))
    return scores, seen


@triton.jit
def power(difference, FOLDED: tl.constexpr):
    """Compute e to the difference of two scores."""
    # Written without a variable for the factor: the interpreter would store it in float32.
    return tl.exp2(difference) if FOLDED else tl.exp2(difference * LOG2E)


@triton.jit
def weigh(scores, row_max, row_sum, FOLDED: tl.constexpr):
    """Recompute weights; folded, the maximum already contains the logarithm of the sum."""
    weights = power(scores - row_max, FOLDED)
    if not FOLDED:
        weights = weights / row_sum
    return weights


@triton.jit
def keep(seed, batch, head, rows, cols, threshold):
    """Draw which weights survive: the bits of `attncourse.dropout.keep`."""
    zero = (rows ^ rows) + (cols ^ cols)
    word, _, _, _ = tl.philox(
        seed,
        (zero + cols).to(tl.uint32),
        (zero + rows).to(tl.uint32),
        (zero + head.to(tl.int32)).to(tl.uint32),
        (zero + batch.to(tl.int32)).to(tl.uint32),
    )
    return word.to(tl.int64) >= threshold
