"""The head browser: every attention head of a trained model, on sentences and their controls.

The one idea: a picture of a head tempts to a story, and a control sentence tests it. So no
sentence is shown without its control, and no head without the places that it looks at anyway.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import numpy as np
import traitlets

from attncourse.widgets._front import labels_from, read

__all__ = ["LABELS", "HeadBrowser"]

LABELS = {
    "figure": "Head browser",
    "sentence": "Sentence",
    "control": "Control",
    "gallery": "All heads: a layer a row, queries down and keys across in each picture",
    "one": "Layer {layer}, head {head} (counted from 0)",
    "asks": "Choose the token that asks in:",
    "picture": "All weights of layer {layer}, head {head}: queries down, keys across",
    "habits": "Mean weight by place",
    "habit": "place",
    "previous": "token before",
    "itself": "itself",
    "next": "token after",
    "first": "first token",
    "last": "last token",
    "spoken": "“{token}” gives its largest weight, {weight}, to “{key}”.",
}


class HeadBrowser(anywidget.AnyWidget):
    """Show all heads of a model on one sentence, and one head beside a control.

    Parameters
    ----------
    sentences : sequence of mapping
        Each with "text"; "tokens", a list of str; and "weights", one byte a weight in steps of
        1/255, in base64, of shape (layers, heads, L, L). They stand in pairs: 0 and 1 are each
        other's control, then 2 and 3.
    layers, heads : int
        How many there are.
    sentence, layer, head, token : int
        What is shown first, counted from 0.
    labels : mapping of str to str, optional
        Texts in place of those of `LABELS`, for another language.

    Raises
    ------
    ValueError
        When the sentences are no pairs, or the weights do not fit the tokens, or are no weights.

    Notes
    -----
    A saved page keeps this figure's numbers in a file of its own, which is read when the reader
    scrolls to it (`static_lazy`).
    """

    _esm = read("parts.js", "heads.js")
    _css = read("parts.css", "heads.css")

    sentences: traitlets.List = traitlets.List().tag(sync=True)
    layers = traitlets.Int(1).tag(sync=True)
    heads = traitlets.Int(1).tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    token = traitlets.Int(0).tag(sync=True)
    labels: traitlets.Dict = traitlets.Dict(LABELS).tag(sync=True)
    static_height = traitlets.Int(0).tag(sync=True)  # room that a saved page keeps, in pixels
    static_lazy = traitlets.Bool(True).tag(sync=True)

    def __init__(
        self,
        sentences: Sequence[Mapping[str, Any]],
        layers: int,
        heads: int,
        *,
        sentence: int = 0,
        layer: int = 0,
        head: int = 0,
        token: int = 1,
        labels: Mapping[str, str] | None = None,
        **layout: Any,
    ) -> None:
        if not sentences or len(sentences) % 2:
            raise ValueError(
                f"sentences must come in pairs of one and its control, got {len(sentences)}"
            )
        for each in sentences:
            _check(each, layers, heads)
        limits = {"sentence": len(sentences), "layer": layers, "head": heads}
        chosen = {"sentence": sentence, "layer": layer, "head": head}
        limits["token"], chosen["token"] = len(sentences[0]["tokens"]), token
        for name, limit in limits.items():
            if not 0 <= chosen[name] < limit:
                raise ValueError(f"{name} must lie in 0 ... {limit - 1}, got {chosen[name]}")
        kept = ("text", "tokens", "weights")
        super().__init__(
            # 0 and 1 are each other's control, 2 and 3, and so on: the last bit differs.
            sentences=[
                {name: each[name] for name in kept} | {"control": number ^ 1}
                for number, each in enumerate(sentences)
            ],
            layers=layers,
            heads=heads,
            **chosen,
            labels=labels_from(LABELS, labels),
            static_height=820 + 30 * layers,
            **layout,
        )


def _check(sentence: Mapping[str, Any], layers: int, heads: int) -> None:
    """Refuse weights that do not belong to the tokens, or are none."""
    size, text = len(sentence["tokens"]), sentence["text"]
    steps = np.frombuffer(base64.b64decode(sentence["weights"], validate=True), np.uint8)
    if not size or steps.size != layers * heads * size * size:
        raise ValueError(
            f"{text!r} has {size} tokens, so {layers} layers of {heads} heads have "
            f"{layers * heads * size * size} weights, got {steps.size}"
        )
    sums = steps.reshape(-1, size).sum(axis=1, dtype=np.int64)
    if np.abs(sums - 255).max() > size:
        raise ValueError(
            f"the weights of a row must sum to 1, in {text!r} one sums to {sums.max() / 255:.2f}"
        )
