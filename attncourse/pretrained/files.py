"""Read weights from a folder or a file: safetensors and GGUF, never pickle.

The one idea: a file of weights is data from strangers. Both formats read here hold numbers and
text only; opening a pickle runs whatever code its writer put in, so such files are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".model_state")
INDEX = "model.safetensors.index.json"
# What torch.compile, FSDP and checkpointing put into names wherever they wrap a part of a model,
# and what data parallel training puts in front of all of them.
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
FRONT = "module."


@dataclass(frozen=True)
class Checkpoint:
    """What a file or folder of weights holds.

    Attributes
    ----------
    family : str
        The kind of model, as the file names it: "gpt2", "bert", "llama", …; with "gguf:" in front
        for a GGUF file.
    settings : mapping
        Sizes and style, under the file's own names.
    tensors : mapping of str to Tensor
        The weights, under the file's own names.
    vocabulary : mapping
        For a GGUF file, its tokenizer's settings; else empty.
    folder : Path
        Where it lies.
    """

    family: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    vocabulary: Mapping[str, Any]
    folder: Path


def read_folder(folder: Path) -> Checkpoint:
    """Read ``config.json`` and the safetensors files of a folder.

    Parameters
    ----------
    folder : Path
        As `transformers` and the hub lay it out.

    Returns
    -------
    Checkpoint

    Raises
    ------
    FileNotFoundError
        When there is no configuration, or no weights.
    ValueError
        When the weights are pickled only, or a file is damaged.
    """
    settings = read_json(folder / "config.json")
    family = settings.get("model_type")
    if not isinstance(family, str):
        raise ValueError(f"{folder / 'config.json'} names no model_type")
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        tensors |= read_safetensors(path)
    return Checkpoint(family, settings, unwrapped(tensors), {}, folder)


def weight_files(folder: Path) -> list[Path]:
    """Find the safetensors files of a folder: one, or those that its index lists.

    Raises
    ------
    FileNotFoundError
        When a file is not there.
    ValueError
        When there are pickles only, or the index names a file outside the folder.
    """
    if (folder / "model.safetensors").exists():
        return [folder / "model.safetensors"]
    if (folder / INDEX).exists():
        listed = read_json(folder / INDEX).get("weight_map")
        names = list(listed.values()) if isinstance(listed, dict) else []
        if not names or any(not isinstance(n, str) or Path(n).name != n for n in names):
            raise ValueError(
                f"{folder / INDEX} must list files of its own folder, got {str(listed)[:200]}"
            )
        return [folder / name for name in sorted(set(names))]
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise ValueError(_pickled(", ".join(pickles), folder))
    raise FileNotFoundError(f"{folder} holds neither model.safetensors nor {INDEX}")


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read one safetensors file.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    ValueError
        When it is cut short, damaged, or a pickle under another name.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_no_pickle(path)
    try:
        return load_file(path)
    except SafetensorError as problem:
        raise ValueError(damaged(path, problem)) from problem


def unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Take away what a wrapper around a model has put into the names of its tensors.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        Those of a file.

    Raises
    ------
    ValueError
        When two of them have one name then.

    Examples
    --------
    >>> list(unwrapped({"module._orig_mod.h.0.weight": Tensor(), "module.wte": Tensor()}))
    ['h.0.weight', 'wte']
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = name
        for wrapper in WRAPPERS:
            plain = plain.replace(wrapper, "")
        if plain in found:
            raise ValueError(f"the file holds tensor {plain!r} twice, once as {name!r}")
        found[plain] = tensor
    while found and all(name.startswith(FRONT) for name in found):
        found = {name.removeprefix(FRONT): tensor for name, tensor in found.items()}
    return found


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    FileNotFoundError
        When the file is not there.
    ValueError
        When it is not JSON, or no object.
    """
    try:
        found = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as problem:
        raise ValueError(damaged(path, problem)) from problem
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(found).__name__}")
    return found


def read_text(path: Path) -> str:
    """Read a file of UTF-8, with or without the mark that Windows puts in front.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    ValueError
        When it is no UTF-8.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path.name} in {path.parent}")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ValueError(damaged(path, problem)) from problem


def check_no_pickle(path: Path) -> None:
    """Refuse a file whose name or first bytes are those of a pickle.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    ValueError
        When it is a pickle, plain or inside a zip archive as torch writes it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(9)
    # A safetensors file begins with the length of its header, which may look like anything.
    sound = start[4:] == b"\0\0\0\0{"
    looks_pickled = start[:2] == b"PK" or (start[:1] == b"\x80" and start[1:2] < b"\x06")
    if path.suffix in PICKLES or (looks_pickled and not sound):
        raise ValueError(_pickled(path.name, path.parent))


def damaged(path: Path, problem: Exception) -> str:
    """Say that a file cannot be read, and what to do."""
    size = path.stat().st_size
    return (
        f"{path} ({size:,} bytes) is cut short or damaged: {problem}. "
        "Fetch it again, and compare its size with the one at its source."
    )


def _pickled(names: str, folder: Path) -> str:
    return (
        f"{names} in {folder} keeps its weights as a pickle, and opening a pickle runs code from "
        "its writer, so it is refused; take the model's safetensors file instead"
    )
