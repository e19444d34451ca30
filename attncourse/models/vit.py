"""A vision transformer: a picture is cut into patches, and the patches are a sequence.

The one idea: nothing in an encoder knows about language. Cut, flatten and map each patch to a
token, add a vector for its place, and the encoder of the other chapters does the rest.
Left out: training tricks (augmentation, distillation losses).

**Source:** Dosovitskiy et al. 2021 (arXiv:2010.11929).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attncourse._validate import is_float, whole
from attncourse.layers import EncoderBlock, attention_weights, make_norm

__all__ = ["ViT", "ViTConfig", "patchify", "resize_positions"]

POOLS = ("class", "mean")


@dataclass(frozen=True)
class ViTConfig:
    """Sizes of a `ViT`.

    Attributes
    ----------
    image_size, patch_size : int
        Side of the picture and of a patch, in pixels; the first is a multiple of the second.
    channels : int, default 1
        Colours of a pixel.
    d_model, num_heads, d_ff, num_layers : int
        Width of the tokens, number of heads, width inside the feed-forward layers, blocks.
    num_classes : int, default 10
        Scores that come out.
    pool : {"class", "mean"}
        Where the answer is read: at the first class token, or at the mean of all patches.
    class_tokens : int, default 1
        Learned tokens before the patches: 1 in ViT, 2 in DeiT, 0 is possible with "mean".
    use_positions : bool, default True
        Without them, the picture is a bag of patches.
    eps : float, default 1e-6
        Of the normalisation.
    """

    image_size: int = 8
    patch_size: int = 2
    channels: int = 1
    d_model: int = 48
    num_heads: int = 4
    d_ff: int = 96
    num_layers: int = 2
    num_classes: int = 10
    pool: str = "class"
    class_tokens: int = 1
    use_positions: bool = True
    eps: float = 1e-6

    def __post_init__(self) -> None:
        least = {"image_size": 1, "patch_size": 1, "channels": 1, "class_tokens": 0}
        for name, smallest in least.items():
            if whole(name, getattr(self, name)) < smallest:
                came = getattr(self, name)
                raise ValueError(f"{name} must be at least {smallest}, got {came}")
        if self.image_size % self.patch_size:
            raise ValueError(
                f"image_size is {self.image_size}, patch_size {self.patch_size}; "
                f"{self.image_size} must be a multiple of {self.patch_size}"
            )
        if self.pool not in POOLS:
            raise ValueError(f"pool must be one of {POOLS}, got {self.pool!r}")
        if self.pool == "class" and self.class_tokens < 1:
            raise ValueError("pool 'class' reads a class token, but class_tokens is 0")

    @property
    def grid(self) -> int:
        """Patches along one side."""
        return self.image_size // self.patch_size


def patchify(pictures: Tensor, size: int) -> Tensor:
    """Cut pictures into square patches, row by row, and flatten each.

    Parameters
    ----------
    pictures : Tensor, shape (B, C, height, width)
        Height and width are multiples of `size`.
    size : int
        Side of a patch in pixels.

    Returns
    -------
    Tensor, shape (B, patches, C * size * size)
        Inside a patch: colour by colour, then row by row, the order of a convolution's kernel.

    Examples
    --------
    >>> patchify(torch.arange(16).view(1, 1, 4, 4), 2)[0, 1].tolist()
    [2, 3, 6, 7]
    """
    if whole("size", size) < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    if pictures.ndim != 4 or pictures.shape[2] % size or pictures.shape[3] % size:
        raise ValueError(
            f"pictures must have shape (B, C, height, width), both multiples of {size}, "
            f"got {tuple(pictures.shape)}"
        )
    cut = pictures.unfold(2, size, size).unfold(3, size, size)  # (B, C, rows, columns, p, p)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def resize_positions(positions: Tensor, grid: int, class_tokens: int = 1) -> Tensor:
    """Stretch the positions of a square grid of patches over a grid of another size.

    Parameters
    ----------
    positions : Tensor, shape (class_tokens + old * old, d_model)
        Learned positions; those of class tokens have no place and are kept.
    grid : int
        Patches along one side of the new grid.
    class_tokens : int, default 1
        How many rows come before the patches.

    Returns
    -------
    Tensor, shape (class_tokens + grid * grid, d_model)

    Notes
    -----
    **Source:** Dosovitskiy et al. 2021, section 3.2; bicubic, as in the published code.
    """
    kept, patches = positions[:class_tokens], positions[class_tokens:]
    old = round(len(patches) ** 0.5)
    if whole("grid", grid) < 1:
        raise ValueError(f"grid must be at least 1, got {grid}")
    if not len(patches) or old * old != len(patches):
        raise ValueError(f"{len(patches)} positions of patches form no square grid")
    plane = patches.T.reshape(1, -1, old, old)  # (1, d_model, old, old)
    plane = nn.functional.interpolate(plane, (grid, grid), mode="bicubic", align_corners=False)
    return torch.cat([kept, plane.flatten(2)[0].T])


class ViT(nn.Module):
    """Classify pictures with an encoder over their patches.

    Parameters
    ----------
    config : ViTConfig
        The sizes.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        width, patches = config.d_model, config.grid**2
        self.embed = nn.Linear(config.channels * config.patch_size**2, width)
        self.class_token = nn.Parameter(torch.zeros(config.class_tokens, width))
        self.position = nn.Parameter(
            torch.randn(config.class_tokens + patches, width) * 0.2,
            requires_grad=config.use_positions,
        )
        if not config.use_positions:
            self.position.data.zero_()
        self.blocks = nn.ModuleList(
            EncoderBlock(width, config.num_heads, config.d_ff, eps=config.eps)
            for _ in range(config.num_layers)
        )
        self.norm = make_norm("layer", width, config.eps)
        self.answer = nn.Linear(width, config.num_classes)

    def tokens(self, pictures: Tensor) -> Tensor:
        """Turn pictures (B, C, height, width) into the tokens that enter the first block."""
        self._check(pictures)
        patches = patchify(pictures, self.config.patch_size)
        patches = self.embed(patches)  # (B, n, d_model)
        first = self.class_token.expand(pictures.shape[0], -1, -1)
        return torch.cat([first, patches], dim=1) + self.position

    def _check(self, pictures: Tensor) -> None:
        """Refuse what is no picture of this model's size."""
        side = self.config.image_size
        if pictures.shape[1:] != (self.config.channels, side, side):
            raise ValueError(
                f"pictures must have shape (B, {self.config.channels}, {side}, {side}), "
                f"got {tuple(pictures.shape)}"
            )
        if not is_float(pictures):
            raise TypeError(f"pictures must hold floating-point numbers, got {pictures.dtype}")
        if not pictures.shape[0]:
            raise ValueError("pictures must hold at least one picture, got none")

    def hidden_states(self, pictures: Tensor) -> list[Tensor]:
        """Return the tokens before the first block and after each, (B, n, d_model)."""
        states = [self.tokens(pictures)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn pictures (B, C, height, width) into scores (B, num_classes)."""
        x = self.norm(self.hidden_states(pictures)[-1])  # (B, n, d_model)
        if self.config.pool == "mean":
            return self.answer(x[:, self.config.class_tokens :].mean(dim=1))
        return self.answer(x[:, 0])

    def attention_weights(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """Return the weights of every layer, each (B, H, n, n), class tokens first."""
        return attention_weights(self, pictures)

    def at_size(self, image_size: int) -> ViT:
        """Return a copy for pictures of another size: the same patches, more or fewer of them.

        All parameters are kept except the positions, which are stretched in two dimensions.
        """
        other = ViT(replace(self.config, image_size=image_size))
        state = self.state_dict()
        args = self.position.detach(), other.config.grid, self.config.class_tokens
        other.load_state_dict({**state, "position": resize_positions(*args)})
        return other.to(self.position).train(self.training)
