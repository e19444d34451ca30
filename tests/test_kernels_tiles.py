"""What all kernels share: which tiles are whole, tanh, the bits of dropout."""

from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import dropout, masks  # noqa: E402
from attncourse.kernels import runtime  # noqa: E402
from attncourse.kernels.runtime import tl, triton  # noqa: E402
from attncourse.kernels.tiles import keep, key_range, query_range, tanh  # noqa: E402

pytestmark = pytest.mark.ladder
DEVICE = "cpu" if runtime.INTERPRETED else "cuda"
BLOCK_M, BLOCK_N = 16, 32


# fmt: off
@triton.jit
def ranges_kernel(
    out, seq_len_q, seq_len_kv, shift, window, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, OF_KEYS: tl.constexpr,
):
    tile = tl.program_id(0)
    if OF_KEYS:
        first, full_first, full_stop, stop = key_range(
            tile * BLOCK_M, seq_len_q, seq_len_kv, shift, window, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
        )
    else:
        first, full_first, full_stop, stop = query_range(
            tile * BLOCK_N, seq_len_q, seq_len_kv, shift, window, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
        )
    tl.store(out + tile * 4, first)
    tl.store(out + tile * 4 + 1, full_first)
    tl.store(out + tile * 4 + 2, full_stop)
    tl.store(out + tile * 4 + 3, stop)


@triton.jit
def tanh_kernel(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, tanh(tl.load(x + at)))


@triton.jit(do_not_specialize=["seed", "threshold"])
def keep_kernel(out, seed, threshold, batch, head, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    kept = keep(
        seed, tl.cast(batch, tl.int64), tl.cast(head, tl.int64),
        5 + rows[:, None], 7 + cols[None, :], threshold,
    )
    tl.store(out + rows[:, None] * COLS + cols[None, :], kept.to(tl.int32))
# fmt: on


def visible(seq_len_q, seq_len_kv, shift, window, causal):
    if not causal:
        return np.ones((seq_len_q, seq_len_kv), bool)
    gap = np.arange(seq_len_q)[:, None] + shift - np.arange(seq_len_kv)
    return masks.visible(gap, window or None)


def check_ranges(seen, ranges, own, other):
    """Hold the ranges of each tile of `own` rows to the mask, columns in tiles of `other`."""
    for tile, (first, full_first, full_stop, stop) in enumerate(ranges):
        rows = seen[tile * own : (tile + 1) * own]
        columns = np.flatnonzero(rows.any(0))
        if columns.size:
            assert (first, stop) == (columns[0], columns[-1] + 1)
        else:
            assert stop <= first
        starts = range(0, seen.shape[1] - other + 1, other)
        whole = [start for start in starts if rows[:, start : start + other].all()]
        assert list(range(full_first, full_stop, other)) == whole


LENGTHS = [(1, 1), (16, 32), (33, 70), (70, 33), (64, 64)]


@pytest.mark.parametrize("of_keys", [True, False], ids=["keys", "queries"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_exactly_the_tiles_that_are_seen_whole_go_unchecked(lengths, of_keys):
    seq_len_q, seq_len_kv = lengths
    shifts = {seq_len_kv - seq_len_q, -3, 0, 1, 14, 15, 30, 31}
    cases = [(0, 0, False), *product(shifts, (0, 1, 16, 17, 18, 33, 47, 48), (True,))]
    own, other = (BLOCK_M, BLOCK_N) if of_keys else (BLOCK_N, BLOCK_M)
    tiles = -(-(seq_len_q if of_keys else seq_len_kv) // own)
    for shift, window, causal in cases:
        out = torch.zeros(tiles, 4, dtype=torch.int32, device=DEVICE)
        ranges_kernel[(tiles,)](
            out,
            seq_len_q,
            seq_len_kv,
            shift,
            window,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            CAUSAL=causal,
            WINDOW=window > 0,
            OF_KEYS=of_keys,
        )
        seen = visible(seq_len_q, seq_len_kv, shift, window, causal)
        check_ranges(seen if of_keys else seen.T, out.tolist(), own, other)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 5e-7), (torch.float64, 1e-13)])
def test_tanh_keeps_its_digits_near_zero_and_far_from_it(dtype, rtol):
    sizes = torch.logspace(-4 if dtype == torch.float32 else -1, 3, 32, dtype=dtype)
    x = torch.cat([-sizes, sizes]).to(DEVICE)
    out = torch.empty_like(x)
    tanh_kernel[(1,)](x, out, SIZE=64)
    torch.testing.assert_close(out.double(), x.double().tanh(), rtol=rtol, atol=0)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**40 + 3, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("dropout_p", [0.0, 0.25, 1 - 2**-40])
def test_the_bits_of_dropout_are_those_of_numpy(seed, dropout_p):
    out = torch.empty(16, 32, dtype=torch.int32, device=DEVICE)
    signed = seed - 2**64 if seed >= 2**63 else seed
    keep_kernel[(1,)](out, signed, round(dropout_p * 2**32), 3, 2, ROWS=16, COLS=32)
    block = slice(5, 21), slice(7, 39)
    expected = dropout.keep(np.zeros((4, 3, 16, 32)), dropout_p, seed, *block)[3, 2]
    np.testing.assert_array_equal(out.cpu().numpy().astype(bool), expected)
