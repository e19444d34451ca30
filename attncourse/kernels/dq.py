"""The dq kernel: one program a tile of queries, like the forward, weights drawn again.

New here: weights are recomputed, exp(score - row_max) / row_sum, from two numbers a row.
(Their combination, lse, would do but for one case: next to finfo.min in a float mask, the
logarithm of the row's sum is rounded away.) No atomics: each program owns its rows of dq.
"""

from __future__ import annotations

from attncourse.kernels.runtime import tl, triton
from attncourse.kernels.tiles import (
    LOG2E,
    finish_scores,
    keep,
    key_range,
    load_tile,
    product,
    tile_pointers,
    weigh,
    wide,
)


@triton.jit(do_not_specialize=["seed", "threshold"])
def dq_kernel(
    q,
    k,
    v,
    mask,
    slopes,
    busy,
    dout,
    row_max,
    row_sum,
    delta,
    dq,
    dscores,
    q_stride_b,
    q_stride_h,
    q_stride_l,
    q_stride_e,
    k_stride_b,
    k_stride_h,
    k_stride_s,
    k_stride_e,
    v_stride_b,
    v_stride_h,
    v_stride_s,
    v_stride_e,
    dout_stride_b,
    dout_stride_h,
    dout_stride_l,
    dout_stride_e,
    mask_stride_b,
    mask_stride_h,
    mask_stride_l,
    mask_stride_s,
    busy_stride_b,
    busy_stride_h,
    busy_stride_l,
    busy_stride_s,
    slopes_stride_b,
    slopes_stride_h,
    num_heads,
    group,
    seq_len_q,
    seq_len_kv,
    shift,
    window,
    scale_high,
    scale_low,
    seed,
    threshold,
    E: tl.constexpr,
    EV: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_EV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    ALIBI: tl.constexpr,
    MASK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    KEEP_SCALE: tl.constexpr,
    FOLDED: tl.constexpr,
    UPCAST: tl.constexpr,
    ACC: tl.constexpr,
    STORE_SCORES: tl.constexpr,
):
    """Store the gradient of one tile of queries, and of its scores where wanted."""
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    row0 = (num_tiles - 1 - tl.program_id(0) % num_tiles) * BLOCK_M
    head_index = (tl.program_id(0) // num_tiles).to(tl.int64)
    batch, head = head_index // num_heads, head_index % num_heads
    kv_head = head // group
    rows = row0 + tl.arange(0, BLOCK_M)
    inside = rows < seq_len_q
    q += batch * q_stride_b + head * q_stride_h + wide(row0) * q_stride_l
    k += batch * k_stride_b + kv_head * k_stride_h
    v += batch * v_stride_b + kv_head * v_stride_h
    dout += batch * dout_stride_b + head * dout_stride_h + wide(row0) * dout_stride_l
    k_tile = tile_pointers(k, k_stride_s, k_stride_e, BLOCK_N, BLOCK_E)
    v_tile = tile_pointers(v, v_stride_s, v_stride_e, BLOCK_N, BLOCK_EV)
    if MASK != "none":
        mask += batch * mask_stride_b + head * mask_stride_h
        busy += batch * busy_stride_b + head * busy_stride_h
        busy += wide(row0 // BLOCK_M) * busy_stride_l
    slope = 0.0
    if ALIBI:
        slope = tl.load(slopes + batch * slopes_stride_b + head * slopes_stride_h).to(ACC)
        slope = slope * LOG2E if FOLDED else slope
    scale = tl.cast(scale_high, ACC) + tl.cast(scale_low, ACC)

    queries = tile_pointers(q, q_stride_l, q_stride_e, BLOCK_M, BLOCK_E)
    queries = load_tile(queries, rows, 0, seq_len_q, E, BLOCK_E, True, UPCAST)
    douts = tile_pointers(dout, dout_stride_l, dout_stride_e, BLOCK_M, BLOCK_EV)
    douts = load_tile(douts, rows, 0, seq_len_q, EV, BLOCK_EV, True, UPCAST)
    row_at = head_index * seq_len_q + rows
    peak = tl.load(row_max + row_at, mask=inside, other=float("inf"))
    total = peak
    if not FOLDED:
        total = tl.load(row_sum + row_at, mask=inside, other=1.0)
    shared = tl.load(delta + row_at, mask=inside, other=0.0)
    acc = tl.zeros([BLOCK_M, BLOCK_E], ACC)
    first, full_first, full_stop, stop = key_range(
        row0, seq_len_q, seq_len_kv, shift, window, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    for part in tl.static_range(0 if WINDOW else 1, 3):
        start, end = full_first, full_stop
        if part == 0:
            start, end = first // BLOCK_N * BLOCK_N, tl.minimum(full_first, stop)
        if part == 2:
            start, end = tl.maximum(full_first, full_stop), stop
        for col0 in range(start, end, BLOCK_N):
            alive = True
            if MASK != "none":
                alive = tl.load(busy + wide(col0 // BLOCK_N) * busy_stride_s) != 0
            if alive:
                cols = col0 + tl.arange(0, BLOCK_N)
                at = wide(col0)
                keys = k_tile + at * k_stride_s
                keys = load_tile(keys, cols, first, stop, E, BLOCK_E, part != 1, UPCAST)
                scores = product(queries, keys, ACC) * scale
                scores, seen = finish_scores(
                    scores,
                    rows[:, None],
                    cols[None, :],
                    slope,
                    mask,
                    mask_stride_l,
                    mask_stride_s,
                    seq_len_q,
                    seq_len_kv,
                    shift,
                    window,
                    CAUSAL,
                    WINDOW,
                    ALIBI,
                    MASK,
                    SOFTCAP,
                    part != 1,
                )  # [BLOCK_M, BLOCK_N]
                weights = weigh(scores, peak[:, None], total[:, None], FOLDED)
                values = v_tile + at * v_stride_s
                values = load_tile(values, cols, first, stop, EV, BLOCK_EV, part != 1, UPCAST)
                dweights = product(douts, values, ACC)
                if KEEP_SCALE != 1.0:
                    kept = keep(seed, batch, head, rows[:, None], cols[None, :], threshold)
                    dweights = tl.where(kept, dweights * KEEP_SCALE, 0.0)
                dtile = weights * (dweights - shared[:, None])
                if SOFTCAP != 0.0:
                    bent = scores / SOFTCAP
                    dtile = dtile * (1.0 - bent * bent)
                # A weight of 0 passes nothing on, also where the value was NaN.
                if part != 1 or MASK != "none":
                    dtile = tl.where(weights == 0.0, 0.0, dtile)
                if MASK != "none":
                    used = tl.max(seen.to(tl.int32), 0)
                    keys = tl.where(used[:, None] != 0, keys, 0.0).to(keys.dtype)
                acc = tl.dot(dtile.to(keys.dtype), keys, acc, input_precision="ieee", out_dtype=ACC)
                if STORE_SCORES:
                    target = dscores + row_at[:, None] * seq_len_kv + cols[None, :]
                    within = inside[:, None] & (cols < seq_len_kv)[None, :]
                    tl.store(target, dtile, mask=within)

    # The scale of the scores carries log2(e) when they are folded; their gradient does not.
    acc = acc * (scale / LOG2E if FOLDED else scale)
    widths = tl.arange(0, BLOCK_E)
    target = dq + row_at[:, None] * E + widths[None, :]
    tl.store(target, acc.to(dq.dtype.element_ty), mask=inside[:, None] & (widths < E)[None, :])
