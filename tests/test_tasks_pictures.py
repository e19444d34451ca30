"""Pictures from installed packages: where they come from, and how they are shifted."""

import pytest

torch = pytest.importorskip("torch")

from attncourse.tasks import pictures  # noqa: E402


def test_the_cat_is_a_piece_of_the_photograph():
    data = pytest.importorskip("skimage.data")
    whole = torch.from_numpy(data.chelsea().copy()).permute(2, 0, 1) / 255
    torch.testing.assert_close(pictures.cat(300, left=50), whole[:, :, 50:350])
    small = pictures.cat(30)
    means = whole[:, :, 70:370].unflatten(2, (30, 10)).unflatten(1, (30, 10)).mean((2, 4))
    assert small.shape == (3, 30, 30)
    assert (small - means).abs().mean() < 0.02
    assert pictures.cat().shape == (3, 224, 224)


@pytest.mark.parametrize(("side", "left"), [(224, 152), (224, -1), (0, 70)])
def test_a_piece_outside_is_refused(side, left):
    pytest.importorskip("skimage")
    with pytest.raises(ValueError, match=rf"left lie in 0 … 151, got {side} and {left}"):
        pictures.cat(side, left=left)


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
