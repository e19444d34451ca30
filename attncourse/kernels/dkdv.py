"""The dk/dv kernel: one program a tile of keys, one step a tile of the queries that see it.

New here: the loops change places. A program keeps its keys and values, and every query
that sees them passes by: those of all the query heads that share the key head, one after
the other, so that the sum over the group needs no atomics and always adds in the same
order. Tiles are held transposed, keys down and queries across: no product has to turn one.
"""

from __future__ import annotations

from attncourse.kernels.runtime import tl, triton
from attncourse.kernels.tiles import (
    LOG2E,
    finish_scores,
    keep,
    load_tile,
    product,
    query_range,
    tile_pointers,
    weigh,
    wide,
)


@triton.jit(do_not_specialize=["seed", "threshold"])
def dkdv_kernel(
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
    dk,
    dv,
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
):
    """Store the gradients of one tile of keys and values of one key head."""
    num_tiles = tl.cdiv(seq_len_kv, BLOCK_N)
    col0 = tl.program_id(0) % num_tiles * BLOCK_N
    kv_index = (tl.program_id(0) // num_tiles).to(tl.int64)
    num_kv_heads = num_heads // group
    batch, kv_head = kv_index // num_kv_heads, kv_index % num_kv_heads
    cols = col0 + tl.arange(0, BLOCK_N)
    k += batch * k_stride_b + kv_head * k_stride_h + wide(col0) * k_stride_s
    v += batch * v_stride_b + kv_head * v_stride_h + wide(col0) * v_stride_s
    q += batch * q_stride_b
    dout += batch * dout_stride_b
    if MASK != "none":
        mask += batch * mask_stride_b
        busy += batch * busy_stride_b + wide(col0 // BLOCK_N) * busy_stride_s
    scale = tl.cast(scale_high, ACC) + tl.cast(scale_low, ACC)

    keys = tile_pointers(k, k_stride_s, k_stride_e, BLOCK_N, BLOCK_E)
    keys = load_tile(keys, cols, 0, seq_len_kv, E, BLOCK_E, True, UPCAST)
    values = tile_pointers(v, v_stride_s, v_stride_e, BLOCK_N, BLOCK_EV)
    values = load_tile(values, cols, 0, seq_len_kv, EV, BLOCK_EV, True, UPCAST)
    dkeys = tl.zeros([BLOCK_N, BLOCK_E], ACC)
    dvalues = tl.zeros([BLOCK_N, BLOCK_EV], ACC)
    q_tile = tile_pointers(q, q_stride_l, q_stride_e, BLOCK_M, BLOCK_E)
    do_tile = tile_pointers(dout, dout_stride_l, dout_stride_e, BLOCK_M, BLOCK_EV)
    first, full_first, full_stop, stop = query_range(
        col0, seq_len_q, seq_len_kv, shift, window, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    for part in tl.static_range(0 if CAUSAL else 1, 3):
        start, end = full_first, full_stop
        if part == 0:
            start, end = first // BLOCK_M * BLOCK_M, tl.minimum(full_first, stop)
        if part == 2:
            start, end = tl.maximum(full_first, full_stop), stop
        # One loop through the tiles of the first head of the group, then of the second, …
        num_steps = tl.cdiv(tl.maximum(end - start, 0), BLOCK_M)
        for step in range(0, num_steps * group):
            row0 = start + step % num_steps * BLOCK_M
            head = kv_head * group + step // num_steps
            alive = True
            if MASK != "none":
                tile_at = head * busy_stride_h + wide(row0 // BLOCK_M) * busy_stride_l
                alive = tl.load(busy + tile_at) != 0
            if alive:
                rows = row0 + tl.arange(0, BLOCK_M)
                at = wide(row0)
                head_at = (batch * num_heads + head) * seq_len_q
                slope = 0.0
                if ALIBI:
                    slope = slopes + batch * slopes_stride_b + head * slopes_stride_h
                    slope = tl.load(slope).to(ACC)
                    slope = slope * LOG2E if FOLDED else slope
                head_mask = mask
                if MASK != "none":
                    head_mask = mask + head * mask_stride_h
                queries = q_tile + head * q_stride_h + at * q_stride_l
                queries = load_tile(queries, rows, first, stop, E, BLOCK_E, part != 1, UPCAST)
                scores = product(keys, queries, ACC) * scale
                scores, _ = finish_scores(
                    scores,
                    rows[None, :],
                    cols[:, None],
                    slope,
                    head_mask,
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
                )  # [BLOCK_N, BLOCK_M]
                inside = rows < seq_len_q
                peak = tl.load(row_max + head_at + rows, mask=inside, other=float("inf"))
                total = peak
                if not FOLDED:
                    total = tl.load(row_sum + head_at + rows, mask=inside, other=1.0)
                shared = tl.load(delta + head_at + rows, mask=inside, other=0.0)
                weights = weigh(scores, peak[None, :], total[None, :], FOLDED)
                douts = do_tile + head * dout_stride_h + at * dout_stride_l
                douts = load_tile(douts, rows, first, stop, EV, BLOCK_EV, part != 1, UPCAST)
                dropped = weights
                if KEEP_SCALE != 1.0:
                    kept = keep(seed, batch, head, rows[None, :], cols[:, None], threshold)
                    dropped = tl.where(kept, weights * KEEP_SCALE, 0.0)
                dvalues = tl.dot(
                    dropped.to(douts.dtype),
                    douts,
                    dvalues,
                    input_precision="ieee",
                    out_dtype=ACC,
                )
                dweights = product(values, douts, ACC)
                if KEEP_SCALE != 1.0:
                    dweights = tl.where(kept, dweights * KEEP_SCALE, 0.0)
                dtile = weights * (dweights - shared[None, :])
                if SOFTCAP != 0.0:
                    bent = scores / SOFTCAP
                    dtile = dtile * (1.0 - bent * bent)
                # A weight of 0 passes nothing on, also where the value was NaN.
                if part != 1 or MASK != "none":
                    dtile = tl.where(weights == 0.0, 0.0, dtile)
                dkeys = tl.dot(
                    dtile.to(queries.dtype),
                    queries,
                    dkeys,
                    input_precision="ieee",
                    out_dtype=ACC,
                )

    dkeys = dkeys * (scale / LOG2E if FOLDED else scale)
    col_at = kv_index * seq_len_kv + cols
    inside = cols < seq_len_kv
    widths = tl.arange(0, BLOCK_E)
    target = dk + col_at[:, None] * E + widths[None, :]
    tl.store(target, dkeys.to(dk.dtype.element_ty), mask=inside[:, None] & (widths < E)[None, :])
    widths = tl.arange(0, BLOCK_EV)
    target = dv + col_at[:, None] * EV + widths[None, :]
    tl.store(target, dvalues.to(dv.dtype.element_ty), mask=inside[:, None] & (widths < EV)[None, :])
