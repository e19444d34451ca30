"""Turn a picture into the numbers that a vision transformer was trained on.

The one idea: weights expect pixels of one size, centred and scaled as in their training. The file
``preprocessor_config.json`` beside the weights says how (`attncourse.pretrained.picture_settings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from attncourse.pretrained.picture_settings import read_settings

SCALE = 1 / 255


@dataclass(frozen=True)
class PictureReader:
    """What takes a tokenizer's place where the input is a picture.

    Parameters
    ----------
    image_size : int
        Side of the picture that the model reads.
    resize_to : int or pair of int, optional
        Height and width to which pictures are brought first, or a number for the shorter side;
        `image_size` by default.
    crop_to : pair of int, optional
        Height and width of the middle that is cut out then; the whole picture by default. Where it
        is larger than the picture, black comes around it.
    scale : float, default 1 / 255
        What pixels, 0 to 255, are multiplied with.
    mean, std : sequence of float, one for each colour
        Of the scaled pixels: subtracted, and divided by.
    filter : {"bilinear", "bicubic"}
        How pixels are computed at another size.
    resize : bool, default True
        Whether pictures are brought to another size at all.
    convert : bool, default False
        Turn pictures of Pillow into RGB, whatever they are.
    """

    image_size: int
    resize_to: int | tuple[int, int] | None = None
    crop_to: tuple[int, int] | None = None
    scale: float = SCALE
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    filter: str = "bilinear"
    resize: bool = True
    convert: bool = False

    @classmethod
    def from_folder(cls, folder: Path, image_size: int, channels: int = 3) -> PictureReader:
        """Read ``preprocessor_config.json``, or take ViT's usual values where there is none.

        Parameters
        ----------
        folder : Path
            Where it may lie.
        image_size, channels : int
            Of the pictures that the model reads.

        Raises
        ------
        NotImplementedError
            For a setting that asks for what is not known here; it is named.
        ValueError
            When a setting is of another kind, or pictures would not fit the model.
        """
        made = cls(image_size, **read_settings(folder, image_size, channels))
        whole = made.crop_to or (made.resize_to if made.resize else None)
        if isinstance(whole, tuple) and whole != (image_size, image_size):
            raise ValueError(
                f"preprocessor_config.json makes pictures of {whole[0]} × {whole[1]} pixels, "
                f"the model reads {image_size} × {image_size}"
            )
        return made

    def encode(self, picture: Any) -> Tensor:
        """Turn a picture into what the model reads.

        Parameters
        ----------
        picture : array of uint8, shape (height, width, colours), or a picture of Pillow
            As `skimage.data.chelsea()` returns it. A camera's note on how it was held counts.

        Returns
        -------
        Tensor, shape (1, colours, image_size, image_size)

        Raises
        ------
        ValueError
            When it is no such picture, or its size is not the model's and nothing changes it.
        """
        x = torch.from_numpy(self._pixels(picture).copy()).permute(2, 0, 1)[None]  # (1, C, h, w)
        if self.resize:
            # Pillow and transformers compute with whole grey levels, so this does too
            x = interpolate(x, self._resized(*x.shape[2:]), mode=self.filter, antialias=True)
        if self.crop_to is not None:
            x = _middle(x, *self.crop_to)
        if x.shape[2:] != (self.image_size, self.image_size):
            raise ValueError(
                f"the picture has {x.shape[2]} × {x.shape[3]} pixels after its settings, "
                f"the model reads {self.image_size} × {self.image_size}"
            )
        mean, std = (torch.tensor(list(v))[:, None, None] for v in (self.mean, self.std))
        return (x * self.scale - mean) / std

    def _pixels(self, picture: Any) -> np.ndarray:
        """Check a picture and return it as an array."""
        if hasattr(picture, "getexif"):  # one of Pillow's
            from PIL import ImageOps

            picture = ImageOps.exif_transpose(picture)
            picture = picture.convert("RGB") if self.convert else picture
        pixels, wanted = np.asarray(picture), len(self.mean)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != wanted:
            mode = f" (mode {picture.mode})" if hasattr(picture, "mode") else ""
            raise ValueError(
                f"picture must be uint8 of shape (height, width, {wanted}), got {pixels.dtype} of "
                f"shape {pixels.shape}{mode}; grey, RGBA and CMYK pictures of Pillow become that "
                'by .convert("RGB"), other numbers by scaling them to 0 … 255 first'
            )
        if not pixels.size:
            raise ValueError(f"picture must have pixels, got none: shape {pixels.shape}")
        return pixels

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after resizing."""
        wanted = self.image_size if self.resize_to is None else self.resize_to
        if isinstance(wanted, tuple):
            return wanted
        if self.resize_to is None:
            return wanted, wanted
        longer = int(wanted * max(height, width) / min(height, width))
        return (wanted, longer) if height <= width else (longer, wanted)


def _middle(x: Tensor, height: int, width: int) -> Tensor:
    """Cut the middle out of pictures (1, C, h, w); black comes around smaller ones."""
    for axis, wanted in ((2, height), (3, width)):
        missing = max(0, wanted - x.shape[axis])
        room = [0, 0] * (3 - axis) + [(missing + 1) // 2, missing // 2]
        x = pad(x, room)
        x = x.narrow(axis, (x.shape[axis] - wanted) // 2, wanted)
    return x
