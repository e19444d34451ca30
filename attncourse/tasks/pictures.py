"""Pictures that need no download: a cat from scikit-image, and scikit-learn's digits.

The one idea: both packages carry small data sets inside, so a chapter about pictures runs with the
network off. Left out: everything larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Digits", "cat", "digits", "shifted"]


def _missing(package: str, name: str) -> ImportError:
    return ImportError(
        f"{name} come with {package}, which is not installed; "
        "get it with: python -m pip install 'attncourse[course]'"
    )


def cat(side: int = 224, *, left: int = 70) -> Tensor:
    """Return the head of the cat Chelsea, from scikit-image's photograph.

    Parameters
    ----------
    side : int, default 224
        Pixels along one side of the result.
    left : int, default 70
        First column of the photograph, which is 300 pixels high and 451 wide. The piece is as
        wide as it is high, and then resized.

    Returns
    -------
    Tensor of float32, shape (3, side, side)
        Red, green and blue, from 0 to 1.

    Raises
    ------
    ValueError
        If the piece leaves the photograph.
    """
    try:
        from skimage import data
    except ImportError as error:
        raise _missing("scikit-image", "photographs") from error
    photograph = torch.from_numpy(data.chelsea().copy()).permute(2, 0, 1)  # (3, 300, 451)
    height, width = photograph.shape[1:]
    if side < 1 or not 0 <= left <= width - height:
        raise ValueError(
            f"side must be at least 1 and left lie in 0 … {width - height}, got {side} and {left}"
        )
    piece = photograph[None, :, :, left : left + height] / 255
    resized = torch.nn.functional.interpolate(
        piece, (side, side), mode="bilinear", antialias=True, align_corners=False
    )
    return resized[0].clamp(0, 1)


@dataclass(frozen=True)
class Digits:
    """Handwritten digits of 8 x 8 pixels, in a part for training and a part held out.

    Attributes
    ----------
    pictures, held_out_pictures : Tensor of float32, shapes (n, 1, 8, 8), (m, 1, 8, 8)
        From -1, paper, to 1, ink.
    target, held_out_target : Tensor of int64, shapes (n,), (m,)
        Which digit it is.
    """

    pictures: Tensor
    target: Tensor
    held_out_pictures: Tensor
    held_out_target: Tensor

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw pictures for training, in the form that `attncourse.train.fit` wants."""
        rows = torch.randint(len(self.target), (size,), generator=generator)
        return self.pictures[rows], self.target[rows]


def shifted(pictures: Tensor, down: int, right: int) -> Tensor:
    """Move pictures by whole pixels; paper (-1) comes in where they left.

    Parameters
    ----------
    pictures : Tensor, shape (..., height, width)
        From -1, paper, to 1, ink.
    down, right : int
        How far; negative is up and left.

    Returns
    -------
    Tensor, of the same shape
    """
    height, width = pictures.shape[-2:]
    room = [max(right, 0), max(-right, 0), max(down, 0), max(-down, 0)]
    padded = torch.nn.functional.pad(pictures, room, value=-1.0)
    top, left = max(-down, 0), max(-right, 0)
    return padded[..., top : top + height, left : left + width]


def digits(*, seed: int = 0) -> Digits:
    """Load the 1,797 digits of scikit-learn; one in five of each kind is held out.

    Parameters
    ----------
    seed : int, default 0
        Decides which are held out.

    Returns
    -------
    Digits

    Notes
    -----
    The held-out digits come from the same 43 people as the others, so an accuracy on them says
    little about a new hand.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise _missing("scikit-learn", "digits") from error
    data = load_digits()
    parts = train_test_split(
        data.images / 8 - 1, data.target, test_size=0.2, random_state=seed, stratify=data.target
    )
    pictures, held_out, target, held_out_target = (torch.from_numpy(part) for part in parts)
    return Digits(
        pictures.float().unsqueeze(1), target, held_out.float().unsqueeze(1), held_out_target
    )
