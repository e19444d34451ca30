"""Write the tables of the book that are made by execution: what each rung can do, what kills what.

``python tools/capability_table.py`` writes ``book/tables/capabilities.csv`` and
``book/tables/mutants.csv``; with ``--check`` it writes nothing and fails where they differ
from what execution gives here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "book" / "tables"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from mutants.catalogue import features_of, library_of, mutants  # noqa: E402
from processes import lossless  # noqa: E402

from attncourse import conformance  # noqa: E402
from attncourse.conformance._table import capability_table, to_csv  # noqa: E402


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
        fn = mutant.load()
        case = cases[mutant.caught_by]
        outcome = conformance.run_case(case, conformance.subject_of(fn, features, library))
        if outcome.status != "failed":
            raise SystemExit(f"{mutant.name} was not caught by {case.name}")
        quick = conformance.run(fn, "quick", features, library=library)
        count = f"{len(quick.failed)} of {len(quick.failed) + len(quick.passed)}"
        rows.append([mutant.name, case.name, case.says, count])
    return rows


def main() -> int:
    """Write or check both tables."""
    lossless()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, fail on a difference")
    check = parser.parse_args().check
    differ = []
    for name, make in (("capabilities", capability_table), ("mutants", kill_table)):
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
