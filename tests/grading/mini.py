"""A small exercise, notebooks that answer it, and a folder of submissions: what the tests share."""

import json
from pathlib import Path

EXERCISE = """
schema = 1
id = "mini"
title = "Softmax and attention"
[[questions]]
id = "q1"
title = "Softmax"
points = "1.5"
seconds = 3
memory_mb = 1024
[[questions]]
id = "q2"
title = "Attention"
points = 3
seconds = 3
memory_mb = 1024
[callables]
softmax = "numpy"
attention = "numpy"
[late]
penalty_per_day = "0.1"
max_days = 3
"""
PUBLIC = """
import numpy as np
import pytest
from numpy.testing import assert_allclose

@pytest.mark.question("q1")
@pytest.mark.points("0.5")
@pytest.mark.hint("divide by the sum")
def test_rows_sum_to_one(student):
    assert_allclose(student.softmax(np.array([[1.0, 2.0, 3.0]])).sum(-1), 1.0)

@pytest.mark.question("q2")
@pytest.mark.points(1)
def test_equal_values_come_out_again(student):
    rng = np.random.default_rng(0)
    out = student.attention(rng.normal(size=(4, 8)), rng.normal(size=(6, 8)), np.ones((6, 3)))
    assert out.shape == (4, 3), "one row per query, as wide as a value"
    assert_allclose(out, 1.0)
"""
HIDDEN = """
import numpy as np
import pytest
from numpy.testing import assert_allclose

SECRET = "hidden-text-that-must-not-leak"

@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("what does exp do to 1000?")
def test_large_scores(student):
    expected = [0.2689414213699951, 0.7310585786300049]
    came = student.softmax(np.array([1000.0, 1001.0]))
    assert_allclose(came, expected, rtol=1e-6, err_msg=SECRET)

@pytest.mark.question("q2")
@pytest.mark.points(2)
def test_values(student):
    q, k, v = np.random.default_rng(7).normal(size=(3, 5, 16))
    scores = q @ k.T / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    assert_allclose(student.attention(q, k, v), expected, rtol=1e-6, err_msg=SECRET)
"""
IMPORT = """%pip install -q attncourse
import numpy as np
from attncourse.grading import Exercise
ex = Exercise("mini")"""
SOFTMAX = """def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)"""
ATTENTION = """def attention(query, key, value):
    return softmax(query @ key.T / query.shape[-1] ** 0.5) @ value"""
WRONG_SOFTMAX = "def softmax(scores):\n    return scores"
WRONG_ATTENTION = "def attention(query, key, value):\n    return query"


def code(source, grade_id=None, *, test=False):
    """Return a code cell, with nbgrader's marks if it has an id."""
    marks = {"grade_id": grade_id, "grade": test, "solution": not test, "locked": test}
    metadata = {"nbgrader": {**marks, "schema_version": 3}} if grade_id else {}
    if grade_id and test:
        metadata["nbgrader"]["points"] = 1
    return {
        "cell_type": "code",
        "source": source,
        "metadata": metadata,
        "outputs": [],
        "execution_count": None,
    }


def notebook(*cells, **metadata):
    """Return a notebook as bytes."""
    page = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(page).encode()


def answers(softmax=SOFTMAX, attention=ATTENTION, first="", last=""):
    """Return a submission: the setup cell, two answers, their test cells, and what is added."""
    cells = [code(IMPORT), code(softmax, "q1"), code("ex.check('q1')", "test_q1", test=True)]
    cells += [code(attention, "q2"), code("ex.check('q2')", "test_q2", test=True)]
    return notebook(*([code(first)] if first else []), *cells, *([code(last)] if last else []))


def write_exercise(folder):
    """Write the exercise and return its folder."""
    folder = Path(folder)
    for kind, text in (("public", PUBLIC), ("hidden", HIDDEN)):
        place = folder / "tests" / kind
        place.mkdir(parents=True)
        (place / f"test_{kind}.py").write_text(text)
    (folder / "exercise.toml").write_text(EXERCISE)
    (folder / "source.ipynb").write_bytes(answers())
    return folder


def write_submissions(folder, submissions):
    """Write bytes as `student/nb.ipynb` each and return the folder."""
    folder = Path(folder)
    for student, data in submissions.items():
        place = folder / student
        place.mkdir(parents=True)
        (place / "nb.ipynb").write_bytes(data)
    return folder
