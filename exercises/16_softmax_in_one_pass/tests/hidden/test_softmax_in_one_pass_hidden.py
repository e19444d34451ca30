"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, shaped


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Fold a whole row, up and down, and compare with the sum over the row.")
def test_a_row_in_any_order(student, rng):
    """A row of large scores, sorted up and down."""
    row = 400.0 * rng.normal(size=12)
    for scores in (np.sort(row), np.sort(row)[::-1], row):
        pair = (-np.inf, 0.0)
        for score in scores:
            pair = student.fold_score(*pair, float(score))
        close(pair, [row.max(), np.exp(row - row.max()).sum()], "maximum and sum")


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint("Ragged blocks, each row with a maximum of its own, scores of any size.")
def test_ragged_blocks_of_huge_scores(student, rng):
    """Ragged blocks of huge scores."""
    scores, v = 300.0 * rng.normal(size=(7, 13)), rng.normal(size=(13, 4))
    state = [np.full(7, -np.inf), np.zeros(7), np.zeros((7, 4))]
    for block in np.split(np.arange(13), [1, 5, 6, 12]):
        state = student.fold_block(*state, scores[:, block], v[block])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    close(state[0], scores.max(axis=1), "row_max")
    close(state[1], powers.sum(axis=1), "row_sum")
    close(state[2], powers @ v, "acc")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint("What happens to exp(1000), and to a worker without keys?")
def test_far_apart_and_empty(student, rng):
    """Far apart, both huge, and empty."""
    out1, out2 = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    lse1 = np.array([1000.0, -1000.0, 5.0, -np.inf, 700.0, -np.inf])
    lse2 = np.array([1000.5, -1000.5, -800.0, 2.0, 900.0, -np.inf])
    out1[[3, 5]] = out2[5] = 0.0
    share = np.array([1 / (1 + np.exp(0.5)), 1 / (1 + np.exp(-0.5)), 1.0, 0.0, 0.0, 0.5])[:, None]
    top, low = np.maximum(lse1, lse2), np.minimum(lse1, lse2)
    gap = np.where(np.isfinite(low), low - np.where(np.isfinite(top), top, 0.0), -np.inf)
    out, lse = student.merge(out1, lse1, out2, lse2)
    close(lse, top + np.log1p(np.exp(gap)), "the lse")
    close(out, share * out1 + (1.0 - share) * out2, "the output")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("Are huge scores, short last blocks and L different from S right as well?")
def test_shapes_sizes_and_blocks(student, rng):
    """Many shapes, huge scores, any block."""
    for seq_len_q, seq_len_kv, width, block in ((1, 1, 1, 4), (6, 17, 5, 4), (9, 16, 3, 16)):
        query = 40.0 * rng.normal(size=(seq_len_q, width))
        key = 10.0 * rng.normal(size=(seq_len_kv, width))
        value = rng.normal(size=(seq_len_kv, 2))
        scores = query @ key.T / width**0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        wanted = powers @ value / powers.sum(axis=1, keepdims=True)
        close(student.tiled_attention(query, key, value, block), wanted, "the result")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint("Is every number right for thousands of tokens, with L different from S?")
def test_long_inputs_of_any_length(student, rng):
    """Long inputs of any length, in little memory."""
    seq_len_q, seq_len_kv = (int(length) for length in rng.integers(2600, 3400, size=2))
    query, key = rng.normal(size=(seq_len_q, 6)), rng.normal(size=(seq_len_kv, 6))
    value = rng.normal(size=(seq_len_kv, 4))
    out, peak = student.measure("tiled_attention", query, key, value, 100)
    assert peak < 32e6, f"at its peak it took {peak / 1e6:.0f} MB, allowed are 32 MB"
    shaped(out, (seq_len_q, 4), "the result")
    for start in range(0, seq_len_q, 256):
        scores = query[start : start + 256] @ key.T / 6**0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        wanted = powers @ value / powers.sum(axis=1, keepdims=True)
        close(out[start : start + 256], wanted, f"rows {start} and up")
