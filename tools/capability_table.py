"""Write the tables of the book that are made by execution: what each rung can do, what kills what.

``python tools/capability_table.py`` writes ``book/tables/capabilities.csv``, ``mutants.csv``
and ``decoding_mutants.csv``; with ``--check`` it writes nothing and fails where they differ
from what execution gives here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "book" / "tables"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from mutants.catalogue import (  # noqa: E402
    Mutant,
    decoding_features,
    decoding_mutants,
    features_of,
    library_of,
    mutants,
)
from processes import lossless  # noqa: E402

from attncourse import conformance  # noqa: E402
from attncourse.conformance._table import capability_table, to_csv  # noqa: E402
from attncourse.conformance.decoding._container import cache_subject  # noqa: E402
from attncourse.conformance.decoding._infer import step_subject  # noqa: E402


def kill_table() -> list[list[str]]:
    """Run every mutant through the case that must catch it, and through the quick level.

    Returns
    -------
    list of rows
        The first row holds the titles.
    """
    rows = [["what is wrong", "caught by", "what must hold", "quick cases that fail"]]
    cases = {case.name: case for case in conformance.all_cases()}
    for mutant in mutants():
        features, library = features_of(mutant.base), library_of(mutant.base)
        subject = conformance.subject_of(mutant.load(), features, library)
        quick = conformance.run(mutant.load(), "quick", features, library=library)
        rows.append(_killed(mutant, cases, subject, quick))
    return rows


def decoding_kill_table() -> list[list[str]]:
    """Do the same for wrong decode functions and caches."""
    rows = [["what is wrong", "caught by", "what must hold", "quick cases that fail"]]
    cases = {c.name: c for c in (*conformance.step_cases(), *conformance.cache_cases())}
    for mutant in decoding_mutants():
        if mutant.base == "caches":
            subject = cache_subject(mutant.load())
            quick = conformance.run_cache(mutant.load())
        else:
            features = decoding_features(mutant.of)
            subject = step_subject(mutant.load(), features, "numpy")
            quick = conformance.run_decode(mutant.load(), "quick", features, library="numpy")
        rows.append(_killed(mutant, cases, subject, quick))
    return rows


def _killed(mutant: Mutant, cases: dict, subject: Any, quick: conformance.Report) -> list[str]:
    """Make the row of one mutant, which its case must catch."""
    case = cases[mutant.caught_by]
    if conformance.run_case(case, subject).status != "failed":
        raise SystemExit(f"{mutant.name} was not caught by {case.name}")
    count = f"{len(quick.failed)} of {len(quick.failed) + len(quick.passed)}"
    return [mutant.name, case.name, case.says, count]


def main() -> int:
    """Write or check the tables."""
    lossless()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, fail on a difference")
    check = parser.parse_args().check
    differ = []
    tables = {
        "capabilities": capability_table,
        "mutants": kill_table,
        "decoding_mutants": decoding_kill_table,
    }
    for name, make in tables.items():
        path, text = TABLES / f"{name}.csv", to_csv(make())
        if check:
            same = path.exists() and path.read_text(encoding="utf-8") == text
            differ += [] if same else [name]
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {text.count(chr(10)) - 1} rows")
    if differ:
        print(f"differ from what execution gives: {', '.join(differ)}", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
