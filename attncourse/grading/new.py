"""Start an exercise: a small one that is complete, to be changed piece by piece.

The one idea: the fastest way to a right exercise is one that passes `lint` from its first minute.
`_template/00_template` is such an exercise; a new one is a copy under another name and title.
"""

from __future__ import annotations

import re
from pathlib import Path

from attncourse.grading.exercise import ExerciseError, load
from attncourse.grading.format import dump, read_notebook

__all__ = ["TEMPLATE", "new"]

TEMPLATE = Path(__file__).resolve().parent / "_template" / "00_template"


def new(folder: Path, title: str) -> Path:
    """Start an exercise.

    Parameters
    ----------
    folder : Path
        Where; its name becomes the id, such as `21_my_topic`.
    title : str
        Its heading.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ExerciseError
        If the folder is there already, its name is no id, or the title cannot be written.
    """
    if folder.exists():
        raise ExerciseError(f"{folder} is there already")
    if not re.fullmatch(r"\d\d_\w+", folder.name):
        raise ExerciseError(f"the name must be like 21_my_topic, got {folder.name!r}")
    if '"' in title or "\\" in title or not title.isprintable():
        raise ExerciseError("the title must be one line without quotation marks")
    spec = load(TEMPLATE)
    names = {spec.id: folder.name, f"{spec.id[:2]}: {spec.title}": f"{folder.name[:2]}: {title}"}
    names[f'"{spec.title}"'] = f'"{title}"'
    for file in sorted(path for path in TEMPLATE.rglob("*") if "__pycache__" not in path.parts):
        if file.is_file():
            _copy(file, folder / file.relative_to(TEMPLATE), names)
    return folder


def _copy(file: Path, place: Path, names: dict[str, str]) -> None:
    """Copy a file with other names in it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".ipynb":
        notebook = read_notebook(file)
        for cell in notebook["cells"]:
            cell["source"] = _renamed(cell["source"], names)
        text = dump(notebook)
    else:
        text = _renamed(file.read_text(encoding="utf-8"), names)
    place.write_text(text, encoding="utf-8", newline="\n")


def _renamed(text: str, names: dict[str, str]) -> str:
    """Return a text with other names in it, each put in once."""
    words = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    return words.sub(lambda found: names[found[0]], text)
