"""Read ``preprocessor_config.json``: each setting is honoured, harmless, or refused by name.

The one idea: a setting that nobody reads gives other pixels without a word. So the list of settings
is closed. Left out: what is done with a picture (`attncourse.pretrained.pictures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from attncourse.pretrained.files import read_json

FILTERS = {2: "bilinear", 3: "bicubic"}  # the numbers by which Pillow calls them
KINDS = ("ViTImageProcessor", "ViTFeatureExtractor", "DeiTImageProcessor", "DeiTFeatureExtractor")
HONOURED: tuple[str, ...] = (
    "image_processor_type",
    "feature_extractor_type",
    "do_resize",
    "size",
    "resample",
)
HONOURED += ("default_to_square", "do_center_crop", "crop_size", "do_rescale", "rescale_factor")
HONOURED += ("do_normalize", "image_mean", "image_std", "do_convert_rgb")
HARMLESS = {
    "which tensors come back, and where": ("data_format", "return_tensors", "device"),
    "who wrote the file, and for which program": (
        *("processor_class", "_processor_class", "_valid_processor_keys", "transformers_version"),
        *("model_input_names", "disable_grouping"),
    ),
}
ONLY = {"do_pad": False, "do_reduce_labels": False, "do_flip_channel_order": False}
ONLY |= {"do_thumbnail": False, "do_align_long_axis": False, "antialias": True}


def read_settings(folder: Path, image_size: int, channels: int) -> dict[str, Any]:
    """Read how pictures are prepared, or take ViT's usual values where no file says it.

    Parameters
    ----------
    folder : Path
        Where ``preprocessor_config.json`` may lie.
    image_size, channels : int
        Of the pictures that the model reads.

    Returns
    -------
    dict
        The arguments of `attncourse.pretrained.pictures.PictureReader` but the first.

    Raises
    ------
    NotImplementedError
        For a setting that asks for what is not known here; it is named.
    ValueError
        When a setting is of another kind.
    """
    path = folder / "preprocessor_config.json"
    said = read_json(path) if path.exists() else {}
    said = {name: value for name, value in said.items() if value is not None}
    _refuse_unknown(said)
    deit = _kind(said).startswith("DeiT")
    number = said.get("resample", 3 if deit else 2)
    if isinstance(number, bool) or not isinstance(number, int) or number not in FILTERS:
        raise NotImplementedError(f"{path} resamples with number {number!r}; known: {FILTERS}")
    square = _flag(said, "default_to_square", True)
    rescaled = _flag(said, "do_rescale", True)
    normalised = _flag(said, "do_normalize", True)
    factor = _number("rescale_factor", said.get("rescale_factor", 1 / 255))
    cropped = _flag(said, "do_center_crop", deit)
    return {
        "resize": _flag(said, "do_resize", True),
        "resize_to": _size("size", said.get("size", 256 if deit else image_size), square),
        "crop_to": _pair("crop_size", said.get("crop_size", image_size)) if cropped else None,
        "scale": factor if rescaled else 1.0,
        "mean": _colours("image_mean", said, channels) if normalised else (0.0,) * channels,
        "std": _colours("image_std", said, channels) if normalised else (1.0,) * channels,
        "filter": FILTERS[number],
        "convert": _flag(said, "do_convert_rgb", False),
    }


def _refuse_unknown(said: Mapping[str, Any]) -> None:
    """Refuse settings that are neither honoured nor harmless."""
    harmless = {name for names in HARMLESS.values() for name in names}
    for name, value in said.items():
        if (name in ONLY and value == ONLY[name]) or name in harmless or name in HONOURED:
            continue
        wanted = f"only {ONLY[name]!r} is known here" if name in ONLY else "nothing is known of it"
        raise NotImplementedError(
            f"preprocessor_config.json says {name} = {str(value)[:60]!r}; {wanted}"
        )


def _kind(said: Mapping[str, Any]) -> str:
    """Return the class of transformers that the file was written for."""
    kind = said.get("image_processor_type", said.get("feature_extractor_type", KINDS[0]))
    if str(kind).removesuffix("Fast") not in KINDS:
        raise NotImplementedError(
            f"preprocessor_config.json is for a {kind!r}; known here are {KINDS}"
        )
    return kind


def _flag(said: Mapping[str, Any], name: str, usual: bool) -> bool:
    value = said.get(name, usual)
    if not isinstance(value, bool):
        raise ValueError(
            f"preprocessor_config.json must give {name} as true or false, got {value!r}"
        )
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"preprocessor_config.json must give {name} as a number, got {value!r}")
    return float(value)


def _colours(name: str, said: Mapping[str, Any], channels: int) -> tuple[float, ...]:
    """Return a number for each colour."""
    value = said.get(name, 0.5)
    values = [_number(name, v) for v in (value if isinstance(value, list) else [value] * channels)]
    if len(values) != channels or (name == "image_std" and 0 in values):
        what = "other than 0, " if name == "image_std" else ""
        raise ValueError(
            f"preprocessor_config.json must give {name} as {channels} numbers, {what}got {value!r}"
        )
    return tuple(values)


def _size(name: str, size: Any, square: bool = True) -> int | tuple[int, int]:
    """Read a size: a number, two of them, or one of two kinds of table."""
    if isinstance(size, Mapping) and set(size) == {"shortest_edge"}:
        return _side(name, size["shortest_edge"])
    if isinstance(size, Mapping) and set(size) == {"height", "width"}:
        return _side(name, size["height"]), _side(name, size["width"])
    if isinstance(size, list) and len(size) == 2:
        return _side(name, size[0]), _side(name, size[1])
    if isinstance(size, Mapping | list):
        raise NotImplementedError(
            f"preprocessor_config.json says {name} = {size!r}; known are a number, height and "
            "width, or shortest_edge"
        )
    side = _side(name, size)
    return (side, side) if square else side


def _pair(name: str, size: Any) -> tuple[int, int]:
    """Read a height and a width."""
    found = _size(name, size)
    if isinstance(found, int):
        raise NotImplementedError(
            f"preprocessor_config.json says {name} = {size!r}; height and width are needed"
        )
    return found


def _side(name: str, side: Any) -> int:
    if isinstance(side, bool) or not isinstance(side, int) or side < 1:
        raise ValueError(f"preprocessor_config.json must give {name} in pixels, got {side!r}")
    return side
