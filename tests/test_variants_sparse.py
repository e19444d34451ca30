"""Sparse attention: layouts, the same numbers as a mask gives, and paths counted twice."""

import numpy as np
import pytest
import torch

import attncourse
from attncourse import masks, reference
from attncourse.measure import probes
from attncourse.variants import sparse

LAYOUTS = {
    "window": {"window": 1},
    "window-0": {"window": 0},
    "global": {"window": 1, "num_global": 1},
    "random": {"window": 0, "num_random": 2, "seed": 3},
    "all-three": {"window": 1, "num_global": 1, "num_random": 1},
}
LENGTHS = {"even": (24, 4), "ragged": (23, 5), "one-block": (3, 8), "single": (7, 1)}
each_layout = pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
each_length = pytest.mark.parametrize(("seq_len", "block_size"), LENGTHS.values(), ids=LENGTHS)
causal_or_not = pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])


def inputs(*batch, seq_len=24, width=5, value_width=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    sizes = ((seq_len, width), (seq_len, width), (seq_len, value_width))
    return [torch.randn(*batch, *size, generator=generator, dtype=dtype) * 2 for size in sizes]


@each_layout
@each_length
@causal_or_not
def test_it_is_dense_attention_under_the_expanded_mask(options, seq_len, block_size, is_causal):
    meets = sparse.layout(-(-seq_len // block_size), is_causal=is_causal, **options)
    q, k, v = inputs(2, 3, seq_len=seq_len)
    out = sparse.attention(q, k, v, meets, block_size=block_size, is_causal=is_causal, scale=0.3)
    mask = sparse.expand(meets, block_size, seq_len, is_causal=is_causal)
    expected = reference.attention(q.numpy(), k.numpy(), v.numpy(), attn_mask=mask, scale=0.3)
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rung", ["batched", "strips", "tiled", "recompute", "sdpa"])
def test_every_torch_rung_can_do_the_work(rung):
    meets = sparse.layout(5, num_global=1, num_random=1)
    q, k, v = inputs(2, seq_len=23)
    out = sparse.attention(q, k, v, meets, block_size=5, is_causal=False, rung=rung)
    expected = attncourse.attention(q, k, v, sparse.expand(meets, 5, 23), rung="batched")
    torch.testing.assert_close(out, expected)


@causal_or_not
def test_gradients(is_causal):
    meets = sparse.layout(3, window=0, num_global=1, is_causal=is_causal)
    q, k, v = (x.requires_grad_() for x in inputs(2, seq_len=7, width=3, value_width=2))

    def call(*tensors):
        return sparse.attention(*tensors, meets, block_size=3, is_causal=is_causal)

    assert torch.autograd.gradcheck(call, (q, k, v))


def test_a_block_that_meets_none_gives_zeros():
    meets = sparse.layout(3)
    meets[1] = False
    q, k, v = inputs(2, seq_len=12)
    out = sparse.attention(q, k, v, meets, block_size=4)
    assert not out[:, 4:8].any()
    assert out[:, :4].all()
    assert out[:, 8:].all()


def test_pairs_outside_the_layout_are_not_computed(monkeypatch):
    computed = []

    def count(query, key, *rest, **options):
        computed.append(query.shape[:-1].numel() * key.shape[-2])
        return attncourse.attention(query, key, *rest, **options)

    monkeypatch.setattr(sparse, "ladder", count)
    meets = sparse.layout(13, window=1, num_global=1, num_random=2)
    q, k, v = inputs(1, seq_len=51)
    sparse.attention(q, k, v, meets, block_size=4)
    mask = sparse.expand(meets, 4, 51)
    assert sum(computed) == sparse.pairs(meets, 4, 51) == mask.sum()
    assert mask.mean() < 0.6


def test_a_layout_has_its_parts():
    meets = sparse.layout(16, window=2, num_global=2, num_random=3, seed=1)
    i, j = np.indices(meets.shape)
    near, wide = abs(i - j) <= 2, (i < 2) | (j < 2)
    assert meets[near | wide].all()
    rest = (meets & ~near & ~wide).sum(axis=1)
    assert (rest[2:] == 3).all()
    assert not rest[:2].any()
    again = sparse.layout(16, window=2, num_global=2, num_random=3, seed=1)
    other = sparse.layout(16, window=2, num_global=2, num_random=3, seed=2)
    assert (again == meets).all()
    assert (other != meets).any()


def test_a_causal_layout_looks_back_only_and_keeps_its_random_blocks():
    meets = sparse.layout(16, window=1, num_random=2, is_causal=True)
    assert not np.triu(meets, 1).any()
    assert (meets[3:].sum(axis=1) == 4).all()
    assert meets[:3].sum(axis=1).tolist() == [1, 2, 3]


@each_layout
def test_hops_are_what_gradients_find(options):
    """A stack of residual layers lets through exactly the inputs within its number of hops."""
    meets = sparse.layout(6, **options)
    steps = sparse.hops(sparse.expand(meets, 2, 12))
    x = torch.randn(1, 12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for depth in (1, 2, 3):

        def stack(x, depth=depth):
            for _ in range(depth):
                x = x + sparse.attention(x, x, x, meets, block_size=2)
            return x

        for i in (0, 5, 11):
            seen = probes.receptive_field(stack, x, i).numpy()
            near = (steps[i] >= 0) & (steps[i] <= depth)
            assert (seen == near).all(), (depth, i)


def test_hops_of_known_graphs():
    n, ahead = 20, np.subtract.outer(np.arange(20), np.arange(20))
    chain = sparse.hops(masks.window(n, size=2))
    assert (chain == np.where(ahead >= 0, ahead, sparse.UNREACHED)).all()
    window = sparse.hops(masks.window(n, size=5))
    assert (window == np.where(ahead >= 0, -(-ahead // 4), sparse.UNREACHED)).all()
    star = sparse.hops(sparse.layout(n, window=0, num_global=1))
    assert star.max() == 2
    assert (star[0, 1:] == 1).all()
    assert (sparse.hops(np.zeros((3, 3), dtype=bool)) == np.eye(3) - 1).all()
    forgetful = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)  # none sees itself
    assert sparse.hops(forgetful).tolist() == [[0, 1, 1], [1, 0, 2], [1, 2, 0]]


def test_what_does_not_fit_is_refused():
    q, k, v = inputs(2, seq_len=12)
    with pytest.raises(ValueError, match="fastest"):
        sparse.attention(q, k, v, sparse.layout(3), block_size=4, rung="fastest")
    with pytest.raises(ValueError, match=r"12 positions in blocks of 5 need .* \(3, 3\)"):
        sparse.attention(q, k, v, sparse.layout(4), block_size=5)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        sparse.expand(sparse.layout(4), 0, 12)
    with pytest.raises(ValueError, match="one length"):
        sparse.attention(q[:, :4], k, v, sparse.layout(3), block_size=4)
    with pytest.raises(ValueError, match="one length"):
        sparse.attention(q[0], k[0], v[0], sparse.layout(3), block_size=4)
    with pytest.raises(ValueError, match="key has 12 positions, value has 11"):
        sparse.attention(q, k, v[:, :11], sparse.layout(3), block_size=4)
    with pytest.raises(ValueError, match="num_random must not be negative"):
        sparse.layout(4, num_random=-1)
    with pytest.raises(TypeError, match="window must be an integer"):
        sparse.layout(4, window=0.5)
    with pytest.raises(ValueError, match=r"boolean matrix \(n, n\), got float64"):
        sparse.hops(np.eye(3))


def test_wrong_kinds_are_refused():
    q, k, v = inputs(2, seq_len=12)
    with pytest.raises(TypeError, match="layout must be a NumPy array, got list"):
        sparse.attention(q, k, v, sparse.layout(3).tolist(), block_size=4)
    with pytest.raises(TypeError, match="layout must be a NumPy array, got Tensor"):
        sparse.expand(torch.from_numpy(sparse.layout(3)), 4, 12)
    with pytest.raises(TypeError, match="takes torch tensors, got arrays"):
        sparse.attention(q.numpy(), k.numpy(), v.numpy(), sparse.layout(3), block_size=4)
    with pytest.raises(TypeError, match="got NoneType"):
        sparse.attention(None, k, v, sparse.layout(3), block_size=4)
    with pytest.raises(TypeError, match="share one dtype"):
        sparse.attention(q, k.float(), v, sparse.layout(3), block_size=4)
    for call in (
        lambda: sparse.layout(3, is_causal="yes"),
        lambda: sparse.expand(sparse.layout(3), 4, 12, is_causal="yes"),
        lambda: sparse.attention(q, k, v, sparse.layout(3), block_size=4, is_causal="yes"),
    ):
        with pytest.raises(TypeError, match="is_causal must be True or False, got str"):
            call()
