"""What the class understood: the instructor's page about all results of an exercise.

The one idea: look at tests, not at people. A test that everybody fails is a question for its
author; one that only good learners fail is one too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from attncourse.grading.page import page
from attncourse.grading.points import exact, shown
from attncourse.notebook.markup import Html, element, join, table

__all__ = ["item_rows", "summary"]


def item_rows(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Analyse every test over all results that ran.

    Parameters
    ----------
    results : sequence of dict
        See `attncourse.grading.grade.grade`.

    Returns
    -------
    list of dict
        `test`, `question`, `hidden`, `ran`, `passed`, and `discrimination`: the correlation of
        passing with the points of all other tests (None where it is not defined).
    """
    seen: dict[str, dict[str, Any]] = {}
    for result in results:
        tests = [(entry["id"], test) for entry in result["questions"] for test in entry["tests"]]
        total = sum((exact(test["points"]) for _, test in tests), Fraction(0))
        for question, test in tests:
            place = ("hidden/" if test["hidden"] else "public/") + test["test"]
            row = {
                "test": test["test"],
                "question": question,
                "hidden": test["hidden"],
                "pairs": [],
            }
            rest = float(total - exact(test["points"]))
            seen.setdefault(place, row)["pairs"].append((float(test["passed"]), rest))
    return [_analysed(row) for row in seen.values()]


def _analysed(row: dict[str, Any]) -> dict[str, Any]:
    """Replace the raw pairs by the figures."""
    pairs = np.array(row.pop("pairs"))  # (n, 2)
    spread = pairs.std(axis=0)
    defined = len(pairs) > 2 and bool((spread > 0).all())
    value = float(np.corrcoef(pairs.T)[0, 1]) if defined else None
    return {**row, "ran": len(pairs), "passed": int(pairs[:, 0].sum()), "discrimination": value}


def _items(results: Sequence[dict[str, Any]]) -> Html:
    """Return the table of tests."""
    rows = []
    for item in item_rows(results):
        share = f"{item['passed']} of {item['ran']} ({100 * item['passed'] // item['ran']} %)"
        value = "–" if item["discrimination"] is None else f"{item['discrimination']:.2f}"
        kind = "hidden" if item["hidden"] else "public"
        name = item["test"].rpartition("::")[2]
        rows.append([item["question"], name, element("span", kind), element("span", share), value])
    return table(["question", "test", "kind", "passed", "discrimination"], rows)


def _mistakes(results: Sequence[dict[str, Any]]) -> Html:
    """Return how many learners made which known mistake."""
    counted: Counter[str] = Counter()
    for result in results:
        tests = [test for entry in result["questions"] for test in entry["tests"]]
        counted.update({test["mistake"] for test in tests if test.get("mistake")})
    if not counted:
        return Html("")
    rows = [[name, count] for name, count in counted.most_common()]
    return join(element("h2", "Known mistakes"), table(["mistake", "learners"], rows))


def _points(results: Sequence[dict[str, Any]]) -> str:
    """Return a sentence about the points."""
    ran = [result for result in results if any(entry["tests"] for entry in result["questions"])]
    values = sorted(exact(result["points"]) for result in ran if result["points"] is not None)
    if not values:
        return "Nobody has points yet."
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    mean = sum(values, Fraction(0)) / len(values)
    return (
        f"{len(values)} graded, of {results[0]['max']} points: lowest {shown(values[0])}, "
        f"median {shown(middle)}, mean {shown(mean)}, highest {shown(values[-1])}."
    )


def _stands_out(result: dict[str, Any]) -> bool:
    """Tell whether a person should look: it went wrong, lacked a module, or failed as a whole."""
    if result["status"] not in ("graded", "late"):
        return bool(result["status"] != "missing")
    failed = exact(result["points"]) == 0 and any(cell["error"] for cell in result["cells"])
    return bool(result["message"]) or failed


def _why(result: dict[str, Any]) -> str:
    """Return what an instructor should know about a result that stands out."""
    notes = [
        f"{entry['id']}: {entry['notes'][0]}" for entry in result["questions"] if entry["notes"]
    ]
    errors = [
        f"cell {cell['cell']}: {cell['error'][:200]}" for cell in result["cells"] if cell["error"]
    ]
    said = [result["message"][-400:]] if result["message"] else errors[:1]
    return "; ".join([*said, *notes])


def summary(results: Sequence[dict[str, Any]], exercise: Any) -> str:
    """Return the instructor's page.

    Parameters
    ----------
    results : sequence of dict
        All of them.
    exercise : Exercise
        For its title.

    Returns
    -------
    str
        HTML that loads nothing.
    """
    statuses = Counter(result["status"] for result in results)
    look = [result for result in results if _stands_out(result)]
    rows = [[result["student"], result["status"], _why(result)] for result in look]
    ran = [result for result in results if any(entry["tests"] for entry in result["questions"])]
    parts = [
        element("p", _points(results)),
        element("p", ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))),
        element("h2", "To look at"),
        table(["student", "status", "why"], rows) if rows else element("p", "Nothing."),
        element("h2", "Tests"),
        _items(ran) if ran else element("p", "No test ran."),
        _mistakes(ran),
    ]
    return page(f"{exercise.title}: summary", *parts)
