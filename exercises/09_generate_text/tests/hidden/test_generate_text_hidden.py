"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("What is exp(1000)? What may be subtracted from a row without a change?")
def test_small_temperatures(student, rng):
    """A batch of rows at small and large temperatures."""
    logits = 5 * rng.normal(size=(2, 3, 7))
    for temperature in (0.005, 0.7, 30.0):
        rows = logits / temperature
        wanted = np.exp(rows - np.logaddexp.reduce(rows, axis=-1, keepdims=True))
        close(student.tempered(logits, temperature), wanted, "the probabilities")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Nothing can be divided by a temperature of 0: what is the limit?")
def test_temperature_of_zero(student, rng):
    """A temperature of 0."""
    logits, best = rng.normal(size=(3, 5)), np.array([4, 0, 2])
    logits[np.arange(3), best] = 9.0
    out, changes = student.changed("tempered", logits, 0.0)
    close(out, np.eye(5)[best], "the probabilities")
    unchanged(changes)


def some(rng, size):
    """Return random probabilities, no two of them equal."""
    powers = rng.random(size) ** 3 + 1e-3
    return powers / powers.sum()


def kept(probs, count):
    """Return the most likely tokens, found one after another."""
    left, result = dict(enumerate(probs.tolist())), np.zeros(len(probs))
    for _ in range(min(count, len(probs))):
        best = max(left, key=left.get)
        result[best] = left.pop(best)
    return result / result.sum()


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint("What does k = 1 keep, and what a k beyond the vocabulary?")
def test_every_number_of_tokens(student, rng):
    """From one token to more than there are."""
    probs = some(rng, 9)
    for k in (1, 4, 8, 9, 30):
        close(student.keep_top_k(probs, k), kept(probs, k), "the probabilities")
    _, changes = student.changed("keep_top_k", probs, 4)
    unchanged(changes)


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint("How many tokens are kept if the likeliest alone holds more than p?")
def test_every_share(student, rng):
    """Shares from hardly anything to all, on sure and unsure models."""
    for probs in (some(rng, 12), np.array([0.03, 0.9, 0.02, 0.05])):
        total = np.sort(probs)[::-1].cumsum()
        for p in (0.01, 0.4, 0.65, 0.93):
            count = int((total < p).sum()) + 1
            close(student.keep_top_p(probs, p), kept(probs, count), "the probabilities")
    close(student.keep_top_p(probs, 1.0), probs, "the probabilities for p = 1")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint("If the kept tokens hold exactly p, is another one kept?")
def test_exactly_p(student):
    """Tokens that hold exactly p."""
    probs = np.array([0.125, 0.5, 0.0625, 0.25, 0.0625 / 2, 0.0625 / 2 - 0.001, 0.001])
    out, changes = student.changed("keep_top_p", probs, 0.75)
    close(out, kept(probs, 2), "the probabilities")
    unchanged(changes)


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("To whom does a number on a border belong, and who owns no stretch at all?")
def test_borders_and_tokens_without_a_stretch(student):
    """Numbers on borders, and tokens of probability 0."""
    probs = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    uniform = np.array([0.0, 0.25, 0.2499, 0.75, 0.7499, 0.9999])
    close(student.draw(probs, uniform), [1, 3, 1, 4, 3, 4], "the tokens")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint("What do ten times .1 add up to, in floating point?")
def test_sums_that_end_below_one(student, rng):
    """Probabilities whose sum ends a little below 1."""
    probs = np.append(np.full(10, 0.1 - 1e-9), 0.0)
    last = np.nextafter(1.0, 0.0)
    close(student.draw(probs, np.array([last, 0.05])), [9, 0], "the tokens")
    probs, uniform = rng.dirichlet(np.ones(6)), rng.random(40)
    wanted = [next(i for i in range(6) if probs[: i + 1].sum() > u) for u in uniform]
    close(student.draw(probs, uniform), wanted, "the tokens")


@pytest.mark.question("q5")
@pytest.mark.points(2)
@pytest.mark.hint("Do ten steps give what attention with a causal mask gives at once?")
def test_ten_steps_are_one_causal_pass(student, rng):
    """Ten steps, against all rows at once; in the last ones the scores are large."""
    query, key = rng.normal(size=(2, 10, 8))
    query[6:] *= 1000
    value = rng.normal(size=(10, 3))
    keys, values = np.zeros((0, 8)), np.zeros((0, 3))
    for i in range(10):
        scores = key[: i + 1] @ query[i] / np.sqrt(8)
        powers = np.exp(scores - scores.max())
        (out, *longer), changes = student.changed(
            "decode_step", query[i], key[i], value[i], keys, values
        )
        unchanged(changes)
        keys, values = longer
        close(out, powers @ value[: i + 1] / powers.sum(), f"the output of step {i}")
    close(keys, key, "the keys")
    close(values, value, "the values")


@pytest.mark.question("q6")
@pytest.mark.points(2)
@pytest.mark.hint("Does the error use the probability that should be, and the number of draws?")
def test_samplers_right_and_wrong(student, rng):
    """Many draws, few draws, and a token that was never drawn."""
    for size, share, expected in ((4000, 0.2125, 0.2), (400, 0.25, 0.2), (50, 0.0, 0.1)):
        count = round(size * share)
        draws = rng.permutation(np.repeat([2, 5], [count, size - count]))
        variance = sum((k - expected) ** 2 * w for k, w in ((1, expected), (0, 1 - expected)))
        wanted = (count / size - expected) / np.sqrt(variance / size)
        close(student.errors_away(draws, 2, expected), wanted, "the distance")
