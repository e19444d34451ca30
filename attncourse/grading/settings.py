"""How submissions are graded: one object for one notebook and for a batch.

The one idea: whatever is set on the command line is set here once, travels with each job to where
it is graded, and is part of the key under which a grade is filed. Budgets and limits are computed
from it and the exercise, never passed on beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from attncourse.grading.accounts import FREE_CELLS
from attncourse.grading.backends import IMAGE, Isolation
from attncourse.grading.exercise import Spec
from attncourse.grading.sandbox import WALL

__all__ = ["FREE_SECONDS", "MOST_FACTOR", "Settings"]

# Address space that the libraries take before any learner code runs, rounded up.
NUMPY_MB, TORCH_MB = 256, 1536
MOST_FACTOR = 1000
FREE_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """What is the same for every submission of a run.

    Parameters
    ----------
    exercise : str
        Folder of the exercise.
    backend : str
        One that `choose` has agreed to.
    image : str
        Image of a container.
    seed : int or None
        Secret of the course, from which hidden tests may draw their inputs.
    time_factor : float
        Multiplies all time limits, for a slow machine: above 0, at most 1000.
    free_seconds : float
        Time for each cell that belongs to no question; three times as much for all of them.

    Raises
    ------
    ValueError
        If a time is not such a number.
    """

    exercise: str
    backend: str = "bwrap"
    image: str = IMAGE
    seed: int | None = None
    time_factor: float = 1.0
    free_seconds: float = FREE_SECONDS

    def __post_init__(self) -> None:
        """Refuse times that no clock can keep."""
        if not 0 < self.time_factor <= MOST_FACTOR:
            raise ValueError(
                f"the time factor must be above 0 and at most {MOST_FACTOR}, got {self.time_factor}"
            )
        if not 0 < self.free_seconds <= 86_400:
            raise ValueError(f"free_seconds must be from 0 to 86400, got {self.free_seconds}")

    def budgets(self, exercise: Spec) -> dict[str, float]:
        """Return the seconds of each question, its cell and the calls of its tests together."""
        return {each.id: float(each.seconds) * self.time_factor for each in exercise.questions}

    def free(self) -> float:
        """Return the seconds of a cell that belongs to no question."""
        return self.free_seconds * self.time_factor

    def _all(self, exercise: Spec) -> float:
        """Return the seconds of all questions, and twice those of all free cells."""
        return sum(self.budgets(exercise).values()) + 2 * FREE_CELLS * self.free()

    def patience(self, exercise: Spec) -> float:
        """Return after how many seconds without a result a job process is taken to hang."""
        return 3 * WALL * self._all(exercise) + 120

    def isolation(self, exercise: Spec) -> Isolation:
        """Return how a worker is shut in, as the exercise's limits ask for."""
        base = TORCH_MB if "torch" in exercise.callables.values() else NUMPY_MB
        memory = int(max(each.memory_mb for each in exercise.questions) + base) << 20
        return Isolation(
            backend=self.backend,
            memory_bytes=memory,
            cpu_seconds=int(self._all(exercise)),
            image=self.image,
            real_package=exercise.real_package,
        )
