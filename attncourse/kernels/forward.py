"""The forward kernel: one program a tile of queries, one step a tile of keys.

New here: next to the running maximum and sum of rung `triton_forward`, the loop over the
keys comes in three parts. In the middle lie the tiles that every query sees whole, which
need no check at all; before them the edge of a window, after them the diagonal and the
ragged end. Tiles outside all three, and tiles that a mask empties, are never loaded.
"""

from __future__ import annotations

from attncourse.kernels.runtime import tl, triton
from attncourse.kernels.tiles import (
    LN2,
    LOG2E,
    finish_scores,
    keep,
    key_range,
    load_tile,
    power,
    product,
    tile_pointers,
    wide,
)


@triton.jit(do_not_specialize=["seed", "threshold"])
def forward_kernel(
    q,
    k,
    v,
    mask,
    slopes,
    busy,
    out,
    lse,
    row_max_out,
    row_sum_out,
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
    """Attend for one tile of queries of one head."""
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    # The last tile of a causal head has the most keys: it goes first.
    row0 = (num_tiles - 1 - tl.program_id(0) % num_tiles) * BLOCK_M
    head_index = (tl.program_id(0) // num_tiles).to(tl.int64)
    batch, head = head_index // num_heads, head_index % num_heads
    kv_head = head // group
    rows = row0 + tl.arange(0, BLOCK_M)
    q += batch * q_stride_b + head * q_stride_h + wide(row0) * q_stride_l
    k += batch * k_stride_b + kv_head * k_stride_h
    v += batch * v_stride_b + kv_head * v_stride_h
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
    # A float argument arrives in float32, so the scale travels as a sum of two.
    scale = tl.cast(scale_high, ACC) + tl.cast(scale_low, ACC)

    queries = tile_pointers(q, q_stride_l, q_stride_e, BLOCK_M, BLOCK_E)
    queries = load_tile(queries, rows, 0, seq_len_q, E, BLOCK_E, True, UPCAST)
    row_max = tl.full([BLOCK_M], float("-inf"), ACC)
    row_sum = tl.zeros([BLOCK_M], ACC)
    acc = tl.zeros([BLOCK_M, BLOCK_EV], ACC)
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
                new_max = tl.maximum(row_max, tl.max(scores, 1))
                centre = tl.where(new_max == float("-inf"), 0.0, new_max)
                weights = power(scores - centre[:, None], FOLDED)
                shrink = power(row_max - centre, FOLDED)
                row_sum = row_sum * shrink + tl.sum(weights, 1)
                if KEEP_SCALE != 1.0:
                    kept = keep(seed, batch, head, rows[:, None], cols[None, :], threshold)
                    weights = tl.where(kept, weights, 0.0)
                values = v_tile + at * v_stride_s
                values = load_tile(values, cols, first, stop, EV, BLOCK_EV, part != 1, UPCAST)
                if MASK != "none":
                    # 0 * NaN is NaN: a value that nobody sees is not multiplied.
                    used = tl.max(seen.to(tl.int32), 0)
                    values = tl.where(used[:, None] != 0, values, 0.0).to(values.dtype)
                acc = acc * shrink[:, None]
                acc = tl.dot(
                    weights.to(values.dtype), values, acc, input_precision="ieee", out_dtype=ACC
                )
                row_max = new_max

    empty = row_sum == 0.0
    row_sum = tl.where(empty, 1.0, row_sum)
    row_max = tl.where(empty, 0.0, row_max)
    inverse = 1.0 / row_sum * KEEP_SCALE
    if FOLDED:
        row_max += tl.log2(row_sum)
        nats = row_max * LN2
    else:
        nats = row_max + tl.log2(row_sum) * LN2
    row_at = head_index * seq_len_q + rows
    inside = rows < seq_len_q
    tl.store(lse + row_at, tl.where(empty, float("-inf"), nats), mask=inside)
    tl.store(row_max_out + row_at, row_max, mask=inside)
    if not FOLDED:
        tl.store(row_sum_out + row_at, row_sum, mask=inside)
    acc = acc * inverse[:, None]
    widths = tl.arange(0, BLOCK_EV)
    target = out + row_at[:, None] * EV + widths[None, :]
    inside = inside[:, None] & (widths < EV)[None, :]
    tl.store(target, acc.to(out.dtype.element_ty), mask=inside)
