"""What is set on the command line reaches the worker, for one notebook as for a batch."""

import argparse
import json
import sys

import mini
import pytest

from attncourse import cli
from attncourse.grading import batch, grade
from attncourse.grading.jobs import Outcome
from attncourse.grading.settings import Settings

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"
)
# Option -> what is typed, and what of the job it must change; None: it is about files or places.
OPTIONS = {
    "--time-factor": (["3"], {"time_factor": 3.0}),
    "--seed-file": (["SEED"], {"seed": 1234}),
    "--image": (["other"], {"image": "other"}),
    "--backend": (["none", "--i-trust-these-submissions"], {"backend": "none"}),
    "--private-dir": (["PRIVATE"], "another folder"),
    "--free-seconds": (["7"], {"free_seconds": 7.0}),
    "--i-trust-these-submissions": None,  # with --backend
    "--exercise": None,  # each run here needs it
    **dict.fromkeys(["--json", "--gradescope"]),
    **dict.fromkeys(["--roster", "--out", "--jobs", "--executor", "--scheduler", "--resume"]),
    **dict.fromkeys(["--due", "--max-mb", "-h", "--help"]),
}
REACH = [name for name, what in OPTIONS.items() if what]


def parsers():
    """Return the parsers of `grade one` and `grade batch`."""
    parser = cli.build_parser()
    for name in ("grade", ("one", "batch")):
        kinds = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        if isinstance(name, tuple):
            return {each: kinds.choices[each] for each in name}
        parser = kinds.choices[name]
    return None


@pytest.fixture
def job(tmp_path, exercise, bwrap, monkeypatch):
    """Return a function that runs a command and returns the job that would be graded."""
    mini.write_submissions(tmp_path / "subs", {"ana": mini.answers()})
    (tmp_path / "seed.txt").write_text("1234\n")
    hidden = tmp_path / "private/tests/hidden"
    hidden.mkdir(parents=True)
    (hidden / "test_hidden.py").write_text(mini.HIDDEN + "\n# private\n")
    jobs = []

    def graded(one):
        jobs.append(one)
        raise KeyboardInterrupt

    monkeypatch.setattr(grade, "grade", graded)
    monkeypatch.setattr(
        batch,
        "local",
        lambda given, *_: [Outcome(jobs.append(each) or each, None) for each in given],
    )
    places = {"SEED": str(tmp_path / "seed.txt"), "PRIVATE": str(tmp_path / "private")}

    def run(kind, *words):
        jobs.clear()
        target = tmp_path / ("subs/ana/nb.ipynb" if kind == "one" else "subs")
        given = [places.get(word, word) for word in words]
        out = ["--out", str(tmp_path / "out")] if kind == "batch" else []
        try:
            cli.main(["grade", kind, str(target), "--exercise", str(exercise), *out, *given])
        except KeyboardInterrupt:
            assert kind == "one"
        (made,) = jobs
        return made

    return run


def test_every_option_is_known_here():
    for kind, parser in parsers().items():
        named = {name for action in parser._actions for name in action.option_strings}
        assert named <= set(OPTIONS), kind
        assert set(REACH) <= named, kind


@pytest.mark.parametrize("option", REACH)
def test_an_option_reaches_the_job_of_one_and_of_batch_alike(job, option):
    words, changed = OPTIONS[option]
    plain, one, many = job("one"), job("one", option, *words), job("batch", option, *words)
    assert one.settings == many.settings != plain.settings
    for name, value in changed.items() if isinstance(changed, dict) else ():
        assert getattr(one.settings, name) == value
        assert getattr(plain.settings, name) != value


SLOW = "import time\nuntil = time.process_time() + 0.5\n"
SLOW += "while time.process_time() < until: pass\n"


def test_the_time_factor_reaches_deadlines_and_walls_of_both(tmp_path, exercise, bwrap, capsys):
    """A cell and a call that are too slow by themselves are not when time is stretched."""
    settings = (exercise / "exercise.toml").read_text().replace("seconds = 3", "seconds = 0.4")
    (exercise / "exercise.toml").write_text(settings)
    body = mini.SOFTMAX.replace(
        "):\n",
        "):\n    import time\n    until = time.process_time() + 0.3\n"
        "    while time.process_time() < until: pass\n",
    )
    mini.write_submissions(tmp_path / "subs", {"ana": mini.answers(SLOW + body)})
    seen = {}
    for factor in ("1", "20"):
        more = ["--exercise", str(exercise), "--time-factor", factor]
        assert cli.main(["grade", "one", str(tmp_path / "subs/ana/nb.ipynb"), "--json", *more]) == 0
        one = json.loads(capsys.readouterr().out)
        out = tmp_path / f"out{factor}"
        assert cli.main(["grade", "batch", str(tmp_path / "subs"), "--out", str(out), *more]) == 0
        many = json.loads((out / "results/ana.json").read_text())
        seen[factor] = [(each["questions"][0]["status"], each["points"]) for each in (one, many)]
        capsys.readouterr()
    assert seen["1"][0] == seen["1"][1]
    assert seen["1"][0][0] == "timeout"
    assert seen["20"] == [("graded", "4.5")] * 2


@pytest.mark.parametrize("factor", ["0", "-1", "nan", "inf", "-inf", "1e9", "fast", ""])
@pytest.mark.parametrize("kind", ["one", "batch"])
def test_a_time_factor_that_no_clock_can_keep_is_refused(kind, factor, capsys, tmp_path):
    with pytest.raises(SystemExit) as error:
        cli.main(["grade", kind, str(tmp_path), "--exercise", "03", f"--time-factor={factor}"])
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert "--time-factor: must be a number above 0 and at most 1000" in said
    assert repr(factor) in said
    assert not (tmp_path / "graded").exists()


@pytest.mark.parametrize("changes", [{"time_factor": float("nan")}, {"free_seconds": 0}])
def test_settings_refuse_such_times_too(changes):
    with pytest.raises(ValueError, match="got"):
        Settings("x", **changes)


def test_budgets_and_limits_grow_together(exercise):
    from attncourse.grading.exercise import load

    spec = load(exercise)
    once, thrice = Settings("x"), Settings("x", time_factor=3.0)
    assert thrice.budgets(spec) == {name: 3 * s for name, s in once.budgets(spec).items()}
    assert thrice.free() == 3 * once.free()
    assert thrice.isolation(spec).cpu_seconds == 3 * once.isolation(spec).cpu_seconds
    assert thrice.patience(spec) > once.patience(spec) > sum(once.budgets(spec).values())
