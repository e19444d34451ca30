"""A batch loses nobody, keeps what is done, and never makes its own error a 0."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import mini
import pytest

from attncourse import cli
from attncourse.grading import batch as batch_module
from attncourse.grading import jobs as jobs_module
from attncourse.grading.backends import SandboxError
from attncourse.grading.batch import Batch, Options
from attncourse.grading.exercise import load
from attncourse.grading.grade import Job, grade
from attncourse.grading.jobs import Outcome, job_from_text, job_to_text, local
from attncourse.grading.late import when
from attncourse.grading.reports import write_reports
from attncourse.grading.roster import Learner
from attncourse.grading.settings import Settings
from attncourse.grading.store import Store, file_name, job_key, write_atomically

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"
)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def options(tmp_path, exercise, bwrap):
    """Return options for three submissions."""
    subs = {"ana": mini.answers(), "bob": mini.answers(mini.WRONG_SOFTMAX), "eva": b"not json"}
    mini.write_submissions(tmp_path / "subs", subs)
    return Options(Settings(str(exercise)), str(tmp_path / "subs"), str(tmp_path / "out"))


def ready(options, **changes):
    """Return a batch; changes are of the options or of their settings."""
    own = {name: changes.pop(name) for name in list(changes) if hasattr(options.settings, name)}
    options = replace(options, settings=replace(options.settings, **own), **changes)
    return Batch(options, load(options.settings.exercise))


def points(results):
    """Return student -> (points, status)."""
    return {name: (result["points"], result["status"]) for name, result in results.items()}


def test_everybody_gets_one_row(options):
    roster = [Learner("ana", "Ana Lima"), Learner("bob", "=1+1"), Learner("zoe", "Zoe")]
    batch = ready(options, roster=roster)
    assert points(batch.run()) == {
        "ana": ("4.5", "graded"),
        "bob": ("0", "graded"),
        "eva": ("0", "invalid_notebook"),
        "zoe": (None, "missing"),
    }, "eva's work has no owner, so nobody is missing for sure"
    write_reports(batch)
    rows = list(csv.DictReader(io.StringIO((batch.store.out / "gradebook.csv").read_text())))
    assert [row["id"] for row in rows] == ["ana", "bob", "eva", "zoe"]
    assert [row["on_roster"] for row in rows] == ["yes", "yes", "no", "yes"]
    assert (rows[0]["q1"], rows[0]["q2"], rows[1]["name"]) == ("1.5", "3", "'=1+1")
    moodle = (batch.store.out / "gradebook-moodle.csv").read_text()
    assert "eva" not in moodle, "who is not on the roster is not imported"


def test_a_second_run_does_nothing_and_a_change_only_what_it_must(options, tmp_path, monkeypatch):
    first = ready(options).run()
    counted = []

    def counting(jobs, *rest):
        jobs = list(jobs)
        counted.append([job.student for job in jobs])
        return local(iter(jobs), *rest)

    monkeypatch.setattr(batch_module, "local", counting)
    before = {p.name: p.read_bytes() for p in (tmp_path / "out/results").iterdir()}
    again = ready(options, resume=True)
    assert points(again.run()) == points(first)
    assert again.kept == 3
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "out/results").iterdir()}
    (tmp_path / "subs/bob/nb.ipynb").write_bytes(mini.answers())
    assert points(ready(options, resume=True).run())["bob"] == ("4.5", "graded")
    ready(options, resume=True, seed=7).run()
    assert counted == [[], ["bob"], ["ana", "bob", "eva"]]


def test_the_key_changes_with_all_that_a_grade_depends_on(options, exercise):
    from attncourse.grading import store

    job = Job("ana", b"x", Settings(str(exercise)))
    changes = {
        "seed": 1,
        "backend": "docker",
        "image": "x",
        "time_factor": 2.0,
        "free_seconds": 5.0,
    }
    jobs = [job, replace(job, data=b"y"), replace(job, student="bob")]
    jobs += [replace(job, settings=replace(job.settings, **{k: v})) for k, v in changes.items()]
    keys = set(map(job_key, jobs))
    assert len(keys) == 8
    hidden = exercise / "tests/hidden/test_hidden.py"
    hidden.write_text(hidden.read_text() + "\n# changed\n")
    store._exercise_hash.cache_clear()
    assert job_key(job) not in keys


def test_a_damaged_result_is_graded_again(options, tmp_path):
    ready(options).run()
    (tmp_path / "out/results/ana.json").write_text('{"student": "ana", "ke')
    again = ready(options, resume=True)
    assert points(again.run())["ana"] == ("4.5", "graded")
    assert again.kept == 2


BROKEN_TEST = """
import pytest

@pytest.mark.question("q1")
@pytest.mark.points("1")
def test_wrong_by_itself(student):
    undefined_name

@pytest.mark.question("q2")
@pytest.mark.points(2)
def test_fine(student):
    student.softmax([1.0])
"""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (BROKEN_TEST, "undefined_name"),
        ("import no_such_module", "no_such_module"),
        (mini.HIDDEN.replace("points(1)", "points(7)"), "offer 7.5 points"),
        (mini.HIDDEN.replace('question("q1")', 'question("q9")'), "q9"),
    ],
    ids=["broken-test", "broken-import", "points-do-not-add-up", "unknown-question"],
)
def test_an_error_of_ours_is_never_a_zero(options, exercise, text, word):
    (exercise / "tests/hidden/test_hidden.py").write_text(text)
    batch = ready(options)
    results = batch.run()
    assert points(results)["ana"] == (None, "grader_error")
    assert word in results["ana"]["message"]
    assert points(results)["eva"] == ("0", "invalid_notebook"), "the batch goes on"
    write_reports(batch)
    rows = list(csv.DictReader(io.StringIO((batch.store.out / "gradebook.csv").read_text())))
    assert (rows[0]["points"], rows[0]["q1"], rows[0]["status"]) == ("", "", "grader_error")
    page = (batch.store.out / "feedback/ana.html").read_text()
    assert "this is not a 0" in page
    assert word not in page
    assert not (batch.store.out / "gradescope/ana.json").exists()
    assert ready(options, resume=True).run()["ana"]["status"] == "grader_error", "tried again"


def test_a_sandbox_that_does_not_start_is_our_error(options, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    results = ready(options).run()
    assert points(results)["ana"] == (None, "grader_error")


BREAKS_LATE = mini.HIDDEN.replace(
    "    assert_allclose(came, expected", "    came['shape']\n    assert_allclose(came, expected"
)


def test_the_solution_is_graded_first(options, exercise, capsys):
    """A test that breaks after a call would cost everybody its points without a word."""
    words = ["grade", "batch", options.submissions, "--exercise", str(exercise)]
    words += ["--out", options.out, "--jobs", "1"]
    hidden = exercise / "tests/hidden/test_hidden.py"
    right = hidden.read_text()
    hidden.write_text(BREAKS_LATE)
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "the solution of mini itself does not get full marks" in said
    assert "test_large_scores" in said
    assert list((Path(options.out) / "results").iterdir()) == [], "nobody is graded"
    hidden.write_text(right)
    assert cli.main(words) == 0


def test_the_solution_is_not_graded_twice(options, monkeypatch):
    from attncourse.grading import rehearsal

    assert rehearsal.rehearse(ready(options))
    monkeypatch.setattr(rehearsal, "local", lambda *_: pytest.fail("graded again"))
    assert rehearsal.rehearse(ready(options, resume=True))
    with pytest.raises(pytest.fail.Exception):
        rehearsal.rehearse(ready(options, resume=True, seed=3))


def test_the_command_lists_what_it_could_not_grade(options, exercise, capsys, monkeypatch):
    monkeypatch.setattr("attncourse.grading.rehearsal.rehearse", lambda batch: True)
    (exercise / "tests/hidden/test_hidden.py").write_text(BROKEN_TEST)
    words = [
        "grade",
        "batch",
        options.submissions,
        "--exercise",
        str(exercise),
        "--out",
        options.out,
    ]
    assert cli.main([*words, "--jobs", "1"]) == 1
    said = capsys.readouterr()
    assert "not graded by our own fault (no points, not 0): ana" in said.out
    assert "s left" in said.err


def test_the_command_refuses_before_it_starts(options, exercise, capsys, tmp_path):
    words = ["grade", "batch", options.submissions, "--exercise", str(exercise)]
    for more, word in (
        (["--backend", "none"], "i-trust"),
        (["--backend", "user"], "end each other"),
        (["--jobs", "0"], "at least 1"),
        (["--due", "2026-01-01"], "offset"),
        (["--roster", str(tmp_path / "none.csv")], "roster"),
    ):
        assert cli.main([*words, *more]) == 2
        assert word in capsys.readouterr().err


def test_without_a_sandbox_nothing_runs(options, exercise, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    words = [
        "grade",
        "batch",
        options.submissions,
        "--exercise",
        str(exercise),
        "--out",
        options.out,
    ]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "apt install bubblewrap" in said
    assert not Path(options.out).exists()


def test_one_notebook_is_graded(options, exercise, capsys, tmp_path):
    notebook = str(tmp_path / "subs/bob/nb.ipynb")
    target = tmp_path / "results.json"
    words = ["grade", "one", notebook, "--exercise", str(exercise), "--gradescope", str(target)]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "nb: 0 of 4.5" in said
    page = json.loads(target.read_text())
    assert page["score"] == 0
    assert [test["max_score"] for test in page["tests"]] == [0.5, 1.0, 1.0, 2.0]
    assert "test_large_scores" not in target.read_text()


def test_late_work_is_marked_and_costs_what_was_agreed(options, tmp_path):
    due = when("2026-01-01T00:00:00+00:00")
    os.utime(tmp_path / "subs/ana/nb.ipynb", (due.timestamp() + 86_000,) * 2)
    os.utime(tmp_path / "subs/bob/nb.ipynb", (due.timestamp() - 1,) * 2)
    result = ready(options, due=due).run()["ana"]
    assert (result["status"], result["earned"], result["points"]) == ("late", "4.5", "4.05")
    again = ready(options, resume=True)
    assert points(again.run())["ana"] == ("4.5", "graded"), "without a due date nothing is late"
    assert again.kept == 3


def test_a_job_process_that_dies_is_replaced(options, exercise, monkeypatch):
    jobs = [Job(name, mini.answers(), Settings(str(exercise))) for name in "abc"]
    give, killed = jobs_module._Process.give, []

    def give_and_kill(self, job, seconds):
        give(self, job, seconds)
        if job.student == "a" or (job.student == "b" and not killed):
            killed.append(job.student)
            self.process.kill()

    monkeypatch.setattr(jobs_module._Process, "give", give_and_kill)
    done = {outcome.job.student: outcome for outcome in local(jobs, 2, 120)}
    assert done["a"].result is None
    assert "twice" in done["a"].problem
    assert done["b"].result["points"] == done["c"].result["points"] == "4.5"


def test_a_job_process_that_hangs_is_replaced(exercise, monkeypatch):
    jobs = [Job("a", mini.answers(), Settings(str(exercise)))]
    give = jobs_module._Process.give

    def give_and_stop(self, job, seconds):
        give(self, job, 1.0)
        os.kill(self.process.pid, signal.SIGSTOP)

    monkeypatch.setattr(jobs_module._Process, "give", give_and_stop)
    (outcome,) = local(jobs, 1, 120)
    assert outcome.result is None
    assert "nothing was heard" in outcome.problem


def test_a_job_comes_out_of_its_text_the_same():
    job = Job("José ", bytes(range(256)), Settings("/x", "docker", "image", 3, 1.5, 2.0))
    assert job_from_text(job_to_text(job)) == job


def test_ctrl_c_keeps_what_is_done(options, tmp_path, exercise):
    mini.write_submissions(tmp_path / "many", {f"s{n}": mini.answers() for n in range(40)})
    words = [
        "-m",
        "attncourse",
        "grade",
        "batch",
        str(tmp_path / "many"),
        "--exercise",
        str(exercise),
    ]
    words += ["--out", options.out, "--jobs", "2"]
    run = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    results = tmp_path / "out/results"
    until = time.monotonic() + 100
    while len(list(results.glob("*.json"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "--resume" in out
    kept = len(list(results.glob("*.json")))
    assert 3 <= kept < 40
    assert not (tmp_path / "out/gradebook.csv").exists(), "a part is no gradebook"
    batch = ready(options, submissions=str(tmp_path / "many"), resume=True)
    assert {row[0] for row in points(batch.run()).values()} == {"4.5"}
    assert batch.kept == kept


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    place = tmp_path / "a.txt"
    write_atomically(place, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(place, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert place.read_text() == "old"


def test_no_name_leaves_its_folder_and_no_two_share_a_file(tmp_path):
    names = [
        "a",
        "A b",
        "../x",
        "..",
        ".hidden",
        "a/b",
        "a%2fb",
        "x" * 300,
        "x" * 299 + "y",
        "李\u0000",
        "CON.",
    ]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    store = Store(tmp_path / "out")
    for name in names:
        store.save({"student": name, "points": "1"})
        assert store.load(name)["points"] == "1"
        assert store.path(name).parent == tmp_path / "out/results"


def test_results_are_for_the_owners_eyes(tmp_path):
    store = Store(tmp_path / "out")
    store.save({"student": "ana"})
    assert store.out.stat().st_mode & 0o077 == 0
    assert store.path("ana").stat().st_mode & 0o077 == 0


def test_the_secret_seed_reaches_the_tests(exercise, bwrap):
    hidden = exercise / "tests/hidden/test_hidden.py"
    text = hidden.read_text().replace("def test_values(student):", "def test_values(student, rng):")
    hidden.write_text(text.replace("np.random.default_rng(7).normal", "rng.normal"))
    cheat = "def attention(query, key, value):\n    raise ValueError(str(float(query[0, 0])))"
    said = []
    for seed in (1, 2, 1):
        job = Job("a", mini.answers(attention=cheat), Settings(str(exercise), seed=seed))
        said.append(grade(job)["questions"][1]["tests"][-1]["message"])
    assert said[0] == said[2] != said[1]


@pytest.mark.slow
def test_a_killed_cluster_worker_loses_nothing(options, tmp_path):
    distributed = pytest.importorskip("distributed")
    mini.write_submissions(tmp_path / "many", {f"s{n}": mini.answers() for n in range(8)})
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        many = str(tmp_path / "many")
        address = cluster.scheduler_address
        batch = ready(options, submissions=many, executor="dask", scheduler=address)
        victims = []

        def kill_one(_):
            if not victims:
                with distributed.Client(cluster) as client:
                    pids = client.run(os.getpid)
                victims.append(min(pids.values()))
                threading.Thread(target=os.kill, args=(victims[0], signal.SIGKILL)).start()

        results = batch.run(kill_one)
    assert victims
    assert set(points(results).values()) == {("4.5", "graded")}
    assert len(results) == 8


@pytest.mark.slow
def test_a_cluster_of_our_own_imports_nothing_from_the_submissions(options, monkeypatch, tmp_path):
    pytest.importorskip("distributed")
    for name in ("json.py", "numpy.py", "multiprocessing.py", "distributed.py"):
        (tmp_path / "subs" / name).write_text(
            f"open({str(tmp_path / 'planted')!r}, 'w')\nraise SystemExit"
        )
    monkeypatch.chdir(tmp_path / "subs")
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # so that what the cluster sets is taken back
    results = ready(options, executor="dask", workers=1).run()
    assert points(results)["ana"] == ("4.5", "graded")
    assert not (tmp_path / "planted").exists()


def test_what_a_cluster_cannot_do_is_an_error_not_a_zero(options, monkeypatch):
    def failing(jobs, *_):
        yield from (Outcome(job, None, "the cluster failed") for job in jobs)

    monkeypatch.setattr(batch_module, "local", failing)
    assert points(ready(options).run())["ana"] == (None, "grader_error")


def test_a_sandbox_that_does_not_start_has_a_status_of_their_own(exercise, tmp_path, monkeypatch):
    def fallen(*_, **__):
        raise SandboxError("no isolation today")

    (tmp_path / "nb.ipynb").write_bytes(mini.answers())
    monkeypatch.setattr("attncourse.grading.sandbox.Sandbox._start", fallen)
    words = ["grade", "one", str(tmp_path / "nb.ipynb"), "--exercise", str(exercise)]
    assert cli.main([*words, "--backend", "none", "--i-trust-these-submissions"]) == 3


def test_what_is_not_graded_is_said(options, exercise, capsys, tmp_path):
    (tmp_path / "subs/ana/nb (1).ipynb").write_bytes(mini.answers())
    os.utime(tmp_path / "subs/ana/nb.ipynb", (9e8, 9e8))
    words = ["grade", "batch", options.submissions, "--exercise", str(exercise)]
    assert cli.main([*words, "--out", options.out, "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "ana: graded is ana/nb (1).ipynb, not graded: ana/nb.ipynb" in said


def command(options, exercise, tmp_path, roster, *more):
    """Return the words of a batch with a roster."""
    (tmp_path / "roster.csv").write_text(roster)
    words = ["grade", "batch", options.submissions, "--exercise", str(exercise)]
    words += ["--out", options.out, "--roster", str(tmp_path / "roster.csv"), "--jobs", "1"]
    return [*words, *more]


def test_what_has_no_partner_is_listed(options, exercise, capsys, tmp_path):
    assert cli.main(command(options, exercise, tmp_path, "id\nana\nzoe\n")) == 0
    said = capsys.readouterr().out
    assert "not on the roster: bob (bob/nb.ipynb)" in said
    assert "nothing was matched for 1 of the roster (no points, not 0" in said
    rows = list(csv.DictReader((Path(options.out) / "unmatched.csv").read_text().splitlines()))
    assert [(row["kind"], row["who"]) for row in rows] == [
        ("not on the roster", "bob"),
        ("not on the roster", "eva"),
        ("nothing matched", "zoe"),
    ]
    moodle = (Path(options.out) / "gradebook-moodle.csv").read_text()
    assert "zoe,,,,being looked at" in moodle


def test_a_conflict_is_no_zero_and_ends_with_a_status(options, exercise, capsys, tmp_path):
    mini.write_submissions(Path(options.submissions), {"ANA": mini.answers(mini.WRONG_SOFTMAX)})
    assert cli.main(command(options, exercise, tmp_path, "id\nana\nbob\neva\n")) == 1
    assert "conflict: ana (2 submissions claim to be of ana" in capsys.readouterr().out
    result = json.loads((Path(options.out) / "results/ana.json").read_text())
    assert (result["points"], result["status"]) == (None, "grader_error")


def test_when_all_are_matched_who_is_missing_gets_a_zero(options, exercise, capsys, tmp_path):
    assert cli.main(command(options, exercise, tmp_path, "id\nana\nbob\neva\nzoe\n")) == 0
    result = json.loads((Path(options.out) / "results/zoe.json").read_text())
    assert (result["points"], result["status"]) == ("0", "missing")
    page = (Path(options.out) / "summary.html").read_text()
    assert "2 graded, of 4.5 points" in page, "missing and unreadable ones are not graded"


def test_a_roster_that_matches_nobody_is_refused(options, exercise, capsys, tmp_path):
    assert cli.main(command(options, exercise, tmp_path, "id\ns1\ns2\n")) == 2
    assert "none of the 3 submissions matches a learner of the roster" in capsys.readouterr().err


def test_the_platforms_late_mark_deducts_whatever_the_files_time(options, tmp_path, exercise):
    import zipfile

    names = {"ana_LATE_1_9_nb.ipynb": mini.answers(), "bob_2_9_nb.ipynb": mini.answers()}
    folder = tmp_path / "unpacked"
    folder.mkdir()
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
            (folder / name).write_bytes(data)
    for place, due in ((tmp_path / "all.zip", None), (folder, when("2026-01-01T00:00:00+00:00"))):
        results = ready(options, submissions=str(place), due=due).run()
        assert points(results)["ana"] == ("4.05", "late"), "a day that has begun"
        assert points(results)["bob"] == ("4.5", "graded"), "the platform says that it was in time"
