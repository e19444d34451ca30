"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Variances of independent terms add up. How many terms are there?",
    "head_dim terms, each with variance std_query**2 * std_key**2.",
)
def test_variance_of_four_products(student):
    """Four products with standard deviations 1 and 3 have variance 36."""
    close(student.score_variance(4, 1.0, 3.0), 36.0, "the variance")
    close(student.score_variance(64, 1.0, 1.0), 64.0, "the variance at width 64")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "A factor c multiplies a variance by c². Which c turns 64 into 1?",
    "One over the root of the variance.",
)
def test_scale_at_width_64(student):
    """At width 64 the scale is 1/8."""
    close(student.scale_for(64, 1.0, 1.0), 0.125, "the scale")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Row by row: exp, then divide by the sum of that row.",
    "Use axis=-1 and keepdims=True for the maximum and for the sum.",
)
def test_small_scores(student, rng):
    """Small scores, in shape (2, 3, 5)."""
    scores = rng.normal(size=(2, 3, 5))
    powers = np.exp(scores)
    close(student.stable_softmax(scores), powers / powers.sum(-1, keepdims=True), "the weights")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "What changes if you subtract the same number from all scores of a row?",
    "Subtract each row's maximum before you take exp.",
)
def test_large_scores(student):
    """Scores 1000 and 1001 have the weights of 0 and 1."""
    wanted = 1.0 / (1.0 + np.exp([[1.0, -1.0]]))
    close(student.stable_softmax(np.array([[1000.0, 1001.0]])), wanted, "the weights")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Start with two weights, 0.25 and 0.75: the formula gives 0.1875 on the diagonal.",
    "np.diag puts weights on a diagonal; np.outer gives every product w_i w_j.",
)
def test_two_weights_by_hand(student):
    """Weights 0.25 and 0.75."""
    wanted = [[0.1875, -0.1875], [-0.1875, 0.1875]]
    close(student.softmax_jacobian(np.array([0.25, 0.75])), wanted, "the Jacobian")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Entry j is w_j times (g_j minus something that is the same for the whole row). What is it?",
    "Subtract the sum of weights * grad along the last axis, then multiply by the weights.",
)
def test_gradient_of_two_rows(student):
    """Two rows by hand."""
    weights = np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]])
    grad = np.array([[1.0, 0.0, 7.0], [2.0, 0.0, 0.0]])
    wanted = [[0.1875, -0.1875, 0.0], [0.5, -0.25, -0.25]]
    close(student.softmax_backward(weights, grad), wanted, "the gradient")
