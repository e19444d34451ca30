"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


def norm(x, weight, eps=1e-5):
    """Return what RMSNorm makes of tokens."""
    return x * (np.mean(x * x, axis=-1, keepdims=True) + eps) ** -0.5 * weight


def gated(x, gate, up, down):
    """Return what the gated layer makes of tokens."""
    return (x @ gate * (0.5 + 0.5 * np.tanh(x @ gate / 2)) * (x @ up)) @ down


def guesses(logits, target):
    """Return the cost of each guess, one after another."""
    rows = zip(logits.reshape(-1, logits.shape[-1]), target.ravel(), strict=True)
    return np.array([np.logaddexp.reduce(row) - row[right] for row, right in rows])


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Is each token treated alone, however many axes stand in front?")
def test_batches_of_tokens(student, rng):
    """Tokens of very different lengths, in a batch."""
    x = rng.normal(size=(2, 3, 5)) * 10.0 ** np.arange(-1, 2)[:, None]
    weight = rng.normal(size=5)
    close(student.rms_norm(x, weight, 1e-5), norm(x, weight), "the tokens")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("What does ε do for a token of zeros, and where under the root does it stand?")
def test_zeros_and_small_tokens(student, rng):
    """A token of zeros, one as small as ε, and arguments that stay as they are."""
    x = np.stack([np.zeros(4), 1e-3 * rng.normal(size=4), rng.normal(size=4)])
    weight = rng.normal(size=4)
    out, changes = student.changed("rms_norm", x, weight, 1e-5)
    close(out, norm(x, weight), "the tokens")
    unchanged(changes)


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint("Is the copy made with `gate` the one that is bent?")
def test_a_batch_through_the_gate(student, rng):
    """A batch of tokens, made wider and narrow again."""
    x, down = rng.normal(size=(2, 3, 4)), rng.normal(size=(6, 4))
    gate, up = 2 * rng.normal(size=(2, 4, 6))
    close(student.swiglu(x, gate, up, down), gated(x, gate, up, down), "the tokens")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint("Is the mean taken over all guesses, however many axes stand in front?")
def test_a_batch_of_guesses(student, rng):
    """A batch of sequences."""
    logits, target = 2 * rng.normal(size=(2, 5, 7)), rng.integers(0, 7, size=(2, 5))
    close(student.cross_entropy(logits, target), guesses(logits, target).mean(), "the mean cost")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "What is exp(1000)? Which number may be subtracted from all logits of a guess without a change?"
)
def test_large_logits(student, rng):
    """Logits up to 1,000, of right and of wrong tokens."""
    logits = np.array([[1000.0, 0.0, -3.0], [1000.0, 990.0, 0.0], [-1000.0, -1001.0, -999.5]])
    for target in (np.array([0, 1, 2]), np.array([2, 2, 0])):
        cost = guesses(logits, target).mean()
        close(student.cross_entropy(logits, target), cost, "the mean cost")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("By how many guesses was the cost divided?")
def test_against_small_steps(student, rng):
    """The change of the cost when one logit moves a little, for each logit."""
    logits, target = rng.normal(size=(2, 3, 4)), rng.integers(0, 4, size=(2, 3))
    wanted, step = np.empty_like(logits), 1e-5
    for place in np.ndindex(logits.shape):
        costs = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[place] += sign * step
            costs.append(guesses(moved, target).mean())
        wanted[place] = (costs[0] - costs[1]) / (2 * step)
    grad = student.cross_entropy_grad(logits, target)
    close(grad, wanted, "the derivative", tolerance=1e-7)


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint("Does it survive large logits, and does it leave those that it is given alone?")
def test_large_logits_on_the_way_back(student, rng):
    """Large logits, which stay as they are."""
    logits, target = 400 * rng.normal(size=(4, 5)), np.array([0, 1, 2, 4])
    share = np.exp(logits - np.logaddexp.reduce(logits, axis=-1)[:, None])
    wanted = (share - np.eye(5)[target]) / 4
    out, changes = student.changed("cross_entropy_grad", logits, target)
    close(out, wanted, "the derivative")
    unchanged(changes)


@pytest.mark.question("q5")
@pytest.mark.points(2)
@pytest.mark.hint("Do both halves read through their own norm, and does the second see the first?")
def test_both_halves(student, rng):
    """Both halves at work, on tokens that stay as they are."""
    x, mix = 5 * rng.normal(size=(4, 6)), np.tril(rng.random((4, 4)))
    norm_1, norm_2 = rng.normal(size=(2, 6))
    gate, up, down = *rng.normal(size=(2, 6, 8)), rng.normal(size=(8, 6))
    halfway = x + mix @ norm(x, norm_1)
    wanted = halfway + gated(norm(halfway, norm_2), gate, up, down)
    out, changes = student.changed("block", x, mix, norm_1, norm_2, gate, up, down)
    close(out, wanted, "the tokens")
    unchanged(changes)


@pytest.mark.question("q6")
@pytest.mark.points(2)
@pytest.mark.hint("Are the seeds kept in pairs, and is s divided by the root of their number?")
def test_eight_seeds(student, rng):
    """Eight seeds that differ much more than the two kinds of block."""
    hard = rng.normal(2.0, 0.5, size=8)
    first, second = hard + rng.normal(0, 0.02, 8), hard - 0.05 + rng.normal(0, 0.02, 8)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / 8
    spread = sum((each - mean) ** 2 for each in differences) / 7
    close(student.compare(first, second), [mean, np.sqrt(spread / 8)], "the mean and its error")
