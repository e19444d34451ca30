"""Gradescope: an autograder to upload, and the results file that it reads."""

from __future__ import annotations

import json
from typing import Any

from attncourse import __version__
from attncourse.grading.packing import exercise_files, pack
from attncourse.grading.points import exact

__all__ = ["autograder", "results_json"]

_SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, when the autograder's image is built.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends bubblewrap python3 python3-venv
python3 -m venv /opt/attncourse
/opt/attncourse/bin/pip install "attncourse[grading]=={version}"
chmod -R go-rwx /autograder/source
"""
_RUN = """#!/usr/bin/env bash
# Gradescope runs this for every submission, as root, in a container of its own. Where containers
# may not nest, bubblewrap cannot start: then learner code runs as nobody, who may not read tests.
# Only status 3 leads there. It is given before learner code runs, so that no code can ask for it.
# Without results.json Gradescope says that the autograder failed, which is true, and gives no 0.
set -uo pipefail
mkdir -p /autograder/results
chmod -R go-rwx /autograder/source /autograder/results
notebook=$(find /autograder/submission -maxdepth 1 -name '*.ipynb' -type f | sort | tail -n 1)
grade() {
    /opt/attncourse/bin/attncourse grade one "${notebook:-/dev/null}" --backend "$1" \\
        --exercise /autograder/source/exercise --gradescope /autograder/results/results.json \\
        >/tmp/attncourse.log 2>&1
}
grade bwrap
status=$?
if [ "$status" -eq 3 ]; then
    grade user
    status=$?
fi
[ "$status" -eq 0 ] || { echo "the autograder failed; this is no grade"; exit 1; }
"""


def results_json(result: dict[str, Any]) -> str:
    """Return a result in Gradescope's format.

    Parameters
    ----------
    result : dict
        See `attncourse.grading.grade.grade`.

    Returns
    -------
    str
        JSON. Hidden tests have neither name nor message.

    Raises
    ------
    ValueError
        If the grader itself failed: there is no score then, and 0 would be wrong.
    """
    if result["points"] is None:
        raise ValueError(f"{result['student']} has no score, because the grader failed")
    tests = []
    for entry in result["questions"]:
        for number, test in enumerate(entry["tests"], start=1):
            name = f"hidden test {number}" if test["hidden"] else test["title"]
            hints = "" if test["passed"] else "\n".join(test["hints"][:1])
            said = "" if test["hidden"] else test["message"]
            tests.append(
                {
                    "name": f"{entry['id']}: {name}",
                    "score": float(exact(test["points"])),
                    "max_score": float(exact(test["max"])),
                    "output": "\n".join(filter(None, [said, hints])),
                    "output_format": "text",
                }
            )
    page: dict[str, Any] = {"tests": tests, "stdout_visibility": "hidden"}
    page["output"] = f"{result['status']} {result['message']}".strip()
    page["score"] = float(exact(result["points"]))
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


def autograder(exercise: Any) -> bytes:
    """Return the zip to upload: two scripts and the exercise with its hidden tests.

    Parameters
    ----------
    exercise : Exercise
        Its folder goes in.

    Returns
    -------
    bytes
        The same bytes for the same files.
    """
    files = {f"exercise/{name}": data for name, data in exercise_files(exercise.path).items()}
    files["setup.sh"] = _SETUP.format(version=__version__).encode()
    files["run_autograder"] = _RUN.encode()
    return pack(files, executable=("setup.sh", "run_autograder"))
