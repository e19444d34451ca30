"""What must be settled before any test module is imported."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "book" / "_ext"))
from course_needs import unmet

# Triton picks its interpreter when it is first imported, and torch.compile imports it:
# where no NVIDIA driver runs, nobody may be faster than this line.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Doctests are collected by importing every module, and these need Triton.
collect_ignore_glob = ["attncourse/grading/_template/*"]  # its tests need the grader's fixtures
if find_spec("triton") is None:
    collect_ignore_glob += ["attncourse/kernels/*.py", "attncourse/rungs/triton*.py"]
if find_spec("torch") is None:
    collect_ignore_glob += ["attncourse/kernels/*.py"]


def pytest_terminal_summary(terminalreporter):
    """Say at the end which test files took the time: seconds of a processor, set-up included."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                path = report.nodeid.partition("::")[0]
                seconds[path] = seconds.get(path, 0.0) + report.duration
    total = sum(seconds.values())
    slowest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:12]
    if total < 60:
        return  # a quick run needs no advice
    terminalreporter.section(f"where {total:.0f} s of tests went")
    for path in slowest:
        share = seconds[path] / total
        terminalreporter.write_line(f"{seconds[path]:7.1f} s {share:5.0%}  {path}")


def pytest_collection_modifyitems(items):
    """Skip by name the chapters' cells that need what is missing here (see course_needs)."""
    cells = [item for item in items if hasattr(item, "cell") and hasattr(item, "cell_num")]
    for item in cells:
        tags = item.cell.metadata.get("tags", [])
        if lacking := unmet(tags):
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(lacking)}"))
        elif "needs-triton" in tags and Path("/dev/nvidiactl").exists():
            item.options["check"] = False  # what is stored came from Triton's interpreter
