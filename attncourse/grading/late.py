"""What lateness costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from attncourse.grading.points import exact

__all__ = ["factor", "lateness", "when"]


def when(text: str) -> datetime:
    """Read a date with its offset from UTC, such as `2026-03-01T23:59:00+01:00`.

    Raises
    ------
    ValueError
        If it is no date, or its offset is missing: nobody knows then when it was.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        last = moment if "T" in text or " " in text else moment.replace(hour=23, minute=59)
        raise ValueError(
            f"{text} does not say its offset from UTC; write {last.isoformat()}+00:00, for example"
        )
    return moment.astimezone(UTC)


def lateness(
    submitted: datetime | None, due: datetime | None, grace_minutes: float = 5
) -> timedelta:
    """Return how late a submission is, zero within the grace."""
    if submitted is None or due is None or submitted <= due + timedelta(minutes=grace_minutes):
        return timedelta()
    return submitted - due


def factor(late: timedelta, rule: Mapping[str, Any] | None) -> Fraction:
    """Return what the points of a late submission are multiplied with.

    Parameters
    ----------
    late : timedelta
        Zero or more; a day that has begun counts as a day.
    rule : mapping or None
        `penalty_per_day` (share of the points, `"0.1"`) and `max_days` (later ones get 0).

    Returns
    -------
    Fraction
        From 0 to 1.
    """
    if not late or not rule:
        return Fraction(1)
    days = math.ceil(late / timedelta(days=1))
    if days > int(rule.get("max_days", 10**6)):
        return Fraction(0)
    return max(Fraction(0), 1 - days * exact(rule.get("penalty_per_day", 0)))
