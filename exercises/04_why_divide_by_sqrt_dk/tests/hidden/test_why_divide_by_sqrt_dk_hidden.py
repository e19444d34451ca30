"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Are the standard deviations squared, and both of them used?")
def test_scaled_scores_spread_by_one(student, rng):
    """Scaled random scores have variance 1."""
    for width, std_query, std_key in ((16, 2.0, 0.5), (48, 0.25, 3.0)):
        query = std_query * rng.normal(size=(40000, width))
        key = std_key * rng.normal(size=(40000, width))
        scale = student.scale_for(width, std_query, std_key)
        close(scale, 1.0 / (width**0.5 * std_query * std_key), "the scale")
        scaled = scale * (query * key).sum(axis=1)
        close(scaled.var(), 1.0, "the variance of the scaled scores", tolerance=0.05)
        close(
            student.score_variance(width, std_query, std_key),
            width * (std_query * std_key) ** 2,
            "the variance",
        )


def softmax_of(row):
    """Return softmax of one row with Python's own numbers."""
    top = max(row)
    powers = [np.exp(score - top) for score in row]
    return [power / sum(powers) for power in powers]


@pytest.mark.question("q2")
@pytest.mark.points(0.5)
@pytest.mark.hint("Does each row have its own maximum?")
def test_rows_of_very_different_size(student, rng):
    """A row around +900 beside a row around -900."""
    scores = rng.normal(size=(3, 6)) + np.array([[900.0], [0.0], [-900.0]])
    wanted = np.array([softmax_of(list(row)) for row in scores])
    close(student.stable_softmax(scores), wanted, "the weights")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint("A hidden key has the score -inf and must get exactly the weight 0.")
def test_hidden_keys_weigh_nothing(student, rng):
    """Scores of -inf."""
    scores = 50.0 * rng.normal(size=(4, 7))
    scores[:, 2] = -np.inf
    wanted = np.array([softmax_of(list(row)) for row in scores])
    close(student.stable_softmax(scores), wanted, "the weights")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Compare with differences: move one score by 0.00001 and see how the weights move."
)
def test_finite_differences(student, rng):
    """The Jacobian equals central differences."""
    scores, step = 2.0 * rng.normal(size=6), 1e-5
    wanted = np.zeros((6, 6))
    for j in range(6):
        moved = step * np.eye(6)[j]
        up, down = softmax_of(list(scores + moved)), softmax_of(list(scores - moved))
        wanted[:, j] = (np.array(up) - np.array(down)) / (2 * step)
    came = student.softmax_jacobian(np.array(softmax_of(list(scores))))
    close(came, wanted, "the Jacobian", tolerance=1e-7)


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint("Is each row treated by itself? A constant gradient must give 0.")
def test_row_by_row_with_the_jacobian(student, rng):
    """The gradient equals grad times the Jacobian, row by row."""
    weights = np.array([softmax_of(list(row)) for row in 2.0 * rng.normal(size=(5, 9))])
    grad = rng.normal(size=(5, 9)) + 3.0
    wanted = []
    for row, slope in zip(weights, grad, strict=True):
        table = [[a * ((i == j) - b) for j, b in enumerate(row)] for i, a in enumerate(row)]
        wanted.append(slope @ np.array(table))
    close(student.softmax_backward(weights, grad), np.array(wanted), "the gradient")


@pytest.mark.question("q2")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_scores_stay_as_they_are(student, rng):
    """The scores that go in stay as they are."""
    scores = rng.normal(size=(3, 5))
    out, changes = student.changed("stable_softmax", scores)
    close(out, np.array([softmax_of(list(row)) for row in scores]), "the weights")
    unchanged(changes)


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint("Which array in your code has S times S numbers? One sum for each row is enough.")
def test_no_table_is_built(student, rng):
    """4 rows of 2,048 weights in less than 8 MB."""
    weights, grad = np.full((4, 2048), 1 / 2048), rng.normal(size=(4, 2048))
    out, peak = student.measure("softmax_backward", weights, grad)
    assert peak < 8e6, f"at its peak it took {peak / 1e6:.0f} MB, allowed are 8 MB"
    close(out, weights * (grad - grad.mean(axis=1, keepdims=True)), "the gradient")


@pytest.mark.question("q4")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_weights_and_grad_stay_as_they_are(student, rng):
    """Weights and gradient stay as they are."""
    weights, grad = np.full((3, 4), 0.25), rng.normal(size=(3, 4))
    out, changes = student.changed("softmax_backward", weights, grad)
    close(out, weights * (grad - grad.mean(axis=1, keepdims=True)), "the gradient")
    unchanged(changes)
