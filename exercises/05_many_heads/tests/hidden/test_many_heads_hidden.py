"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Does every number land in the head and place where it belongs, for any sizes?")
def test_every_number_lands_where_it_belongs(student, rng):
    """Several sizes, number by number."""
    for seq_len, num_heads, head_dim in ((3, 4, 2), (4, 2, 5), (1, 3, 3), (6, 1, 2)):
        x = rng.normal(size=(seq_len, num_heads * head_dim))
        wanted = [
            [[x[t, h * head_dim + e] for e in range(head_dim)] for t in range(seq_len)]
            for h in range(num_heads)
        ]
        close(student.split_heads(x, num_heads), np.array(wanted), "the heads")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint("Joining must undo splitting for any sizes.")
def test_join_puts_heads_side_by_side(student, rng):
    """Several sizes, head beside head."""
    for shape in ((3, 4, 2), (2, 5, 5), (4, 1, 3)):
        heads = rng.normal(size=shape)
        close(student.join_heads(heads), np.concatenate(list(heads), axis=1), "the vectors")


def one_head(q, k, v):
    """Return attention, query by query."""
    rows = []
    for query in q:
        scores = k @ query / len(query) ** 0.5
        powers = np.exp(scores - scores.max())
        rows.append(powers @ v / powers.sum())
    return np.array(rows)


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint("Is it right for several heads, large scores, and any number of tokens?")
def test_several_heads(student, rng):
    """Several heads and sizes."""
    for seq_len, num_heads, head_dim in ((4, 3, 2), (7, 2, 4), (1, 4, 1)):
        width = num_heads * head_dim
        x = 4.0 * rng.normal(size=(seq_len, width))
        w_q, w_k, w_v, w_o = rng.normal(size=(4, width, width))
        own = [slice(h * head_dim, (h + 1) * head_dim) for h in range(num_heads)]
        pieces = [one_head((x @ w_q)[:, s], (x @ w_k)[:, s], (x @ w_v)[:, s]) for s in own]
        wanted = np.concatenate(pieces, axis=1) @ w_o
        came = student.multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads)
        close(came, wanted, "the output")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("The sum of all contributions must be the layer's output.")
def test_contributions_of_each_head(student, rng):
    """Each head alone, and their sum."""
    heads, w_o = rng.normal(size=(3, 5, 4)), rng.normal(size=(12, 7))
    came = student.head_contributions(heads, w_o)
    wanted = [heads[h] @ w_o[4 * h : 4 * h + 4] for h in range(3)]
    close(came, np.array(wanted), "the contributions")
    total = np.concatenate(list(heads), axis=1) @ w_o
    close(np.asarray(came).sum(axis=0), total, "their sum")
