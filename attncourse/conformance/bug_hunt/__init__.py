"""Five broken attention kernels to diagnose from their conformance reports alone.

Each suspect is `kernel.attention` with one mistake in it, of the kind that passes a quick
look. `suspect("A")` gives the function, `reveal("A")` shows the lines that are wrong. The
answers stand in `_answers`: do not open it before you have read the reports.
"""

from __future__ import annotations

import difflib
import inspect
import linecache
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

from attncourse.conformance.bug_hunt import kernel
from attncourse.conformance.bug_hunt._answers import ANSWERS

__all__ = ["NAMES", "caught_by", "reveal", "suspect"]

NAMES = tuple(ANSWERS)


def suspect(name: str) -> Callable[..., Any]:
    """Return one of the broken kernels.

    Parameters
    ----------
    name : str
        A letter, one of `NAMES`.

    Returns
    -------
    callable
        Called like `kernel.attention`: query, key and value of shape (..., H, L, E), and
        `is_causal`, `enable_gqa`, `return_lse`.

    Raises
    ------
    ValueError
        For another name.

    Examples
    --------
    >>> suspect("A").__name__
    'suspect_A'
    """
    source, file = _source(name), f"<suspect {name}>"
    module = ModuleType("bug_hunt")
    module.__dict__["__name__"] = "bug_hunt"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    function: Callable[..., Any] = module.attention
    function.__name__ = f"suspect_{name}"
    return function


def reveal(name: str) -> str:
    """Show what is wrong with a suspect, as lines taken out (-) and put in (+).

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Returns
    -------
    str
        The mistake in a sentence, and the difference to the correct kernel.
    """
    before, after = (text.splitlines() for text in (_right(), _source(name)))
    lines = [x for x in difflib.unified_diff(before, after, lineterm="", n=0) if x[0] in "-+"]
    changed = [x for x in lines if not x.startswith(("---", "+++")) and "import math" not in x]
    mistake = textwrap.wrap(f"{name}: {ANSWERS[name].mistake}", 78)
    shown = textwrap.dedent("\n".join(line[1:] for line in changed)).splitlines()
    signed = [was[0] + now for was, now in zip(changed, shown, strict=True)]
    return "\n".join([*mistake, *signed])


def caught_by(name: str) -> str:
    """Return the name of the case that describes a suspect's mistake best."""
    return ANSWERS[_known(name)].caught_by


def _right() -> str:
    return inspect.getsource(kernel)


def _source(name: str) -> str:
    """Put the mistake into the correct source."""
    answer = ANSWERS[_known(name)]
    changed = _right().replace(answer.find, answer.become)
    return changed.replace("from typing import Any", "import math\nfrom typing import Any", 1)


def _known(name: str) -> str:
    if name not in ANSWERS:
        raise ValueError(f"no suspect is called {name!r}; there are {', '.join(NAMES)}")
    return name
