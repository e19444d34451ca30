"""Results that a chapter shows but cannot measure while it is read.

The one idea: such a number is read from a file that a script in `benchmarks/` wrote, with the
machine, the versions and the date, and is never typed into a text.
"""

from __future__ import annotations

import base64
import json
import zlib
from importlib.resources import files
from typing import Any

import numpy as np

__all__ = ["measured", "packed", "unpacked"]


def measured(name: str) -> dict[str, Any]:
    """Return the results of one script.

    Parameters
    ----------
    name : str
        The name of the file without its ending, such as "film_snippets".

    Returns
    -------
    dict
        As the script wrote it; the key "script" says which.

    Raises
    ------
    ValueError
        If there are no results of that name.
    """
    folder = files(__package__)
    known = sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".json"))
    if name not in known:
        raise ValueError(f"there are no results {name!r}; there are {known}")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def packed(numbers: np.ndarray) -> str:
    """Write numbers as text that fits into a results file, in 16 bits each.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
        Between -65,504 and 65,504; three digits are kept.
    """
    raw = np.asarray(numbers, dtype=np.float16).tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Return the numbers (n,) that `packed` wrote, as float32.

    Examples
    --------
    >>> unpacked(packed(np.array([1.5, -2.0])))
    array([ 1.5, -2. ], dtype=float32)
    """
    raw = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(raw, np.float16).astype(np.float32)
