"""The removals of chapter 08: the page runs the script's code, and the script finds the same."""

import ast
import json
import sys

import pytest
from built_book import ROOT

torch = pytest.importorskip("torch")

from test_from_scratch import definitions, on_the_page  # noqa: E402

from attncourse.notebook import measured  # noqa: E402
from attncourse.text import corpus  # noqa: E402

sys.path.insert(0, str(ROOT / "benchmarks"))

import block_seeds  # noqa: E402

CHANGES = {"LayerNorm", "GELULayer", "Nothing", "Replacing", "PostNorm", "without"}
CHANGES |= {"large_weights"}


def test_the_page_changes_a_block_as_the_script_does():
    script = definitions(ast.parse((ROOT / "benchmarks/block_seeds.py").read_text("utf-8")))
    page = on_the_page(ROOT / "chapters/08_the_block.ipynb")
    assert {name: page[name] for name in CHANGES} == {name: [script[name]] for name in CHANGES}


def test_the_file_holds_every_seed_of_everything():
    kept = measured("block_removals")
    assert kept["sizes"] == block_seeds.SIZES
    assert kept["steps"] == block_seeds.STEPS
    assert list(kept["held_out_nats"]) == list(block_seeds.PARTS)
    assert {len(run) for run in kept["held_out_nats"].values()} == {block_seeds.SEEDS}
    deep = kept["deep"]
    assert {name: deep[name] for name in block_seeds.DEEP} == block_seeds.DEEP
    assert {part: len(run) for part, run in deep["held_out_nats"].items()} == dict.fromkeys(
        block_seeds.DEEP_PARTS, block_seeds.DEEP_SEEDS
    )


def test_a_part_that_is_removed_is_gone():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 64)
    sizes = {key: value for key, value in block_seeds.SIZES.items() if key != "num_layers"}
    parts = {}
    for part in block_seeds.PARTS:
        torch.manual_seed(1)
        block = block_seeds.without(part, block_seeds.Llama(7, num_layers=1, **sizes).blocks[0])
        parts[part] = block(x)
        block_seeds.large_weights(block)
        assert not torch.allclose(block(x), parts[part]), "large weights change what it says"
    for part, out in parts.items():
        assert out.shape == x.shape
        assert (part == "nothing") == torch.allclose(out, parts["nothing"]), part
    changed = x.clone()
    changed[:, 0] += 1
    torch.manual_seed(1)
    deaf = block_seeds.without("attention", block_seeds.Llama(7, num_layers=1, **sizes).blocks[0])
    assert torch.equal(deaf(changed)[:, 1:], deaf(x)[:, 1:])


@pytest.mark.slow
def test_a_seed_that_was_not_kept_finds_the_same():
    torch.set_num_threads(1)
    docs, kept = corpus.python_docs(), measured("block_removals")["held_out_nats"]
    assert block_seeds.unigram_nats(docs) == pytest.approx(3.24, abs=0.1)
    for part in ("nothing", "attention"):
        now = block_seeds.trained(docs, part, seed=9)
        assert now == pytest.approx(sum(kept[part]) / len(kept[part]), abs=0.15), part


def test_a_few_steps_write_a_file_of_the_same_form(tmp_path, monkeypatch):
    monkeypatch.setattr(block_seeds, "SHOWN", tmp_path / "block_removals.json")
    monkeypatch.setattr(block_seeds, "trained", lambda docs, part, seed, **how: float(seed))
    monkeypatch.setattr(sys, "argv", ["block_seeds.py", "--seeds", "2"])
    block_seeds.main()
    now = json.loads((tmp_path / "block_removals.json").read_text(encoding="utf-8"))
    assert now.keys() == measured("block_removals").keys()
    assert now["held_out_nats"] == {part: [0.0, 1.0] for part in block_seeds.PARTS}
