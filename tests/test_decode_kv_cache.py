"""Caches give back what was put in, share what is equal, and name what does not fit."""

import pytest
import torch

from attncourse.decode.kv_cache import KVCache, PagedKVCache


def tokens(count, start=0.0, batch=2):
    """Return recognisable keys (E = 3) and values (Ev = 2) for `count` tokens."""
    numbers = start + torch.arange(float(count))[:, None]
    return (
        (numbers + torch.zeros(3)).expand(batch, 2, count, 3),
        (-numbers + torch.zeros(2)).expand(batch, 2, count, 2),
    )


@pytest.mark.parametrize("capacity", [0, 1, 4, 64])
def test_appended_tokens_come_back_in_order(capacity):
    cache = KVCache(2, 2, 3, 2, capacity=capacity)
    assert len(cache) == 0
    for start, count in ((0, 3), (3, 1), (4, 0), (4, 9)):
        key, value = cache.append(*tokens(count, start))
    assert len(cache) == 13
    whole = tokens(13)
    assert torch.equal(key, whole[0])
    assert torch.equal(value, whole[1])
    assert torch.equal(cache.key, key)


def test_room_doubles_so_that_copying_stays_linear():
    cache, moves, place = KVCache(2, 2, 3, 2, capacity=1), 0, None
    for start in range(1000):
        cache.append(*tokens(1, start))
        moves += cache.key.data_ptr() != place
        place = cache.key.data_ptr()
    assert moves <= 11
    assert torch.equal(cache.key, tokens(1000)[0])


@pytest.mark.parametrize("length", [1.5, True, "1"])
def test_crop_wants_a_whole_number_and_leaves_the_cache_alone(length):
    cache = KVCache(2, 2, 3, 2)
    cache.append(*tokens(3))
    with pytest.raises(TypeError, match="length must be an integer, got"):
        cache.crop(length)
    assert len(cache) == 3


def test_crop_forgets_the_end():
    cache = KVCache(2, 2, 3, 2)
    cache.append(*tokens(5))
    cache.crop(2)
    cache.append(*tokens(1, 2.0))
    assert torch.equal(cache.value, tokens(3)[1])
    with pytest.raises(ValueError, match="0 … 3, got 4"):
        cache.crop(4)


def test_a_cache_keeps_no_graph():
    cache = KVCache(2, 2, 3, 2)
    key, value = (x.clone().requires_grad_() for x in tokens(2))
    cache.append(key, value)
    assert not cache.key.requires_grad


@pytest.mark.parametrize(
    ("sizes", "error", "words"),
    [
        ({"capacity": -3}, ValueError, "capacity must not be negative, got -3"),
        ({"head_dim": -8}, ValueError, "head_dim must not be negative"),
        ({"capacity": 2.5}, TypeError, "capacity must be an integer, got float"),
    ],
)
def test_sizes_that_cannot_be_are_named(sizes, error, words):
    with pytest.raises(error, match=words):
        KVCache(**{"batch_size": 1, "num_kv_heads": 2, "head_dim": 8} | sizes)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"key": torch.ones(2, 2, 1, 4)}, ValueError, r"key has shape \(2, 2, 1, 4\)"),
        ({"value": torch.ones(2, 1, 1, 2)}, ValueError, r"value has shape \(2, 1, 1, 2\)"),
        ({"value": torch.ones(2, 2, 3, 2)}, ValueError, "key has 1 tokens, value has 3"),
        ({"key": torch.ones(2, 2, 1, 3).half()}, TypeError, "float16, the cache holds"),
    ],
)
def test_what_does_not_fit_changes_nothing(change, error, words):
    cache = KVCache(2, 2, 3, 2)
    given = dict(zip(("key", "value"), tokens(1), strict=True)) | change
    with pytest.raises(error, match=words):
        cache.append(**given)
    assert len(cache) == 0


def one(count, start=0.0):
    return tuple(x[0] for x in tokens(count, start))


@pytest.mark.parametrize("page_size", [1, 2, 4, 32])
def test_pages_give_back_what_was_put_in(page_size):
    cache = PagedKVCache(40, page_size, 2, 3, 2)
    first, second = cache.add(), cache.add()
    for start in range(0, 10, 2):
        cache.append(first, *one(2, start))
        cache.append(second, *one(1, start / 2))
    for sequence, count in ((first, 10), (second, 5)):
        key, value = cache.contiguous(sequence)
        assert torch.equal(key, one(count)[0])
        assert torch.equal(value, one(count)[1])
    table, lengths = cache.block_table([second, first])
    assert lengths.tolist() == [5, 10]
    used = table[table >= 0]
    assert len(used) == len(used.unique()) == 40 - cache.free_pages
    assert cache.free_pages == 40 - -(-10 // page_size) - -(-5 // page_size)


def test_a_fork_shares_pages_until_one_of_them_writes():
    cache = PagedKVCache(8, 4, 2, 3, 2)
    first = cache.add()
    cache.append(first, *one(6))
    second = cache.fork(first)
    assert cache.free_pages == 6
    cache.append(second, *one(1, 6.0))
    assert cache.free_pages == 5
    cache.append(first, *one(1, 90.0))
    assert cache.free_pages == 5
    table, _ = cache.block_table([first, second])
    assert table[0, 0] == table[1, 0]
    assert table[0, 1] != table[1, 1]
    assert torch.equal(cache.contiguous(second)[0], one(7)[0])
    assert cache.contiguous(first)[0][0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 90]


def test_freed_pages_serve_again_unless_they_are_shared():
    cache = PagedKVCache(4, 2, 2, 3, 2)
    first = cache.add()
    cache.append(first, *one(4))
    second = cache.fork(first)
    cache.free(first)
    assert cache.free_pages == 2
    assert torch.equal(cache.contiguous(second)[0], one(4)[0])
    cache.free(second)
    assert cache.free_pages == 4
    with pytest.raises(ValueError, match="no sequence 1; there are"):
        cache.append(second, *one(1))


def test_a_full_pool_writes_nothing():
    cache = PagedKVCache(2, 2, 2, 3, 2)
    first = cache.add()
    cache.append(first, *one(3))
    with pytest.raises(MemoryError, match="wanted 1 free pages of the pool, there are 0"):
        cache.append(first, *one(2, 3.0))
    assert torch.equal(cache.contiguous(first)[0], one(3)[0])
    cache.append(first, *one(1, 3.0))
    second = cache.fork(first)
    with pytest.raises(MemoryError):
        cache.append(second, *one(1))


def test_the_copy_of_a_shared_page_needs_a_free_page_too():
    cache = PagedKVCache(1, 4, 2, 3, 2)
    first = cache.add()
    cache.append(first, *one(2))
    second = cache.fork(first)
    with pytest.raises(MemoryError, match="wanted 1 free pages of the pool, there are 0"):
        cache.append(second, *one(1, 2.0))
    cache.free(first)
    cache.append(second, *one(1, 2.0))
    assert torch.equal(cache.contiguous(second)[0], one(3)[0])


def test_an_empty_batch_has_an_empty_table():
    cache = PagedKVCache(2, 2, 2, 3)
    table, lengths = cache.block_table([])
    assert (tuple(table.shape), tuple(lengths.shape)) == ((0, 0), (0,))
    with pytest.raises(ValueError, match="at least 1 page"):
        PagedKVCache(0, 2, 2, 3)
