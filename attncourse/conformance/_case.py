"""A case: one named thing that an attention function must do, and whether it applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from attncourse.conformance._subject import Subject

LEVELS = ("quick", "full")


@dataclass(frozen=True)
class Case:
    """One thing to check.

    Attributes
    ----------
    name : str
        Theme and name, such as "exact/causal".
    says : str
        What must hold, in one sentence.
    check : callable
        Takes a `Subject`; raises `Mismatch` when it does not hold.
    needs : frozenset of str
        Features without which the case has no meaning.
    level : {"quick", "full"}
        The level from which the case is run.
    scores : int
        Number of scores (batch x heads x L x S) of its largest call.
    gradcheck : bool
        Whether it calls the function once for every number of its inputs.
    """

    name: str
    says: str
    check: Callable[[Any], None]
    needs: frozenset[str] = frozenset()
    level: str = "quick"
    scores: int = 1
    gradcheck: bool = False

    @property
    def theme(self) -> str:
        """The part of the name before the slash."""
        return self.name.split("/")[0]

    def missing(self, subject: Subject) -> list[str]:
        """List the features that the function lacks for this case."""
        return sorted(need for need in self.needs if not subject.has(need))

    def too_large(self, subject: Subject) -> bool:
        """Tell whether the case is larger than what the function is tested with."""
        limit = subject.max_gradcheck if self.gradcheck else subject.max_scores
        return limit is not None and self.scores > limit


class Theme:
    """A list of cases under one name; a module of cases fills one.

    Parameters
    ----------
    name : str
        First part of every case's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: list[Case] = []

    def add(
        self,
        name: str,
        says: str,
        check: Callable[[Any], None],
        *,
        needs: Iterable[str] = (),
        level: str = "quick",
        scores: int = 1,
        gradcheck: bool = False,
    ) -> None:
        """Append one case."""
        if level not in LEVELS:
            raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
        full_name = f"{self.name}/{name}"
        self.cases.append(Case(full_name, says, check, frozenset(needs), level, scores, gradcheck))

    def case(self, name: str, says: str, **settings: Any) -> Callable[..., Any]:
        """Decorate a function that takes a `Subject`, making a case of it."""

        def register(check: Callable[[Any], None]) -> Callable[[Subject], None]:
            self.add(name, says, check, **settings)
            return check

        return register
