"""What the reader writes in chapters 01 to 03, held equal to the package's functions."""

import json
from functools import cache

import pytest
from built_book import ROOT

torch = pytest.importorskip("torch")

from attncourse import reference, tasks, train  # noqa: E402
from attncourse.measure import probes  # noqa: E402
from attncourse.text import Tokenizer  # noqa: E402
from attncourse.text.bpe import learn_merges_naively, pieces  # noqa: E402


@cache
def names_of(chapter, *ids):
    """Execute a chapter's imports and the named cells; return what they define."""
    (path,) = (ROOT / "chapters").glob(f"{chapter}_*.ipynb")
    cells = {c["id"]: c for c in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    names = {}
    for ident in ("imports", *ids):
        exec("".join(cells[ident]["source"]), names)
    return names


def test_the_loop_of_chapter_01_is_the_package_s():
    page = names_of("01", "readers", "practise")

    def batch(size, generator):
        return tasks.first_token_recall(size, 4, generator=generator)

    models = []
    for _ in range(2):
        torch.manual_seed(5)
        models.append(page["Reader"](look_up=True))
    page["practise"](models[0], batch, steps=7)
    train.fit(models[1], lambda g: batch(64, g), steps=7, lr=3e-3, seed=0, progress=False)
    for mine, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


def test_the_depth_of_chapter_01_is_the_longest_chain():
    page = names_of("01", "cell", "depth-code")
    x = torch.randn(9, 4, requires_grad=True)
    result = page["read"](x, torch.randn(4, 5), torch.randn(5, 5), torch.zeros(5)).exp()
    attended = (x @ x.mT).softmax(-1) @ x
    for computed in (result, attended):
        leaf = 1  # the page counts the leaf as well
        assert page["depth"](computed) == probes.sequential_depth(computed) + leaf


def test_the_reach_of_chapter_01_is_the_gradient_s_norm_by_distance():
    page = names_of("01", "gradient-networks")
    x = torch.randn(3, 6, 2, dtype=torch.float64)
    step = torch.tensor([1.0, 0.5, 0.25, 0.125, 0.0625, 2.0], dtype=torch.float64).flip(0)

    def network(x):
        return (step[:, None] * x).cumsum(dim=1)

    torch.testing.assert_close(page["reach"](network, x), 2**0.5 * step.flip(0))


@pytest.mark.parametrize(
    "text", ["aaaa aaab", "low lower lowest", "注意力 注意 🙂🙂🙂", " a  b\n\nc"]
)
def test_the_learner_of_chapter_02_is_the_package_s(text):
    page = names_of("02", "learner", "toy-code", "pieces-code", "train-code", "encode")
    text = text * 3
    naive = learn_merges_naively(text, 6)
    mine = [pair for pair, _ in page["learn"](pieces(text), len(naive))]
    assert mine == naive
    assert page["encode"](text, mine) == Tokenizer(tuple(mine)).encode(text)


@pytest.mark.parametrize("gain", [1.0, 30.0], ids=["mild", "large-scores"])
def test_the_nine_and_the_two_lines_of_chapter_03_are_the_oracle(gain):
    page = names_of("03", "table", "three-matrices", "ask", "attend")
    random = torch.Generator().manual_seed(1)
    x = gain * torch.randn(6, 5, generator=random, dtype=torch.float64)
    maps = [torch.randn(5, n, generator=random, dtype=torch.float64) for n in (4, 4, 3)]
    q, k, v = (x @ one for one in maps)
    expected = torch.tensor(reference.attention(q.numpy(), k.numpy(), v.numpy()))
    torch.testing.assert_close(page["attend"](q, k, v), expected)
    if gain == 1:
        for i in range(6):
            weights, out = page["ask"](i, x, *maps)
            assert abs(sum(weights) - 1) < 1e-12
            torch.testing.assert_close(out, expected[i])
