"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close, shaped


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "With T = 1/2 each logit counts twice: probabilities of 2 to 1 become 4 to 1.",
    "softmax(logits / temperature)",
)
def test_two_tokens(student):
    """Two tokens, 2 to 1, at three temperatures."""
    logits = np.log([2.0, 1.0])
    close(student.tempered(logits, 1.0), [2 / 3, 1 / 3], "the probabilities at T = 1")
    close(student.tempered(logits, 0.5), [0.8, 0.2], "the probabilities at T = 1/2")
    root = np.sqrt(2.0)
    wanted = [root / (1 + root), 1 / (1 + root)]
    close(student.tempered(logits, 2.0), wanted, "the probabilities at T = 2")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Of [.1, .5, .15, .25] the two most likely are .5 and .25. What must they add up to?",
    "np.argsort(probs)[::-1][:k] names the places of the k largest.",
)
def test_two_of_four(student):
    """The two most likely of four tokens."""
    kept = student.keep_top_k(np.array([0.1, 0.5, 0.15, 0.25]), 2)
    close(kept, [0.0, 2 / 3, 0.0, 1 / 3], "the probabilities")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The likeliest token holds .5 and does not reach .7; with the second it is .75.",
    "Keep a token if all likelier ones together hold less than p.",
)
def test_seven_tenths(student):
    """The tokens of [.1, .5, .15, .25] that hold .7, and those that hold .95."""
    probs = np.array([0.1, 0.5, 0.15, 0.25])
    some, nearly_all = (student.keep_top_p(probs, p) for p in (0.7, 0.95))
    close(some, [0.0, 2 / 3, 0.0, 1 / 3], "the probabilities for p = .7")
    close(nearly_all, probs, "the probabilities for p = .95")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Where does the stretch of token 1 begin, and where does it end?",
    "np.searchsorted(np.cumsum(probs), uniform, side=...): which side at a border?",
)
def test_numbers_inside_stretches(student):
    """Numbers inside the stretches of three tokens."""
    tokens = student.draw(np.array([0.25, 0.5, 0.25]), np.array([0.1, 0.3, 0.7, 0.9, 0.2]))
    close(tokens, [0, 1, 1, 2, 0], "the tokens")


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The very first token sees one key: its own. What is its output?",
    "np.concatenate([keys, key[None]]) first, then attention.",
)
def test_the_first_token(student):
    """The first token of a text, with nothing before it."""
    key, value = np.array([1.0, -1.0]), np.array([3.0, 4.0, 5.0])
    out, keys, values = student.decode_step(key, key, value, np.zeros((0, 2)), np.zeros((0, 3)))
    close(out, value, "the output")
    close(keys, key[None], "the keys")
    close(values, value[None], "the values")


@pytest.mark.question("q5")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The new key stands behind the old ones, the new value too.",
    "Scores are keys @ query / np.sqrt(len(query)), one for each token.",
)
def test_a_second_token(student):
    """A second token, whose scores are 0 and ln 3."""
    query = np.array([np.log(3.0) * 2, 0.0, 0.0, 0.0])
    key, old = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros((1, 4))
    out, keys, values = student.decode_step(query, key, np.array([8.0]), old, np.array([[4.0]]))
    close(out, [7.0], "the output")
    shaped(keys, (2, 4), "the keys")
    close(values, [[4.0], [8.0]], "the values")


@pytest.mark.question("q6")
@pytest.mark.points(1)
@pytest.mark.hint(
    "100 draws of a token that should have 1/2: the error is 1/20. What if 60 show it?",
    "np.mean(draws == token), minus expected, divided by the error.",
)
def test_sixty_of_a_hundred(student):
    """A token that 60 of 100 draws show, and one that 40 show."""
    draws = np.repeat([7, 3], [60, 40])
    close(student.errors_away(draws, 7, 0.5), 2.0, "the distance of token 7")
    close(student.errors_away(draws, 3, 0.5), -2.0, "the distance of token 3")
