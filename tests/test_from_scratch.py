"""The reader's own Llama: what the pages hold, what the package computes, and PyTorch's parts."""

import ast
import json
import math

import pytest
from built_book import ROOT

torch = pytest.importorskip("torch")

import attncourse  # noqa: E402
from attncourse import positions  # noqa: E402
from attncourse.models import from_scratch as own  # noqa: E402
from attncourse.models import generate as writing  # noqa: E402
from attncourse.models.gpt import GPT, GPTConfig  # noqa: E402

SIZES = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 8, "d_ff": 40, "base": 500.0}
IDS = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(1))
F = torch.nn.functional


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def shaken(model):
    """Move every parameter, the weights of norms too, so that none hides behind a 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def model():
    torch.manual_seed(0)
    return shaken(own.Llama(61, 24, 3, eps=1e-3, **SIZES).double())


@pytest.fixture
def package(model):
    sizes = {**SIZES, "rotary_base": SIZES["base"], "norm_eps": 1e-3, "tied": True}
    del sizes["base"]
    gpt = GPT(GPTConfig.llama(61, 20, d_model=24, num_layers=3, **sizes)).double()
    gpt.load_state_dict(model.state_dict() | {"unembed.weight": model.embed.weight})
    return gpt


def test_the_package_gives_the_same_logits_and_gradients(model, package):
    logits, theirs = model(IDS), package(IDS)
    assert logits.shape == (2, 9, 61)
    assert logits.abs().max() > 0.5, "logits near 0 would agree by chance"
    torch.testing.assert_close(logits, theirs, rtol=1e-12, atol=1e-12)
    own.cross_entropy(logits, IDS.flip(1)).backward()
    F.cross_entropy(theirs.flatten(0, 1), IDS.flip(1).flatten()).backward()
    expected = dict(package.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-9, atol=1e-13)


def test_no_output_moves_when_its_future_changes(model):
    other = IDS.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 61
    before, after = model(IDS), model(other)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.isclose(before[:, 5:], after[:, 5:]).all(-1).any()


@pytest.mark.parametrize("cuts", [(1,) * 9, (4, 1, 3, 1), (9,)], ids=str)
def test_a_cache_gives_what_one_pass_gives(model, cuts):
    caches = [own.Cache() for _ in model.blocks]
    parts = [model(part, caches) for part in IDS.split(cuts, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(IDS), rtol=1e-12, atol=1e-12)
    assert [len(cache) for cache in caches] == [9, 9, 9]
    assert caches[0].k.shape == (2, SIZES["num_kv_heads"], 9, SIZES["head_dim"])


def test_grouped_attention_is_the_attention_of_the_ladder():
    q, k, v = random(2, 6, 4, 8), random(2, 2, 7, 8, seed=1), random(2, 2, 7, 5, seed=2)
    mask = own.causal_mask(4, 7)
    assert mask.tolist() == [[True] * (4 + i) + [False] * (3 - i) for i in range(4)]
    got = own.attention(q, own.share(k, 6), own.share(v, 6), mask)
    options = {"is_causal": True, "causal_align": "bottom_right", "enable_gqa": True}
    expected = attncourse.attention(q, k, v, **options)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(own.share(k, 6)[:, 2], k[:, 0]), "three query heads share one key head"
    free = attncourse.attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(own.attention(q, own.share(k, 6), own.share(v, 6)), free)


def test_heads_are_neighbouring_parts_of_the_width():
    x = random(2, 5, 12)
    heads = own.split(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[:, :, 4:8])
    assert torch.equal(own.join(heads), x)


def test_rotary_turns_as_the_package_does():
    x = random(2, 3, 6, 8)
    for start, base in ((0, 10_000.0), (11, 500.0)):
        steps = range(start, start + 6)
        expected = positions.rotary(x, steps, base=base, pairing="half")
        torch.testing.assert_close(own.rotary(x, start, base), expected, rtol=1e-12, atol=1e-12)


def test_norm_and_gate_are_pytorchs():
    x = 30 * random(2, 5, 24)
    norm, theirs = own.RMSNorm(24, 0.1).double(), torch.nn.RMSNorm(24, 0.1).double()
    shaken(norm)
    theirs.load_state_dict(norm.state_dict())
    torch.testing.assert_close(norm(x), theirs(x), rtol=1e-12, atol=1e-12)
    feed = own.SwiGLU(24, 40).double()
    expected = feed.down(F.silu(feed.gate(x)) * feed.up(x))
    torch.testing.assert_close(feed(x), expected, rtol=1e-12, atol=1e-12)


def test_a_block_adds_to_what_it_read(model):
    x, block = random(2, 5, 24), model.blocks[0]
    for part in (block.attention.to_out, block.feed_forward.down):
        torch.nn.init.zeros_(part.weight)
    assert torch.equal(block(x), x), "with nothing to add the tokens pass unchanged"


def test_cross_entropy_is_pytorchs_also_for_huge_logits():
    logits, target = 1e4 * random(2, 5, 7), torch.randint(7, (2, 5))
    expected = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    torch.testing.assert_close(own.cross_entropy(logits, target), expected)
    even = own.cross_entropy(torch.zeros(1, 1, 94), torch.zeros(1, 1, dtype=torch.long))
    assert even.item() == pytest.approx(math.log(94))


def test_the_learning_rate_rises_to_the_highest_and_falls_to_a_tenth():
    rates = [own.learning_rate(step, 200, 4e-3, warm_up=50) for step in range(201)]
    assert rates[0] == pytest.approx(4e-3 / 50)
    assert max(rates) == rates[50] == pytest.approx(4e-3)
    assert rates == [*sorted(rates[:51]), *sorted(rates[51:], reverse=True)]
    assert rates[200] == pytest.approx(4e-4)


def counting(generator):
    start = torch.randint(10, (16, 1), generator=generator)
    text = (start + torch.arange(9)) % 10
    return text[:, :-1], text[:, 1:]


@pytest.mark.parametrize("warm_up", [10, 10**6])
def test_training_lowers_the_loss_unless_the_steps_stay_tiny(warm_up):
    torch.manual_seed(0)
    model, generator = own.Llama(10, 24, 1, **SIZES), torch.Generator().manual_seed(0)
    losses = own.fit(model, lambda: counting(generator), 60, highest=1e-2, warm_up=warm_up)
    assert len(losses) == 60
    assert losses[0] == pytest.approx(math.log(10), abs=0.3), "it starts without a prejudice"
    assert (losses[-1] < 0.05) == (warm_up == 10)
    assert (losses[-1] > 0.9 * losses[0]) == (warm_up == 10**6)


CUTS = [{}, {"top_k": 3}, {"top_p": 0.7}, {"temperature": 0.5, "top_k": 9, "top_p": 0.8}]


@pytest.mark.parametrize("cut", [*CUTS, {"temperature": 0}], ids=str)
def test_the_distribution_is_the_packages(cut):
    logits = 2 * random(4, 20)
    kept = own.probabilities(logits, **cut)
    expected = writing.probabilities(logits, **cut)
    torch.testing.assert_close(kept, expected, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(kept.sum(-1), torch.ones(4, dtype=torch.float64))


def test_the_best_token_is_written_when_nothing_else_is_left(model):
    written = own.generate(model, IDS[:, :4], 5, top_k=1)
    assert torch.equal(written[:, :4], IDS[:, :4])
    for stop in range(4, 9):
        assert torch.equal(model(written[:, :stop])[:, -1].argmax(-1), written[:, stop])


def test_the_same_seed_writes_the_same_text(model):
    def text(seed):
        return own.generate(model, IDS[:, :4], 9, torch.Generator().manual_seed(seed)).tolist()

    assert text(7) == text(7) != text(8)


SOURCE = (ROOT / "attncourse/models/from_scratch.py").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "chapters").glob("0*.ipynb"))  # the chapters that write the model


def definitions(tree):
    """Return what a text defines, by name, without docstrings: how the code reads to Python."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part):
                    part.body = part.body[1:]
            found[node.name] = ast.unparse(node)
    return found


def on_the_page(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    found = {}
    for text in code:
        for name, definition in definitions(ast.parse(text)).items():
            found.setdefault(name, []).append(definition)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_a_page_that_defines_a_part_defines_it_as_the_module_does(path):
    module = definitions(ast.parse(SOURCE))
    for name, texts in on_the_page(path).items():
        if name in module:
            assert texts == [module[name]], f"{path.name} and from_scratch differ in {name}"


@pytest.mark.parametrize(
    "path", [p for p in PAGES if p.stem[:2] in {"05", "06", "07", "08"}], ids=lambda p: p.stem
)
def test_a_page_writes_what_the_module_says_it_writes(path):
    says = f"(chapter {path.stem[:2]})"
    due = {
        node.name
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and ast.get_docstring(node).endswith(says + ".")
    }
    assert due
    assert due <= on_the_page(path).keys()
