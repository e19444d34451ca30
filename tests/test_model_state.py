"""Whole models: nothing they need is lost on the way, and torch can compile and export them."""

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from attncourse import layers, positions  # noqa: E402
from attncourse.decode import KVCache, PagedKVCache  # noqa: E402
from attncourse.layers import DecoderBlock, rotary  # noqa: E402
from attncourse.models.bert import Bert, BertConfig  # noqa: E402
from attncourse.models.generate import generate  # noqa: E402
from attncourse.models.gpt import GPT, GPTConfig  # noqa: E402
from attncourse.models.reader import Reader  # noqa: E402
from attncourse.models.seq2seq import Seq2Seq, Seq2SeqConfig  # noqa: E402
from attncourse.models.vit import ViT, ViTConfig  # noqa: E402

IDS = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(1))
ATTEND = torch.arange(9) < torch.tensor([[9], [5]])
SIZES = {"d_model": 24, "num_layers": 1}
GPTS = {
    "gpt2": GPTConfig(61, 40, **SIZES),
    "untied": GPTConfig(61, 40, tied=False, **SIZES),
    "llama": GPTConfig.llama(61, 40, num_kv_heads=2, **SIZES),
    "interleaved": GPTConfig.llama(61, 40, pairing="interleaved", **SIZES),
    "alibi": GPTConfig(61, 40, positions="alibi", num_heads=6, **SIZES),
    "alibi-window": GPTConfig(61, 40, positions="alibi", window_size=4, **SIZES),
    "sinusoidal": GPTConfig(61, 40, positions="sinusoidal", **SIZES),
}
MODELS = {name: (lambda config=config: GPT(config), (IDS,)) for name, config in GPTS.items()}
MODELS |= {
    "bert": (lambda: Bert(BertConfig(61, 20, pooler=True, **SIZES)), (IDS,)),
    "bert-padded": (lambda: Bert(BertConfig(61, 20, **SIZES)), (IDS, ATTEND)),
    "seq2seq": (lambda: Seq2Seq(Seq2SeqConfig(61, 61, 12, 12)), (IDS, IDS[:, :5].contiguous())),
    "vit": (lambda: ViT(ViTConfig()), (torch.linspace(-1, 1, 128).view(2, 1, 8, 8),)),
    "vit-bag": (lambda: ViT(ViTConfig(use_positions=False)), (torch.ones(2, 1, 8, 8),)),
    "reader-rotary": (lambda: Reader(61, position="rotary", causal=True), (IDS,)),
    "reader-alibi": (lambda: Reader(61, position="alibi", num_heads=4), (IDS,)),
}


def made(name):
    """Make a model whose parameters are all unusual."""
    torch.manual_seed(0)
    make, given = MODELS[name]
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model, given


@pytest.fixture(params=MODELS)
def model(request):
    return made(request.param)


def tied(model):
    """List which names stand for one parameter."""
    found = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), []).append(name)
    return sorted(found.values())


@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
@torch.no_grad()
def test_a_model_without_memory_is_filled_by_its_file(model, request, assign):
    whole, given = model
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    with torch.device("meta"):
        empty = MODELS[request.node.callspec.params["model"]][0]().eval()
    if not assign:
        empty = empty.to_empty(device="cpu")
        for tensor in [*empty.parameters(), *empty.buffers()]:
            tensor.fill_(torch.nan)  # what memory holds that nobody has written
    file.seek(0)
    empty.load_state_dict(torch.load(file), assign=assign)
    assert torch.equal(empty(*given), whole(*given))
    assert tied(empty) == tied(whole)


@torch.no_grad()
def test_other_types_and_back(model):
    whole, given = model
    expected = whole(*given)
    narrow = copy.deepcopy(whole).to(torch.bfloat16)
    given = [x.to(torch.bfloat16) if x.is_floating_point() else x for x in given]
    assert (narrow(*given) - expected).abs().max() < 0.05 * expected.abs().max()
    assert tied(narrow) == tied(whole)
    # What is computed and no parameter (slopes, angles) must not have been rounded on the way.
    wide = narrow.double()
    rounded = copy.deepcopy(whole).double()
    for parameter in rounded.parameters():
        parameter.copy_(parameter.bfloat16())
    given = [x.double() if x.is_floating_point() else x for x in given]
    torch.testing.assert_close(wide(*given), rounded(*given), rtol=0, atol=0)


# One of each kind: torch takes seconds for each.
TRACED = ("llama", "interleaved", "alibi-window", "sinusoidal", "bert-padded", "seq2seq", "vit")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
@torch.no_grad()
@pytest.mark.filterwarnings("ignore")  # of torch's own exporter
def test_export_for_any_batch_and_length(name):
    whole, given = made(name)
    auto = torch.export.Dim.AUTO
    axes = (0,) if name == "vit" else (0, 1)
    shapes = tuple(dict.fromkeys(axes, auto) for _ in given)
    exported = torch.export.export(whole, given, dynamic_shapes=shapes).module()
    for rows, columns in ((2, 9), (1, 4), (3, 8)):
        other = tuple(torch.cat([x, x])[:rows] for x in given)
        other = other if name == "vit" else tuple(x[:, :columns] for x in other)
        torch.testing.assert_close(exported(*other), whole(*other), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
@torch.no_grad()
@pytest.mark.filterwarnings("ignore")
def test_compile_as_one_graph(name):
    whole, given = made(name)
    torch._dynamo.reset()
    compiled = torch.compile(whole, fullgraph=True, backend="eager")
    for rows in (2, 1):
        other = [x[:rows] for x in given]
        torch.testing.assert_close(compiled(*other), whole(*other), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "interleaved", "bert"])
@torch.no_grad()
@pytest.mark.filterwarnings("ignore")
def test_another_length_is_not_compiled_again(name):
    whole, given = made(name)
    torch._dynamo.reset()
    compiled = torch.compile(whole, fullgraph=True, dynamic=True, backend="eager")
    compiled(*given)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (7, 12):
            other = [torch.cat([x, x], dim=1)[:, :length].contiguous() for x in given]
            torch.testing.assert_close(compiled(*other), whole(*other), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_learns():
    whole, given = made("llama")
    torch._dynamo.reset()
    torch.compile(whole, fullgraph=True, backend="aot_eager")(*given).square().mean().backward()
    got = [parameter.grad.clone() for parameter in whole.parameters()]
    whole.zero_grad()
    whole(*given).square().mean().backward()
    for ours, parameter in zip(got, whole.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-4, atol=1e-7)


@torch.no_grad()
def test_what_is_kept_between_calls_is_real():
    """Angles that were made without numbers must not be found by a later call."""
    rotary._table.cache_clear()
    rotary._complex_table.cache_clear()
    for pairing in rotary.PAIRINGS:
        with FakeTensorMode():
            assert rotary.turn(torch.ones(1, 1, 3, 4), 0, 1e4, pairing).shape == (1, 1, 3, 4)
        with torch.device("meta"):
            rotary.turn(torch.ones(1, 1, 3, 4), 0, 1e4, pairing)
        real = rotary.turn(torch.ones(1, 1, 3, 4), 0, 1e4, pairing)
        expected = positions.rotary(torch.ones(1, 1, 3, 4), pairing=pairing)
        torch.testing.assert_close(real, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["gpt2", "bert", "seq2seq"])
@pytest.mark.parametrize("wrong", [61, -1])
def test_wrong_ids_are_still_named_in_eager_mode(name, wrong):
    whole, given = made(name)
    ids = given[0].clone()
    ids[1, 3] = wrong
    with pytest.raises(ValueError, match="must hold tokens 0 to 60, got"):
        whole(ids, *given[1:])


HALVES = (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("pairing", rotary.PAIRINGS)
def test_both_rotaries_are_the_exact_turn_rounded_once(dtype, pairing):
    x = torch.randn(2, 3, 50, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = positions.rotary(x.double().numpy(), np.arange(1000, 1050), pairing=pairing)
    exact = torch.from_numpy(exact)
    half_a_step = torch.finfo(dtype).eps / 2 * exact.abs() + torch.finfo(dtype).tiny
    slack = 1.01 if dtype in HALVES else 20  # float32 and wider round more than once
    for got in (
        rotary.turn(x, 1000, 1e4, pairing),
        positions.rotary(x, np.arange(1000, 1050), pairing=pairing),
    ):
        assert got.dtype == dtype
        room = slack * half_a_step + 8 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        assert ((got.double() - exact).abs() <= room).all()
    if dtype == torch.float16:
        ours = positions.rotary(x.numpy(), np.arange(1000, 1050), pairing=pairing)
        assert ours.dtype == np.float16
        np.testing.assert_allclose(ours, got.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", GPTS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("inside", [True, False], ids=["cache inside", "cache outside"])
@torch.no_grad()
def test_a_cache_under_autocast_gives_what_one_pass_gives(name, dtype, inside):
    whole, (ids,) = made(name)
    cache = whole.new_cache(2)
    with torch.autocast("cpu", dtype):
        cache = whole.new_cache(2) if inside else cache
        assert cache[0].key.dtype == (dtype if inside else torch.float32)
        parts = torch.cat([whole(part, cache) for part in ids.split((4, 1, 1, 3), 1)], 1)
        expected = whole(ids)
    assert parts.dtype == expected.dtype == dtype
    # A step in half precision is as near to the exact numbers as one pass is.
    exact = whole(ids)
    room = (expected - exact).abs().max()
    assert 0 < room < 0.1 * exact.abs().max()
    assert (parts - exact).abs().max() <= 2 * room


@pytest.mark.parametrize("name", GPTS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_writing_under_autocast(name, dtype):
    whole, (ids,) = made(name)
    with torch.autocast("cpu", dtype):
        got = generate(whole, ids, 6, temperature=0)
        drawn = generate(whole, ids, 6)
    assert got.shape == drawn.shape == (2, 15)
    logits = whole(got)[:, 8:-1]  # each chosen token is the best, or nearly
    chosen = logits.gather(-1, got[:, 9:, None])[..., 0]
    assert (logits.amax(-1) - chosen).max() < 0.05 * logits.abs().max()


@pytest.mark.parametrize("rung", ["auto", "batched", "tiled", "sdpa"])
@torch.no_grad()
def test_a_block_that_reads_two_sequences_has_a_cache_under_autocast(rung):
    torch.manual_seed(0)
    block = layers.set_rung(DecoderBlock(24, 4, 48).eval(), rung)
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    exact = block(x, memory)
    for dtype in HALVES:
        cache = KVCache(2, 4, 6)
        with torch.autocast("cpu", dtype):
            parts = [block(part, memory, cache=cache) for part in x.split((2, 1, 2), 1)]
        torch.testing.assert_close(torch.cat(parts, 1), exact, rtol=0.03, atol=0.03)


def test_only_autocast_excuses_another_type():
    narrow, wide = (torch.ones(1, 1, 2, 4, dtype=kind) for kind in (torch.bfloat16, torch.float32))
    cache = KVCache(1, 1, 4)
    with pytest.raises(TypeError, match=r"key is torch.bfloat16, the cache holds torch.float32"):
        cache.append(narrow, narrow)
    with torch.autocast("cpu", torch.bfloat16):
        assert cache.append(narrow, narrow)[0].dtype == torch.float32
        with pytest.raises(TypeError, match=r"torch.float32, the cache holds torch.bfloat16"):
            KVCache(1, 1, 4, dtype=torch.bfloat16).append(wide, wide)
        pool = PagedKVCache(2, 4, 1, 4)
        pool.append(pool.add(), narrow[0], narrow[0])
    assert (pool.key_pages.sum(), len(cache)) == (8, 2)
