"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Only the dot product decides, not the distance and not the length of a key.")
def test_random_lookups_pick_the_largest_product(student, rng):
    """Random keys of very different lengths."""
    keys = rng.normal(size=(9, 5)) * np.geomspace(0.2, 5.0, 9)[:, None]
    values = rng.normal(size=(9, 2))
    for query in rng.normal(size=(6, 5)):
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
        close(student.hard_lookup(query, keys, values), values[int(np.argmax(scores))], "the value")


def rows_of_weights(scores):
    """Return softmax of each row, one row at a time."""
    rows = []
    for row in scores:
        powers = np.exp(row - row.max())
        rows.append(powers / powers.sum())
    return np.array(rows)


@pytest.mark.question("q2")
@pytest.mark.points(0.5)
@pytest.mark.hint("Does it work for one row of shape (S,) too?")
def test_rows_of_any_kind(student, rng):
    """Rectangles and a single row."""
    scores = 3.0 * rng.normal(size=(4, 9))
    close(student.softmax(scores), rows_of_weights(scores), "the weights")
    close(student.softmax(scores[0]), rows_of_weights(scores)[0], "the weights of one row")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint("What does softmax give when all scores are 0?")
def test_no_sharpness_gives_the_average(student, rng):
    """Sharpness 0 gives the plain average of the values."""
    keys, values = rng.normal(size=(8, 5)), rng.normal(size=(8, 3))
    out = student.soft_lookup(rng.normal(size=5), keys, values, 0.0)
    close(out, values.mean(axis=0), "the mixed value")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint("Sharpness multiplies: a large one makes the largest score win.")
def test_large_sharpness_is_the_hard_lookup(student, rng):
    """A large sharpness picks one value."""
    keys, values = np.linalg.qr(rng.normal(size=(6, 6)))[0], rng.normal(size=(6, 3))
    for row in range(6):
        out = student.soft_lookup(keys[row], keys, values, 60.0)
        close(out, values[row], "the mixed value", tolerance=1e-6)


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint("Each output lies between the smallest and the largest value of its column.")
def test_equal_values_come_out_unchanged(student, rng):
    """Weights of each query add up to 1."""
    query, key = 4.0 * rng.normal(size=(6, 8)), rng.normal(size=(3, 8))
    value = np.tile(rng.normal(size=(1, 5)), (3, 1))
    close(student.attention(query, key, value), np.tile(value[:1], (6, 1)), "the result")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint("Is the scale taken from the width of the queries, for any width?")
def test_query_by_query(student, rng):
    """Each query alone gives its row, at several widths."""
    for width in (1, 3, 16):
        query, key = rng.normal(size=(4, width)), rng.normal(size=(6, width))
        value = rng.normal(size=(6, 2))
        rows = []
        for one in query:
            powers = np.exp(key @ one / width**0.5)
            rows.append(powers @ value / powers.sum())
        close(student.attention(query, key, value), np.array(rows), "the result")


@pytest.mark.question("q2")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_scores_stay_as_they_are(student, rng):
    """The scores that go in stay as they are."""
    scores = rng.normal(size=(3, 5))
    out, changes = student.changed("softmax", scores)
    close(out, rows_of_weights(scores), "the weights")
    unchanged(changes)


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_query_key_and_value_stay_as_they_are(student, rng):
    """Query, key and value stay as they are."""
    query, key, value = rng.normal(size=(3, 5, 4))
    out, changes = student.changed("attention", query, key, value)
    close(out, rows_of_weights(query @ key.T / 2.0) @ value, "the result")
    unchanged(changes)
