"""What the grading tests share."""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
if not sys.platform.startswith("linux"):
    # The grader's sandbox is Linux's; what learners run is tested everywhere.
    collect_ignore = ["test_attacks.py", "test_batch.py", "test_sandbox.py"]
    collect_ignore += ["test_instructor_guide.py", "test_reports.py", "test_submissions.py"]
    collect_ignore += ["test_right_answers.py"]


@pytest.fixture(scope="session")
def bwrap():
    """Say that bubblewrap is here; without it the test is skipped, and fails where CI runs."""
    if shutil.which("bwrap") is None:
        message = "bubblewrap is not installed: apt install bubblewrap"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return "bwrap"


@pytest.fixture
def exercise(tmp_path):
    """Return the folder of a small exercise."""
    import mini

    return mini.write_exercise(tmp_path / "exercise")
