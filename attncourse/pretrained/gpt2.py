"""GPT-2 (and DistilGPT-2) as our `GPT`: which tensor goes where.

What is unusual: the maps are stored input by output, and one tensor holds queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attncourse.models.gpt import GPT, GPTConfig
from attncourse.pretrained.keys import Goes, Plan, affine, in_layers
from attncourse.pretrained.settings import MOST_LAYERS, one_of, refuse, size, tiny

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}

QUERY_KEY_VALUE = ("attention.to_query", "attention.to_key", "attention.to_value")
LAYER = {
    **affine("ln_1", "attention_norm"),
    **affine("attn.c_attn", *QUERY_KEY_VALUE, transposed=True),
    **affine("attn.c_proj", "attention.to_out", transposed=True),
    **affine("ln_2", "feed_forward_norm"),
    **affine("mlp.c_fc", "feed_forward.up", transposed=True),
    **affine("mlp.c_proj", "feed_forward.down", transposed=True),
}


def config(settings: Mapping[str, Any]) -> GPTConfig:
    """Translate the settings of a GPT-2 into ours."""
    refuse(settings, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    refuse(settings, add_cross_attention=False)
    return GPTConfig(
        vocab_size=size(settings, "vocab_size"),
        max_len=size(settings, "n_positions"),
        d_model=size(settings, "n_embd"),
        num_layers=size(settings, "n_layer", most=MOST_LAYERS),
        num_heads=size(settings, "n_head"),
        d_ff=size(settings, "n_inner", 4 * size(settings, "n_embd")),
        activation=one_of(ACTIVATIONS, settings.get("activation_function", "gelu_new")),
        norm_eps=tiny(settings, "layer_norm_epsilon", 1e-5),
        tied=settings.get("tie_word_embeddings", True),
    )


def plan(settings: Mapping[str, Any], names: Collection[str]) -> Plan:
    """Say where each tensor of a GPT-2 file goes.

    Parameters
    ----------
    settings : mapping
        The file ``config.json``.
    names : collection of str
        The tensors that the file has.

    Returns
    -------
    Plan
    """
    ours = config(settings)
    keys = {
        "wte.weight": Goes("embed.weight"),
        "wpe.weight": Goes("position.weight"),
        **in_layers(ours.num_layers, LAYER, "h.{}", "blocks.{}"),
        **affine("ln_f", "norm"),
    }
    if not ours.tied:
        keys["lm_head.weight"] = Goes("unembed.weight")
    return Plan(
        make=lambda: GPT(ours),
        keys=keys,
        prefixes=("transformer.",),
        copies={"lm_head.weight": "wte.weight"} if ours.tied else {},
        unused=(r"h\.\d+\.attn\.(bias|masked_bias)",),  # the causal mask, stored as a tensor
    )
