"""From the runs of every chapter to a table, a verdict and ``benchmarks/results/steady.json``."""

from __future__ import annotations

import statistics

SECONDS = 30.0  # what a chapter may take


def summary(runs: dict[str, dict]) -> dict:
    """Sum up one chapter.

    Parameters
    ----------
    runs : dict
        For each variation its ``seconds``, its ``stopped`` (None, or the cell that raised and its
        error) and its ``notes`` (rows of `watch`).

    Returns
    -------
    dict
        ``runs``: for each variation the seconds and what failed. ``asserts``: those whose numbers
        moved by more than rounding, with their smallest slack, where it was found, and the
        standard deviation of the slack over the variations.
    """
    kept = {}
    for name, run in runs.items():
        failed = [_place(row) for row in run["notes"] if not row["holds"]]
        failed = list({(f["cell"], f["line"]): f for f in failed}.values())
        kept[name] = {"seconds": round(run["seconds"], 1), "failed": failed}
        if run["stopped"]:
            kept[name]["stopped"] = run["stopped"]
    return {"runs": kept, "asserts": moved(runs)}


def moved(runs: dict[str, dict]) -> list[dict]:
    """List the asserts whose slack differs between variations, the tightest first."""
    found: dict[tuple, dict[str, dict]] = {}
    for name, run in runs.items():
        for row in run["notes"]:
            if "slack" in row:
                best = found.setdefault((row["cell"], row["line"]), {})
                if name not in best or row["slack"] < best[name]["slack"]:
                    best[name] = row
    rows = []
    for by_run in found.values():
        name = min(by_run, key=lambda n: by_run[n]["slack"])
        row, slacks = by_run[name], [r["slack"] for r in by_run.values()]
        spread = statistics.pstdev(slacks)
        if spread > 1e-6 * max(1.0, abs(row["left"]), abs(row["right"])):
            numbers = {key: _short(row[key]) for key in ("slack", "left", "right")}
            place = _place(row)
            rows.append({**place, **numbers, "at": name, "spread": _short(spread)})
    return sorted(rows, key=_room)


def is_green(chapter: dict) -> bool:
    """Tell whether every assert of a chapter held in every run, and each run ended."""
    return all(not run["failed"] and "stopped" not in run for run in chapter["runs"].values())


def table(chapters: dict[str, dict]) -> list[str]:
    """Draw one line a chapter, then what failed, then the tightest asserts."""
    lines = [f"{'chapter':<28}{'held':>8}{'slowest':>10}  tightest assert about what moved"]
    for stem, chapter in chapters.items():
        runs = chapter["runs"]
        held = sum(not run["failed"] and "stopped" not in run for run in runs.values())
        slowest = max(run["seconds"] for run in runs.values())
        tight = chapter["asserts"][0] if chapter["asserts"] else None
        note = f"{tight['cell']}: {_in_words(tight)}" if tight else "–"
        late = "!" if slowest > SECONDS else " "
        lines.append(f"{stem:<28}{held:>4}/{len(runs):<3}{slowest:>7.1f} s{late} {note}")
    for stem, chapter in chapters.items():
        for name, run in chapter["runs"].items():
            if "stopped" in run:
                stop = run["stopped"]
                lines.append(f"STOPPED  {stem}, {name}, cell '{stop['cell']}': {stop['error']}")
            for row in run["failed"]:
                lines.append(f"FAILED   {stem}, {name}, cell '{row['cell']}': {row['text']}")
    return lines


def _place(row: dict) -> dict:
    return {"cell": row["cell"], "line": row["line"], "text": row["text"]}


def _room(row: dict) -> float:
    """Return the slack in standard deviations: how unlucky a seed must be."""
    return row["slack"] / row["spread"]


def _in_words(row: dict) -> str:
    return f"{row['left']:g} against {row['right']:g}, {_room(row):.1f} standard deviations"


def _short(number: float) -> float:
    return float(f"{number:.4g}")
