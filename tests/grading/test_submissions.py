"""Every layout of the learning platforms is read; no file name or archive can hurt."""

import os
import stat
import struct
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from attncourse.grading.cells import InvalidNotebook, read_cells
from attncourse.grading.late import factor, lateness, when
from attncourse.grading.points import exact, shown
from attncourse.grading.roster import Learner, RosterError, join, read_roster, unmatched
from attncourse.grading.submissions import Submission, Unreadable, find


def put(folder, *names, data=b"{}"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def zipped(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def students(place):
    return [(one.student, one.inner) for one in find(place)]


def test_a_folder_per_student(tmp_path):
    put(tmp_path, "ana/answer.ipynb", "Bob Lee/x/y.ipynb", "José/nb (1).ipynb", "ana/notes.txt")
    assert students(tmp_path) == [
        ("ana", "ana/answer.ipynb"),
        ("Bob Lee", "Bob Lee/x/y.ipynb"),
        ("José", "José/nb (1).ipynb"),
    ]


def test_flat_files_and_their_copies(tmp_path):
    put(tmp_path, "student-1.ipynb", "student-2.ipynb", "ana.ipynb", "ana (1).ipynb")
    os.utime(tmp_path / "ana.ipynb", (9e8, 9e8))
    found = find(tmp_path)
    assert [one.student for one in found] == ["ana", "student-1", "student-2"]
    assert (found[0].inner, found[0].others) == ("ana (1).ipynb", ("ana.ipynb",))


def test_checkpoints_and_hidden_files_are_no_submissions(tmp_path):
    put(tmp_path, "ana/nb.ipynb", "ana/.ipynb_checkpoints/nb.ipynb", "__MACOSX/ana/nb.ipynb")
    assert students(tmp_path) == [("ana", "ana/nb.ipynb")]


def test_a_canvas_download(tmp_path):
    names = [
        "limaana_1001_555_nb.ipynb",
        "leebob_LATE_1002_556_nb-2.ipynb",
        "leebob_LATE_1002_551_nb.ipynb",
    ]
    found = find(zipped(tmp_path / "submissions.zip", dict.fromkeys(names, "{}")))
    assert [(one.student, one.number, one.marked_late) for one in found] == [
        ("leebob", "1002", True),
        ("limaana", "1001", False),
    ]
    assert found[0].inner == names[1]


def test_a_moodle_download(tmp_path):
    names = [
        "Ana Lima_77_assignsubmission_file/nb.ipynb",
        "Bob Lee_78_assignsubmission_file_/a.ipynb",
    ]
    found = find(zipped(tmp_path / "all.zip", dict.fromkeys(names, "{}")))
    assert [(one.student, one.number) for one in found] == [("Ana Lima", "77"), ("Bob Lee", "78")]


def test_one_name_in_two_spellings_is_one_student(tmp_path):
    put(tmp_path, "Jose\u0301/a.ipynb")
    assert find(tmp_path)[0].student == "Jos\u00e9"


@pytest.mark.parametrize(
    "name", ["../../evil.ipynb", "/etc/evil.ipynb", "a/../../b/evil.ipynb", "..\\evil.ipynb"]
)
def test_a_path_that_leads_out_is_only_a_label(tmp_path, name):
    place = zipped(tmp_path / "all.zip", {name: "{}"})
    found = find(place)
    assert found[0].read() == b"{}"
    assert ".." not in found[0].student
    assert "/" not in found[0].student
    assert list(tmp_path.rglob("*")) == [place]


def test_a_zip_bomb_is_not_blown_up(tmp_path):
    place = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.ipynb", "w") as big,
    ):
        for _ in range(300):
            big.write(bytes(1 << 20))
    assert place.stat().st_size < 1 << 20
    with pytest.raises(Unreadable, match="larger than 64 MB: clear the notebook's outputs"):
        find(place)[0].read()


def test_a_size_that_lies_does_not_help(tmp_path):
    place = zipped(tmp_path / "liar.zip", {"a.ipynb": bytes(1000)})
    data = place.read_bytes()
    place.write_bytes(data.replace(struct.pack("<II", 1000, 1000), struct.pack("<II", 1000, 10)))
    try:
        assert len(find(place)[0].read()) <= 1000
    except Unreadable:
        pass


def test_links_and_encryption_in_a_zip_are_refused(tmp_path):
    place = tmp_path / "links.zip"
    with zipfile.ZipFile(place, "w") as archive:
        entry = zipfile.ZipInfo("a.ipynb")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(Unreadable, match="link"):
        find(place)[0].read()
    place = zipped(tmp_path / "secret.zip", {"a.ipynb": "{}"})
    data = bytearray(place.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    place.write_bytes(data)
    with pytest.raises(Unreadable, match="encrypted"):
        find(place)[0].read()


def test_damaged_and_absent_places_are_said(tmp_path):
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04")
    for place, word in (
        (tmp_path / "bad.zip", "zip"),
        (tmp_path / "no", "no "),
        (tmp_path, "ipynb"),
    ):
        with pytest.raises(Unreadable, match=word):
            find(place)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_links_and_pipes_in_a_folder_are_refused(tmp_path):
    put(tmp_path, "secret.txt")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/nb.ipynb").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(tmp_path / "b.ipynb")
    (tmp_path / "c").symlink_to("/etc")
    found = {one.student: one for one in find(tmp_path)}
    with pytest.raises(Unreadable, match="link"):
        found["a"].read()
    with pytest.raises(Unreadable, match="regular"):
        found["b"].read()
    assert set(found) == {"a", "b"}


def submission(student, number="", **more):
    return Submission(student, "place", f"{student}.ipynb", number, **more)


def test_nobody_is_lost_between_roster_and_submissions():
    roster = [
        Learner("s1", "Ana Lima", canvas_id="1001"),
        Learner("s2", "Bob Lee", moodle_id="78"),
        Learner("s3", "Eva Maria Cruz"),
        Learner("s4", "Absent One"),
    ]
    found = [
        submission("limaana", "1001"),
        submission("Bob Lee", "78"),
        submission("CruzEvaMaria"),
        submission("stranger"),
    ]
    pairs = {pair.student: pair for pair in join(found, roster)}
    assert {name: pair.submission and pair.submission.student for name, pair in pairs.items()} == {
        "s1": "limaana",
        "s2": "Bob Lee",
        "s3": "CruzEvaMaria",
        "s4": None,
        "stranger": "stranger",
    }
    assert pairs["stranger"].learner is None


def test_an_id_is_found_whatever_its_case():
    assert join([submission("ANA")], [Learner("ana")])[0].submission is not None


def test_two_learners_of_one_name_are_not_guessed():
    roster = [Learner("s1", "Ana Lima"), Learner("s2", "Ana Lima")]
    pairs = {pair.student: pair.submission for pair in join([submission("Ana Lima")], roster)}
    assert pairs["s1"] is None
    assert pairs["s2"] is None
    assert pairs["Ana Lima"] is not None


def test_two_strangers_of_one_name_get_two_rows():
    pairs = join([submission("Ana", "1"), submission("Ana", "2")], None)
    assert len({pair.student for pair in pairs}) == 2


@pytest.mark.parametrize(
    ("text", "word"), [("name\nx\n", "no column id"), ("id\na\nA\n", "twice"), ("id\n \n", "empty")]
)
def test_a_bad_roster_is_refused(tmp_path, text, word):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(RosterError, match=word):
        read_roster(tmp_path / "roster.csv")


def test_a_roster_from_a_spreadsheet_is_read(tmp_path):
    (tmp_path / "roster.csv").write_bytes("\ufeffID,Name,extra\r\ns1,José,x\r\n".encode())
    assert read_roster(tmp_path / "roster.csv") == [Learner("s1", "José")]


def test_cells_of_the_exercise_are_told_from_answers():
    import mini

    source = mini.answers(first="x = 1")
    cells = read_cells(source, ["q1", "q2"])
    assert [cell.question for cell in cells] == [None, None, "q1", "q2"]
    retyped = source.replace(b'"grade": true', b'"grade": false')
    assert len(read_cells(retyped, ["q1", "q2"])) == 6
    assert len(read_cells(retyped, ["q1", "q2"], {"test_q1", "test_q2"})) == 4


def test_a_byte_order_mark_is_no_harm():
    assert read_cells(b"\xef\xbb\xbf" + b'{"cells": []}', []) == []


def test_an_old_notebook_is_told_what_to_do():
    with pytest.raises(InvalidNotebook, match="save it"):
        read_cells(b'{"worksheets": [{"cells": []}]}', [])


def test_lateness_costs_what_the_rule_says():
    due = when("2026-03-01T23:59:00+01:00")
    assert due == datetime(2026, 3, 1, 22, 59, tzinfo=UTC)
    rule = {"penalty_per_day": 0.1, "max_days": 3}
    for late, share in (
        ((0, 4), "1"),
        ((0, 6), "0.9"),
        ((1, 1), "0.8"),
        ((2, 0), "0.8"),
        ((3, 1), "0"),
    ):
        moment = due + timedelta(days=late[0], minutes=late[1])
        assert factor(lateness(moment, due), rule) == exact(share), late
    assert factor(timedelta(days=9), None) == 1
    with pytest.raises(ValueError, match="offset"):
        when("2026-03-01T23:59:00")
    for text in ("2026-03-01", "2026-03-01T12:00:00"):
        with pytest.raises(ValueError, match="write ") as error:
            when(text)
        advice = str(error.value).split("write ")[1].split(",")[0]
        assert when(advice).isoformat().startswith("2026-03-01T"), "its own advice is accepted"


def test_points_do_not_drift():
    assert sum((exact(0.1) for _ in range(10)), Fraction(0)) == 1
    assert shown(exact("0.1") * 3) == "0.3"


@pytest.mark.skipif(sys.platform == "darwin", reason="its folders know no case")
@pytest.mark.parametrize("names", [("Ana", "ana"), ("Bob  Lee", "Bob Lee"), ("STRASSE", "straße")])
def test_folders_of_different_names_are_never_merged(tmp_path, names):
    files = [f"{name}/nb.ipynb" for name in names]
    put(tmp_path, *files)
    pairs = join(find(tmp_path), None)
    assert sorted(pair.submission.inner for pair in pairs) == sorted(files)
    assert len({pair.student.casefold() for pair in pairs}) == 2
    assert not any(pair.submission.others for pair in pairs)
    entries = zipped(tmp_path / "all.zip", dict.fromkeys(files, "{}"))
    assert len(find(entries)) == 2


def test_two_that_claim_one_learner_are_refused_and_named(tmp_path):
    """`GOOD0/nb.ipynb` took the place of `good0/nb.ipynb` because it was newer."""
    files = ["ANA/nb.ipynb", "ana/nb.ipynb"]
    put(tmp_path, *files)
    (pair,) = join(find(tmp_path), [Learner("Ana")])
    assert "2 submissions claim to be of Ana" in pair.problem
    assert all(repr(name) in pair.problem for name in files)


def test_a_folder_inside_a_submission_impersonates_nobody(tmp_path):
    put(tmp_path, "eve/Bob Lee_12_assignsubmission_file_/nb.ipynb", "bob/nb.ipynb")
    roster = [Learner("bob", "Bob Lee", moodle_id="12"), Learner("eve")]
    pairs = {pair.student: pair for pair in join(find(tmp_path), roster)}
    assert pairs["bob"].submission.inner == "bob/nb.ipynb"
    assert pairs["eve"].submission.inner.startswith("eve/")
    assert not any(pair.problem for pair in pairs.values())


def test_a_number_and_a_name_of_two_learners_are_a_conflict():
    roster = [Learner("s1", "Ana Lima", moodle_id="77"), Learner("s2", "Bob Lee")]
    pairs = {pair.student: pair for pair in join([submission("Bob Lee", "77")], roster)}
    assert "number of one learner and the name of another: s1 and s2" in pairs["Bob Lee"].problem
    assert pairs["s1"].submission is pairs["s2"].submission is None
    assert [row[:2] for row in unmatched(list(pairs.values()))] == [
        ("conflict", "Bob Lee"),
        ("nothing matched", "s1"),
        ("nothing matched", "s2"),
    ]


def test_flat_moodle_names_are_read(tmp_path):
    put(tmp_path, "Ana Lee_201_assignsubmission_file_nb.ipynb", "Bo_7_assignsubmission_file.ipynb")
    found = [(one.student, one.number) for one in find(tmp_path)]
    assert found == [("Ana Lee", "201"), ("Bo", "7")]
    pairs = join(find(tmp_path), [Learner("s1", moodle_id="201"), Learner("s2", "Bo")])
    assert all(pair.submission for pair in pairs)


@pytest.mark.parametrize(
    "name",
    ["ana/answer.py", "ana.py", "ana_1001_555_nb.html", "Ana_7_assignsubmission_file_/x.txt"],
)
def test_what_is_no_notebook_is_handed_in_all_the_same(tmp_path, name):
    put(tmp_path, name, "bob/nb.ipynb", "README.md", "notes.txt")
    first, second = find(tmp_path)
    assert (first.student.lower(), second.student) == ("ana", "bob")
    with pytest.raises(Unreadable, match=r"no notebook .* was handed in"):
        first.read()


def test_a_script_that_lies_about_is_nobodys(tmp_path):
    put(tmp_path, "ana.py", "numpy.py", "bob.ipynb")
    named = {pair.student: pair for pair in join(find(tmp_path), [Learner("ana"), Learner("bob")])}
    assert set(named) == {"ana", "bob"}
    assert named["ana"].submission.inner == "ana.py"
    assert [pair.student for pair in join(find(tmp_path), None)] == ["bob"]


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Essay (9)
    Points Possible,,,,,10
"Lima, Ana",1001,s1,ana@x.org,A,
"Lee, Bob",1002,,bob@x.org,A,7
"Student, Test",1003,,f00,A,
"""
MOODLE = """Identifier,"Full name","Email address",Status,Grade
"Participant 201","Ana Lima",ana@x.org,Submitted,
"Participant 202","Bob Lee",bob@x.org,"No submission",
"""
PARTICIPANTS = "First name;Last name;ID number;Email address\nAna;Lima;s1;ana@x.org\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            CANVAS,
            [
                Learner("s1", "Lima, Ana", "ana@x.org", "1001"),
                Learner("bob@x.org", "Lee, Bob", "bob@x.org", "1002"),
            ],
        ),
        (
            MOODLE,
            [
                Learner("ana@x.org", "Ana Lima", "ana@x.org", moodle_id="201"),
                Learner("bob@x.org", "Bob Lee", "bob@x.org", moodle_id="202"),
            ],
        ),
        (PARTICIPANTS, [Learner("s1", "Ana Lima", "ana@x.org")]),
        ("id;name\ns1;José\n", [Learner("s1", "José")]),
        ('id,name\ns1,"Ana\nLima"\n', [Learner("s1", "Ana Lima")]),
    ],
    ids=["canvas", "moodle-worksheet", "moodle-participants", "semicolons", "line-in-a-cell"],
)
def test_what_the_platforms_export_is_a_roster(tmp_path, text, wanted):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    assert read_roster(tmp_path / "roster.csv") == wanted


def test_a_roster_that_is_not_utf8_is_told_what_to_do(tmp_path):
    (tmp_path / "roster.csv").write_bytes("id,name\ns1,José\n".encode("latin-1"))
    with pytest.raises(RosterError, match="save it as CSV UTF-8"):
        read_roster(tmp_path / "roster.csv")
