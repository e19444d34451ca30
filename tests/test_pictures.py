"""Pictures from installed packages: where they come from, and how they are shifted."""

import pytest

torch = pytest.importorskip("torch")

from attncourse import pictures  # noqa: E402


def test_the_cat_is_a_piece_of_the_photograph():
    data = pytest.importorskip("skimage.data")
    whole = torch.from_numpy(data.chelsea().copy())
    piece = pictures.cat(32, top=40, left=50)
    assert piece.shape == (3, 32, 32)
    expected = whole[40:72, 50:82].permute(2, 0, 1) / 255
    torch.testing.assert_close(piece, expected)
    assert pictures.cat().shape == (3, 224, 224)


def test_a_piece_outside_is_refused():
    pytest.importorskip("skimage")
    with pytest.raises(ValueError, match="300 high and 451 wide; a piece of 224 pixels at"):
        pictures.cat(top=100)
    with pytest.raises(ValueError, match=r"at \(-1, 0\) leaves it"):
        pictures.cat(8, top=-1, left=0)


def test_digits_are_split_once_and_lie_between_paper_and_ink():
    pytest.importorskip("sklearn")
    made = pictures.digits()
    assert made.pictures.shape == (1437, 1, 8, 8)
    assert made.held_out_pictures.shape == (360, 1, 8, 8)
    assert made.pictures.min() == -1
    assert made.pictures.max() == 1
    counts = made.held_out_target.bincount()
    assert counts.min() >= 34
    other = pictures.digits(seed=1)
    assert not other.held_out_target.equal(made.held_out_target)
    assert pictures.digits().pictures.equal(made.pictures)


@pytest.mark.parametrize("down", [-1, 0, 2])
@pytest.mark.parametrize("right", [-2, 0, 1])
def test_shifting_moves_pixels_and_lets_paper_in(down, right):
    generator = torch.Generator().manual_seed(0)
    picture = torch.rand(2, 1, 8, 6, generator=generator)
    moved = pictures.shifted(picture, down, right)
    assert moved.shape == picture.shape
    for row in range(8):
        for column in range(6):
            i, j = row - down, column - right
            there = 0 <= i < 8 and 0 <= j < 6
            expected = picture[:, :, i, j] if there else torch.full((2, 1), -1.0)
            torch.testing.assert_close(moved[:, :, row, column], expected)


def test_a_batch_is_made_of_training_pictures():
    pytest.importorskip("sklearn")
    made = pictures.digits()
    some, target = made.batch(40, torch.Generator().manual_seed(0))
    distance, rows = torch.cdist(some.flatten(1), made.pictures.flatten(1)).min(dim=1)
    assert distance.max() < 1e-3
    assert made.target[rows].equal(target)
    assert len(rows.unique()) > 30
