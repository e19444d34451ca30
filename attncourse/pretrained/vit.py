"""ViT and DeiT as our `ViT`: which tensor goes where.

What is unusual: the map of a patch is stored as a convolution's kernel, class tokens and positions
carry batch axes, and DeiT has a second class token that answers for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from attncourse.models.vit import ViT, ViTConfig
from attncourse.pretrained.keys import Goes, Plan, affine, in_layers
from attncourse.pretrained.settings import MOST_LAYERS, refuse, size, tiny

LAYER = {
    **affine("layernorm_before", "attention_norm"),
    **affine("attention.attention.query", "attention.to_query"),
    **affine("attention.attention.key", "attention.to_key"),
    **affine("attention.attention.value", "attention.to_value"),
    **affine("attention.output.dense", "attention.to_out"),
    **affine("layernorm_after", "feed_forward_norm"),
    **affine("intermediate.dense", "feed_forward.up"),
    **affine("output.dense", "feed_forward.down"),
}
PATCHES = "embeddings.patch_embeddings.projection"


class TwoAnswers(ViT):
    """A DeiT: the answers of its two class tokens, averaged."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.second_answer = nn.Linear(config.d_model, config.num_classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn pictures (B, C, height, width) into scores (B, num_classes)."""
        x = self.norm(self.hidden_states(pictures)[-1])  # (B, n, d_model)
        return (self.answer(x[:, 0]) + self.second_answer(x[:, 1])) / 2


class Describing(ViT):
    """A ViT without a classifier: it returns the class token, (B, d_model)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(replace(config, num_classes=1))
        self.config = config
        self.answer = nn.Identity()  # type: ignore[assignment]


def config(settings: Mapping[str, Any], class_tokens: int, num_classes: int) -> ViTConfig:
    """Translate the settings of a ViT into ours."""
    refuse(settings, hidden_act="gelu", qkv_bias=True)
    return ViTConfig(
        image_size=size(settings, "image_size"),
        patch_size=size(settings, "patch_size"),
        channels=size(settings, "num_channels"),
        d_model=size(settings, "hidden_size"),
        num_heads=size(settings, "num_attention_heads"),
        d_ff=size(settings, "intermediate_size"),
        num_layers=size(settings, "num_hidden_layers", most=MOST_LAYERS),
        num_classes=num_classes,
        class_tokens=class_tokens,
        eps=tiny(settings, "layer_norm_eps", 1e-12),
    )


def plan(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Plan:
    """Say where each tensor of a ViT file goes.

    Parameters
    ----------
    settings : mapping
        The file ``config.json``.
    tensors : mapping of str to Tensor
        Those of the file: they tell how many classes there are, if any.

    Returns
    -------
    Plan
    """
    return _plan(settings, tensors, ("embeddings.cls_token",), "vit.")


def deit_plan(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Plan:
    """Say where each tensor of a DeiT file goes."""
    tokens = ("embeddings.cls_token", "embeddings.distillation_token")
    return _plan(settings, tensors, tokens, "deit.")


def _plan(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], tokens: Collection[str], prefix: str
) -> Plan:
    heads = {"classifier": "answer", "cls_classifier": "answer"}
    heads |= {"distillation_classifier": "second_answer"}
    found = {name: ours for name, ours in heads.items() if f"{name}.weight" in tensors}
    num_classes = next((len(tensors[f"{name}.weight"]) for name in found), 0)
    kind = TwoAnswers if "distillation_classifier" in found else ViT if found else Describing
    ours = config(settings, len(tokens), num_classes)
    keys = {
        "class_tokens": Goes("class_token"),
        "positions": Goes("position"),
        "patches": Goes("embed.weight"),
        f"{PATCHES}.bias": Goes("embed.bias"),
        **in_layers(ours.num_layers, LAYER, "encoder.layer.{}", "blocks.{}"),
        **affine("layernorm", "norm"),
    }
    for name, head in found.items():
        keys |= affine(name, head)
    return Plan(
        make=lambda: kind(ours),
        keys=keys,
        prefixes=(prefix,),
        flattened={
            "class_tokens": tuple(tokens),
            "positions": ("embeddings.position_embeddings",),
            "patches": (f"{PATCHES}.weight",),
        },
        # a map of the class token that only other heads use, and the token for hidden patches
        unused=(r"pooler\.dense\..*", r"embeddings\.mask_token"),
    )
