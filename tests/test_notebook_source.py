"""What a chapter shows of the package is the package."""

import inspect
import json
import re
import subprocess
import sys

import pytest
from built_book import ROOT
from course_needs import unmet

from attncourse import softmax
from attncourse.notebook import source
from attncourse.rungs import by_name


def test_the_code_shown_is_the_code_that_runs():
    shown = source.source_text(softmax.stable)
    namespace = {"np": __import__("numpy"), "_finite_max": softmax._finite_max}
    exec(shown, namespace)
    scores = namespace["np"].array([1000.0, 999.0])
    assert (namespace["stable"](scores) == softmax.stable(scores)).all()
    assert '"""' not in shown


def test_docstrings_and_modules_are_kept_when_asked_for():
    assert (
        source.source_text(softmax.stable, docstring=True)
        == inspect.getsource(softmax.stable).rstrip()
    )
    assert source.source_text(softmax).startswith('"""Four ways')


def test_a_rung_shows_its_own_file_although_it_is_imported_late(capsys):
    shown = source.source_text(by_name("loops").function)
    assert shown.startswith("def attend(")
    assert "for i in range(seq_len_q):" in shown


def test_show_source_displays_highlighted_code(monkeypatch):
    displayed = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    source.show_source(by_name("matmul").function)
    text = displayed[0].data
    assert text.startswith("`rungs/matmul.py`\n\n```python\ndef attend(")
    assert text.endswith("\n```")


def test_a_triton_kernel_is_shown_with_its_decorator():
    pytest.importorskip("triton")
    from attncourse.rungs.triton_forward import forward_kernel

    shown = source.source_text(forward_kernel)
    assert shown.startswith("@triton.jit\ndef forward_kernel(")
    assert '"""' not in shown
    assert max(map(len, shown.splitlines())) <= 79


def test_a_part_of_a_function_is_cut_out_by_its_lines():
    shown = source.source_text(softmax.merge, start="total = share1", stop="return out")
    assert shown.startswith("total = share1 + share2\n")
    assert shown.splitlines()[-1].startswith("out = out1")
    with pytest.raises(ValueError, match="no line from 1 on holds 'no such line'"):
        source.source_text(softmax.merge, start="no such line")
    with pytest.raises(ValueError, match="holds 'centre ='"):
        source.source_text(softmax.merge, start="total = share1", stop="centre =")


def test_a_method_without_docstring_is_shown_whole():
    def bare(x):
        return x + 1

    assert source.source_text(bare) == "def bare(x):\n    return x + 1"


def shown_in_chapters():
    """Yield each piece of source that a chapter shows."""
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        here = [cell for cell in cells if not unmet(cell["metadata"].get("tags", []))]
        code = ["".join(cell["source"]) for cell in here if cell["cell_type"] == "code"]
        names = {}
        for line in re.findall(r"^from attncourse.*$", "\n".join(code), re.M):
            exec(line, names)
        names["shown"] = source.source_text
        for arguments in re.findall(r"^show_source\((.*?)\)$", "\n".join(code), re.M | re.S):
            yield f"{path.stem}: {arguments}", eval(f"shown({arguments})", names)


def test_every_source_that_a_chapter_shows_fits_the_page():
    pytest.importorskip("torch")
    shown = dict(shown_in_chapters())
    assert len(shown) >= 4
    for name, text in shown.items():
        longest = max(text.splitlines(), key=len)
        assert len(longest) <= 79, f"{name}: {longest}"


def test_a_kernel_is_shown_by_its_name_without_being_imported():
    name = "attncourse.kernels.dkdv.dkdv_kernel"
    code = f"from attncourse.notebook import source; print(source.source_text({name!r}))"
    code += "; import sys; assert 'attncourse.kernels.dkdv' not in sys.modules"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    pytest.importorskip("triton")
    from attncourse.kernels.dkdv import dkdv_kernel

    assert shown.stdout.rstrip() == source.source_text(dkdv_kernel)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("attncourse.softmax.nothing", "attncourse.softmax defines no function or class 'nothing'"),
        ("stable", "wanted a name such as"),
    ],
)
def test_a_name_that_is_not_there_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        source.source_text(name)
