"""What runs when an answer is graded."""

import numpy as np
import pytest

from attncourse.grading.compare import close, unchanged


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Pictures need not be square, and patches of 1 or of everything are patches too.")
def test_pictures_that_are_not_square(student, rng):
    """Several shapes, patch by patch."""
    for height, width, channels, patch in ((6, 4, 2, 2), (3, 9, 1, 3), (4, 4, 3, 4), (2, 3, 2, 1)):
        image = rng.normal(size=(height, width, channels))
        wanted = [
            image[r : r + patch, c : c + patch].ravel()
            for r in range(0, height, patch)
            for c in range(0, width, patch)
        ]
        close(student.patchify(image, patch), np.array(wanted), "the patches")


@pytest.mark.question("q2")
@pytest.mark.points(2)
@pytest.mark.hint("Are height and width told apart, and are several channels put back?")
def test_back_to_pictures_of_any_shape(student, rng):
    """Several shapes, pasted patch by patch."""
    for height, width, channels, patch in ((6, 4, 2, 2), (3, 9, 1, 3), (4, 12, 3, 4)):
        image, rows = rng.normal(size=(height, width, channels)), []
        for r in range(0, height, patch):
            rows += [image[r : r + patch, c : c + patch].ravel() for c in range(0, width, patch)]
        close(student.unpatchify(np.array(rows), height, width, patch), image, "the picture")


@pytest.mark.question("q3")
@pytest.mark.points(1.5)
@pytest.mark.hint("Which row of the positions belongs to the class token?")
def test_every_token_has_its_position(student, rng):
    """Row by row."""
    patches, weight = rng.normal(size=(6, 12)), rng.normal(size=(12, 5))
    class_token, positions = rng.normal(size=5), rng.normal(size=(7, 5))
    came = student.embed(patches, weight, class_token, positions)
    wanted = [class_token + positions[0]]
    wanted += [patch @ weight + place for patch, place in zip(patches, positions[1:], strict=True)]
    close(came, np.array(wanted), "the tokens")


@pytest.mark.question("q4")
@pytest.mark.points(2)
@pytest.mark.hint("Both ways must agree on every pixel, in pictures that are not square.")
def test_both_ways_on_every_pixel(student):
    """Every patch of a picture of 6 x 15."""
    height, width, patch, token = 6, 15, 3, 0
    for top in range(0, height, patch):
        for left in range(0, width, patch):
            token += 1
            close(student.pixels_of_token(token, width, patch), [top, left], "the pixel")
            for row, column in ((top, left), (top + 2, left + 1)):
                close(student.token_of_pixel(row, column, width, patch), token, "the token")


@pytest.mark.question("q3")
@pytest.mark.points(0.5)
@pytest.mark.hint(
    "Do you write into an array that you were given? Whoever calls you needs it again."
)
def test_weights_and_positions_stay_as_they_are(student, rng):
    """Patches, weight, class token and positions stay as they are."""
    patches, weight, token = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=2)
    positions = rng.normal(size=(4, 2))
    out, changes = student.changed("embed", patches, weight, token, positions)
    close(out, np.vstack([token, patches @ weight]) + positions, "the tokens")
    unchanged(changes)
