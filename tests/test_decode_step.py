"""One decoding step is the last row of attention, wherever the keys lie."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from attncourse import reference
from attncourse.decode import decode, paged_decode
from attncourse.decode import step as module
from attncourse.decode.kv_cache import PagedKVCache

pytestmark = pytest.mark.ladder

OPTIONS = {
    "plain": {},
    "window": {"window_size": 4},
    "softcap": {"softcap": 0.9},
    "scale": {"scale": 0.3},
    "alibi": {"alibi_slopes": [0.5, 0.25, 0.1, 0.7]},
    "everything": {"window_size": 6, "softcap": 2.0, "alibi_slopes": [0.5, 0.25, 0.1, 0.7]},
}


def inputs(seq_len_q=2, seq_len_kv=11, num_kv_heads=2, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (2, 4, seq_len_q, 8),
        (2, num_kv_heads, seq_len_kv, 8),
        (2, num_kv_heads, seq_len_kv, 3),
    )
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


def expected(query, key, value, lengths=None, **call):
    """Let the oracle answer for one sequence after the other."""
    if "alibi_slopes" in call:
        call["alibi_slopes"] = torch.tensor(call["alibi_slopes"], dtype=torch.float64)
    call |= {"is_causal": True, "causal_align": "bottom_right", "return_lse": True}
    lengths = [key.shape[2]] * len(query) if lengths is None else lengths
    each = [
        reference.attention(q, k[:, :n], v[:, :n], **call)
        for q, k, v, n in zip(query, key, value, lengths, strict=True)
    ]
    return [np.stack(parts) for parts in zip(*each, strict=True)]


def assert_like(result, wanted):
    for ours, theirs in zip(result, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)


@pytest.mark.parametrize("split", [1, 3, 4, 100])
@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_split_gives_the_oracle(name, num_kv_heads, split):
    tensors = inputs(num_kv_heads=num_kv_heads)
    result = decode(*tensors, **OPTIONS[name], split=split, return_lse=True)
    assert_like(result, expected(*tensors, **OPTIONS[name]))


@pytest.mark.parametrize("split", [3, 100])
@pytest.mark.parametrize("lengths", [(11, 4), (1, 7), (0, 2)], ids=str)
@pytest.mark.parametrize("name", OPTIONS)
def test_what_lies_behind_a_sequence_is_never_looked_at(name, lengths, split):
    query, key, value = inputs()
    wanted = expected(query, key, value, lengths, **OPTIONS[name])
    for sequence, length in enumerate(lengths):
        key[sequence, :, length:], value[sequence, :, length:] = torch.nan, torch.inf
    result = decode(
        query, key, value, lengths=lengths, **OPTIONS[name], split=split, return_lse=True
    )
    assert_like(result, wanted)


@pytest.mark.parametrize("sizes", [(1, 0), (0, 5), (3, 1)], ids=str)
def test_few_or_no_keys_and_queries(sizes):
    tensors = inputs(*sizes)
    assert_like(decode(*tensors, return_lse=True), expected(*tensors))


def test_steps_of_a_sequence_are_the_rows_of_attention():
    query, key, value = inputs(9, 9)
    whole, _ = expected(query, key, value)
    for t in range(9):
        step = decode(query[:, :, t : t + 1], key[:, :, : t + 1], value[:, :, : t + 1], split=4)
        np.testing.assert_allclose(step[:, :, 0], whole[:, :, t], atol=1e-12)


def test_the_result_has_the_type_of_the_query():
    tensors = inputs(dtype=torch.bfloat16)
    out, lse = decode(*tensors, return_lse=True)
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    np.testing.assert_allclose(out.double(), expected(*tensors)[0], atol=1e-2)


def paged(lengths, page, num_kv_heads, width, value_width, dtype, seed=0):
    """Fill a paged cache in turns, so that pages are scattered; return a contiguous copy too."""
    cache = PagedKVCache(200, page, num_kv_heads, width, value_width, dtype=dtype)
    numbers = [cache.add() for _ in lengths]
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, max(lengths), 3):
        for number, length in zip(numbers, lengths, strict=True):
            new = max(0, min(3, length - start))
            shapes = ((num_kv_heads, new, width), (num_kv_heads, new, value_width))
            cache.append(number, *(torch.randn(s, generator=generator).to(dtype) for s in shapes))
    shape = (len(lengths), num_kv_heads, max(lengths))
    key = torch.full((*shape, width), torch.nan, dtype=dtype)
    value = torch.full((*shape, value_width), torch.nan, dtype=dtype)
    for number, length in zip(numbers, lengths, strict=True):
        key[number, :, :length], value[number, :, :length] = cache.contiguous(number)
    return cache, numbers, key, value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("page", [1, 3, 16])
def test_paged_is_bit_for_bit_the_contiguous_copy(page, dtype):
    sizes = itertools.product((1, 2, 4), ((5, 3), (16, 64)), ((19, 40, 7), (32, 32, 32)))
    for number, (num_kv_heads, widths, lengths) in enumerate(sizes):
        cache, numbers, key, value = paged(lengths, page, num_kv_heads, *widths, dtype)
        query = torch.randn(3, 4, 1 + number % 2, widths[0]).to(dtype)
        table, ends = cache.block_table(numbers)
        pages = cache.key_pages, cache.value_pages, table, ends
        for call in ({"split": 7}, {"split": 16, "window_size": 9}, {"softcap": 2.0}):
            ours = paged_decode(query, *pages, **call, return_lse=True)
            theirs = decode(query, key, value, lengths=ends, **call, return_lse=True)
            for mine, other in zip(ours, theirs, strict=True):
                assert torch.equal(mine, other), (num_kv_heads, widths, lengths, call)
                assert mine.isfinite().all()


def test_pages_of_one_part_only_are_brought_together(monkeypatch):
    cache, numbers, *_ = paged((40,), 4, 2, 8, 8, torch.float32)
    seen, attend = [], module._attend

    def note(q, k, *args):
        seen.append(k.shape[2])
        return attend(q, k, *args)

    monkeypatch.setattr(module, "_attend", note)
    table, ends = cache.block_table(numbers)
    query = torch.randn(1, 4, 1, 8)
    paged_decode(query, cache.key_pages, cache.value_pages, table, ends, split=12)
    assert seen == [12, 12, 12, 4]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"lengths": [3]}, ValueError, r"lengths has shape \(1,\), wanted \(2,\)"),
        ({"lengths": [3, 12]}, ValueError, r"0 … 11, got \[3, 12\]"),
        ({"lengths": [3.0, 4.0]}, TypeError, "lengths must be integers"),
        ({"split": 0}, ValueError, "split must be at least 1"),
        ({"split": 2.5}, TypeError, "split must be an integer, got float"),
        ({"window_size": 0}, ValueError, "window_size must be at least 1"),
        ({"alibi_slopes": [1.0, 2.0]}, ValueError, "alibi_slopes has shape"),
        ({"key": torch.ones(2, 3, 11, 8)}, ValueError, "3 heads"),
        ({"key": torch.ones(2, 2, 11, 8).half()}, TypeError, "share one dtype"),
        ({"query": np.ones((2, 4, 1, 8))}, TypeError, "got ndarray"),
        ({"query": torch.ones(4, 1, 8)}, ValueError, r"\(B, H, L, E\), got shape \(4, 1, 8\)"),
    ],
)
def test_bad_input_is_named(change, error, words):
    query, key, value = inputs(dtype=torch.float32)
    given = {"query": query, "key": key, "value": value} | change
    with pytest.raises(error, match=words):
        decode(given.pop("query"), given.pop("key"), given.pop("value"), **given)


@pytest.mark.parametrize(
    ("table", "lengths", "error", "words"),
    [
        ([[0, -1]], [5], ValueError, r"pages \[0, -1\] for 5 tokens, but there are 200"),
        ([[0, 200]], [5], ValueError, "there are 200"),
        ([[0.0, 1.0]], [5], TypeError, "block_table must hold integers"),
        ([[0, 1], [2, 3]], [5], ValueError, r"wanted \(1, pages\)"),
        ([[0, 1]], [9], ValueError, "0 … 8"),
    ],
)
def test_a_bad_table_is_named(table, lengths, error, words):
    cache, *_ = paged((8,), 4, 2, 8, 8, torch.float32)
    query = torch.randn(1, 4, 1, 8)
    with pytest.raises(error, match=words):
        paged_decode(query, cache.key_pages, cache.value_pages, torch.tensor(table), lengths)


def test_no_new_tokens_under_a_window_give_an_empty_answer():
    keys = torch.randn(1, 2, 3, 4)
    assert decode(torch.randn(1, 2, 0, 4), keys, keys, window_size=2).shape == (1, 2, 0, 4)


def test_pages_without_a_token_are_named():
    pages, table = torch.zeros(3, 2, 0, 8), torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(ValueError, match="at least 1 token"):
        paged_decode(torch.randn(1, 4, 1, 8), pages, pages, table, [0])


def test_no_sequences_have_no_lengths():
    query, cache = torch.zeros(0, 1, 1, 4), torch.zeros(0, 1, 3, 4)
    assert decode(query, cache, cache, lengths=[]).shape == (0, 1, 1, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_rounds_neither_the_sums_nor_the_lse(dtype):
    query, (key, value) = 30 * torch.randn(1, 4, 1, 8), 30 * torch.randn(2, 1, 2, 40, 8)
    pages = (x.view(2, 10, 4, 8).transpose(0, 1).contiguous() for x in (key[0], value[0]))
    paged = (query, *pages, torch.arange(10)[None], [40])
    for function, inputs in ((decode, (query, key, value)), (paged_decode, paged)):
        wanted = function(*inputs, return_lse=True, split=16)
        with torch.autocast("cpu", dtype):
            found = function(*inputs, return_lse=True, split=16)
        for ours, theirs in zip(found, wanted, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int16, torch.uint8, torch.int32, torch.int64], ids=str
)
@pytest.mark.parametrize("tail", [-1, 100, -100])
def test_a_table_of_any_integers_and_any_tail(dtype, tail):
    cache, numbers, key, value = paged((9, 3), 4, 2, 8, 8, torch.float32)
    query = torch.randn(2, 4, 1, 8)
    table, ends = cache.block_table(numbers)
    table = torch.where(table < 0, tail, table).to(dtype)
    out = paged_decode(query, cache.key_pages, cache.value_pages, table, ends)
    assert torch.equal(out, decode(query, key, value, lengths=ends))


def test_numbers_of_any_kind_are_taken_as_pythons():
    query, key, value = torch.randn(1, 2, 1, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)
    found = decode(
        *(query, key, value),
        scale=Fraction(1, 2),
        softcap=np.float32(2.0),
        window_size=np.int64(3),
        alibi_slopes=[1, 2],
    )
    plain = {"scale": 0.5, "softcap": 2.0, "window_size": 3, "alibi_slopes": [1.0, 2.0]}
    assert torch.equal(found, decode(query, key, value, **plain))
    with pytest.raises(TypeError, match="alibi_slopes must hold real numbers"):
        decode(query, key, value, alibi_slopes=torch.ones(2, dtype=torch.complex64))
    assert decode(query, key, value, softcap=1e300).isfinite().all()
