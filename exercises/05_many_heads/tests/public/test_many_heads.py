"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Cut each token's row into pieces first; which axis of the reshaped array is the head?",
    "Reshape to (L, H, D / H), then exchange the first two axes.",
)
def test_three_tokens_two_heads(student):
    """Three tokens of width 4 in two heads."""
    x = np.array([[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0], [20.0, 21.0, 22.0, 23.0]])
    wanted = [[[0, 1], [10, 11], [20, 21]], [[2, 3], [12, 13], [22, 23]]]
    close(student.split_heads(x, 2), np.array(wanted, dtype=float), "the heads")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Do the steps of splitting backwards.",
    "Exchange the first two axes, then reshape to (L, H * E).",
)
def test_join_two_heads(student):
    """Two heads of two tokens."""
    heads = np.array([[[0.0, 1.0], [10.0, 11.0]], [[2.0, 3.0], [12.0, 13.0]]])
    wanted = [[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0]]
    close(student.join_heads(heads), wanted, "the joined vectors")


def softmax_of(scores):
    """Return softmax along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def layer(rng, seq_len, d_model):
    """Return random input and four random matrices."""
    return [rng.normal(size=(seq_len, d_model)), *rng.normal(size=(4, d_model, d_model))]


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint(
    "With one head nothing is split: it is plain self-attention, then w_o.",
    "softmax(q @ k.T / sqrt(D)) @ v @ w_o, with q = x @ w_q and so on.",
)
def test_one_head_is_plain_attention(student, rng):
    """One head is plain attention."""
    x, w_q, w_k, w_v, w_o = layer(rng, 3, 4)
    wanted = softmax_of(x @ w_q @ (x @ w_k).T / 2.0) @ (x @ w_v) @ w_o
    close(student.multi_head_attention(x, w_q, w_k, w_v, w_o, 1), wanted, "the output")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Each head has scores, softmax and scale of its own. How wide is a head?",
    "Scale with one over the root of D / H, softmax along the keys, join, then w_o.",
)
def test_two_heads_are_two_attentions(student, rng):
    """Two heads are two attentions side by side."""
    x, w_q, w_k, w_v, w_o = layer(rng, 5, 6)
    pieces = []
    for own in (slice(0, 3), slice(3, 6)):
        q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
        pieces.append(softmax_of(q @ k.T / np.sqrt(3)) @ v)
    wanted = np.concatenate(pieces, axis=1) @ w_o
    close(student.multi_head_attention(x, w_q, w_k, w_v, w_o, 2), wanted, "the output")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Head 0 meets the first E rows of w_o. Which rows does head 1 meet?",
    "Reshape w_o to (H, E, D) and multiply head by head.",
)
def test_two_heads_by_hand(student):
    """One token, two heads of width 2, by hand."""
    heads = np.array([[[1.0, 2.0]], [[10.0, 20.0]]])
    w_o = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    wanted = [[[1.0, 2.0]], [[30.0, 100.0]]]
    close(student.head_contributions(heads, w_o), wanted, "the contributions")
