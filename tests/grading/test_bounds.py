"""What a small reply can grow into must not take the grader's own memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import mini
import numpy as np
import pytest

from attncourse.grading.bounds import bounded_memory
from attncourse.grading.compare import close

ROOT = Path(__file__).resolve().parents[2]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
# The answer's replies are small; as one array of texts they take 2.4 GB.
GROWING = "return ['x' * 1_500_000] + [''] * 400"
ANSWER = f"def softmax(scores):\n    {GROWING}"


@linux
def test_the_limit_holds_and_goes_away():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with bounded_memory(256 << 20):
        with pytest.raises(MemoryError):
            np.empty(512 << 20, np.uint8)
        assert np.empty(64 << 20, np.uint8).size
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@linux
@pytest.mark.parametrize("how", ["one", "batch"])
def test_a_reply_that_grows_is_a_wrong_answer_and_no_more(bwrap, exercise, tmp_path, how):
    subs = mini.write_submissions(
        tmp_path / "subs", {"ana": mini.answers(ANSWER, mini.WRONG_ATTENTION)}
    )
    place, out = str(subs / "ana/nb.ipynb"), tmp_path / "out"
    words = ["one", place, "--json"] if how == "one" else ["batch", subs, "--out", out]
    words = [sys.executable, "-m", "attncourse", "grade", *words, "--exercise", exercise]
    with open(tmp_path / "said", "w") as said:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started = subprocess.Popen(map(str, words), stdout=said, env=environment)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    text = (tmp_path / "said" if how == "one" else out / "results/ana.json").read_text()
    result = json.loads(text)
    questions = [entry["points"] for entry in result["questions"]]
    assert (result["status"], questions[0], started.returncode) == ("graded", "0", 0), result
    assert used.ru_maxrss < 1 << 20, "kB, of the largest of all its processes"


@pytest.mark.parametrize("came", [["text", 1.0], [[1.0], ["text"]], ([], ("",))])
def test_a_list_with_text_never_becomes_an_array(came, monkeypatch):
    made = []
    monkeypatch.setattr(np, "asarray", lambda value, f=np.asarray: made.append(value) or f(value))
    with pytest.raises(AssertionError, match="came a list with text in it"):
        close(came, [1.0, 2.0], "the sums")
    assert made == [[1.0, 2.0]]
