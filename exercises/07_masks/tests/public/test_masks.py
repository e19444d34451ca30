"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close

T, F = True, False


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Query i sees key j if j <= i. Which of the two runs down, which across?",
    "Compare np.arange(seq_len_kv)[None, :] with np.arange(seq_len_q)[:, None].",
)
def test_square_triangle(student):
    """Top left: three queries on three keys, two on four."""
    wanted = np.array([[T, F, F], [T, T, F], [T, T, T]])
    close(student.causal_mask(3, 3, "top_left"), wanted, "the mask")
    wanted = np.array([[T, F, F, F], [T, T, F, F]])
    close(student.causal_mask(2, 4, "top_left"), wanted, "the mask of 2 queries and 4 keys")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Both sequences end at the same token: the last query is the token of the last key.",
    "Add seq_len_kv - seq_len_q to the query's index.",
)
def test_newest_query_sees_the_whole_cache(student):
    """Bottom right: the newest query sees the whole cache."""
    mask = student.causal_mask(2, 5, "bottom_right")
    close(mask, np.array([[T, T, T, T, F], [T, T, T, T, T]]), "the mask")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Which keys of a sequence of length 2 are real: places 0 and 1.",
    "Compare np.arange(seq_len_kv) with lengths[:, None].",
)
def test_two_lengths(student):
    """Lengths 2 and 4 in a batch padded to 4."""
    wanted = np.array([[T, T, F, F], [T, T, T, T]])
    close(student.padding_mask(np.array([2, 4]), 4), wanted, "the mask")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Count the True of the last row: a window of 2 is the token itself and one before it.",
    "With gap = query - key: 0 <= gap < size.",
)
def test_window_of_two(student):
    """A window of 2 over 4 tokens."""
    wanted = np.array([[T, F, F, F], [T, T, F, F], [F, T, T, F], [F, F, T, T]])
    close(student.window_mask(4, 2), wanted, "the mask")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Hide a key's score before softmax, so that the others share a weight of 1.",
    "np.where(allowed, scores, -np.inf), then softmax along the keys.",
)
def test_only_allowed_keys_count(student, rng):
    """Two of four keys are allowed."""
    query, key, value = rng.normal(size=(3, 8)), rng.normal(size=(4, 8)), rng.normal(size=(4, 2))
    allowed = np.tile([True, False, True, False], (3, 1))
    powers = np.exp(query @ key[[0, 2]].T / np.sqrt(8))
    wanted = powers / powers.sum(axis=1, keepdims=True) @ value[[0, 2]]
    close(student.masked_attention(query, key, value, allowed), wanted, "the result")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "What is the maximum of a row of -inf, and what is -inf minus -inf?",
    "Where a row's sum of weights is 0, divide by 1 in its place: 0 / 1 is 0.",
)
def test_no_key_gives_zeros(student, rng):
    """A query without any key gets zeros."""
    query, key, value = rng.normal(size=(3, 4)), np.ones((3, 4)), rng.normal(size=(3, 2))
    allowed = np.array([[T, T, F], [F, F, F], [F, F, T]])
    out = student.masked_attention(query, key, value, allowed)
    close(out, [value[:2].mean(axis=0), [0.0, 0.0], value[2]], "the result")


@pytest.mark.question("q5")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Only positions before the changed token prove a leak.",
    "Take the largest absolute change of each row, then look at rows 0 to changed - 1.",
)
def test_one_leaking_position(student):
    """Positions 0 and 1 leak, position 3 may move."""
    before = np.zeros((5, 2))
    after = before.copy()
    after[0], after[1] = [0.25, 0.0], [0.5, -0.5]
    after[3], after[4] = [1.0, 0.0], [2.0, 2.0]
    close(student.leaking_positions(before, after, 3), [0, 1], "the positions that leak")
