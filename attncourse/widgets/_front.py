"""What the figures share: their files, and labels that a translation may replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

__all__ = ["labels_from", "read"]

_HERE = files("attncourse.widgets")
_BLANK = re.compile(r"\{(\w+)\}")


def read(*names: str) -> str:
    """Return the text of files of this package, one after the other."""
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


def labels_from(defaults: Mapping[str, str], given: Mapping[str, str] | None) -> dict[str, str]:
    """Put the caller's labels over the English ones.

    Parameters
    ----------
    defaults : mapping of str to str
        Every label of the figure; "{name}" is a blank that the page fills in.
    given : mapping of str to str, optional
        Some of them, in another language.

    Returns
    -------
    dict of str to str
        One text for each label.

    Raises
    ------
    ValueError
        For a label that the figure does not have, or a blank that the page cannot fill.
    """
    given = dict(given or {})
    if unknown := sorted(given.keys() - defaults.keys()):
        raise ValueError(f"unknown labels {unknown}; this figure has {sorted(defaults)}")
    for name, text in given.items():
        extra = set(_BLANK.findall(text)) - set(_BLANK.findall(defaults[name]))
        if extra:
            raise ValueError(
                f"label {name!r} has the blanks {sorted(extra)}, the page fills only those of "
                f"{defaults[name]!r}"
            )
    return {**defaults, **given}
