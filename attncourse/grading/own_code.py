"""Look at a learner's functions without running them.

The one idea: code is data too. Whether an answer has changed since the last check, whether it is
still the stub, and whether it leans on a module that is not there when it is graded, all stands in
its code objects.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["borrowed", "fingerprint", "untouched"]


def _codes(value: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, a class's methods, and all code inside it."""
    if isinstance(value, type):
        for part in vars(value).values():
            yield from _codes(getattr(part, "__func__", part))
        return
    code = value if isinstance(value, types.CodeType) else getattr(value, "__code__", None)
    if isinstance(code, types.CodeType):
        yield code
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                yield from _codes(part)


def _reached(names: Mapping[str, Any], called: Iterable[str]) -> dict[str, list[types.CodeType]]:
    """Return the code of some functions, and of all that they name in turn, by name."""
    found: dict[str, list[types.CodeType]] = {}
    waiting = [name for name in called if name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = list(_codes(names[name]))
            used = {each for code in found[name] for each in code.co_names}
            waiting += [each for each in used if each in names]
    return found


def fingerprint(names: Mapping[str, Any], called: Iterable[str]) -> int:
    """Return a number that changes when the code behind some names changes.

    Parameters
    ----------
    names : mapping of str to object
        The learner's.
    called : iterable of str
        What tests call.

    Returns
    -------
    int
    """
    parts = []
    for name, codes in sorted(_reached(names, called).items()):
        for code in codes:
            kept = [repr(p) for p in code.co_consts if not isinstance(p, types.CodeType)]
            parts.append((name, code.co_code, tuple(kept), code.co_names, code.co_varnames))
    return hash(tuple(parts))


def borrowed(names: Mapping[str, Any], called: Iterable[str]) -> str:
    """Return the module of `attncourse` that an answer needs and will not have; else nothing.

    Parameters
    ----------
    names : mapping of str to object
        The learner's.
    called : iterable of str
        What tests call.

    Returns
    -------
    str
    """
    for name, codes in _reached(names, called).items():
        value = names[name]
        module = value.__name__ if isinstance(value, types.ModuleType) else value
        module = module if isinstance(module, str) else getattr(value, "__module__", "") or ""
        imported = [each for code in codes for each in code.co_names]
        for each in (module, *imported):
            if each.startswith("attncourse.") and not each.startswith("attncourse.grading"):
                return each
    return ""


def untouched(code: types.CodeType) -> bool:
    """Tell whether a function does nothing but raise NotImplementedError."""
    given = code.co_argcount + code.co_kwonlyargcount
    given += sum(bool(code.co_flags & flag) for flag in (0x04, 0x08))  # *args, **kwargs
    return set(code.co_names) <= {"NotImplementedError"} and code.co_nlocals == given
