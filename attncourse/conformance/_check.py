"""Compare what was wanted with what came, and say where they part.

Nothing here returns a verdict that a caller could drop: a comparison passes in silence or
raises `Mismatch`, which carries the numbers that a report shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance import _tolerance


class Mismatch(AssertionError):
    """A case failed: what was wanted, what came, and by how much they differ.

    Attributes
    ----------
    what : str
        What was compared, such as "out" or "gradient of key".
    wanted, came : str
        Both sides, as text.
    error, allowed : float or None
        Largest error and the error allowed, where the two sides are numbers.
    """

    def __init__(
        self,
        what: str,
        wanted: str,
        came: str,
        error: float | None = None,
        allowed: float | None = None,
    ) -> None:
        self.what, self.wanted, self.came = what, wanted, came
        self.error, self.allowed = error, allowed
        size = "" if error is None else f"; largest error {error:.3g}, allowed {allowed:.3g}"
        super().__init__(f"{what}: wanted {wanted}, came {came}{size}")


class LeftOut(Exception):
    """A case found, while it ran, that it is too large for the function."""


def close(what: str, came: Any, wanted: Any, allowed: float) -> float:
    """Check that no number is further off than `allowed`.

    Parameters
    ----------
    what : str
        Name of the quantity.
    came, wanted : array
        Numbers, NaN and infinities included: these must stand in the same places.
    allowed : float
        Largest absolute error.

    Returns
    -------
    float
        The largest error found.

    Raises
    ------
    Mismatch
        When shapes differ, or one number is too far off.
    """
    came, wanted = np.asarray(came, np.float64), np.asarray(wanted, np.float64)
    if came.shape != wanted.shape:
        raise Mismatch(f"shape of {what}", str(wanted.shape), str(came.shape))
    error = _tolerance.distance(came, wanted)
    largest = float(error.max(initial=0.0))
    if not largest <= allowed:
        spot = np.unravel_index(int(error.argmax()), error.shape)
        sides = _both(wanted, came, spot)
        if sides[0] == sides[1]:  # equal in the digits shown: show all digits of one number
            sides = repr(float(wanted[spot])), repr(float(came[spot]))
        raise Mismatch(_at(what, spot), *sides, largest, allowed)
    return largest


def same_bits(what: str, came: Any, wanted: Any) -> None:
    """Check that two results are equal to the last bit; NaN equals NaN.

    Raises
    ------
    Mismatch
        When shapes differ or any number differs.
    """
    close(f"{what} (to the last bit)", came, wanted, 0.0)


def true(condition: Any, what: str, wanted: str, came: Any) -> None:
    """Check a condition that is no comparison of arrays.

    Raises
    ------
    Mismatch
        When it does not hold.
    """
    if not condition:
        raise Mismatch(what, wanted, str(came))


def _at(what: str, spot: tuple) -> str:
    return f"{what} at [{', '.join(map(str, spot))}]" if spot else what


def _both(wanted: np.ndarray, came: np.ndarray, spot: tuple) -> tuple[str, str]:
    """Write both sides: whole when small, else the row with the largest error."""
    if wanted.ndim > 1 and wanted.size > 12:
        wanted, came = wanted[spot[:-1]], came[spot[:-1]]
    if wanted.size > 12:
        start = max(0, min(spot[-1] - 2, wanted.shape[-1] - 5))
        window = slice(start, start + 5)
        return _text(wanted[window], start), _text(came[window], start)
    return _text(wanted), _text(came)


def _text(array: np.ndarray, start: int | None = None) -> str:
    text = np.array2string(array, precision=6, suppress_small=False, separator=", ")
    text = " ".join(text.split())
    return text if start is None else f"… {text} …"
