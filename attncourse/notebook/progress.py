"""Show a text progress bar, but only where somebody can watch it.

The one idea: a bar in a terminal or in a live notebook helps; the same bar stored in a built page
is noise. Whoever runs the cells decides: a build has neither a terminal nor a live front end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

_LIVE_NOTEBOOKS = ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG", "VSCODE_PID")


def is_watched() -> bool:
    """Tell a terminal or a live notebook from a build that stores what cells write."""
    return sys.stderr.isatty() or any(name in os.environ for name in _LIVE_NOTEBOOKS)


def counted(steps: int, name: str, show: bool = True) -> Iterable[int]:
    """Count from 1 to `steps`, with a bar where `is_watched`.

    Parameters
    ----------
    steps : int
        The last number.
    name : str
        What stands before the bar.
    show : bool, default True
        False never shows a bar.

    Returns
    -------
    iterable of int

    Raises
    ------
    ImportError
        If a bar is to be shown and tqdm is missing.
    """
    if not (show and is_watched()):
        return range(1, steps + 1)
    try:
        from tqdm.std import tqdm
    except ImportError as error:
        raise ImportError(
            "the progress bar needs tqdm: pip install 'attncourse[train]', or pass progress=False"
        ) from error
    return tqdm(range(1, steps + 1), desc=name, leave=False, file=sys.stderr)
