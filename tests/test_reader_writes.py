"""The reader writes it first: nothing of the package is called before its idea stood on a page.

For chapters 01 to 09. Drawing, data, progress bars, stored results and trained weights are free;
everything else that a cell calls must be listed here with the function or the cell of a page that
carries its idea, and that must come before the call, or be the same cell. A part of the reader's
own Llama counts as written where its real source is printed.
"""

import ast
import json

import pytest
from built_book import ROOT

PAGES = sorted((ROOT / "chapters").glob("0*.ipynb"))
FREE = (
    "attncourse.plotting",
    "attncourse.tasks",
    "attncourse.notebook",
    "attncourse.widgets",
    "attncourse.pretrained",
    "attncourse.text.corpus",
    "attncourse.models.small_llama",
    "attncourse.train.set_seed",
)
SAME = "attncourse.models.from_scratch."
WRITTEN = {  # what a page calls: where a page has written it
    "attncourse.text.bpe.pieces": "02#pieces-code",
    "attncourse.text.bpe.learn_merges": "learn",
    "attncourse.text.train_bpe": "learn",
    "attncourse.text.Tokenizer": "learn",
    "attncourse.attention": "attend",
    "attncourse.reference.attention": "attend",
    "attncourse.softmax.stable": "attend",
    "attncourse.models.one_layer.OneLayer": "Layer",
    "attncourse.train.fit": "practise",
    "attncourse.train.evaluate": "practise",
    "attncourse.train.cross_entropy": "practise",
    "attncourse.layers.MultiHeadAttention": "Heads",
    "attncourse.models.reader.Reader": "LookUp",
    "attncourse.positions.sinusoidal": "06#sinusoid-picture",
    "attncourse.positions.rotary": "rotary",
    "attncourse.positions.alibi_slopes": "06#alibi-matrix",
    "attncourse.masks.causal": "07#causal-and-window",
    "attncourse.masks.window": "07#causal-and-window",
    "attncourse.masks.padding": "07#document-and-padding",
    "attncourse.masks.document": "07#document-and-padding",
    "attncourse.measure.probes.influence": "influence",
    "attncourse.models.gpt.GPT": "Llama",
    "attncourse.models.gpt.GPTConfig.llama": "Llama",
}


def parsed():
    """Yield the place of every cell ("02#encode") and its syntax tree, in reading order."""
    for path in PAGES:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code" and cell["id"] != "setup":
                yield f"{path.stem[:2]}#{cell['id']}", ast.parse("".join(cell["source"]))


def imported(tree):
    """Map names to what of the package they stand for."""
    return {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attncourse")
        for name in node.names
    }


def calls(tree, known):
    """List what of the package a cell calls, under its full name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            head, _, rest = ast.unparse(node.func).partition(".")
            if head in known and "(" not in rest:
                found.append(f"{known[head]}.{rest}" if rest else known[head])
    return found


def shown(tree):
    """List the calls that print a function's real source on the page."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [node for node in nodes if ast.unparse(node.func) == "show_source"]


def calls_before_writing(cells):
    """List each call whose idea no page has written yet, and each that the table lacks."""
    written, known, page, wrong = set(), {}, "", []
    for place, tree in cells:
        if place[:2] != page:
            page, known = place[:2], {}
        known |= imported(tree)
        written.add(place)
        written |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        written |= {ast.unparse(call.args[0]).split(".")[0] for call in shown(tree)}
        for name in calls(tree, known):
            if name.startswith(FREE):
                continue
            idea = name.removeprefix(SAME) if name.startswith(SAME) else WRITTEN.get(name)
            if idea not in written:
                wrong.append(f"{place} calls {name}, before {idea}")
    return wrong


def test_nothing_is_called_before_a_page_has_written_it():
    assert calls_before_writing(parsed()) == []


def test_the_table_lists_only_what_is_called():
    every, known = set(), {}
    for _, tree in parsed():
        known |= imported(tree)
        every |= set(calls(tree, known))
    assert sorted(WRITTEN.keys() - every) == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("from attncourse import attention\nattention(1, 2, 3)", ["before attend"]),
        ("from attncourse import train\ntrain.fit(1)", ["before practise"]),
        ("from attncourse.models.from_scratch import Cache\nCache()", ["before Cache"]),
        ("from attncourse.softmax import merge\nmerge(1)", ["before None"]),
        ("from attncourse.softmax import merge\nshow_source(merge)\nmerge(1)", ["before None"]),
        (
            "from attncourse.models.from_scratch import Cache\nshow_source(Cache.append)\nCache()",
            [],
        ),
        ("from attncourse import plotting\nplotting.line(1)", []),
        ("from attncourse import attention\ndef attend(): 0\nattention(1)", []),
    ],
)
def test_a_call_that_comes_too_early_is_found(code, wrong):
    found = calls_before_writing([("01#early", ast.parse(code))])
    assert [text[-len(end) :] for text, end in zip(found, wrong, strict=True)] == wrong
