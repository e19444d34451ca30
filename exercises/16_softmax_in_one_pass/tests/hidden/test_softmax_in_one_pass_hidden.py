"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, shaped, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Fold a whole row, up and down, and compare with the sum over the row.")
def test_a_row_in_any_order(student, rng):
    """Rows sorted up and down: scores far apart, close together, and all far below 0."""
    near = rng.normal(size=12)
    for row in (400.0 * near, 2.0 * near, near - 900.0):
        for scores in (np.sort(row), np.sort(row)[::-1], row):
            pair = (-np.inf, 0.0)
            for score in scores:
                pair = student.fold_score(*pair, float(score))
            close(pair, [row.max(), np.exp(row - row.max()).sum()], "maximum and sum")


@pytest.mark.question("q2")
@pytest.mark.points(1.5)
@pytest.mark.hint("Ragged blocks, each row with a maximum of its own, scores of any size.")
def test_ragged_blocks_of_huge_scores(student, rng):
    """Ragged blocks of huge scores, and of small ones beside a row far below 0."""
    huge, v = 300.0 * rng.normal(size=(7, 13)), rng.normal(size=(13, 4))
    small = rng.normal(size=(7, 13)) + np.array([0, 900, -900, 5, -150, 40, -2000])[:, None]
    for scores in (huge, small):
        fold_and_compare(student, scores, v)


def fold_and_compare(student, scores, v):
    """Fold ragged blocks and compare with one pass."""
    state = [np.full(7, -np.inf), np.zeros(7), np.zeros((7, 4))]
    for block in np.split(np.arange(13), [1, 5, 6, 12]):
        state = student.fold_block(*state, scores[:, block], v[block])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    close(state[0], scores.max(axis=1), "row_max")
    close(state[1], powers.sum(axis=1), "row_sum")
    close(state[2], powers @ v, "acc")


@pytest.mark.question("q3")
@pytest.mark.points(1.5)
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
    """Many shapes, huge scores, small ones far below 0, any block."""
    shapes = ((1, 1, 1, 4), (6, 17, 5, 4), (9, 16, 3, 16), (5, 11, 4, 3))
    for (seq_len_q, seq_len_kv, width, block), size in zip(shapes, (40, 40, 40, 1), strict=True):
        query = size * rng.normal(size=(seq_len_q, width))
        key = size / 4.0 * rng.normal(size=(seq_len_kv, width))
        if size == 1:
            query[:, 0], key[:, 0] = 30.0, -100.0
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


@pytest.mark.question("q2")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_the_old_state_stays_as_it_is(student, rng):
    """The old maximum, sum and acc stay as they are."""
    row_sum, acc = rng.random(3), rng.normal(size=(3, 2))
    scores, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    came, changes = student.changed("fold_block", np.zeros(3), row_sum, acc, scores, v)
    top = np.maximum(0.0, scores.max(axis=1))
    powers, shrink = np.exp(scores - top[:, None]), np.exp(-top)
    close(came[1], shrink * row_sum + powers.sum(axis=1), "row_sum")
    close(came[2], shrink[:, None] * acc + powers @ v, "acc")
    unchanged(changes)


@pytest.mark.question("q3")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_both_halves_stay_as_they_are(student, rng):
    """Both halves stay as they are."""
    out1, out2 = rng.normal(size=(2, 3, 2))
    came, changes = student.changed("merge", out1, np.zeros(3), out2, np.log([1.0, 3.0, 7.0]))
    share = np.array([[1 / 2], [1 / 4], [1 / 8]])
    close(came[0], share * out1 + (1 - share) * out2, "the output")
    unchanged(changes)
