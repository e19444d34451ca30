"""Graded exercises: instant checks for learners, a sandboxed grader for instructors.

The one name that a notebook needs is `Exercise`; it is loaded when it is asked for, because the
grader's worker imports modules below this package and must stay small.
"""

from typing import Any

__all__ = ["Exercise"]


def __getattr__(name: str) -> Any:
    """Load `Exercise` on first use."""
    if name == "Exercise":
        from attncourse.grading.check import Exercise

        return Exercise
    raise AttributeError(f"module 'attncourse.grading' has no attribute {name!r}")
