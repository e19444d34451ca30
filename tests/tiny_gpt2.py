"""A small GPT-2 on disk, complete and sound, as `transformers` would lay it out."""

import json

import torch
from safetensors.torch import save_file

SETTINGS = {
    "model_type": "gpt2",
    "vocab_size": 11,
    "n_positions": 8,
    "n_embd": 8,
    "n_layer": 1,
    "n_head": 2,
}


def write(folder):
    """Write configuration and weights into a folder, and return the folder."""
    shapes = {"wte.weight": (11, 8), "wpe.weight": (8, 8), "h.0.attn.c_attn.weight": (8, 24)}
    shapes |= {"h.0.attn.c_proj.weight": (8, 8), "h.0.mlp.c_fc.weight": (8, 32)}
    shapes |= {"h.0.mlp.c_proj.weight": (32, 8), "h.0.attn.c_attn.bias": (24,)}
    shapes |= {"h.0.mlp.c_fc.bias": (32,)}
    vectors = ["h.0.attn.c_proj.bias", "h.0.mlp.c_proj.bias"]
    vectors += [
        f"{norm}.{kind}" for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f") for kind in ("weight", "bias")
    ]
    shapes |= dict.fromkeys(vectors, (8,))
    torch.manual_seed(0)
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    return folder
