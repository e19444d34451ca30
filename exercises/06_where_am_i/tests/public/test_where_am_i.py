"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "A quarter turn against the clock takes (1, 0) to (0, 1), and (0, 1) to (-1, 0).",
    "a * cos - b * sin, and a * sin + b * cos, for each row its own angle.",
)
def test_quarter_and_sixth(student):
    """A quarter turn, and a twelfth."""
    x, angle = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.pi * np.array([1 / 2, 1 / 6, 1])
    wanted = [[0.0, 1.0], [np.sqrt(3.0), 1.0], [0.0, -1.0]]
    close(student.rotate(x, angle), wanted, "the turned pairs")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "With width 4 and base 100 the two pairs turn by 1 and by 1/10 with each position.",
    "base ** (-2 * i / width) for i = 0, 1, ..., times positions[:, None].",
)
def test_two_pairs(student):
    """Two pairs at the positions 0, 1 and 5."""
    came = student.angles(np.array([0, 1, 5]), 4, 100.0)
    close(came, [[0.0, 0.0], [1.0, 0.1], [5.0, 0.5]], "the angles")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "At position 0 nothing turns. Which two components of four turn together at position 1?",
    "first, second = x[:, : E // 2], x[:, E // 2 :]; turn them, then join the halves.",
)
def test_one_component_at_a_time(student):
    """Vectors with a single 1, at the positions 0 and 2."""
    came = student.rotary(np.eye(4)[[0, 0, 3]], np.array([0, 2, 2]), 100.0)
    wanted = np.zeros((3, 4))
    wanted[0, 0] = 1.0
    wanted[1, [0, 2]] = np.cos(2.0), np.sin(2.0)
    wanted[2, [1, 3]] = -np.sin(0.2), np.cos(0.2)
    close(came, wanted, "the turned vectors")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "At which position does the newest token stand when there are three keys?",
    "rotary(query[None], np.array([len(keys) - 1]), base)",
)
def test_three_keys(student):
    """Three keys of one pair each."""
    keys = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    scores = student.newest_scores(np.array([1.0, 0.0]), keys, 100.0)
    close(scores, [np.cos(2.0), np.cos(1.0) + np.sin(1.0), 0.0], "the scores")


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "With two heads the slopes are 1/16 and 1/256. What does the key two places back get?",
    "slopes[:, None, None] times minus the distance, query minus key.",
)
def test_two_heads(student):
    """What two heads see of the past."""
    past = np.tril_indices(3)
    came = student.alibi(2, 3)
    distance = np.array([0, 1, 0, 2, 1, 0])  # row by row
    wanted = np.stack([-distance / 16, -distance / 256])
    close(came[(slice(None), *past)], wanted, "the penalties of the past")


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "A key is later where query minus key is negative.",
    "np.where(distance < 0, -np.inf, penalty)",
)
def test_later_keys(student):
    """Which keys are hidden."""
    hidden = np.isneginf(student.alibi(4, 3))
    wanted = np.stack([[[False, True, True], [False, False, True], [False] * 3]] * 4)
    close(hidden, wanted, "where -inf stands")


@pytest.mark.question("q6")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The token that comes first in X[order] is number order[0] of X.",
    "np.abs(shuffled - out[order]).max()",
)
def test_a_layer_that_copies(student):
    """A layer that hands each token on, and one that adds the position."""
    x, order = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 13.0], [4.0, 4.0]]), np.array([1, 2, 3, 0])
    close(student.order_matters(x, x[order], order), 0.0, "the difference without positions")
    place = np.arange(4.0)[:, None]
    came = student.order_matters(x + place, x[order] + place, order)
    close(came, 3.0, "the difference with positions")
