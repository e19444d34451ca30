"""The check of stored notebooks finds each kind of dirt, and cleaning removes it."""

import copy
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import check_notebooks  # noqa: E402

STREAM = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
CLEAN = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": check_notebooks.NOTEBOOK_METADATA,
    "cells": [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Why?"]},
        {
            "cell_type": "code",
            "id": "sum-of-two",
            "metadata": {"tags": ["keep_output", "nbval-check-output"]},
            "execution_count": 1,
            "outputs": [STREAM],
            "source": ["print(1)"],
        },
        {
            "cell_type": "code",
            "id": "silent",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": "x = 1",
        },
    ],
}


def dirty(number, **changes):
    notebook = copy.deepcopy(CLEAN)
    notebook["cells"][number].update(changes)
    return notebook


def test_a_clean_notebook_has_no_problems():
    assert list(check_notebooks.problems(CLEAN)) == []


@pytest.mark.parametrize(
    ("notebook", "text"),
    [
        (dirty(2, outputs=[STREAM]), "stores outputs without the tag keep_output"),
        (dirty(2, execution_count=3), "must store the execution count null"),
        (dirty(1, execution_count=None), "must store the execution count 1"),
        (dirty(1, outputs=[]), "stores nothing to compare"),
        (dirty(2, metadata={"tags": ["nbval-check-output"]}), "without the other"),
        (dirty(1, outputs=[{**STREAM, "execution_count": 2}]), "output with an execution count"),
        (dirty(1, outputs=[{"output_type": "error"}]), "not plain text"),
        (dirty(1, outputs=[{**STREAM, "text": "x" * 3000}]), "more than 2000 characters"),
        (dirty(0, id="cell 1"), "words joined by hyphens"),
        (dirty(0, id=""), "no id"),
        (dirty(0, id="silent"), "used twice"),
        (dirty(0, metadata={"collapsed": True}), "metadata left behind: collapsed"),
        (dirty(0, source=" \n"), "is empty"),
        (dirty(2, source="x = 1\n" * 16), "has 16 lines"),
        (dirty(2, source="x = " + "1" * 90), "has a line of 94 characters"),
        ({**CLEAN, "nbformat_minor": 4}, "format must be 4.5"),
        ({**CLEAN, "metadata": {}}, "name the kernel python3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_of_dirt_is_found(notebook, text):
    found = list(check_notebooks.problems(notebook))
    assert len(found) == 1, found
    assert text in found[0]


def test_cleaning_keeps_text_and_compared_outputs_only(tmp_path, capsys):
    notebook = dirty(2, outputs=[STREAM], execution_count=7, metadata={"collapsed": True})
    notebook["metadata"] = {"kernelspec": {"name": "other"}, "widgets": {}}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook))
    assert check_notebooks.main([str(path)]) == 1
    assert check_notebooks.main(["--fix", str(path)]) == 0
    assert json.loads(path.read_text()) == CLEAN
    assert path.read_text().endswith("}\n")
    assert "a.ipynb: cell 2 (silent): stores outputs" in capsys.readouterr().out


def test_no_chapters_is_no_success(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check_notebooks, "ROOT", tmp_path)
    assert check_notebooks.main([]) == 1
    assert "no notebooks" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path", sorted((ROOT / "chapters").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_every_chapter_is_stored_clean(path):
    assert list(check_notebooks.problems(json.loads(path.read_text(encoding="utf-8")))) == []
