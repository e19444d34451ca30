"""Small tasks with a known answer, generated on the spot.

The one idea: a claim about a network is tested on a task where only the claimed ability helps.
First-token recall needs a memory that lasts; associative recall needs a memory that is large;
reversal needs to know positions; two look-ups need two heads; the negated reviews need the word
"not"; dates need a reader and a writer; reports need sentences that know each other.
"""

from attncourse.tasks.dates import Dates, foreign_dates
from attncourse.tasks.draw import Randomness, batches
from attncourse.tasks.lookups import latest_mark, some_places_back, two_lookups
from attncourse.tasks.recall import Pairs, Recall, associative_recall, first_token_recall, reversal
from attncourse.tasks.reports import REPORT_WORDS, Reports, short_reports
from attncourse.tasks.reviews import BAD, FRAME, GOOD, HELD_OUT, WORDS, Reviews, negated_reviews

__all__ = [
    "BAD",
    "FRAME",
    "GOOD",
    "HELD_OUT",
    "REPORT_WORDS",
    "WORDS",
    "Dates",
    "Pairs",
    "Randomness",
    "Recall",
    "Reports",
    "Reviews",
    "associative_recall",
    "batches",
    "first_token_recall",
    "foreign_dates",
    "latest_mark",
    "negated_reviews",
    "reversal",
    "short_reports",
    "some_places_back",
    "two_lookups",
]
