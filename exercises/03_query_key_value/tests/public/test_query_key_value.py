"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close, shaped

QUERY, OTHER = np.array([1.0, 0.0]), np.array([-1.0, 1.0])
KEYS = np.array([[0.0, 1.0], [3.0, 0.0], [1.0, 1.0]])
VALUES = np.array([[10.0, 0.0, 1.0], [20.0, 5.0, 2.0], [30.0, 7.0, 3.0]])


def weights_of(scores):
    """Return softmax along the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Write down the three scores by hand: 0, 3 and 1. Which row of values belongs to the largest?",
    "keys @ query gives all scores; np.argmax gives the place of the largest.",
)
def test_the_best_key_gives_its_value(student):
    """The value of the best key comes out."""
    came = [student.hard_lookup(query, KEYS, VALUES) for query in (QUERY, OTHER)]
    close(came[0], VALUES[1], "the value")
    close(came[1], VALUES[0], "the value for the query (-1, 1)")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Each row is turned into weights by itself: divide by the sum of that row.",
    "sum(axis=-1, keepdims=True) keeps the axis, so that the division lines up row by row.",
)
def test_each_row_adds_up_to_one(student):
    """Each row of weights adds up to 1."""
    weights = student.softmax(np.array([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]]))
    shaped(weights, (2, 3), "the weights")
    close(np.sum(weights, axis=-1), [1.0, 1.0], "the sums of the rows")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "exp(log 3) is 3: weights in the ratio 1 to 3 are 0.25 and 0.75.",
    "Take exp of every score first, then divide by the sum of the row.",
)
def test_two_scores_by_hand(student):
    """Scores 0 and log 3 become weights 0.25 and 0.75."""
    scores = np.array([[0.0, np.log(3.0)], [5.0, 5.0]])
    close(student.softmax(scores), [[0.25, 0.75], [0.5, 0.5]], "the weights")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Scores first, then sharpness, then softmax, then the weighted sum.",
    "softmax(sharpness * (keys @ query)) has shape (S,); multiply it with values, shape (S, Ev).",
)
def test_scores_are_sharpened_before_softmax(student):
    """Sharpness 2 multiplies the scores before softmax."""
    came = [student.soft_lookup(QUERY, KEYS, VALUES, sharpness) for sharpness in (2.0, 0.25)]
    for out, sharpness in zip(came, (2.0, 0.25), strict=True):
        wanted = weights_of(sharpness * (KEYS @ QUERY)) @ VALUES
        close(out, wanted, f"the mixed value for the sharpness {sharpness:g}")


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "L queries give L rows, each as wide as a value.",
    "Scores have shape (L, S): query @ key.T. Weights times value gives (L, Ev).",
)
def test_shape_of_attention(student, rng):
    """5 queries, 7 equal keys: shape (5, 3), each row the average of the values."""
    query, key, value = rng.normal(size=(5, 4)), np.ones((7, 4)), rng.normal(size=(7, 3))
    out = student.attention(query, key, value)
    close(out, np.tile(value.mean(axis=0), (5, 1)), "the result")


@pytest.mark.question("q4")
@pytest.mark.points(1.5)
@pytest.mark.hint(
    "Compare your scores with the formula, from the inside out: product, scale, softmax, values.",
    "The scale is 1 / sqrt(E), E the width of a query; softmax runs over the keys, the last axis.",
)
def test_attention_equals_the_formula(student, rng):
    """The result equals softmax(q kᵀ / √E) v."""
    query, key = rng.normal(size=(4, 6)), rng.normal(size=(5, 6))
    value = rng.normal(size=(5, 3))
    wanted = weights_of(query @ key.T / np.sqrt(6)) @ value
    close(student.attention(query, key, value), wanted, "the result")
