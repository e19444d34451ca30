"""Which cells need what not every machine has, and what is missing on this one.

A cell with the tag ``needs-triton`` is executed where Triton is installed. Elsewhere it is skipped
by name: by the build of the book, whose page shows the result stored in the notebook and says so,
and by nbval. Standard library only, so that pytest's configuration can read it.
"""

from importlib.util import find_spec

TAG = "needs-"
# What a cell may need: the module to look for, and how a page calls it.
NEEDS = {"triton": "Triton, which comes for Linux only"}


def missing():
    """Name the needs that are not met here."""
    return [name for name in NEEDS if find_spec(name) is None]


def unmet(tags):
    """Name what a cell with these tags needs and this machine lacks.

    Raises
    ------
    ValueError
        For a need that is not in `NEEDS`.
    """
    wanted = [tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)]
    if unknown := [name for name in wanted if name not in NEEDS]:
        raise ValueError(f"no such need: {', '.join(unknown)}; known: {', '.join(NEEDS)}")
    return [name for name in wanted if name in missing()]
