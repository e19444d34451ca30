"""What a learner sees."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Which axis runs along a row?", "axis=1 runs along a row; divide by its length.")
def test_two_rows(student):
    """Two rows give two averages."""
    came = student.row_average(np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]))
    close(came, [3.0, 1.0], "the averages")
