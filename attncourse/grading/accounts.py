"""What a question has used up: its seconds, its workers, the bytes that it sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from attncourse.grading.inside.wire import StudentError

__all__ = ["FREE", "FREE_CELLS", "MOST_BYTES", "Account"]

MOST_BYTES = 64 << 20  # tests keep what they are given: so much of it a question may send
FREE_CELLS = 3  # so many cells of no question may use up all of their time
FREE = ""  # the account of the cells that belong to no question


@dataclass
class Account:
    """What a question may use, and what it has used.

    Parameters
    ----------
    seconds : float
        Budget.
    max_deaths : int
        After so many deaths of its worker the question is given up.
    each : float or None
        One cell may use so much; what is left remains for the others. None: all of it.
    """

    seconds: float
    max_deaths: int = 3
    used: float = 0.0
    deaths: int = 0
    received: int = 0
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    each: float | None = None

    def left(self) -> float:
        """Return the seconds that are left.

        Raises
        ------
        StudentError
            If nothing more may be run.
        """
        left = self.seconds - self.used
        if left <= 0:
            raise StudentError(f"not run: the time limit of {self.seconds:g} s is used up")
        if self.received > MOST_BYTES:
            raise StudentError("not run: the results so far are too large together")
        if self.deaths >= self.max_deaths:
            raise StudentError(f"not run: the process ended {self.deaths} times before")
        return left if self.each is None else min(left, self.each)

    def book_time_out(self) -> None:
        """Book that the time is over."""
        limit = self.seconds if self.each is None else self.each
        self.book_end("timeout", f"time limit of {limit:g} s is over")
        if self.each is None:
            self.used = self.seconds

    def book_memory(self, what: str) -> None:
        """Book that something wanted more memory than there is."""
        self.status = "memory"
        self.notes.append(f"{what} needed more memory than there is")

    def book_end(self, status: str, note: str) -> None:
        """Book the end of a worker."""
        self.deaths += 1
        self.status = status
        self.notes.append(note)
