"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Does it work when there are more queries than keys, for both corners?")
def test_every_pair_of_lengths(student):
    """Every small pair of lengths at both corners."""
    for seq_len_q, seq_len_kv in ((1, 1), (1, 6), (3, 4), (5, 3), (4, 4)):
        for align, offset in (("top_left", 0), ("bottom_right", seq_len_kv - seq_len_q)):
            wanted = [[j <= i + offset for j in range(seq_len_kv)] for i in range(seq_len_q)]
            mask = student.causal_mask(seq_len_q, seq_len_kv, align)
            close(mask, np.array(wanted), f"the mask for {align}")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint("Empty and full sequences are sequences too.")
def test_empty_and_full_sequences(student, rng):
    """Lengths from 0 to all, and a batch in which every sequence is short."""
    full = np.concatenate([[0, 7], rng.integers(0, 8, size=4)])
    for lengths in (full, np.array([3, 1, 4]), np.array([0])):
        wanted = [[place < length for place in range(7)] for length in lengths]
        close(student.padding_mask(lengths, 7), np.array(wanted), "the mask")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint("A window of 1 sees itself; a window longer than the text is a causal mask.")
def test_windows_of_any_size(student):
    """Windows of 1, of some, and of more than all."""
    for size in (1, 3, 6, 9):
        wanted = [[0 <= i - j < size for j in range(6)] for i in range(6)]
        close(student.window_mask(6, size), np.array(wanted), f"the window of {size}")


def one_query(query, key, value, allowed):
    """Return attention of one query over the keys it may see."""
    if not allowed.any():
        return np.zeros(value.shape[1])
    scores = key[allowed] @ query / len(query) ** 0.5
    powers = np.exp(scores - scores.max())
    return powers @ value[allowed] / powers.sum()


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("Is the result right when some rows see nothing and scores are large?")
def test_random_masks(student, rng):
    """Random masks, large scores, an empty row."""
    query, key = 30.0 * rng.normal(size=(6, 16)), 30.0 * rng.normal(size=(9, 16))
    value, allowed = rng.normal(size=(9, 3)), rng.random((6, 9)) < 0.4
    allowed[2] = False
    wanted = [one_query(q, key, value, row) for q, row in zip(query, allowed, strict=True)]
    close(student.masked_attention(query, key, value, allowed), np.array(wanted), "the result")


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint("A hidden key's score may be enormous. Does it still have no influence at all?")
def test_hidden_keys_cannot_shout(student, rng):
    """A hidden key with an enormous score changes nothing."""
    query, key, value = rng.normal(size=(4, 8)), rng.normal(size=(5, 8)), rng.normal(size=(5, 2))
    allowed = np.tile([True, True, True, True, False], (4, 1))
    quiet = student.masked_attention(query, key, value, allowed)
    key[4] = 1e12 * query[0]
    close(student.masked_attention(query, key, value, allowed), quiet, "the result")
    wanted = [
        one_query(q, key[:4], value[:4], row[:4]) for q, row in zip(query, allowed, strict=True)
    ]
    close(quiet, np.array(wanted), "the result")


@pytest.mark.question("q5")
@pytest.mark.points(2)
@pytest.mark.hint("Changes of opposite sign must not cancel, and rounding is no leak.")
def test_small_and_cancelling_changes(student, rng):
    """Changes that cancel, changes of rounding size, and no change."""
    before = rng.normal(size=(7, 3))
    after = before + 1e-14
    after[5:] += 1.0
    close(student.leaking_positions(before, after, 5), [], "the positions without a leak")
    after[2] += [0.25, -0.25, 0.0]
    after[4] -= [0.0, 0.0, 1e-6]
    close(student.leaking_positions(before, after, 5), [2, 4], "the positions")


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_query_key_value_and_mask_stay_as_they_are(student, rng):
    """Query, key, value and mask stay as they are."""
    query, key, value = rng.normal(size=(3, 5, 4))
    allowed = rng.random((5, 5)) < 0.5
    out, changes = student.changed("masked_attention", query, key, value, allowed)
    wanted = [one_query(q, key, value, row) for q, row in zip(query, allowed, strict=True)]
    close(out, np.array(wanted), "the result")
    unchanged(changes)
