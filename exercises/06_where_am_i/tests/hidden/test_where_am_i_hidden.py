"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Turning keeps lengths and adds angles. Does every row get its own angle?")
def test_random_turns(student, rng):
    """Random pairs and angles, as complex numbers; the pairs stay as they are."""
    x, angle = rng.normal(size=(7, 2)), rng.uniform(-9, 9, size=7)
    turned = (x[:, 0] + 1j * x[:, 1]) * np.exp(1j * angle)
    out, changes = student.changed("rotate", x, angle)
    close(out, np.stack([turned.real, turned.imag], axis=1), "the turned pairs")
    unchanged(changes)


def speeds(width, base):
    """Return how far each pair turns with one position."""
    return np.array([base ** (-2 * pair / width) for pair in range(width // 2)])


def turned(x, positions, base):
    """Return turned vectors, by complex numbers."""
    half = x.shape[1] // 2
    points = x[:, :half] + 1j * x[:, half:]
    points = points * np.exp(1j * np.outer(positions, speeds(x.shape[1], base)))
    return np.concatenate([points.real, points.imag], axis=1)


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint("Do positions need to begin at 0, or to be neighbours?")
def test_any_positions(student, rng):
    """Several widths and bases, positions in any order."""
    positions = np.array([9, 2, 0, 100])
    for width, base in ((2, 10_000.0), (8, 10_000.0), (6, 500_000.0)):
        wanted = np.outer(positions, speeds(width, base))
        close(student.angles(positions, width, base), wanted, "the angles")


@pytest.mark.question("q3")
@pytest.mark.points(1)
@pytest.mark.hint("Is every pair turned by its own angle?")
def test_random_vectors(student, rng):
    """Random vectors at random positions, which stay as they are."""
    x, positions = rng.normal(size=(5, 8)), rng.integers(0, 50, size=5)
    out, changes = student.changed("rotary", x, positions, 10_000.0)
    close(out, turned(x, positions, 10_000.0), "the turned vectors")
    unchanged(changes)


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint("Do the scores of turned queries and keys depend on their distance alone?")
def test_scores_know_distances_only(student, rng):
    """All tokens moved on by 1,000 positions."""
    query, key = rng.normal(size=(2, 6, 4))
    places = np.arange(6)
    wanted = turned(query, places, 100.0) @ turned(key, places, 100.0).T
    for start in (0, 1000):
        one = np.asarray(student.rotary(query, places + start, 100.0))
        two = np.asarray(student.rotary(key, places + start, 100.0))
        close(one @ two.T, wanted, f"the scores from position {start} on", tolerance=1e-8)
    close(student.rotary(query, places, 100.0), turned(query, places, 100.0), "the queries")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("Are the scores those of the last row, for one key and for many?")
def test_every_step_is_the_last_row(student, rng):
    """Every step of a text of nine tokens."""
    query, key = rng.normal(size=(2, 9, 6))
    places = np.arange(9)
    wanted = turned(query, places, 50.0) @ turned(key, places, 50.0).T
    for n in (1, 2, 5, 9):
        came = student.newest_scores(query[n - 1], key[:n], 50.0)
        close(came, wanted[n - 1, :n], f"the scores of step {n}")


@pytest.mark.question("q5")
@pytest.mark.points(2)
@pytest.mark.hint("Which slopes have eight heads, and which has one?")
def test_one_to_eight_heads(student):
    """One, four and eight heads."""
    for heads in (1, 4, 8):
        wanted = [
            [
                [-(i - j) * 2 ** (-8 * (h + 1) / heads) if j <= i else -np.inf for j in range(6)]
                for i in range(6)
            ]
            for h in range(heads)
        ]
        close(student.alibi(heads, 6), np.array(wanted), f"what {heads} heads add")


@pytest.mark.question("q6")
@pytest.mark.points(2)
@pytest.mark.hint("Is the order applied to the first output, and are negative differences seen?")
def test_layers_that_know_and_do_not(student, rng):
    """Orders that are not their own inverse, small and negative differences."""
    order = np.array([3, 0, 4, 1, 2])
    out = rng.normal(size=(5, 3))
    shuffled = out[order] + 1e-13
    close(student.order_matters(out, shuffled, order) < 1e-9, True, "that rounding is small")
    shuffled[3, 1] -= 0.25
    shuffled[1, 2] += 0.125
    close(student.order_matters(out, shuffled, order), 0.25, "the difference", tolerance=1e-8)
