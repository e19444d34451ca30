"""The frame whose mixing layer is exchanged: shapes, parameters, and that it learns."""

import pytest

torch = pytest.importorskip("torch")

from attncourse import train  # noqa: E402
from attncourse.models.small_pictures import KINDS, ConvNet, WindowNet  # noqa: E402
from attncourse.models.vit import ViT, ViTConfig  # noqa: E402
from attncourse.tasks import pictures  # noqa: E402


def zeros_and_ones(size, generator):
    made = pictures.digits()
    rows = (made.target < 2).nonzero()[:, 0]
    rows = rows[torch.randint(len(rows), (size,), generator=generator)]
    return made.pictures[rows], made.target[rows]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_learns(kind):
    pytest.importorskip("sklearn")
    train.set_seed(0)
    model = WindowNet(kind, num_classes=2)
    options = {"steps": 50, "lr": 3e-3, "seed": 0, "progress": False, "device": "cpu"}
    train.fit(model, lambda g: zeros_and_ones(32, g), **options)
    some, target = zeros_and_ones(200, torch.Generator().manual_seed(9))
    assert train.accuracy(model.eval()(some), target) > 0.95


def test_only_the_mixing_layer_differs():
    def rest(kind):
        states = WindowNet(kind, inner=12).state_dict().items()
        return {name: value.shape for name, value in states if ".mix." not in name}

    assert rest("pairwise") == rest("patchwise") == rest("convolution")


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_about_equally_large(kind):
    sizes = {k: sum(p.numel() for p in WindowNet(k).parameters()) for k in KINDS}
    assert sizes[kind] < 1.1 * min(sizes.values()), sizes


def test_the_convolutional_net_is_as_large_as_the_transformer():
    sizes = [sum(p.numel() for p in m.parameters()) for m in (ConvNet(), ViT(ViTConfig()))]
    assert max(sizes) < 1.05 * min(sizes), sizes
    assert ConvNet()(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"kind must be one of .*pairwise.* got 'dense'"):
        WindowNet("dense")


@pytest.mark.parametrize("shape", [(2, 1, 9, 9), (2, 3, 8, 8), (1, 8, 8)], ids=str)
def test_another_picture_is_refused(shape):
    for model in (WindowNet("convolution"), ConvNet()):
        with pytest.raises(ValueError, match=r"\(B, 1, 8, 8\), got"):
            model(torch.zeros(shape))
