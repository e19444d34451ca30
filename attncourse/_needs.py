"""Say early that a package is missing, in words that the command line can complete."""

from importlib.util import find_spec

__all__ = ["need"]


def need(*packages: str) -> None:
    """Raise if a package is missing, before any work is done.

    Raises
    ------
    ModuleNotFoundError
        Naming it; the command line says how to get it.
    """
    for name in packages:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
