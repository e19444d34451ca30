"""Dates and reports: the answers are right, and only the claimed ability finds them."""

import datetime
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("babel")

from attncourse import tasks  # noqa: E402
from attncourse.tasks import dates, reports  # noqa: E402


def test_dates_read_back_as_the_days_they_are():
    made = dates.foreign_dates(300, generator=0)
    for text, iso, (locale, style) in zip(made.texts, made.iso, made.styles, strict=True):
        year, month, day = map(int, iso.split("-"))
        assert dates.write(datetime.date(year, month, day), locale, style) == text
        found = [int(number) for number in re.findall(r"\d+", text)]
        assert set(found) - {month} == {year, day} - {month}
    assert set(made.styles) == set(dates.STYLES)


def test_the_numbers_are_the_texts():
    made = dates.foreign_dates(50, generator=1)
    alphabet = dates.source_alphabet()
    for row, text in zip(made.source.tolist(), made.texts, strict=True):
        assert "".join(alphabet[i] for i in row if i) == text
    assert dates.from_iso(made.target) == made.iso
    assert (made.written[:, 0] == dates.START).all()
    assert made.written[:, 1:].equal(made.target[:, :-1])


def test_held_out_days_never_occur_in_training():
    seen = set(dates.foreign_dates(2000, generator=0).iso)
    unseen = set(dates.foreign_dates(2000, held_out=True, generator=0).iso)
    assert not seen & unseen
    assert min(unseen) < "1952"
    assert max(unseen) > "2048"


def test_every_month_of_every_style_fits():
    days = [datetime.date(2000, month, 28) for month in range(1, 13)]
    texts = [dates.write(day, *style) for style in dates.STYLES for day in days]
    assert dates.read(texts).shape == (108, dates.LONGEST)
    assert max(map(len, texts)) == dates.LONGEST


def test_a_batch_is_made_of_its_rows():
    made = dates.foreign_dates(40, generator=2)
    (source, written), target = made.batch(16, torch.Generator().manual_seed(0))
    rows = {tuple(row.tolist()): i for i, row in enumerate(made.source)}
    at = [rows[tuple(row.tolist())] for row in source]
    assert made.target[at].equal(target)
    assert made.written[at].equal(written)
    assert len(set(at)) > 8


def test_strange_dates_are_named():
    with pytest.raises(ValueError, match=r"'7 mart 2019 г\.' .* unknown ones are \['г'\]"):
        dates.read(["7 mart 2019 г."])
    with pytest.raises(ValueError, match=r"at most 18 characters.*it has 24"):
        dates.read(["30 November 2019 2019 19"])
    with pytest.raises(TypeError, match="a list of dates, got the single text '7 mars 2019'"):
        dates.read("7 mars 2019")
    with pytest.raises(ValueError, match=r"style must be one of .*'short'.* got 'huge'"):
        dates.write(datetime.date(2019, 3, 7), "fr", "huge")


def summary_by_rule(made, row):
    """Find the decision about the thing that most sentences mention."""
    sentences = [made.sentence(row, place) for place in range(6)]
    mentions = {t: sum(t in s.split() for s in sentences) for t in reports.THINGS}
    topic = max(mentions, key=mentions.get)
    assert sorted(mentions.values())[-3:] == [0, 2, 4]
    return [i for i, s in enumerate(sentences) if s.startswith("we will") and topic in s.split()]


def test_the_summary_is_the_decision_about_the_main_thing():
    made = reports.short_reports(200, generator=0)
    for row in range(200):
        assert summary_by_rule(made, row) == [made.target[row].item()]


def test_no_sentence_alone_gives_it_away():
    made = reports.short_reports(2000, generator=1)
    opening = (made.target == 0).float().mean().item()
    assert opening == pytest.approx(0.4 + 0.6 / 6, abs=0.05)
    decisions = [made.sentence(0, place).startswith("we will") for place in range(6)]
    assert sum(decisions) == 2
    rest = torch.bincount(made.target, minlength=6)[1:] / 2000
    assert rest.max() - rest.min() < 0.05


def test_every_word_occurs():
    words = reports.short_reports(2000, generator=2).words
    assert set(words.unique().tolist()) == set(range(len(reports.REPORT_WORDS)))


def test_the_package_offers_both():
    assert tasks.foreign_dates is dates.foreign_dates
    assert tasks.short_reports is reports.short_reports
    with pytest.raises(ValueError, match="number must be at least 1, got 0"):
        tasks.foreign_dates(0, generator=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        tasks.short_reports(0, generator=0)
