"""What a run found, as text and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from attncourse.conformance._case import Case
from attncourse.notebook.markup import Html, element, escaped, table

STYLE = "text-align:left;vertical-align:top"


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes
    ----------
    case : Case
        The case.
    status : {"passed", "failed", "left out"}
        A case that raised anything has failed.
    seconds : float
        Time it took.
    what, wanted, came : str
        For a failed case: what was compared, and both sides.
    error, allowed : float or None
        Largest error and the error allowed, where numbers were compared.
    lacks : tuple of str
        For a case left out: features that the function does not have; none when the case is
        larger than the function is tested with.
    flaw : str
        For a case left out that was run and failed, as is known of this function: why.
    """

    case: Case
    status: str
    seconds: float = 0.0
    what: str = ""
    wanted: str = ""
    came: str = ""
    error: float | None = None
    allowed: float | None = None
    lacks: tuple[str, ...] = ()
    flaw: str = ""

    def size_of_error(self) -> str:
        """Write the largest error and what was allowed."""
        if self.error is None or self.allowed is None:
            return ""
        return f"{self.error:.3g} (allowed {self.allowed:.3g})"


@dataclass
class Report:
    """The outcomes of a run; true when nothing failed. Prints as text, renders as HTML."""

    name: str
    library: str
    level: str
    features: frozenset[str]
    found_by: str
    outcomes: list[Outcome] = field(default_factory=list)

    def of(self, status: str) -> list[Outcome]:
        """List the outcomes with one status."""
        return [outcome for outcome in self.outcomes if outcome.status == status]

    @property
    def passed(self) -> list[Outcome]:
        """Cases that passed."""
        return self.of("passed")

    @property
    def failed(self) -> list[Outcome]:
        """Cases that failed."""
        return self.of("failed")

    @property
    def left_out(self) -> list[Outcome]:
        """Cases that do not apply, each with its reason."""
        return self.of("left out")

    def __bool__(self) -> bool:
        return bool(self.passed) and not self.failed

    def check(self) -> Report:
        """Return the report, or raise an AssertionError that holds its text."""
        if not self:
            raise AssertionError(str(self))
        return self

    def head(self) -> list[str]:
        """Return the lines above the table."""
        verdict = f"{len(self.failed)} cases failed" if self.failed else "all cases passed"
        if not self.passed and not self.failed:
            verdict = "no case applies"
        return [
            f"{self.name} ({self.library}), level {self.level}: {verdict}",
            f"tested for: {', '.join(sorted(self.features)) or 'query, key and value only'}",
            f"({self.found_by}; pass features= to say otherwise)",
        ]

    def rows(self) -> list[tuple[str, int, int, int, float]]:
        """Return theme, passed, failed, left out and seconds for each theme."""
        themes = dict.fromkeys(outcome.case.theme for outcome in self.outcomes)
        table = []
        for theme in themes:
            mine = [outcome for outcome in self.outcomes if outcome.case.theme == theme]
            count = Counter(outcome.status for outcome in mine)
            seconds = sum(outcome.seconds for outcome in mine)
            table.append((theme, count["passed"], count["failed"], count["left out"], seconds))
        return table

    def reasons(self) -> list[str]:
        """Return why cases were left out, with their numbers."""
        lacking = [o for o in self.left_out if o.lacks]
        names = sorted({name for outcome in lacking for name in outcome.lacks})
        lines = [f"{len(lacking)} cases need one of: {', '.join(names)}"] if lacking else []
        flaws = [outcome for outcome in self.left_out if outcome.flaw]
        large = len(self.left_out) - len(lacking) - len(flaws)
        lines += [f"{large} cases are larger than it is tested with"] if large else []
        return lines + [f"{o.case.name} fails, as is known: {o.flaw}" for o in flaws]

    def __str__(self) -> str:
        lines = [*self.head(), "", f"{'theme':<12} {'passed':>7} {'failed':>7} {'left out':>9}"]
        lines += [f"{row[0]:<12} {row[1]:>7} {row[2]:>7} {row[3]:>9}" for row in self.rows()]
        for outcome in self.failed:
            lines += ["", f"FAILED {outcome.case.name}: {outcome.case.says}"]
            lines += [f"  {label:<7} {text}" for label, text in _details(outcome)]
        return "\n".join([*lines, *(["", "left out:", *self.reasons()] if self.left_out else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [tuple(map(str, row[:4])) for row in self.rows()]
        parts = [
            element("p", _lines(self.head())),
            _table(("theme", "passed", "failed", "left out"), rows),
        ]
        if self.failed:
            cells = [(_named(outcome), _described(outcome)) for outcome in self.failed]
            parts.append(_table(("failed case", "what came of it"), cells))
        if self.left_out:
            items = element("ul", *(element("li", reason) for reason in self.reasons()))
            parts.append(element("details", element("summary", "left out"), items))
        return element("div", *parts, css="attncourse-conformance")


def _details(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the labelled lines under a failed case."""
    pairs = [
        ("what", outcome.what),
        ("wanted", outcome.wanted),
        ("came", outcome.came),
        ("error", outcome.size_of_error()),
    ]
    return [(label, text) for label, text in pairs if text]


def _lines(texts: Iterable[str | Html]) -> Html:
    """Put a line break between texts."""
    return Html(Html("<br>").join(map(escaped, texts)))


def _named(outcome: Outcome) -> Html:
    """Write a failed case's name and what must hold, as HTML."""
    return _lines([element("code", outcome.case.name), outcome.case.says])


def _described(outcome: Outcome) -> Html:
    """Write a failed case's labelled lines, as HTML."""
    return _lines(f"{label}: {text}" for label, text in _details(outcome))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str | Html]]) -> Html:
    """Lay cells out; on a narrow page the table scrolls."""
    laid_out = table(titles, rows, style=STYLE)
    return element("div", laid_out, style="overflow-x:auto;margin-bottom:1em")
