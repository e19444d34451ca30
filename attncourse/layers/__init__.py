"""The parts of a Transformer, in torch: heads, feed-forward, blocks.

Every attention in here is `attncourse.attention` (or `attncourse.decode` with a cache), so any
rung of the ladder can be plugged into any model: `set_rung(model, "tiled")`.
"""

from attncourse.layers.blocks import DecoderBlock, EncoderBlock
from attncourse.layers.feed_forward import ACTIVATIONS, FeedForward, make_norm
from attncourse.layers.heads import MultiHeadAttention
from attncourse.layers.inspect import attention_weights, set_rung

__all__ = [
    "ACTIVATIONS",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "MultiHeadAttention",
    "attention_weights",
    "make_norm",
    "set_rung",
]
