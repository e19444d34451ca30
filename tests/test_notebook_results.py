"""Every committed result says where it comes from, and no other name is invented."""

from importlib.resources import files
from pathlib import Path

import pytest

from attncourse.notebook import measured

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(
    file.name[:-5]
    for file in files("attncourse.notebook.results").iterdir()
    if file.name.endswith(".json")
)


@pytest.mark.parametrize("name", NAMES)
def test_results_name_their_script_and_circumstances(name):
    results = measured(name)
    assert (ROOT / results["script"]).is_file()
    assert {"date", "device", "python", "attncourse"} <= results.keys()


def test_an_unknown_name_is_refused_with_the_known_ones():
    assert NAMES
    with pytest.raises(ValueError, match=f"no results 'nothing'; there are .*{NAMES[0]}"):
        measured("nothing")


def test_the_bag_of_words_wins_on_film_snippets():
    film = measured("film_snippets")
    assert film["bag_of_words"] > max(film["encoder"])
    assert len(film["encoder"]) >= 5
