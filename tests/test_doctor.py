"""`attncourse doctor` and the command line around it, in real processes."""

import json
import re
import subprocess
import sys
from importlib import metadata

import pytest

from attncourse import cli, doctor


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "attncourse", *words], capture_output=True, text=True, timeout=120
    )


def test_the_report_names_versions_devices_and_every_extra():
    done = run("doctor")
    assert done.returncode == 0, done.stderr
    assert f"numpy        {metadata.version('numpy')}" in done.stdout
    assert re.search(r"^  (cpu \(\d+ threads\)|torch does not start)", done.stdout, re.M)
    for extra in metadata.metadata("attncourse").get_all("Provides-Extra"):
        assert re.search(rf"^  {extra} +(complete|missing )", done.stdout, re.M), extra


def test_json_says_the_same_as_the_library():
    report = json.loads(run("doctor", "--json").stdout)
    assert report["packages"]["numpy"] == metadata.version("numpy")
    assert report["extras"] == doctor.extras()


def test_every_requirement_of_the_package_is_understood():
    lines = metadata.metadata("attncourse").get_all("Requires-Dist")
    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w.-]+(>=|==)[\w.]+(; .*extra == '[\w-]+')?", line), line


def test_a_missing_an_old_and_a_present_requirement_are_told_apart():
    assert doctor._unmet("surely-not-installed>=1") == "surely-not-installed>=1"
    assert doctor._unmet("numpy>=999") == f"numpy>=999 ({metadata.version('numpy')} is installed)"
    assert doctor._unmet("numpy>=1.26") is None
    assert doctor._numbers("2.13.0+cpu") == (2, 13, 0)


def test_requirements_of_another_platform_do_not_count():
    assert doctor._applies('extra == "x" and sys_platform == "' + sys.platform + '"')
    assert not doctor._applies('platform_system == "Amiga" and extra == "x"')


def test_a_missing_extra_comes_with_the_command_that_gets_it(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    text = doctor.render(doctor.examine())
    assert re.search(r"widgets +missing anywidget>=[\d.]+, ipywidgets>=[\d.]+\n", text)
    assert "get it: pip install 'attncourse[widgets]'" in text


def test_wrong_words_end_with_status_2_and_say_what_was_wanted():
    done = run("docter")
    assert done.returncode == 2
    assert "invalid choice: 'docter'" in done.stderr
    assert run().returncode == 2


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"attncourse {metadata.version('attncourse')}\n"


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
import attncourse
one = np.ones((2, 3))
assert attncourse.attention(one, one, one, is_causal=True).shape == (2, 3)
try:
    attncourse.attention(one, one, one, rung="sdpa")
except ImportError as error:
    print(error)
from attncourse.cli import main
sys.exit(main(["doctor"]))
"""


def test_without_torch_numpy_rungs_work_and_the_others_name_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "rung 'sdpa' needs torch: pip install 'attncourse[torch]'" in done.stdout
    assert "torch does not start" in done.stdout
