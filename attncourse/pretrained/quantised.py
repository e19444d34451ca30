"""Read a GGUF file: weights of 4 or 8 bits, widened to float32 once and then kept.

The one idea: quantised weights are small to carry and slow to open. What comes out of the first
reading is written to a cache outside the repository, as safetensors, and read from there later.
The cache's file name holds a fingerprint of the GGUF file, so that another file never meets it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from attncourse.pretrained.files import Checkpoint, check_no_pickle, damaged, read_safetensors

FORMAT = "1"  # of the cached file; another number makes old ones useless
UNFINISHED = "unfinished-"  # how the folder is called in which a cached file is written


def read_gguf(path: Path, *, use_cache: bool = True) -> Checkpoint:
    """Read a GGUF file, or what an earlier reading left in the cache.

    Parameters
    ----------
    path : Path
        The file.
    use_cache : bool, default True
        Look into the cache, and fill it.

    Returns
    -------
    Checkpoint
        Its family is ``"gguf:"`` and the architecture that the file names.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    ValueError
        When it is no GGUF file, cut short, or damaged.
    """
    check_no_pickle(path)
    kept = cache_folder() / f"{path.stem}-{_fingerprint(path)}.safetensors"
    found = _from_cache(kept) if use_cache else None
    if found is None:
        found = _read(path)
        if use_cache:
            _to_cache(kept, *found)
    metadata, tensors = found
    vocabulary = {name: value for name, value in metadata.items() if name.startswith("tokenizer.")}
    settings = {name: value for name, value in metadata.items() if name not in vocabulary}
    family = f"gguf:{settings.get('general.architecture')}"
    return Checkpoint(family, settings, tensors, vocabulary, path.parent)


def cache_folder() -> Path:
    """Return where widened weights are kept.

    Returns
    -------
    Path
        The variable ``ATTNCOURSE_CACHE`` where it is set, else the system's place for caches.
    """
    chosen = os.environ.get("ATTNCOURSE_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "attncourse"


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read every field and widen every tensor."""
    from gguf import dequantize

    try:
        reader = _strict_reader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {}
        for entry in reader.tensors:
            shape = [int(size) for size in reversed(entry.shape)]
            wide = dequantize(entry.data, entry.tensor_type).astype("float32", copy=False)
            tensors[entry.name] = torch.from_numpy(wide.reshape(shape).copy())
    except (ValueError, IndexError, KeyError, OverflowError, RecursionError) as problem:
        raise ValueError(damaged(path, problem)) from problem
    return metadata, tensors


def _strict_reader(path: Path) -> Any:
    """Open a file with a reader that stops at its end.

    The library's own goes on: a list that claims to be endless would fill the memory.
    """
    from gguf import GGUFReader

    class StrictReader(GGUFReader):
        def _get(self, offset: int, dtype: Any, count: Any = 1, *rest: Any, **named: Any) -> Any:
            found = super()._get(offset, dtype, count, *rest, **named)
            if len(found) < int(count):
                raise ValueError(f"it ends inside a field at byte {offset:,}")
            return found

    return StrictReader(path)


def _fingerprint(path: Path) -> str:
    """Name the contents of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16] + "-" + FORMAT


def _from_cache(kept: Path) -> tuple[dict[str, Any], Mapping[str, Tensor]] | None:
    """Return what an earlier reading kept, or None; a damaged file counts as none."""
    from safetensors import safe_open

    try:
        if not kept.is_file():
            return None
        tensors = read_safetensors(kept)
        with safe_open(kept, "pt") as file:
            metadata = json.loads(file.metadata()["gguf"])
        return (metadata, tensors) if isinstance(metadata, dict) else None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return None


def _to_cache(kept: Path, metadata: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Keep a reading. A full disk or a read-only home costs speed later, nothing else."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        _sweep(kept.parent)
        with TemporaryDirectory(
            prefix=UNFINISHED, dir=kept.parent, ignore_cleanup_errors=True
        ) as folder:
            part = Path(folder) / kept.name
            save_file(dict(tensors), part, metadata={"gguf": json.dumps(metadata)})
            part.replace(kept)  # whole or not at all, also when two processes write
    except (OSError, SafetensorError):  # the library has its own error for a full disk
        return


def _sweep(folder: Path) -> None:
    """Remove what a process left that was killed while it wrote: old ones only."""
    for left in folder.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 3600:
                shutil.rmtree(left)
