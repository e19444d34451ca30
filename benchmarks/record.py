"""Say under what circumstances a script measured, and keep what it found."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attncourse


def circumstances(script: str) -> dict[str, str]:
    """Name the script, the day, the device and the versions.

    Parameters
    ----------
    script : str
        The script's ``__file__``.
    """
    return {
        "script": f"benchmarks/{Path(script).name}",
        "date": datetime.date.today().isoformat(),
        "device": f"CPU, {platform.machine()}, {torch.get_num_threads()} thread",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "attncourse": attncourse.__version__,
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write results as JSON; numbers of NumPy and torch become Python's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=float) + "\n", encoding="utf-8")
