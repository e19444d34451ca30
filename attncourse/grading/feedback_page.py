"""What a learner gets back: one page that explains every lost point and gives no test away.

The one idea: of a hidden test a learner sees that there was one, what it was worth, whether it
passed, and the hint that its author wrote for this purpose. Its name, its source, its inputs and
its messages stay with the instructor.
"""

from __future__ import annotations

from typing import Any

from attncourse.grading.page import page
from attncourse.notebook.markup import Html, element, join

__all__ = ["feedback"]

WORDS = {
    "graded": "graded",
    "late": "graded; it came late",
    "timeout": "graded, but the time limit was over somewhere",
    "memory": "graded, but more memory was asked for than there is",
    "died": "graded, but the process ended early somewhere",
    "invalid_notebook": "the file could not be read as a notebook",
    "missing": "nothing was handed in",
    "grader_error": "something went wrong on our side: an instructor looks at it; this is not a 0",
}

NOTES = {
    "timeout": "The time limit of this question was over before all of its tests had run.",
    "memory": "Your code asked for more memory than there is.",
    "died": "The process that ran your code ended early, or stopped talking to the grader.",
}


def _points(entry: dict[str, Any]) -> str:
    """Return points of points, or a dash where they are not known."""
    gained = "–" if entry["points"] is None else entry["points"]
    return f"{gained} of {entry['max']}"


def _test(test: dict[str, Any], number: int) -> Html:
    """Return the row of one test."""
    name = f"hidden test {number}" if test["hidden"] else test["title"]
    said: list[Any] = []
    if not test["passed"]:
        if test["message"] and not test["hidden"]:
            said.append(element("pre", test["message"]))
        if test["mistake"] and not test["hidden"]:
            said.append(
                element("p", "The same numbers come out of a known mistake: ", test["mistake"])
            )
        said += [element("p", "Hint: ", hint) for hint in test["hints"][:1]]
    elif test["message"]:
        said.append(element("p", test["message"], "."))  # ours: see follow_through
    mark = (
        element("span", "passed", css="yes")
        if test["passed"]
        else element("span", "not passed", css="no")
    )
    return element(
        "tr", element("td", name, *said), element("td", mark), element("td", _points(test), css="n")
    )


def _question(entry: dict[str, Any]) -> Html:
    """Return the section of one question."""
    hidden = [test for test in entry["tests"] if test["hidden"]]
    shown_first = [test for test in entry["tests"] if not test["hidden"]] + hidden
    rows = [_test(test, hidden.index(test) + 1 if test["hidden"] else 0) for test in shown_first]
    # The notes themselves hold exit statuses, through which code could tell its author what a
    # hidden test gave it.
    notes = [element("p", NOTES[entry["status"]], css="no")] if entry["status"] in NOTES else []
    title = f"{entry['id']} {entry['title']}: {_points(entry)}"
    table = element("table", *rows) if rows else ""
    return join(element("h2", title), *notes, table)


def _cells(result: dict[str, Any]) -> Html:
    """Return the errors that the learner's own cells raised."""
    rows = [
        element(
            "tr",
            element("td", f"cell {report['cell']}"),
            element("td", element("pre", report["error"])),
        )
        for report in result["cells"]
        if report["error"]
    ]
    return (
        join(element("h2", "Errors in your cells"), element("table", *rows)) if rows else Html("")
    )


def feedback(result: dict[str, Any], exercise: Any) -> str:
    """Return a learner's page.

    Parameters
    ----------
    result : dict
        See `attncourse.grading.grade.grade`.
    exercise : Exercise
        For its title.

    Returns
    -------
    str
        HTML that loads nothing.
    """
    lines = [
        element("p", element("strong", _points(result)), " points, ", WORDS[result["status"]], ".")
    ]
    if result["status"] == "invalid_notebook":
        lines.append(element("p", "Reason: ", result["message"]))
    if result.get("late") and result["earned"] != result["points"]:
        lines.append(element("p", f"Before the deduction for lateness: {result['earned']} points."))
    if result.get("other_files"):
        lines.append(
            element("p", f"Graded file: {result['file']}; {len(result['other_files'])} older not.")
        )
    questions = [_question(entry) for entry in result["questions"]]
    return page(f"{exercise.title}: {result['student']}", *lines, *questions, _cells(result))
