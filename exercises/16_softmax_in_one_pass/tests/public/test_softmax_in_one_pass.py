"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close, shaped


def attention_of(query, key, value):
    """Return attention, made for 256 queries at a time."""
    parts = []
    for start in range(0, len(query), 256):
        scores = query[start : start + 256] @ key.T / query.shape[1] ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        parts.append(powers @ value / powers.sum(axis=1, keepdims=True))
    return np.concatenate(parts)


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The first score becomes the maximum, and exp(0) is 1.",
    "new_max = max(row_max, score); the new score adds exp(score - new_max).",
)
def test_the_first_score(student):
    """The first score gives the pair (score, 1)."""
    close(student.fold_score(-np.inf, 0.0, 3.0), [3.0, 1.0], "maximum and sum")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The old sum 1.5 was made with the maximum 2. How large is it with the maximum 3?",
    "Multiply the old sum by exp(row_max - new_max).",
)
def test_a_larger_score_shrinks_the_sum(student):
    """A larger score shrinks the old sum."""
    came = student.fold_score(2.0, 1.5, 3.0)
    close(came, [3.0, 1.5 * np.exp(-1.0) + 1.0], "maximum and sum")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "With nothing before it, a block gives its own maximum, sum and weighted sum.",
    "weights = exp(scores - new_max[:, None]); sum them along the last axis.",
)
def test_the_first_block(student, rng):
    """The first block alone."""
    scores, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    came = student.fold_block(np.full(3, -np.inf), np.zeros(3), np.zeros((3, 2)), scores, v)
    top = scores.max(axis=1)
    weights = np.exp(scores - top[:, None])
    for name, part, wanted in zip(
        ("row_max", "row_sum", "acc"), came, (top, weights.sum(axis=1), weights @ v), strict=True
    ):
        close(part, wanted, name)


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Both the sum and acc were made with the old maximum.",
    "shrink = exp(row_max - new_max) multiplies row_sum and acc, row by row.",
)
def test_two_blocks_are_one(student, rng):
    """Two blocks give what one pass gives."""
    scores, v = 5.0 * rng.normal(size=(4, 6)), rng.normal(size=(6, 3))
    state = student.fold_block(
        np.full(4, -np.inf), np.zeros(4), np.zeros((4, 3)), scores[:, :2], v[:2]
    )
    _, row_sum, acc = student.fold_block(*state, scores[:, 2:], v[2:])
    shaped(row_sum, (4,), "row_sum")
    shaped(acc, (4, 3), "acc")
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = powers @ v / powers.sum(axis=1, keepdims=True)
    close(np.asarray(acc) / np.asarray(row_sum)[:, None], wanted, "acc / row_sum")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Worker 1 holds exp(lse1) of the whole sum. What is its share?",
    "lse = np.logaddexp(lse1, lse2); the shares are exp(lse1 - lse) and exp(lse2 - lse).",
)
def test_two_halves_by_hand(student):
    """Sums of 2 and 6 share the output 1 to 3."""
    out1, out2 = np.array([[4.0, 0.0]]), np.array([[8.0, 4.0]])
    out, lse = student.merge(out1, np.log([2.0]), out2, np.log([6.0]))
    close(lse, np.log([8.0]), "the lse")
    close(out, [[7.0, 3.0]], "the output")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Start with -inf, 0 and 0, fold every block, divide at the end.",
    "Slice key and value by range(0, len(key), block); the last slice may be shorter.",
)
def test_tiles_equal_one_matrix(student, rng):
    """Blocks of 1, 3 and 8 of 7 keys."""
    query, key, value = rng.normal(size=(5, 4)), rng.normal(size=(7, 4)), rng.normal(size=(7, 2))
    powers = np.exp(query @ key.T / 2.0)
    wanted = powers @ value / powers.sum(axis=1, keepdims=True)
    for block in (1, 3, 8):
        close(student.tiled_attention(query, key, value, block), wanted, f"block {block}")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Which array in your code has one number for each query and each key?",
    "Compute scores inside the loop, for one slice of the keys only.",
)
def test_memory_stays_small(student, rng):
    """3,072 tokens in less than 32 MB."""
    query, key, value = rng.normal(size=(3, 3072, 8))
    out, peak = student.measure("tiled_attention", query, key, value, 128)
    assert peak < 32e6, f"at its peak it took {peak / 1e6:.0f} MB, allowed are 32 MB"
    close(out, attention_of(query, key, value), "the result")
