"""Turn a picture into the numbers that a vision transformer was trained on.

The one idea: weights expect pixels of one size, centred and scaled as in their training. The file
``preprocessor_config.json`` beside the weights says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from attncourse.pretrained.files import read_json

FILTERS = {2: "bilinear", 3: "bicubic"}  # the numbers by which Pillow calls them


@dataclass(frozen=True)
class PictureReader:
    """What takes a tokenizer's place where the input is a picture.

    Parameters
    ----------
    image_size : int
        Side of the picture that the model reads.
    resize_to : int, optional
        Side to which pictures are brought first, before the middle is cut out; `image_size` by
        default.
    mean, std : sequence of float, one for each colour
        Of the pixels, which lie between 0 and 1.
    filter : {"bilinear", "bicubic"}
        How pixels are computed at another size.
    """

    image_size: int
    resize_to: int | None = None
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    filter: str = "bilinear"

    @classmethod
    def from_folder(cls, folder: Path, image_size: int) -> PictureReader:
        """Read ``preprocessor_config.json``, or take ViT's usual values where there is none."""
        path = folder / "preprocessor_config.json"
        settings = read_json(path) if path.exists() else {}
        number = settings.get("resample", 2)
        if not isinstance(number, int) or number not in FILTERS:
            raise NotImplementedError(f"{path} resamples with number {number}; known: {FILTERS}")
        return cls(
            image_size,
            _side(settings.get("size")) if settings.get("do_center_crop") else None,
            tuple(settings.get("image_mean") or cls.mean),
            tuple(settings.get("image_std") or cls.std),
            FILTERS[number],
        )

    def encode(self, picture: Any) -> Tensor:
        """Turn a picture into what the model reads.

        Parameters
        ----------
        picture : array of uint8, shape (height, width, colours)
            As `skimage.data.chelsea()` returns it; squeezed to a square if it is none.

        Returns
        -------
        Tensor, shape (1, colours, image_size, image_size)
        """
        pixels = np.asarray(picture)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != len(self.mean):
            raise ValueError(
                f"picture must be uint8 of shape (height, width, {len(self.mean)}), "
                f"got {pixels.dtype} of shape {pixels.shape}"
            )
        x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255  # (1, C, height, width)
        side = self.resize_to or self.image_size
        x = interpolate(x, (side, side), mode=self.filter, antialias=True).clamp(0, 1)
        first = (side - self.image_size) // 2
        middle = slice(first, first + self.image_size)
        mean, std = (torch.tensor(list(v))[:, None, None] for v in (self.mean, self.std))
        return (x[..., middle, middle] - mean) / std


def _side(size: Any) -> int | None:
    """Read a size that is written as a number or as one of two kinds of mapping."""
    if isinstance(size, Mapping):
        size = size.get("height") or size.get("shortest_edge")
    return size
