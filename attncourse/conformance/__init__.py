"""A suite that any attention function can be run through, a learner's too.

`run` calls a function with some hundred named cases and returns a report that prints and
renders as a table. A case has an exact or a float64 answer, or states a law that needs no
answer; it applies when the function has the features that it needs. The rungs of the
ladder are held to the same cases in the tests.

Functions that decode with a cache, and caches, have suites of their own: `run_decode` and
`run_cache` (`attncourse.conformance.decoding`).

Left out: speed and memory (`attncourse bench` measures them).
"""

from __future__ import annotations

from attncourse.conformance._case import LEVELS, Case
from attncourse.conformance._check import Mismatch
from attncourse.conformance._command import EXAMPLES, add_command
from attncourse.conformance._flaws import flaws_of
from attncourse.conformance._infer import subject_of
from attncourse.conformance._limits import EXTRAS, limits_of, missing_package
from attncourse.conformance._report import Outcome, Report
from attncourse.conformance._run import all_cases, run, run_case
from attncourse.conformance._subject import Subject
from attncourse.conformance.decoding import cache_cases, run_cache, run_decode, step_cases

__all__ = [
    "EXAMPLES",
    "EXTRAS",
    "LEVELS",
    "Case",
    "Mismatch",
    "Outcome",
    "Report",
    "Subject",
    "add_command",
    "all_cases",
    "cache_cases",
    "flaws_of",
    "limits_of",
    "missing_package",
    "run",
    "run_cache",
    "run_case",
    "run_decode",
    "step_cases",
    "subject_of",
]
