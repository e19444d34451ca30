"""The small Llama that comes with the package: the reader's model, trained on Python's manual.

The one idea: a model of 1.2 million parameters, in 8 bits, is as small as a photograph; so every
figure can look into the same trained model, on any machine and without a download.
`benchmarks/small_llama.py` trains it. Left out: other formats (`attncourse.pretrained`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncourse._needs import need
from attncourse.models.from_scratch import Llama, causal_mask, rotary, share, split
from attncourse.text import Tokenizer

__all__ = ["attention_weights", "held_out_text", "load", "make", "save"]

_FOLDER = Path(str(files(__package__)))
_WEIGHTS, _TEXT = _FOLDER / "weights.safetensors", _FOLDER / "held_out.txt"
_SCALE = ".scale"


def make(sizes: Mapping[str, Any]) -> Llama:
    """Make an untrained model of the given sizes, the arguments of `from_scratch.Llama`."""
    model = Llama(**sizes)
    model.sizes = dict(sizes)  # type: ignore[assignment]
    return model


def load() -> tuple[Llama, Tokenizer]:
    """Read the trained model and its tokenizer.

    Returns
    -------
    Llama
        In evaluation mode, float32; its sizes are in the attribute ``sizes``.
    Tokenizer
        768 merges of bytes, learned from the same text.

    Raises
    ------
    ModuleNotFoundError
        Without the package safetensors; the message says how to install it.
    """
    need("safetensors")
    from safetensors import safe_open

    with safe_open(_WEIGHTS, framework="pt") as file:
        about = {name: json.loads(text) for name, text in (file.metadata() or {}).items()}
        kept = {name: file.get_tensor(name) for name in file.keys()}
    model = make(about["sizes"])
    model.load_state_dict(_widened(kept))
    return model.eval(), Tokenizer(tuple((a, b) for a, b in about["merges"]))


def save(model: Llama, tokenizer: Tokenizer, held_out: str) -> None:
    """Replace the model that comes with the package, and the text that it was never shown."""
    need("safetensors")
    from safetensors.torch import save_file

    sizes = {"sizes": model.sizes, "merges": tokenizer.merges}
    about = {name: json.dumps(value, separators=(",", ":")) for name, value in sizes.items()}
    save_file(_narrowed(model.state_dict()), _WEIGHTS, metadata=about)
    _TEXT.write_text(held_out, encoding="utf-8")


@torch.no_grad()
def attention_weights(model: Llama, ids: Tensor) -> tuple[Tensor, ...]:
    """Return what every head of every block attends to, for looking at.

    Parameters
    ----------
    model : Llama
        From `load`, or another one.
    ids : Tensor of int64, shape (B, L)
        Tokens.

    Returns
    -------
    tuple of Tensor, shapes (B, H, L, L)
        One per block; each row is not negative and sums to 1.
    """
    x, found = model.embed(ids), []
    for block in model.blocks:
        layer, read = block.attention, block.attention_norm(x)
        q = rotary(split(layer.to_query(read), layer.num_heads), base=layer.base)
        k = rotary(split(layer.to_key(read), layer.num_kv_heads), base=layer.base)
        scores = q @ share(k, layer.num_heads).mT * q.shape[-1] ** -0.5  # (B, H, L, L)
        mask = causal_mask(*scores.shape[-2:]).to(scores.device)
        found.append(scores.masked_fill(~mask, -torch.inf).softmax(-1))
        x = block(x)
    return tuple(found)


def held_out_text() -> str:
    """Return the beginning of the text that the model was not trained on."""
    return _TEXT.read_text(encoding="utf-8")


def _narrowed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Keep each row of a matrix as whole numbers from -127 to 127 and one scale."""
    kept = {}
    for name, tensor in state.items():
        if tensor.ndim < 2:
            kept[name] = tensor
            continue
        scale = tensor.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127  # (rows, 1)
        kept[name], kept[name + _SCALE] = (tensor / scale).round().to(torch.int8), scale
    return kept


def _widened(kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Turn what `_narrowed` kept into float32 weights again."""
    return {
        name: tensor * kept[name + _SCALE] if name + _SCALE in kept else tensor
        for name, tensor in kept.items()
        if not name.endswith(_SCALE)
    }
