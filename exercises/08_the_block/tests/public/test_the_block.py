"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The mean square of [3, 4] is 12.5. What is [3, 4] divided by its root?",
    "np.mean(x**2, axis=-1, keepdims=True), then x / np.sqrt(...) * weight.",
)
def test_one_token(student):
    """The token [3, 4], once with weights of 1 and once with other weights."""
    token = np.array([[3.0, 4.0]])
    wanted = token / np.sqrt(12.5 + 0.5)
    close(student.rms_norm(token, np.ones(2), 0.5), wanted, "the token")
    weight = np.array([2.0, -1.0])
    close(student.rms_norm(token, weight, 0.5), wanted * weight, "the stretched token")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "SiLU of z is z times σ(z). Which of the two copies is bent?",
    "bent = z / (1 + np.exp(-z)) with z = x @ gate; then (bent * (x @ up)) @ down.",
)
def test_one_number_wide(student):
    """A token of one number, with a gate that is half open."""
    one, two, three = np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])
    sigma = 1 / (1 + np.exp(-2.0))
    close(student.swiglu(one, two, three, one), [[2 * sigma * 3]], "the token")
    close(
        student.swiglu(one, np.zeros((1, 1)), three, one), [[0.0]], "the token behind a gate of 0"
    )


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "A guess that gives four tokens the same logit gives each the probability 1/4.",
    "-ln p is np.log(np.exp(logits).sum()) minus the right token's logit.",
)
def test_two_guesses(student):
    """One guess among four equal tokens, one with a probability of 3/4."""
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [np.log(9.0), 0.0, 0.0, 0.0]])
    wanted = (np.log(4) + np.log(4 / 3)) / 2
    close(student.cross_entropy(logits, np.array([2, 0])), wanted, "the mean cost")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The derivative of the logarithm of the sum is softmax; the right logit is subtracted once.",
    "softmax(logits), minus 1 at the right token, divided by the number of guesses.",
)
def test_one_guess(student):
    """One guess among three tokens."""
    grad = student.cross_entropy_grad(np.array([[np.log(2.0), 0.0, 0.0]]), np.array([1]))
    close(grad, [[0.5, -0.75, 0.25]], "the derivative")


def norm(x, weight):
    """Return what RMSNorm makes of tokens."""
    return x * (np.mean(x * x, axis=-1, keepdims=True) + 1e-5) ** -0.5 * weight


def gated(x, gate, up, down):
    """Return what the gated layer makes of tokens."""
    return (x @ gate * (0.5 + 0.5 * np.tanh(x @ gate / 2)) * (x @ up)) @ down


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Let `down` hold zeros: then only the first half is left. Is x still in the result?",
    "x = x + mix @ rms_norm(x, norm_1)",
)
def test_first_half(student, rng):
    """A second half that adds nothing."""
    x, mix = rng.normal(size=(3, 4)), np.tril(np.full((3, 3), 0.5))
    norm_1, norm_2 = rng.normal(size=(2, 4))
    gate, up, nothing = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), np.zeros((6, 4))
    out = student.block(x, mix, norm_1, norm_2, gate, up, nothing)
    close(out, x + mix @ norm(x, norm_1), "the tokens")


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Let `mix` hold zeros: then only the second half is left. What does it read, and add to?",
    "return x + swiglu(rms_norm(x, norm_2), gate, up, down)",
)
def test_second_half(student, rng):
    """A first half that adds nothing."""
    x, nothing = rng.normal(size=(3, 4)), np.zeros((3, 3))
    norm_1, norm_2 = rng.normal(size=(2, 4))
    gate, up, down = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), rng.normal(size=(6, 4))
    out = student.block(x, nothing, norm_1, norm_2, gate, up, down)
    close(out, x + gated(norm(x, norm_2), gate, up, down), "the tokens")


@pytest.mark.question("q6")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The differences are [1, 2, 3]. What is their mean, and how far are they from it?",
    "difference.std(ddof=1) / np.sqrt(len(difference))",
)
def test_three_seeds(student):
    """Three seeds, with the differences 1, 2 and 3."""
    first, second = np.array([5.0, 1.0, 9.0]), np.array([6.0, 3.0, 12.0])
    wanted = [2.0, 1 / np.sqrt(3)]
    close(student.compare(first, second), wanted, "the mean difference and its error")
