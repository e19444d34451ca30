"""A decoder's tensors under the names that the hub's files give them.

The one idea: whoever writes a model of their own wants the numbers and not our model; so here are
the tensors, with the names and the order of rows of a safetensors file, whichever format they lie
in. Left out: putting them into a model of ours (`attncourse.pretrained.loading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attncourse.pretrained.files import read_folder
from attncourse.pretrained.llama import PARTS, gguf_config
from attncourse.pretrained.loading import locate
from attncourse.pretrained.quantised import read_gguf
from attncourse.pretrained.settings import table


def published(
    name_or_folder: str | Path, *, revision: str | None = None, progress: bool = True
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the settings of a model, as the hub's files name them.

    Parameters
    ----------
    name_or_folder, revision, progress
        As in `attncourse.pretrained.load`.

    Returns
    -------
    tensors : dict of str to Tensor
        For instance "model.layers.0.self_attn.q_proj.weight". A GGUF file's tensors get the same
        names, and the rows of its queries and keys the same order (halves, not neighbours).
    settings : dict
        As in ``config.json``, with the entries of "rope_parameters" beside the others; of a GGUF
        file, what decides the sizes.

    Raises
    ------
    FileNotFoundError, ValueError, ConnectionError
        As in `attncourse.pretrained.load`; a GGUF file must hold a Llama.
    """
    path = locate(name_or_folder, revision, progress=progress)
    if path.is_dir():
        found = read_folder(path)
        rope = table(found.settings, "rope_parameters")  # where newer files keep the base
        return dict(found.tensors), {**rope, **found.settings}
    found = read_gguf(path)
    if found.family != "gguf:llama":
        raise ValueError(f"{path.name} holds a model of the family {found.family!r}, not a Llama")
    settings = _settings(found.settings, tied="output.weight" not in found.tensors)
    width = settings["head_dim"]
    return {_name(n): _halves(n, tensor, width) for n, tensor in found.tensors.items()}, settings


def _settings(found: Mapping[str, Any], tied: bool) -> dict[str, Any]:
    """Write the sizes as ``config.json`` would."""
    ours = gguf_config(found, tied)
    return {
        "model_type": "llama",
        "vocab_size": ours.vocab_size,
        "max_position_embeddings": ours.max_len,
        "hidden_size": ours.d_model,
        "num_hidden_layers": ours.num_layers,
        "num_attention_heads": ours.num_heads,
        "num_key_value_heads": ours.num_kv_heads,
        "head_dim": ours.d_model // ours.num_heads,
        "intermediate_size": ours.d_ff,
        "rms_norm_eps": ours.norm_eps,
        "rope_theta": ours.rotary_base,
        "tie_word_embeddings": tied,
    }


def _name(gguf: str) -> str:
    """Translate ``blk.0.attn_q.weight`` into ``model.layers.0.self_attn.q_proj.weight``."""
    whole = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    part, _, kind = gguf.rpartition(".")
    if part in whole:
        return f"{whole[part]}.{kind}"
    _, layer, part = part.split(".")
    theirs = {gguf: safetensors for safetensors, gguf in PARTS.values()}
    return f"model.layers.{layer}.{theirs[part]}.{kind}"


def _halves(gguf: str, tensor: Tensor, head_dim: int) -> Tensor:
    """Put the rows of queries and keys in an order that pairs component i with i + E / 2."""
    if not gguf.endswith(("attn_q.weight", "attn_k.weight")):
        return tensor
    pairs = tensor.unflatten(0, (-1, head_dim // 2, 2))  # (heads, E / 2, 2, d_model)
    return pairs.transpose(1, 2).flatten(0, 2)
