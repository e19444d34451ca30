"""Small networks for small pictures: windows that look, and windows that do not.

The one idea: one frame, in which the layer that mixes neighbouring pixels is exchanged: pairwise
attention, patchwise attention, or a convolution. So a difference comes from that layer.
Beside it a plain convolutional network, for the comparison with a vision transformer.
"""

from __future__ import annotations

from torch import Tensor, nn

from attncourse.variants.image import PairwiseAttention, PatchwiseAttention

__all__ = ["KINDS", "ConvNet", "WindowBlock", "WindowNet"]

INNER = {"pairwise": 36, "patchwise": 20, "convolution": 10}
KINDS = tuple(INNER)


class WindowBlock(nn.Module):
    """Normalise, mix neighbouring pixels, map back, and add what came in.

    Parameters
    ----------
    mix : nn.Module
        Turns C channels into `inner` channels.
    channels, inner : int
        C, and what `mix` makes of it.

    Notes
    -----
    **Source:** Zhao et al. 2020, figure 2 (arXiv:2004.13621).
    """

    def __init__(self, mix: nn.Module, channels: int, inner: int) -> None:
        super().__init__()
        self.before, self.after = nn.BatchNorm2d(channels), nn.BatchNorm2d(inner)
        self.mix = mix
        self.out = nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Turn pictures (B, C, height, width) into others of the same shape."""
        inner = self.mix(self.before(x).relu())
        return x + self.out(self.after(inner).relu())


class WindowNet(nn.Module):
    """Classify pictures of 8 x 8 pixels with two blocks and a halving between them.

    Parameters
    ----------
    kind : {"pairwise", "patchwise", "convolution"}
        The layer that mixes neighbours, in windows of 3 x 3.
    channels : int, default 24
        C between the blocks.
    inner : int, optional
        Channels inside a block. By default such that all three kinds have about the same number of
        parameters.
    num_classes : int, default 10
        Scores that come out.
    """

    def __init__(
        self, kind: str, channels: int = 24, inner: int | None = None, num_classes: int = 10
    ) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
        inner = INNER[kind] if inner is None else inner
        self.embed = nn.Conv2d(1, channels, 1)
        self.blocks = nn.Sequential(
            WindowBlock(_mixer(kind, channels, inner), channels, inner),
            nn.MaxPool2d(2),
            WindowBlock(_mixer(kind, channels, inner), channels, inner),
            nn.MaxPool2d(2),
        )
        self.answer = nn.Linear(4 * channels, num_classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn pictures (B, 1, 8, 8) into scores (B, num_classes)."""
        _check(pictures)
        return self.answer(self.blocks(self.embed(pictures)).flatten(1))


def _check(pictures: Tensor) -> None:
    """Both halvings are counted on: another size would be cut off in silence."""
    if pictures.ndim != 4 or pictures.shape[1:] != (1, 8, 8):
        raise ValueError(f"pictures must have shape (B, 1, 8, 8), got {tuple(pictures.shape)}")


def _mixer(kind: str, channels: int, inner: int) -> nn.Module:
    """Make the layer in which the kinds differ."""
    if kind == "pairwise":
        return PairwiseAttention(channels, values=inner, share=4)
    if kind == "patchwise":
        return PatchwiseAttention(channels, values=inner, share=4)
    return nn.Conv2d(channels, inner, 3, padding=1)


class ConvNet(nn.Sequential):
    """Classify pictures of 8 x 8 pixels with two convolutions, each followed by a halving.

    Parameters
    ----------
    channels : int, default 64
        Width of both layers; the default has about the parameters of a default `ViT`.
    num_classes : int, default 10
        Scores that come out.
    """

    def __init__(self, channels: int = 64, num_classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * channels, num_classes),
        )

    def forward(self, input: Tensor) -> Tensor:
        """Turn pictures (B, 1, 8, 8) into scores (B, num_classes)."""
        _check(input)
        return super().forward(input)
