"""What a call can ask for, and which argument asks for it.

The one place where arguments and features meet: the ladder declares features, a call derives
those it needs, and the conformance suite looks for them in the arguments of any function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncourse._validate import is_bool

__all__ = ["ARGUMENTS", "FEATURES", "features_of"]

FEATURES = {
    "batch": "axes in front of (L, E): batches and heads",
    "bool_mask": "a boolean attn_mask, True = attend",
    "float_mask": "a float attn_mask, added to the scores",
    "causal": "is_causal",
    "bottom_right": 'causal_align="bottom_right"',
    "window": "window_size",
    "softcap": "softcap",
    "alibi": "alibi_slopes",
    "gqa": "enable_gqa: key heads shared by groups of query heads",
    "dropout": "dropout_p",
    "dropout_seed": "dropout_seed: the same mask on every rung",
    "lse": "return_lse",
    "grad": "gradients of tensors that require them",
}
# The features that an argument asks for when it is not its default; a mask asks by its type.
ARGUMENTS = {
    "attn_mask": ("bool_mask", "float_mask"),
    "dropout_p": ("dropout",),
    "is_causal": ("causal",),
    "enable_gqa": ("gqa",),
    "causal_align": ("bottom_right",),
    "window_size": ("window",),
    "softcap": ("softcap",),
    "alibi_slopes": ("alibi",),
    "dropout_seed": ("dropout_seed",),
    "return_lse": ("lse",),
}


_DEFAULTS = {"dropout_p": 0.0, "causal_align": "top_left"}  # all others are None or False


def features_of(arguments: Mapping[str, Any]) -> set[str]:
    """Name the features that arguments of `attention` ask for.

    Parameters
    ----------
    arguments : mapping
        Arguments beside the three arrays, by name.

    Returns
    -------
    set of str
        Keys of `FEATURES`. Axes and gradients ("batch", "grad") are seen in the arrays only.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(features_of({"is_causal": True, "attn_mask": np.ones((2, 2), bool)}))
    ['bool_mask', 'causal']
    """
    needs = set()
    for name, features in ARGUMENTS.items():
        argument = arguments.get(name)
        if argument is None or argument is False:
            continue
        if name == "attn_mask":
            needs.add("bool_mask" if is_bool(argument) else "float_mask")
        elif name not in _DEFAULTS or argument != _DEFAULTS[name]:
            needs.add(features[0])
    return needs
