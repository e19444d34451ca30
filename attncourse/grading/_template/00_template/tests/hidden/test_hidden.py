"""What runs when it is graded."""

import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Are rows of any length averaged?")
def test_any_shape(student, rng):
    """Any shape."""
    matrix = rng.normal(size=(5, 7))
    close(student.row_average(matrix), matrix.mean(axis=1), "the averages")
