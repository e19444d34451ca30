"""Llama and its kin (SmolLM2) as our `GPT`: which tensor goes where, in two file formats.

What is unusual: safetensors files pair component i of a head with i + E/2 for the rotary turn;
GGUF files keep the rows of the same maps in another order and pair 2i with 2i + 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attncourse.models.gpt import GPT, GPTConfig
from attncourse.pretrained.keys import Goes, Plan, affine, in_layers
from attncourse.pretrained.settings import MOST_LAYERS, base, refuse, size, table, tiny

PARTS = {  # ours: the name in safetensors files, the name in GGUF files
    "attention_norm": ("input_layernorm", "attn_norm"),
    "attention.to_query": ("self_attn.q_proj", "attn_q"),
    "attention.to_key": ("self_attn.k_proj", "attn_k"),
    "attention.to_value": ("self_attn.v_proj", "attn_v"),
    "attention.to_out": ("self_attn.o_proj", "attn_output"),
    "feed_forward_norm": ("post_attention_layernorm", "ffn_norm"),
    "feed_forward.gate": ("mlp.gate_proj", "ffn_gate"),
    "feed_forward.up": ("mlp.up_proj", "ffn_up"),
    "feed_forward.down": ("mlp.down_proj", "ffn_down"),
}


_TWO = "rope_scaling, beside rope_parameters,"


def config(settings: Mapping[str, Any]) -> GPTConfig:
    """Translate the settings of a Llama, from ``config.json``, into ours."""
    rope, scaling = table(settings, "rope_parameters"), table(settings, "rope_scaling")
    if rope and scaling:  # which one counts has changed between versions of transformers
        refuse({_TWO: scaling}, **{_TWO: rope})
    rope = rope or scaling
    refuse({"rope_type": rope.get("rope_type", rope.get("type"))}, rope_type="default")
    refuse(settings, hidden_act="silu", attention_bias=False, mlp_bias=False)
    refuse(settings, partial_rotary_factor=1.0)
    d_model, num_heads = size(settings, "hidden_size"), size(settings, "num_attention_heads")
    return GPTConfig.llama(
        size(settings, "vocab_size"),
        size(settings, "max_position_embeddings"),
        d_model=d_model,
        num_layers=size(settings, "num_hidden_layers", most=MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=size(settings, "num_key_value_heads", num_heads),
        head_dim=size(settings, "head_dim") if settings.get("head_dim") is not None else None,
        d_ff=size(settings, "intermediate_size"),
        norm_eps=tiny(settings, "rms_norm_eps"),
        rotary_base=base(rope, "rope_theta", base(settings, "rope_theta")),
        tied=settings.get("tie_word_embeddings", False),
    )


def gguf_config(settings: Mapping[str, Any], tied: bool) -> GPTConfig:
    """Translate the metadata of a GGUF file into ours."""

    def of(name: str, default: int | None = None, **limit: int) -> int:
        return size(settings, f"llama.{name}", default, **limit)

    num_heads, d_model = of("attention.head_count"), of("embedding_length")
    head_dim = of("rope.dimension_count", max(1, d_model // num_heads))
    refuse(
        {"width of the rotary part": head_dim}, **{"width of the rotary part": d_model // num_heads}
    )
    harmless = {"rope.scaling.type": "none", "rope.scaling.factor": 1.0, "rope.scale_linear": 1.0}
    harmless |= {"attention.causal": True}
    refuse(settings, **{f"llama.{name}": value for name, value in harmless.items()})
    return GPTConfig.llama(
        of("vocab_size"),
        of("context_length"),
        d_model=d_model,
        num_layers=of("block_count", most=MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=of("attention.head_count_kv", num_heads),
        d_ff=of("feed_forward_length"),
        norm_eps=tiny(settings, "llama.attention.layer_norm_rms_epsilon"),
        rotary_base=base(settings, "llama.rope.freq_base"),
        pairing="interleaved",
        tied=tied,
    )


def plan(settings: Mapping[str, Any], names: Collection[str]) -> Plan:
    """Say where each tensor of a Llama's safetensors file goes."""
    ours = config(settings)
    keys = {"embed_tokens.weight": Goes("embed.weight"), **affine("norm", "norm", bias=False)}
    keys |= _layers(ours.num_layers, 0, "layers.{}")
    if not ours.tied:
        keys["lm_head.weight"] = Goes("unembed.weight")
    return Plan(
        make=lambda: GPT(ours),
        keys=keys,
        prefixes=("model.",),
        copies={"lm_head.weight": "embed_tokens.weight"} if ours.tied else {},
        unused=(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),  # computed, not learnt
    )


def gguf_plan(settings: Mapping[str, Any], names: Collection[str]) -> Plan:
    """Say where each tensor of a Llama's GGUF file goes."""
    tied = "output.weight" not in names
    ours = gguf_config(settings, tied)
    keys = {"token_embd.weight": Goes("embed.weight"), **affine("output_norm", "norm", bias=False)}
    keys |= _layers(ours.num_layers, 1, "blk.{}")
    if not tied:
        keys["output.weight"] = Goes("unembed.weight")
    return Plan(make=lambda: GPT(ours), keys=keys)


def _layers(num_layers: int, which: int, theirs: str) -> dict[str, Goes]:
    """Write one layer's map for all layers, in one of the two formats' names."""
    layer = {f"{names[which]}.weight": Goes(f"{ours}.weight") for ours, names in PARTS.items()}
    return in_layers(num_layers, layer, theirs, "blocks.{}")
