"""The ladder: every rung against the oracle, every declared feature by execution."""

import inspect
import itertools
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import attncourse
from attncourse import dropout, masks, positions, reference
from attncourse.call import Call
from attncourse.conformance._table import ask
from attncourse.rungs import FEATURES, LADDER, by_name

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.ladder

SHAPES = [(1, 1), (1, 17), (17, 1), (5, 2), (2, 5), (15, 16), (17, 33), (0, 3), (3, 0), (0, 0)]
WIDTHS = [(1, 1), (3, 5), (8, 8), (24, 7)]
# The Triton rungs run in an interpreter here: `tests/test_rungs_triton.py` holds them, at its pace.
RUNGS = [pytest.param(rung, id=rung.name) for rung in LADDER if "triton" not in rung.name]
TYPES = {"float64": 1e-12, "float32": 2e-6}


def make(seq_len_q, seq_len_kv, width=8, width_v=5, lead=(), lead_kv=None, gain=3.0, seed=0):
    rng = np.random.default_rng(seed)
    lead_kv = lead if lead_kv is None else lead_kv
    query = gain * rng.standard_normal((*lead, seq_len_q, width))
    key = gain * rng.standard_normal((*lead_kv, seq_len_kv, width))
    return query, key, 2 + rng.standard_normal((*lead_kv, seq_len_kv, width_v))


def check(rung, arrays, dtype="float64", **options):
    """Assert that a rung, given arrays and tensors, equals the oracle, and leaves them alone."""
    arrays = [array.astype(dtype) for array in arrays]
    copies = [array.copy() for array in arrays]
    asked = dict(options, return_lse=True)
    wanted, wanted_lse = reference.attention(*arrays, **asked)
    has_lse = "lse" in rung.features
    for lift in (np.asarray, torch.from_numpy):
        options["return_lse"] = has_lse
        got = attncourse.attention(*map(lift, arrays), rung=rung.name, **options)
        out, lse = got if has_lse else (got, wanted_lse)
        assert type(out) is type(lift(arrays[0]))
        assert str(out.dtype).endswith(dtype)
        np.testing.assert_allclose(np.asarray(out), wanted, rtol=TYPES[dtype], atol=TYPES[dtype])
        np.testing.assert_allclose(np.asarray(lse), wanted_lse, rtol=1e-5, atol=TYPES[dtype] * 10)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def has(rung, *features):
    """Tell what a rung declares; that its other features raise has a test of its own."""
    return set(features) <= rung.features


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("num_q", "num_kv"), SHAPES, ids=str)
def test_plain_attention_at_ragged_lengths(rung, num_q, num_kv, dtype):
    for width, width_v in WIDTHS:
        check(rung, make(num_q, num_kv, width, width_v), dtype)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("num", SHAPES, ids=str)
@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
@pytest.mark.parametrize("window_size", [None, 1, 4, 99], ids=str)
def test_causal_and_window_at_both_corners(rung, num, align, window_size):
    check(rung, make(*num), is_causal=True, causal_align=align, window_size=window_size)


def _masks(num_q, num_kv, rng):
    random = rng.random((num_q, num_kv)) < 0.6
    blind = random.copy()
    blind[::2] = False
    yield "random", random
    yield "blind-rows", blind
    yield "one-row", random[:1]
    yield "one-column", random[:, :1]
    yield "keys-only", random[0] if num_q else np.ones(num_kv, bool)
    added = np.where(random, 2 * rng.standard_normal((num_q, num_kv)), -np.inf)
    yield "float", added
    yield "float-lowest", np.where(random, 0.5, np.finfo(np.float32).min)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("num", [(5, 7), (7, 5), (1, 6)], ids=str)
def test_masks_combine_with_the_causal_one(rung, num, is_causal):
    rng = np.random.default_rng(5)
    tried = 0
    for _name, mask in _masks(*num, rng):
        kind = "bool_mask" if mask.dtype == bool else "float_mask"
        if has(rung, kind):
            check(rung, make(*num), attn_mask=mask, is_causal=is_causal)
            tried += 1
    assert tried >= 5


@pytest.mark.parametrize("rung", [r for r in RUNGS if "batch" in r.values[0].features])
@pytest.mark.parametrize("lead", [(3,), (2, 3), (2, 1, 4)], ids=str)
def test_batches_heads_and_their_masks(rung, lead):
    arrays = make(6, 9, lead=lead)
    rng = np.random.default_rng(2)
    check(rung, arrays)
    check(rung, arrays, attn_mask=rng.random((*lead, 6, 9)) < 0.5)
    if len(lead) > 1:
        check(rung, arrays, attn_mask=rng.random((*lead[:-1], 1, 1, 9)) < 0.5, is_causal=True)


@pytest.mark.parametrize("rung", [r for r in RUNGS if "gqa" in r.values[0].features])
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 1), (6, 2), (6, 3), (4, 4)])
def test_grouped_heads_are_served_in_order(rung, heads, kv_heads):
    arrays = make(5, 7, lead=(2, heads), lead_kv=(2, kv_heads))
    check(rung, arrays, enable_gqa=True, is_causal=True)
    mask = np.random.default_rng(3).random((2, heads, 5, 7)) < 0.6
    check(rung, arrays, enable_gqa=True, attn_mask=mask)
    check(rung, make(3, 0, lead=(2, heads), lead_kv=(2, kv_heads)), enable_gqa=True)


@pytest.mark.parametrize("rung", RUNGS)
def test_scale_softcap_alibi_and_dropout(rung):
    arrays, options = make(6, 8, lead=(2, 4)), {"scale": 0.31}
    if not has(rung, "batch"):
        check(rung, make(6, 8), **options)
        return
    check(rung, arrays, **options)
    extras = {
        "alibi": {"alibi_slopes": positions.alibi_slopes(4)},
        "softcap": {"softcap": 1.7},
        "dropout_seed": {"dropout_p": 0.3, "dropout_seed": 11},
        "float_mask": {"attn_mask": np.where(masks.causal(6, 8), 0.7, -np.inf)},
        "bottom_right": {"is_causal": True, "causal_align": "bottom_right", "window_size": 5},
    }
    having = [name for name in extras if has(rung, name)]
    for size in range(1, len(having) + 1):
        for chosen in itertools.combinations(having, size):
            asked = {k: v for name in chosen for k, v in extras[name].items()}
            check(rung, arrays, **options, **asked)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_declared_no_raises_and_a_declared_yes_runs(rung, feature):
    if feature in rung.features:
        ask(rung, feature)
        return
    error = TypeError if feature == "grad" and rung.library == "numpy" else NotImplementedError
    named = "gradients" if feature == "grad" else feature
    with pytest.raises(error, match=rf"{rung.name}.*{named}"):
        ask(rung, feature)


@pytest.mark.parametrize("rung", RUNGS)
def test_a_nan_that_nobody_may_look_at_reaches_nothing(rung):
    lead = (2, 4) if has(rung, "batch") else ()
    q, k, v = make(3, 6, lead=lead)
    mask = masks.padding([4, 6], 6) if lead else np.arange(6) < 4
    clean = attncourse.attention(q, k, v, mask, rung=rung.name)
    spoiled = [a.copy() for a in (k, v)]
    for array, junk in zip(spoiled, (np.nan, np.inf), strict=True):
        array[(0, ..., slice(4, None), slice(None)) if lead else slice(4, None)] = junk
    np.testing.assert_array_equal(attncourse.attention(q, *spoiled, mask, rung=rung.name), clean)
    for array in spoiled:
        array[...] = np.where(np.arange(6)[:, None] >= 3, np.nan, array)
    out = attncourse.attention(q, *spoiled, is_causal=True, rung=rung.name)
    assert np.isfinite(out).all(), "with 3 queries, keys 3 and later lie in everybody's future"


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("cut", [1, 7, 16])
def test_outputs_before_a_change_are_bit_identical(rung, cut):
    lead = (2, 3) if has(rung, "batch") else ()
    q, k, v = (a.astype(np.float32) for a in make(17, 17, lead=lead))
    before = attncourse.attention(q, k, v, is_causal=True, rung=rung.name)
    k[..., cut:, :], v[..., cut:, :] = 50.0, -3e4
    after = attncourse.attention(q, k, v, is_causal=True, rung=rung.name)
    np.testing.assert_array_equal(after[..., :cut, :], before[..., :cut, :])
    assert (after[..., cut:, :] != before[..., cut:, :]).any()


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("size", [1e4, 3e3], ids=str)
def test_huge_scores_stay_finite(rung, size):
    q, k, v = (a.astype(np.float32) for a in make(9, 9, gain=np.sqrt(size)))
    out = attncourse.attention(q, k, v, rung=rung.name)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, reference.attention(q, k, v), rtol=1e-4, atol=1e-4)


GQA = [r for r in RUNGS if "gqa" in r.values[0].features]
GRAD = [r for r in RUNGS if "grad" in r.values[0].features]


@pytest.mark.parametrize("rung", GQA)
@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "num_q", "num_kv"),
    [(2, 4, 2, 3, 0), (0, 4, 2, 3, 5), (2, 0, 0, 3, 5), (2, 4, 2, 0, 5)],
    ids=["no-keys", "no-batch", "no-heads", "no-queries"],
)
def test_an_empty_axis_with_shared_heads_and_a_mask(rung, batch, heads, kv_heads, num_q, num_kv):
    arrays = make(num_q, num_kv, lead=(batch, heads), lead_kv=(batch, kv_heads))
    mask = np.ones((batch, heads, num_q, num_kv), bool)
    check(rung, arrays, attn_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("rung", [r for r in RUNGS if "float_mask" in r.values[0].features])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_finite_mask_value_hides_nothing_in_any_type(rung, dtype):
    q, k, v = (torch.from_numpy(a).to(getattr(torch, dtype)) for a in make(4, 5, gain=1.0))
    for lowest in (-1e5, np.finfo(np.float32).min, np.finfo(np.float64).min):
        mask = np.full((4, 5), lowest)
        out = attncourse.attention(q, k, v, mask, rung=rung.name)
        assert (out.abs() > 1.0).all(), "values lie around 2: a hidden row would give 0"
    mask = np.where(masks.causal(4, 5), 300.0, 301.0)
    wanted = reference.attention(q, k, v, mask)
    # scores of 300 leave float32 about 3e-5 of room, half types their own rounding
    tolerance = 4 * torch.finfo(q.dtype).eps + 1e-4
    out = attncourse.attention(q, k, v, mask, rung=rung.name).double().numpy()
    np.testing.assert_allclose(out, wanted, rtol=tolerance)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
def test_alibi_alone_follows_the_corner(rung, align):
    if has(rung, "alibi"):
        slopes = positions.alibi_slopes(3)
        check(rung, make(4, 7, lead=(3,)), alibi_slopes=slopes, causal_align=align)
    else:
        assert "alibi" not in rung.features


@pytest.mark.parametrize("rung", GRAD)
def test_nan_where_nothing_looks_reaches_no_gradient(rung):
    arrays = [torch.from_numpy(a) for a in make(4, 5, lead=(1, 2))]
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1], mask[:, 3] = False, False  # a blind query and an unseen key
    grads = []
    for junk in (0.0, torch.nan):
        q, k, v = (a.clone() for a in arrays)
        q[..., 1, :], k[..., 3, :], v[..., 3, :] = junk, junk, junk
        tensors = [a.requires_grad_() for a in (q, k, v)]
        attncourse.attention(*tensors, mask, rung=rung.name).square().sum().backward()
        grads.append([a.grad for a in tensors])
    for clean, spoiled in zip(*grads, strict=True):
        assert torch.isfinite(spoiled).all()
        torch.testing.assert_close(spoiled, clean)


@pytest.mark.parametrize("rung", GRAD)
@pytest.mark.parametrize(
    ("num_q", "align", "window_size", "blind"),
    [(6, "bottom_right", None, 0), (6, "top_left", 2, 5)],
    ids=["before-the-first-key", "past-the-window"],
)
def test_nan_in_a_query_that_causality_blinds(rung, num_q, align, window_size, blind):
    arrays = [torch.from_numpy(a) for a in make(num_q, 3, lead=(1, 2))]
    options = {"is_causal": True, "causal_align": align, "window_size": window_size}
    grads = []
    for junk in (0.0, torch.nan):
        tensors = [a.clone() for a in arrays]
        tensors[0][..., blind, :] = junk
        tensors = [a.requires_grad_() for a in tensors]
        attncourse.attention(*tensors, rung=rung.name, **options).square().sum().backward()
        grads.append([a.grad for a in tensors])
    for clean, spoiled in zip(*grads, strict=True):
        torch.testing.assert_close(spoiled, clean)


@pytest.mark.parametrize("rung", GRAD)
def test_second_derivatives_are_right_or_refused(rung):
    tensors = [torch.from_numpy(a).requires_grad_() for a in make(3, 4, lead=(2,), gain=1.0)]
    call = lambda q: attncourse.attention(q, *tensors[1:], rung=rung.name).sum()  # noqa: E731
    query = tensors[0].detach()
    if rung.name == "recompute":
        with pytest.raises(RuntimeError, match="no second derivatives; take rung='batched'"):
            torch.autograd.functional.hessian(call, query)
        return
    plain = lambda q: (  # noqa: E731
        (q @ tensors[1].mT * 8**-0.5).softmax(-1) @ tensors[2]
    ).sum()
    expected = torch.autograd.functional.hessian(plain, query)
    torch.testing.assert_close(torch.autograd.functional.hessian(call, query), expected)


@pytest.mark.parametrize("rung", RUNGS)
def test_numbers_of_any_kind_are_taken_as_pythons(rung):
    arrays = make(4, 5)
    for scale in (np.float32(0.5), Fraction(1, 2)):
        check(rung, arrays, scale=scale)
    check(rung, arrays, is_causal=True, window_size=2**70)
    if has(rung, "dropout_seed"):
        check(rung, arrays, dropout_p=0.5, dropout_seed=np.uint64(2**64 - 1))


@pytest.mark.parametrize("rung", GRAD)
def test_gradients_by_finite_differences(rung):
    tensors = [torch.from_numpy(a).requires_grad_() for a in make(3, 4, lead=(2,), gain=1.0)]
    options = {"is_causal": True, "rung": rung.name}
    assert torch.autograd.gradcheck(lambda *a: attncourse.attention(*a, **options), tensors)
    if "lse" in rung.features:
        options |= {"return_lse": True, "softcap": 2.0, "alibi_slopes": [0.5, 0.1]}
        assert torch.autograd.gradcheck(lambda *a: attncourse.attention(*a, **options), tensors)


@pytest.mark.parametrize("rung", [r for r in RUNGS if "grad" in r.values[0].features])
def test_gradients_of_rows_that_see_nothing_are_zero(rung):
    tensors = [torch.from_numpy(a).requires_grad_() for a in make(4, 5, lead=(1, 2))]
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1] = False
    with_lse = "lse" in rung.features
    got = attncourse.attention(*tensors, mask, rung=rung.name, return_lse=with_lse)
    out = got[0] if with_lse else got
    np.testing.assert_array_equal(out[..., 1, :].detach(), 0.0)
    loss = out.square().sum()
    if with_lse:
        assert (got[1][..., 1] == -torch.inf).all()
        loss = loss + got[1][..., [0, 2, 3]].sum()
    loss.backward()
    assert all(torch.isfinite(t.grad).all() for t in tensors)
    np.testing.assert_array_equal(tensors[0].grad[..., 1, :], 0.0)
    assert tensors[0].grad[..., 0, :].abs().max() > 0


@pytest.mark.parametrize("rung", [r for r in RUNGS if "gqa" in r.values[0].features])
def test_shared_heads_sum_their_gradients(rung):
    if not has(rung, "grad"):
        assert rung.library == "numpy"
        return
    q, k, v = map(torch.from_numpy, make(4, 5, lead=(2, 6), lead_kv=(2, 2)))
    shared = [k.clone().requires_grad_(), v.clone().requires_grad_()]
    attncourse.attention(q, *shared, enable_gqa=True, rung=rung.name).square().sum().backward()
    apart = [k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)]
    apart = [a.requires_grad_() for a in apart]
    attncourse.attention(q, *apart, rung=rung.name).square().sum().backward()
    for one, many in zip(shared, apart, strict=True):
        torch.testing.assert_close(one.grad, many.grad.unflatten(1, (2, 3)).sum(2))


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_errs_at_most_twice_as_much_as_plain_torch(rung, dtype):
    dtype = getattr(torch, dtype)
    q, k, v = (torch.from_numpy(a).to(dtype) for a in make(33, 40, width=16, gain=1.5))
    wanted = torch.from_numpy(reference.attention(q, k, v))
    plain = ((q @ k.T) * 16**-0.5).softmax(-1) @ v
    out = attncourse.attention(q, k, v, rung=rung.name)
    assert out.dtype == dtype
    rounding = torch.finfo(dtype).eps * wanted.abs().max()
    error = (out.double() - wanted).abs().max()
    assert error <= 2 * (plain.double() - wanted).abs().max() + rounding
    if has(rung, "lse"):
        lse = attncourse.attention(q, k, v, rung=rung.name, return_lse=True)[1]
        assert lse.dtype in (torch.float32, torch.float64)
        exact = reference.attention(q, k, v, return_lse=True)[1]
        np.testing.assert_allclose(lse.numpy(), exact, rtol=1e-5)


@pytest.mark.parametrize("rung", RUNGS)
def test_views_and_expanded_keys_are_read_through_their_strides(rung):
    rng = np.random.default_rng(8)
    packed = rng.standard_normal((9, 3, 16))
    q, k, v = packed[:, 0, ::2], packed[:, 1, ::-2], packed[:, 2, 1:4]
    one_key = np.broadcast_to(k[:1], k.shape)
    for lift in (np.asarray, lambda a: torch.from_numpy(np.flip(a).copy()).flip(0, 1)):
        for keys in (k, one_key):
            out = attncourse.attention(lift(q), lift(keys), lift(v), rung=rung.name)
            np.testing.assert_allclose(np.asarray(out), reference.attention(q, keys, v), rtol=1e-12)
    expanded = torch.from_numpy(k[:1].copy()).expand(9, -1)
    out = attncourse.attention(
        torch.from_numpy(q.copy()), expanded, torch.from_numpy(v.copy()), rung=rung.name
    )
    np.testing.assert_allclose(out.numpy(), reference.attention(q, one_key, v), rtol=1e-12)


def test_the_same_seed_drops_the_same_weights_on_every_rung_and_another_does_not():
    q, k, _ = make(6, 8, lead=(2, 3))
    v = np.broadcast_to(np.eye(8), (2, 3, 8, 8))  # the output is the weights themselves
    for rung in LADDER:
        if not has(rung, "dropout_seed", "batch"):
            continue
        drop = lambda seed: attncourse.attention(  # noqa: E731
            q,
            k,
            v,
            dropout_p=0.4,
            dropout_seed=seed,
            rung=rung.name,  # noqa: B023
        )
        np.testing.assert_array_equal(drop(3) != 0, dropout.keep(np.zeros((2, 3, 6, 8)), 0.4, 3))
        assert ((drop(3) != 0) != (drop(4) != 0)).any()


def test_dropout_without_a_seed_follows_the_librarys_generator():
    q, k, v = map(torch.from_numpy, make(6, 8, lead=(2, 3)))
    for name in ("batched", "sdpa"):
        draws = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            draws.append(attncourse.attention(q, k, v, dropout_p=0.4, rung=name))
        assert torch.equal(draws[0], draws[1])
        assert not torch.equal(draws[0], draws[2])


def test_auto_takes_the_librarys_own_and_never_lacks_a_feature():
    arrays = make(3, 4, lead=(1, 2))
    out = attncourse.attention(*arrays)
    np.testing.assert_array_equal(out, attncourse.attention(*arrays, rung="matmul"))
    tensors = [torch.from_numpy(a).requires_grad_() for a in arrays]
    assert torch.equal(attncourse.attention(*tensors), attncourse.attention(*tensors, rung="sdpa"))
    out, lse = attncourse.attention(*tensors, softcap=3.0, return_lse=True)
    assert out.requires_grad
    assert lse.shape == (1, 2, 3)


def test_positional_arguments_are_those_of_pytorch():
    ours = list(inspect.signature(attncourse.attention).parameters.values())
    positional = [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == "query key value attn_mask dropout_p is_causal scale enable_gqa".split()
    q, k, v = map(torch.from_numpy, make(4, 6, lead=(2, 3)))
    mask = torch.rand(4, 6) < 0.7
    mask[:, 0] = True
    theirs = torch.nn.functional.scaled_dot_product_attention
    for args in [(mask,), (None, 0.0, True), (None, 0.0, False)]:
        torch.testing.assert_close(attncourse.attention(q, k, v, *args), theirs(q, k, v, *args))


def test_a_rungs_source_is_what_a_chapter_shows():
    for rung in LADDER:
        assert inspect.getsourcefile(inspect.unwrap(rung.function)).endswith(f"{rung.name}.py")
        assert inspect.signature(rung.function).parameters["query"]
        assert by_name(rung.name) is rung


COMPILED_AT_ONCE = """
import torch
import attncourse
ask = lambda q, rung: attncourse.attention(
    q, q, q, is_causal=True, rung=rung, dropout_p=0.5, dropout_seed=3
)
q = torch.randn(1, 2, 5, 8)
for rung in ("auto", "batched", "recompute"):
    whole = torch.compile(lambda q: ask(q, rung), fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(q), ask(q, rung))
"""


def test_torch_compile_follows_the_very_first_call():
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_AT_ONCE], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["batched", "strips", "tiled", "recompute"])
def test_autocast_does_not_round_a_rung_that_sums_in_float32(name):
    query, key, value = (torch.randn(2, 40, 16, generator=_seeded(n)) for n in range(3))
    expected = attncourse.attention(query, key, value, rung=name, return_lse=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = attncourse.attention(query, key, value, rung=name, return_lse=True)
    for ours, wanted in zip(found, expected, strict=True):
        assert torch.equal(ours, wanted)


@pytest.mark.parametrize("name", ["batched", "strips", "tiled", "sdpa"])
@pytest.mark.parametrize("mapped", ["query", "key", "value", "attn_mask"])
def test_any_one_input_may_be_mapped(name, mapped):
    inputs = {
        "query": torch.randn(2, 5, 4, generator=_seeded(0)),
        "key": torch.randn(2, 6, 4, generator=_seeded(1)),
        "value": torch.randn(2, 6, 3, generator=_seeded(2)),
        "attn_mask": torch.randn(5, 6, generator=_seeded(3)),
    }
    stacked = torch.stack([inputs[mapped], 2 * inputs[mapped]])

    def call(given):
        return attncourse.attention(**{**inputs, mapped: given}, rung=name)

    found = torch.vmap(call)(stacked)
    torch.testing.assert_close(found, torch.stack([call(given) for given in stacked]))


def _seeded(number):
    return torch.Generator().manual_seed(number)


def _forward_mode(function, query, tangent):
    duals = torch.autograd.forward_ad
    with duals.dual_level():
        return duals.unpack_dual(function(duals.make_dual(query, tangent))).tangent


TRANSFORMS = {
    "vmap": lambda function, query, _: torch.func.vmap(function)(query.expand(2, *query.shape)),
    "grad": lambda function, query, _: torch.func.grad(lambda q: function(q).sin().sum())(query),
    "jvp": lambda function, query, tangent: torch.func.jvp(function, (query,), (tangent,))[1],
    "jacobian": lambda function, query, _: torch.func.jacrev(function)(query),
    "vmap-of-grad": lambda function, query, _: torch.func.vmap(
        torch.func.grad(lambda q: function(q).sin().sum())
    )(query[None]),
    "forward-mode": _forward_mode,
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("options", [{}, {"return_lse": True}], ids=["out", "lse"])
@pytest.mark.parametrize("rung", ["auto", *(r.name for r in LADDER if r.library == "torch")])
def test_transforms_of_a_call_are_right_or_refused(rung, transform, options):
    q, k, v = (torch.from_numpy(a) for a in make(4, 5, lead=(2,), gain=1.0))
    tangent = torch.from_numpy(make(4, 5, lead=(2,), seed=1)[0])

    def call(query):
        result = attncourse.attention(query, k, v, rung=rung, is_causal=True, **options)
        return result[1] if options else result

    def plain(query):
        scores = (query @ k.mT * 8**-0.5).masked_fill(~torch.ones(4, 5).tril().bool(), -torch.inf)
        return scores.logsumexp(-1) if options else scores.softmax(-1) @ v

    if rung != "auto" and not (has(by_name(rung), "lse") or not options):
        return  # that it refuses is held elsewhere
    if rung == "auto" or by_name(rung).transforms:
        found = transform(call, q, tangent)
        torch.testing.assert_close(found, transform(plain, q, tangent))
        return
    with pytest.raises(NotImplementedError, match=rf"{rung}.*(torch.func|gradients)"):
        transform(call, q, tangent)


@pytest.mark.parametrize("floor", [np.finfo(np.float32).min, -1e30, -1e9, 1e9], ids=str)
@pytest.mark.parametrize("width_v", [5, 8])  # PyTorch has another kernel where both are equal
@pytest.mark.parametrize("rung", ["auto", "batched", "strips", "tiled", "recompute"])
def test_a_row_far_from_the_others_sends_the_right_gradients_back(rung, width_v, floor):
    arrays = make(4, 6, width_v=width_v, lead=(1, 2), gain=1.0)
    arrays = [torch.from_numpy(a) for a in arrays]
    mask = torch.zeros(4, 6)
    mask[2] = float(floor)
    leaves = [x.float().requires_grad_() for x in arrays]
    out = attncourse.attention(*leaves, attn_mask=mask, rung=rung)
    found = torch.autograd.grad(out.sin().sum(), leaves)

    wide = [x.requires_grad_() for x in arrays]
    scores = wide[0] @ wide[1].mT * 8**-0.5
    alike = scores - scores.detach()  # float32 has no room for them beside the mask
    out = torch.where(torch.arange(4)[:, None] == 2, alike, scores).softmax(-1) @ wide[2]
    for ours, right in zip(found, torch.autograd.grad(out.sin().sum(), wide), strict=True):
        torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1e8, -1e8], ids=str)
@pytest.mark.parametrize("rung", ["batched", "strips", "tiled", "recompute"])
def test_equal_scores_share_a_gradient_however_large_they_are(rung, size):
    query, key = torch.full((1, 1, 3, 4), 1e4), torch.full((1, 1, 5, 4), size / 2e4)
    value = torch.randn(1, 1, 5, 3, requires_grad=True)
    attncourse.attention(query, key, value, rung=rung).sum().backward()
    torch.testing.assert_close(value.grad, torch.full_like(value, 3 / 5))


def _no_plain_tensors():
    from torch.nn.attention.bias import causal_lower_right

    dense = torch.ones(4, 5)
    yield "causal-bias", causal_lower_right(4, 5), "CausalBias.*causal_align"
    yield "sparse", dense.to_sparse(), "layout"
    yield "sparse-rows", dense.to_sparse_csr(), "layout"
    yield "nested", torch.nested.nested_tensor([dense, dense]), "nested"
    yield "jagged", torch.nested.nested_tensor([dense, dense], layout=torch.jagged), "nested"
    yield "quantised", torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8), "quantised"
    yield "masked", torch.masked.masked_tensor(dense, dense > 0), "MaskedTensor"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["attn_mask", "query", "key", "value"])
@pytest.mark.parametrize("rung", ["auto", "batched", "matmul", "sdpa", "recompute"])
def test_a_tensor_whose_memory_is_not_its_numbers_is_refused(rung, place):
    for _name, strange, words in _no_plain_tensors():
        plain = torch.ones(4, 5), torch.ones(5, 5), torch.ones(5, 5)
        given = dict(zip(("query", "key", "value"), plain, strict=True)) | {place: strange}
        with pytest.raises(TypeError, match=words):
            attncourse.attention(**given, rung=rung)


def test_parameters_and_subclasses_that_change_nothing_are_tensors():
    class Named(torch.Tensor):
        pass

    arrays = [torch.from_numpy(a) for a in make(4, 5)]
    wanted = attncourse.attention(*arrays)
    for kind in (torch.nn.Parameter, torch.nn.Buffer, lambda x: x.as_subclass(Named)):
        torch.testing.assert_close(attncourse.attention(*map(kind, arrays)).data, wanted)


@pytest.mark.parametrize("rung", ["auto", *(r.name for r in LADDER if r.library == "torch")])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True, "return_lse": True},
        {"softcap": 2.0},
        {"dropout_p": 0.5, "dropout_seed": 3},
    ],
    ids=str,
)
def test_on_the_meta_device_there_are_shapes(rung, options):
    if rung != "auto" and not Call.of(*make(3, 3), **options).needs <= by_name(rung).features:
        return  # that it refuses is held elsewhere
    if "triton" in rung:
        pytest.importorskip("attncourse.rungs.triton", exc_type=ImportError)
    query, key, value = (torch.empty(2, 2, n, 4, device="meta") for n in (3, 5, 5))
    result = attncourse.attention(query, key, value, rung=rung, **options)
    out = result[0] if options.get("return_lse") else result
    assert out.shape == query.shape
    assert out.device.type == "meta"


@pytest.mark.parametrize("rung", [r for r in RUNGS if has(r.values[0], "softcap")])
@pytest.mark.parametrize("softcap", [1e300, 1e39, 3.4e38, 1e30, 1e-300, 1e-45], ids=str)
def test_a_softcap_beyond_the_types_range_keeps_its_meaning(rung, softcap):
    q, k, v = (a.astype(np.float32) for a in make(4, 6, lead=(1, 2), gain=1.0))
    k[..., 0, :] = 0.0  # a score of 0
    wanted = reference.attention(*(a.astype(np.float64) for a in (q, k, v)), softcap=softcap)
    out = attncourse.attention(q, k, v, softcap=softcap, rung=rung.name)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [complex, bool, object], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("rung", ["auto", "matmul", "batched"])
def test_slopes_that_are_no_real_numbers_are_refused(rung, dtype):
    arrays = make(3, 4, lead=(2,))
    with pytest.raises(TypeError, match=f"must hold real numbers, got {dtype.__name__}"):
        attncourse.attention(*arrays, alibi_slopes=np.ones(2, dtype), rung=rung)
    whole = attncourse.attention(*arrays, alibi_slopes=[1, 2], rung=rung)
    np.testing.assert_array_equal(
        attncourse.attention(*arrays, alibi_slopes=[1.0, 2.0], rung=rung), whole
    )


def test_no_dropout_at_all_is_zero_and_not_none():
    with pytest.raises(TypeError, match="dropout_p must be a number, got NoneType"):
        attncourse.attention(*make(2, 2), dropout_p=None)


@pytest.mark.parametrize("dtype", [">f4", ">f8", "<f8", "<f2", "longdouble", "bool"])
@pytest.mark.parametrize("lift", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_mask_of_any_byte_order_and_width_is_taken(lift, dtype):
    arrays = [lift(a) for a in make(4, 5)]
    mask = (np.random.default_rng(1).random((4, 5)) < 0.7).astype(dtype)
    wanted = attncourse.attention(
        *arrays, attn_mask=mask.astype(bool if dtype == "bool" else float)
    )
    np.testing.assert_allclose(attncourse.attention(*arrays, attn_mask=mask), wanted)
