"""What a call of `attention` may look like, checked before any rung runs.

Every message says what was wanted and what came. Nothing here computes attention.
"""

from __future__ import annotations

import operator
import sys
from numbers import Real
from typing import Any

import numpy as np

ALIGNMENTS = ("top_left", "bottom_right")
DTYPES = ("float16", "bfloat16", "float32", "float64")


def library_of(*arrays: Any) -> Any:
    """Return the module, numpy or torch, that all the arrays belong to.

    Raises
    ------
    TypeError
        When an argument is neither an ndarray nor a Tensor, or when the two are mixed.
    """
    torch = sys.modules.get("torch")
    first = _module_of(arrays[0], torch)
    for array in arrays[1:]:
        if _module_of(array, torch) != first:
            kinds = ", ".join(type(array).__name__ for array in arrays)
            raise TypeError(
                f"query, key and value must all be arrays or all be tensors; got {kinds}"
            )
    return torch if first == "torch" else np


def _module_of(array: Any, torch: Any) -> str:
    if isinstance(array, np.ndarray) and not isinstance(array, (np.matrix, np.ma.MaskedArray)):
        return "numpy"
    if torch is not None and isinstance(array, torch.Tensor):
        _plain_tensor(array, torch)
        return "torch"
    raise TypeError(f"wanted a NumPy array or a torch tensor, got {type(array).__name__}")


def _plain_tensor(tensor: Any, torch: Any) -> None:
    """Refuse a tensor whose memory does not hold one number for each place of its shape."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind.__name__ in ("CausalBias", "MaskedTensor"):
        advice = ""
        if kind.__name__ == "CausalBias":
            advice = ": is_causal=True with causal_align asks for the same"
        raise TypeError(f"wanted a plain torch tensor, got a {kind.__name__}{advice}")
    if tensor.is_nested:
        raise TypeError("wanted a plain torch tensor, got a nested one: pad it, and mask the rest")
    if tensor.layout is not torch.strided:
        raise TypeError(f"wanted a dense torch tensor, got layout {tensor.layout}: use to_dense()")
    if tensor.is_quantized:
        raise TypeError(f"wanted plain numbers, got a quantised tensor, {tensor.dtype}")


def is_bool(array: Any) -> bool:
    """Tell whether an array or a tensor holds booleans."""
    return _name_of(array.dtype) == "bool"


def is_float(array: Any) -> bool:
    """Tell whether an array or a tensor holds real floating-point numbers."""
    if isinstance(array, np.ndarray):
        return np.issubdtype(array.dtype, np.floating)
    return bool(array.dtype.is_floating_point)


def arrays(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    """Check that query, key and value are of one library and one type, and fit together."""
    library_of(query, key, value)
    dtypes(query, key, value)
    shapes(query, key, value, enable_gqa)


def dtypes(query: Any, key: Any, value: Any) -> None:
    """Check that the three arrays share one floating-point type."""
    if query.dtype == key.dtype == value.dtype and _name_of(query.dtype) in DTYPES:
        return
    named = {"query": query, "key": key, "value": value}
    for name, array in named.items():
        if not is_float(array):
            raise TypeError(f"{name} must hold floating-point numbers, got {array.dtype}")
        if _name_of(array.dtype) not in DTYPES:
            raise TypeError(f"{name} must be one of {', '.join(DTYPES)}, got {array.dtype}")
    came = ", ".join(f"{name} {array.dtype}" for name, array in named.items())
    raise TypeError(f"query, key and value must share one dtype, got {came}")


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def shapes(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    """Check that query (..., L, E), key (..., S, E) and value (..., S, Ev) fit together."""
    q, k, v = query.shape, key.shape, value.shape
    if len(q) == len(k) == len(v) > 1 and q[-1] == k[-1] != 0 and k[-2] == v[-2]:
        for axis in range(len(q) - 2):  # to cut a torch.Size takes longer
            if not q[axis] == k[axis] == v[axis]:
                break
        else:  # the common case, without a detour
            return
    named = {"query": query, "key": key, "value": value}
    shape = {name: tuple(array.shape) for name, array in named.items()}
    if min(map(len, shape.values())) < 2 or len(set(map(len, shape.values()))) > 1:
        came = ", ".join(f"{name} {size}" for name, size in shape.items())
        raise ValueError(f"wanted the same number of axes, at least 2, in all three; got {came}")
    _same_width("query", shape["query"], "key", shape["key"])
    if shape["query"][-1] == 0:
        raise ValueError(f"query must be at least 1 wide, got shape {shape['query']}")
    if shape["key"][-2] != shape["value"][-2]:
        raise ValueError(
            f"key has {shape['key'][-2]} positions, value has {shape['value'][-2]}: "
            f"shapes {shape['key']} and {shape['value']}"
        )
    for name in ("key", "value"):
        if shape["query"][:-3] != shape[name][:-3]:
            raise ValueError(
                f"query and {name} must share their batch axes: "
                f"shapes {shape['query']} and {shape[name]}"
            )
    if len(shape["query"]) > 2:
        _heads(shape["query"], shape["key"], shape["value"], enable_gqa)


def _same_width(name1: str, shape1: tuple, name2: str, shape2: tuple) -> None:
    if shape1[-1] != shape2[-1]:
        raise ValueError(
            f"{name1} is {shape1[-1]} wide, {name2} is {shape2[-1]} wide: "
            f"shapes {shape1} and {shape2}"
        )


def _heads(query: tuple, key: tuple, value: tuple, enable_gqa: bool) -> None:
    """Check the head counts: equal, or a whole number of query heads for each key head."""
    num_heads, num_kv_heads = query[-3], key[-3]
    if num_kv_heads != value[-3]:
        raise ValueError(
            f"key has {num_kv_heads} heads, value has {value[-3]}: shapes {key} and {value}"
        )
    if num_heads == num_kv_heads:
        return
    if not enable_gqa:
        raise ValueError(
            f"query has {num_heads} heads, key has {num_kv_heads}: shapes {query} and {key}; "
            "heads are never broadcast, enable_gqa=True shares key heads among query heads"
        )
    if num_heads == 0 or num_kv_heads == 0 or num_heads % num_kv_heads:
        raise ValueError(
            f"key has {num_kv_heads} heads, query has {num_heads}; "
            f"{num_heads} must be a multiple of {num_kv_heads}"
        )


def mask(attn_mask: Any, scores_shape: tuple[int, ...]) -> None:
    """Check a mask's type, and that it broadcasts to the scores (..., L, S)."""
    if not (is_bool(attn_mask) or is_float(attn_mask)):
        raise TypeError(
            f"attn_mask must be boolean (True = attend) or floating point (added to the scores), "
            f"got {attn_mask.dtype}"
        )
    shape = tuple(attn_mask.shape)
    # by hand, and from the right: sizes may be symbols while torch exports a model
    pairs = zip(reversed(shape), reversed(scores_shape), strict=False)
    fits = len(shape) <= len(scores_shape) and all(own in (1, wanted) for own, wanted in pairs)
    if not fits:
        raise ValueError(
            f"attn_mask has shape {shape}, which does not broadcast to the scores {scores_shape}"
        )


def slopes(alibi_slopes: Any, query_shape: tuple[int, ...]) -> None:
    """Check that there is one slope, a real number, for each head: (H,) or (..., H)."""
    if not is_float(alibi_slopes) and ("int" not in _name_of(alibi_slopes.dtype)):
        raise TypeError(f"alibi_slopes must hold real numbers, got {alibi_slopes.dtype}")
    if len(query_shape) < 3:
        raise ValueError(f"alibi_slopes need a head axis, but query has shape {query_shape}")
    shape = tuple(alibi_slopes.shape)
    if shape not in ((query_shape[-3],), query_shape[:-2]):
        raise ValueError(
            f"alibi_slopes has shape {shape}, wanted {(query_shape[-3],)} or {query_shape[:-2]} "
            f"for query of shape {query_shape}"
        )


def lengths(ends: Any, batch: int, seq_len_kv: int) -> None:
    """Check that there is one whole number for each sequence, from 0 to the keys there are."""
    if is_float(ends) or is_bool(ends):
        raise TypeError(f"lengths must be integers, got {ends.dtype}")
    if tuple(ends.shape) != (batch,):
        raise ValueError(
            f"lengths has shape {tuple(ends.shape)}, wanted {(batch,)}: one a sequence"
        )
    if batch and not (0 <= int(ends.min()) and int(ends.max()) <= seq_len_kv):
        raise ValueError(f"lengths must lie in 0 … {seq_len_kv}, got {ends.tolist()}")


def pages(query: Any, keys: Any, values: Any, block_table: Any, ends: Any) -> None:
    """Check that a pool of pages and its table fit the query, and that all pages exist.

    query is (B, H, L, E); keys (P, Hkv, page, E); values (P, Hkv, page, Ev); block_table
    (B, pages); ends holds checked lengths.
    """
    shapes = tuple(keys.shape), tuple(values.shape)
    if keys.ndim != 4 or shapes[0][:3] != shapes[1][:3] or not keys.shape[2]:
        raise ValueError(
            f"wanted pages (P, Hkv, page, E) and (P, Hkv, page, Ev) of at least 1 token, "
            f"got {shapes[0]} and {shapes[1]}"
        )
    if is_float(block_table) or is_bool(block_table):
        raise TypeError(f"block_table must hold integers, got {block_table.dtype}")
    if block_table.ndim != 2 or len(block_table) != len(query):
        raise ValueError(
            f"block_table has shape {tuple(block_table.shape)}, wanted ({len(query)}, pages): one "
            f"row for each sequence of query {tuple(query.shape)}"
        )
    _same_width("query", tuple(query.shape), "key", tuple(keys.shape))
    _heads(tuple(query.shape), tuple(keys.shape), tuple(values.shape), True)
    for numbers, end in zip(block_table.tolist(), ends.tolist(), strict=True):
        needed = numbers[: -(-end // keys.shape[-2])]
        if needed and not (0 <= min(needed) and max(needed) < len(keys)):
            raise ValueError(
                f"block_table names the pages {needed} for {end} tokens, but there are {len(keys)}"
            )


def new_tokens(key: Any, value: Any, keys: Any, values: Any) -> None:
    """Check that new tokens agree with a cache in all but their number, and in type.

    Under autocast their type may be one that the cache's holds exactly: it is autocast's, and the
    cache's is that of the parameters.
    """
    for name, new, old in (("key", key, keys), ("value", value, values)):
        wanted = (*old.shape[:2], "n", old.shape[3])
        if new.ndim != 4 or (*new.shape[:2], "n", new.shape[3]) != wanted:
            raise ValueError(f"{name} has shape {tuple(new.shape)}, the cache wants {wanted}")
        if new.dtype != old.dtype and not _widens(new, old):
            raise TypeError(f"{name} is {new.dtype}, the cache holds {old.dtype}")
    if key.shape[2] != value.shape[2]:
        raise ValueError(
            f"key has {key.shape[2]} tokens, value has {value.shape[2]}: "
            f"shapes {tuple(key.shape)} and {tuple(value.shape)}"
        )


def _widens(new: Any, old: Any) -> bool:
    """Tell whether autocast made the type of `new`, and that of `old` holds it exactly."""
    torch = sys.modules["torch"]
    narrow = torch.is_autocast_enabled(new.device.type)
    return narrow and torch.promote_types(new.dtype, old.dtype) == old.dtype


def whole(name: str, number: Any) -> int:
    """Return a whole number as an int, or say what came instead."""
    if not isinstance(number, bool):
        try:
            return operator.index(number)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer, got {type(number).__name__}")


def tokens(name: str, ids: Any, vocabulary: int) -> None:
    """Check token numbers: integers, at least one of them, each below the vocabulary's size.

    The numbers themselves are looked at where that costs nothing: on an accelerator it would mean
    to wait at each step, and while torch compiles or exports a model there are no numbers yet.
    """
    if is_float(ids) or is_bool(ids):
        raise TypeError(f"{name} must hold integers, got {ids.dtype}")
    if 0 in ids.shape:
        raise ValueError(f"{name} must hold at least one token, got shape {tuple(ids.shape)}")
    if not _readable(ids):
        return
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or most >= vocabulary:
        raise ValueError(f"{name} must hold tokens 0 to {vocabulary - 1}, got {least} to {most}")


def token_rows(ids: Any, vocabulary: int) -> None:
    """Check what a model reads: a tensor (B, L) of token numbers."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(ids, torch.Tensor):
        raise TypeError(f"ids must be a tensor of shape (B, L), got {type(ids).__name__}")
    if ids.ndim != 2:
        raise ValueError(f"ids must have shape (B, L), got {tuple(ids.shape)}")
    tokens("ids", ids, vocabulary)


def _readable(ids: Any) -> bool:
    """Tell whether the numbers of an array can be looked at without waiting."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(ids, torch.Tensor):
        return True
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    return ids.device.type == "cpu" and type(ids) in (torch.Tensor, torch.nn.Parameter)


def options(
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    scale: Any = None,
    causal_align: str = "top_left",
    window_size: Any = None,
    softcap: Any = None,
    dropout_seed: Any = None,
) -> None:
    """Check the numbers and names that no array is involved in."""
    if not isinstance(is_causal, (bool, np.bool_)):
        raise TypeError(f"is_causal must be True or False, got {type(is_causal).__name__}")
    for name, number in (("dropout_p", dropout_p), ("scale", scale), ("softcap", softcap)):
        if type(number) is float or (number is None and name != "dropout_p"):
            continue
        if not isinstance(number, Real):
            raise TypeError(f"{name} must be a number, got {type(number).__name__}")
    if scale is not None and not abs(scale) < np.inf:
        raise ValueError(f"scale must be finite, got {scale}")
    if not 0.0 <= dropout_p < 1.0:
        raise ValueError(f"dropout_p must lie in [0, 1), got {dropout_p}")
    if causal_align not in ALIGNMENTS:
        raise ValueError(f"causal_align must be one of {ALIGNMENTS}, got {causal_align!r}")
    if window_size is not None:
        if whole("window_size", window_size) < 1:
            raise ValueError(f"window_size must be at least 1, got {window_size}")
        if not is_causal:
            raise ValueError("window_size looks back from each query: it needs is_causal=True")
    if softcap is not None and not (0.0 < softcap < np.inf):
        raise ValueError(f"softcap must be a positive number, got {softcap}")
    if dropout_seed is not None and not 0 <= whole("dropout_seed", dropout_seed) < 2**64:
        raise ValueError(f"dropout_seed must lie in [0, 2**64), got {dropout_seed}")
