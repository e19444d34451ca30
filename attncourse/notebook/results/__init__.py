"""Results that a chapter shows but cannot measure while it is read.

The one idea: such a number is read from a file that a script in `benchmarks/` wrote, with the
machine, the versions and the date, and is never typed into a text.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["measured"]


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
