"""How our own code is started in another Python: it imports nothing from the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["python"]


def python(code: str, **environment: str) -> tuple[list[str], dict[str, str]]:
    """Return the words and the environment of a Python that runs code of this package.

    Parameters
    ----------
    code : str
        What it runs.
    **environment : str
        Variables that are set beside those of this process.

    Returns
    -------
    words : list of str
        With `-P`: the current folder, which may hold hostile or misnamed files, stays off the
        import path.
    environment : dict of str to str
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-P", "-B", "-c", code]
    return words, {**os.environ, "PYTHONPATH": paths, **environment}
