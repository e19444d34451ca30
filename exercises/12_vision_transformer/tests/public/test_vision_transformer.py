"""What the instant check runs."""

import numpy as np
import pytest

from attncourse.grading.compare import close


def counted(height, width, channels=1):
    """Return a picture whose numbers count its pixels."""
    return np.arange(height * width * channels, dtype=float).reshape(height, width, channels)


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Draw the 4 x 4 picture and cut it into four squares. Which four numbers are in the first?",
    "Reshape to (rows of patches, patch, columns of patches, patch, channels), then transpose.",
)
def test_four_squares(student):
    """A 4 x 4 picture in squares of 2."""
    wanted = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    close(student.patchify(counted(4, 4), 2), np.array(wanted, dtype=float), "the patches")


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint(
    "The channels of a pixel stay side by side.",
    "Channel is the last of the five axes and stays the last.",
)
def test_channels_stay_together(student):
    """A 2 x 4 picture with three channels."""
    image = counted(2, 4, 3)
    wanted = np.stack([image[:, :2].ravel(), image[:, 2:].ravel()])
    close(student.patchify(image, 2), wanted, "the patches")


@pytest.mark.question("q2")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Do the steps of question 1 backwards.",
    "Reshape to (rows, columns, patch, patch, channels), exchange axes 1 and 2, reshape.",
)
def test_squares_become_the_picture(student):
    """Squares of 2 become a 4 x 4 picture again."""
    patches = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    image = student.unpatchify(np.array(patches, dtype=float), 4, 4, 2)
    close(image, counted(4, 4), "the picture")


@pytest.mark.question("q3")
@pytest.mark.points(2)
@pytest.mark.hint(
    "Project the patches, put the class token in front, then add the positions to all rows.",
    "np.concatenate([class_token[None, :], patches @ weight]) + positions",
)
def test_one_patch_by_hand(student):
    """One patch and the class token by hand."""
    out = student.embed(
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]),
        np.array([7.0, 8.0, 9.0]),
        np.array([[0.1, 0.1, 0.1], [0.2, 0.3, 0.4]]),
    )
    close(out, [[7.1, 8.1, 9.1], [1.2, 2.3, 8.4]], "the tokens")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "How many patches stand in one row of a picture that is 6 wide, with patches of 2?",
    "1 + (row // patch) * (width // patch) + column // patch",
)
def test_token_of_some_pixels(student):
    """Pixels of a picture that is 6 wide."""
    came = [student.token_of_pixel(r, c, 6, 2) for r, c in ((0, 0), (1, 3), (2, 0), (3, 5))]
    close(came, [1, 2, 4, 6], "the tokens")


@pytest.mark.question("q4")
@pytest.mark.points(1)
@pytest.mark.hint(
    "Take the class token off first, then undo the counting along rows.",
    "divmod(token - 1, width // patch) gives row and column of the patch.",
)
def test_pixels_of_some_tokens(student):
    """Tokens of a picture that is 6 wide."""
    came = [student.pixels_of_token(token, 6, 2) for token in (1, 2, 4, 6)]
    close(came, [[0, 0], [0, 2], [2, 0], [2, 4]], "the pixels")
