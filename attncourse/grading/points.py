"""Points without rounding errors: fractions inside, short decimals outside."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

__all__ = ["exact", "shown"]


def exact(points: Any) -> Fraction:
    """Return points as a fraction.

    Parameters
    ----------
    points : int, float or str
        `2`, `0.1` or `"0.1"`: what is written counts, not the nearest binary number.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> exact(0.1) + exact("0.2")
    Fraction(3, 10)
    """
    return points if isinstance(points, Fraction) else Fraction(str(points))


def shown(points: Fraction | None) -> str:
    """Return points as a decimal number, exact where it ends within four digits.

    Examples
    --------
    >>> shown(Fraction(5, 2)), shown(Fraction(1, 3)), shown(Fraction(4)), shown(None)
    ('2.5', '0.3333', '4', '')
    """
    if points is None:
        return ""
    scaled = round(points * 10_000)
    whole, rest = divmod(abs(scaled), 10_000)
    digits = f"{rest:04d}".rstrip("0")
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"
