"""BERT, MiniLM and DistilBERT as our `Bert`: which tensor goes where."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attncourse.models.bert import Bert, BertConfig
from attncourse.pretrained.keys import Goes, Plan, affine, in_layers
from attncourse.pretrained.settings import MOST_LAYERS, one_of, refuse, size, tiny

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

EMBEDDINGS = {
    "embeddings.word_embeddings.weight": Goes("embed.weight"),
    "embeddings.position_embeddings.weight": Goes("position.weight"),
    **affine("embeddings.LayerNorm", "embed_norm"),
}
LAYER = {
    **affine("attention.self.query", "attention.to_query"),
    **affine("attention.self.key", "attention.to_key"),
    **affine("attention.self.value", "attention.to_value"),
    **affine("attention.output.dense", "attention.to_out"),
    **affine("attention.output.LayerNorm", "attention_norm"),
    **affine("intermediate.dense", "feed_forward.up"),
    **affine("output.dense", "feed_forward.down"),
    **affine("output.LayerNorm", "feed_forward_norm"),
}
DISTIL_LAYER = {
    **affine("attention.q_lin", "attention.to_query"),
    **affine("attention.k_lin", "attention.to_key"),
    **affine("attention.v_lin", "attention.to_value"),
    **affine("attention.out_lin", "attention.to_out"),
    **affine("sa_layer_norm", "attention_norm"),
    **affine("ffn.lin1", "feed_forward.up"),
    **affine("ffn.lin2", "feed_forward.down"),
    **affine("output_layer_norm", "feed_forward_norm"),
}


def plan(settings: Mapping[str, Any], names: Collection[str]) -> Plan:
    """Say where each tensor of a BERT file goes.

    Parameters
    ----------
    settings : mapping
        The file ``config.json``.
    names : collection of str
        The tensors that the file has: they tell whether there are a pooler and a head.

    Returns
    -------
    Plan
    """
    refuse(settings, position_embedding_type="absolute", is_decoder=False)
    ours = BertConfig(
        vocab_size=size(settings, "vocab_size"),
        max_len=size(settings, "max_position_embeddings"),
        d_model=size(settings, "hidden_size"),
        num_layers=size(settings, "num_hidden_layers", most=MOST_LAYERS),
        num_heads=size(settings, "num_attention_heads"),
        d_ff=size(settings, "intermediate_size"),
        num_segments=size(settings, "type_vocab_size", 2),
        activation=one_of(ACTIVATIONS, settings.get("hidden_act", "gelu")),
        norm_eps=tiny(settings, "layer_norm_eps", 1e-12),
        masked_head=any("cls.predictions." in name for name in names),
        pooler=any("pooler." in name for name in names),
    )
    keys = {**EMBEDDINGS, "embeddings.token_type_embeddings.weight": Goes("segment.weight")}
    keys |= in_layers(ours.num_layers, LAYER, "encoder.layer.{}", "blocks.{}")
    if ours.pooler:
        keys |= affine("pooler.dense", "pooler")
    if ours.masked_head:
        keys |= affine("cls.predictions.transform.dense", "head.dense")
        keys |= affine("cls.predictions.transform.LayerNorm", "head.norm")
        keys["cls.predictions.bias"] = Goes("head.unembed.bias")
    return Plan(
        make=lambda: Bert(ours),
        keys=keys,
        prefixes=("bert.",),
        renames=OLD_NAMES,
        copies={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        # the numbers 0, 1, 2, … as a tensor, and the head that told whether two sentences follow
        unused=(r"embeddings\.position_ids", r"cls\.seq_relationship\..*"),
    )


def distil_plan(settings: Mapping[str, Any], names: Collection[str]) -> Plan:
    """Say where each tensor of a DistilBERT file goes: no segments, no pooler."""
    ours = BertConfig(
        vocab_size=size(settings, "vocab_size"),
        max_len=size(settings, "max_position_embeddings"),
        d_model=size(settings, "dim"),
        num_layers=size(settings, "n_layers", most=MOST_LAYERS),
        num_heads=size(settings, "n_heads"),
        d_ff=size(settings, "hidden_dim"),
        num_segments=0,
        activation=one_of(ACTIVATIONS, settings.get("activation", "gelu")),
        masked_head=any(name.startswith("vocab_transform.") for name in names),
    )
    keys = {**EMBEDDINGS}
    keys |= in_layers(ours.num_layers, DISTIL_LAYER, "transformer.layer.{}", "blocks.{}")
    if ours.masked_head:
        keys |= affine("vocab_transform", "head.dense")
        keys |= affine("vocab_layer_norm", "head.norm")
        keys["vocab_projector.bias"] = Goes("head.unembed.bias")
    return Plan(
        make=lambda: Bert(ours),
        keys=keys,
        prefixes=("distilbert.",),
        copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
        unused=(r"embeddings\.position_ids",),
    )
