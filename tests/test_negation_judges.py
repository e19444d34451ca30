"""The eight judges of chapter 10: the file that the chapter shows is what the script measures."""

import json
import sys

import pytest
from built_book import ROOT

from attncourse.notebook import measured

sys.path.insert(0, str(ROOT / "benchmarks"))

import bert_seeds


def test_the_chapter_shows_what_the_script_wrote():
    results = json.loads(bert_seeds.RESULTS.read_text(encoding="utf-8"))
    assert measured("negation_judges") == bert_seeds.for_the_chapter(results)
    assert [judge["seed"] for judge in measured("negation_judges")["judges"]] == list(range(8))


@pytest.mark.slow
def test_a_judge_trained_anew_relies_on_great_alone_or_on_both_clauses():
    lessons = bert_seeds.reviews(4000, seed=8)  # a seed that is not among the eight
    exam = bert_seeds.reviews(1000, seed=9, held_out=True)
    judge = bert_seeds.sentence_verdicts(lessons, exam, seed=8)
    assert judge["held_out"] > 0.97
    hidden = judge["hidden"]
    assert min(hidden["nothing"], hidden["not"], hidden["bad"]) > 0.5
    assert judge["praise"]["The movie was bad."] < 0.5 < judge["praise"]["The movie was not bad."]
