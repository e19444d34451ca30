"""Compare what came with what was wanted, and say it so that a learner can act on it.

The one idea: a message names both shapes, or the largest error and where it is; never a wall of
numbers. For use in an exercise's tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["close", "shaped", "unchanged"]

FEW = 8  # so many numbers are shown one by one


def close(came: Any, wanted: Any, what: str, *, tolerance: float = 1e-9) -> None:
    """Assert that an array is as wanted.

    Parameters
    ----------
    came : object
        What the learner's code returned.
    wanted : array_like
        What is right.
    what : str
        Its name in the message, such as `the weights`.
    tolerance : float
        Relative and absolute.

    Raises
    ------
    AssertionError
        With shapes, or with the largest error and its place.

    Examples
    --------
    >>> close([1.0, 2.5], [1.0, 2.0], "the sums")
    Traceback (most recent call last):
    AssertionError: the sums: largest error 0.5 at [1]: wanted 2, came 2.5 (1 of 2 numbers differ)
    """
    target = np.asarray(wanted)
    if came is None:
        raise AssertionError(f"{what}: nothing came back: is a return missing?")
    found = _array(came, what)
    few = found.ndim == target.ndim == 1 and max(found.size, target.size) <= FEW
    if few and found.size != target.size:
        raise AssertionError(f"{what}: wanted {_listed(target)}, came {_listed(found)}")
    if _holds_the_result(came, target.shape):
        raise AssertionError(
            f"{what}: came {len(came)} arrays, wanted the first one alone: does your function "
            "return more than it should?"
        )
    shaped(found, target.shape, what)
    if target.dtype == bool and found.dtype != bool:
        raise AssertionError(f"{what}: wanted True and False, came the dtype {found.dtype}")
    if (bad := ~np.isfinite(found.astype(float))).any() and np.isfinite(target).all():
        place = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
        raise AssertionError(f"{what}: {found[bad][0]} at [{place}], wanted finite numbers")
    note = _narrow(found)
    _compare(found.astype(float), target.astype(float), what, tolerance, target.dtype == bool, note)


def shaped(came: Any, wanted: tuple[int, ...], what: str) -> None:
    """Assert that an array has the wanted shape.

    Parameters
    ----------
    came : object
        What the learner's code returned.
    wanted : tuple of int
        Its shape.
    what : str
        Its name in the message, such as `the weights`.

    Raises
    ------
    AssertionError
        With both shapes.
    """
    if came is None:
        raise AssertionError(f"{what}: nothing came back: is a return missing?")
    found = _array(came, what)
    if found.shape != wanted:
        raise AssertionError(f"{what}: wanted the shape {wanted}, came {found.shape}")


def unchanged(came: Any) -> None:
    """Assert that a call has left its arguments alone.

    Parameters
    ----------
    came : object
        The second part of what `student.changed` gave.

    Raises
    ------
    AssertionError
        Naming the arguments.
    """
    if came != []:
        raise AssertionError(
            f"your function changes what it is given ({', '.join(map(str, came))}): whoever calls "
            "it needs those numbers again; work on a copy"
        )


def _array(came: Any, what: str) -> np.ndarray:
    """Return a value as an array of numbers."""
    if not isinstance(came, str) and _holds_text(
        came
    ):  # an array of texts takes the longest one's room for each of them
        raise AssertionError(f"{what}: wanted an array of numbers, came a list with text in it")
    try:
        found = np.asarray(came)
    except ValueError:
        if isinstance(came, list) and any(isinstance(item, np.ndarray) for item in came):
            shapes = ", ".join(str(np.shape(item)) for item in came[:FEW])
            raise AssertionError(
                f"{what}: came {len(came)} values, of the shapes {shapes}; wanted one array: does "
                "your function return more than it should?"
            ) from None
        raise AssertionError(f"{what}: the rows that came have different lengths") from None
    if found.dtype.kind not in "biuf":
        kind = type(came).__name__
        raise AssertionError(f"{what}: wanted an array of numbers, came a {kind}")
    return found


def _holds_text(came: Any) -> bool:
    """Tell whether a text stands in a list, however deep."""
    if isinstance(came, (list, tuple)):
        return any(map(_holds_text, came))
    return isinstance(came, str)


def _holds_the_result(came: Any, wanted: tuple[int, ...]) -> bool:
    """Tell whether several arrays came, the first of which has the wanted shape."""
    several = isinstance(came, list) and len(came) > 1
    return several and isinstance(came[0], np.ndarray) and came[0].shape == wanted


def _listed(numbers: Any) -> str:
    """Return a few numbers as a list."""
    return "[" + ", ".join(f"{number:.6g}" for number in numbers.tolist()) + "]"


def _narrow(found: Any) -> str:
    """Say what a narrow dtype costs."""
    digits = {"float32": 7, "float16": 3}.get(str(found.dtype))
    if digits is None:
        return ""
    return f"; it is {found.dtype}, which holds about {digits} digits: compute in float64"


def _compare(
    found: Any, target: Any, what: str, tolerance: float, truth: bool, note: str = ""
) -> None:
    """Assert that two float arrays of one shape agree."""
    good = np.isclose(found, target, rtol=tolerance, atol=tolerance, equal_nan=True)
    if good.all():
        return
    error = np.where(good, -1.0, np.nan_to_num(np.abs(found - target), nan=np.inf, posinf=np.inf))
    index = np.unravel_index(int(np.argmax(error)), error.shape)
    wanted, came = target[index], found[index]
    place = " at [" + ", ".join(str(int(i)) for i in index) + "]" if index else ""
    count = f" ({int((~good).sum())} of {good.size} numbers differ)" if good.size > 1 else ""
    if truth:
        raise AssertionError(f"{what}: wanted {bool(wanted)}{place}, came {bool(came)}{count}")
    large = f"largest error {error[index]:.3g}{place}: " if index else ""
    digits = 6 if f"{wanted:.6g}" != f"{came:.6g}" else 17
    pair = f"wanted {wanted:.{digits}g}, came {came:.{digits}g}"
    raise AssertionError(f"{what}: {large}{pair}{count}{note}")
