"""What kernels read and skip: counted in the interpreter."""

import mmap
from importlib.util import find_spec

import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import attention, reference  # noqa: E402
from attncourse.call import Call  # noqa: E402
from attncourse.kernels import arguments, blocks, launch, runtime  # noqa: E402

if not runtime.INTERPRETED:
    pytest.skip("counts steps of the interpreter", allow_module_level=True)

pytestmark = pytest.mark.ladder


@pytest.fixture
def products(monkeypatch):
    """Count the matrix products that kernels compute."""
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    original, count = builder.create_dot, [0]

    def create_dot(*args):
        count[0] += 1
        return original(*args)

    monkeypatch.setattr(builder, "create_dot", create_dot, raising=False)
    return count


def half_hidden(kind):
    """Hide the first 32 of 64 keys from all queries."""
    seen = torch.arange(64) >= 32
    return seen if kind == "bool" else torch.where(seen, 0.0, -torch.inf)


@pytest.mark.parametrize(
    ("options", "tiles"),
    [
        ({}, 16),
        ({"is_causal": True}, 1 + 2 + 3 + 4),
        ({"is_causal": True, "window_size": 16}, 1 + 2 + 2 + 2),
        ({"is_causal": True, "window_size": 17}, 1 + 2 + 2 + 2),
        ({"is_causal": True, "window_size": 18}, 1 + 2 + 3 + 3),
        ({"attn_mask": half_hidden("bool")}, 8),
        ({"attn_mask": half_hidden("float")}, 8),
        ({"attn_mask": half_hidden("bool"), "is_causal": True}, 1 + 2),
    ],
    ids=str,
)
def test_empty_tiles_are_never_multiplied(products, options, tiles):
    query = torch.randn(1, 1, 64, 4, requires_grad=True)
    with blocks.use(16, 16):
        out = attention(query, query, query, rung="triton", **options)
        assert products[0] == 2 * tiles, "q·k and w·v"
        out.sum().backward()
    assert products[0] == (2 + 4 + 3) * tiles, "dk/dv: four; dq: three"


def test_the_short_kernel_skips_too(products):
    query = torch.randn(1, 1, 64, 4)
    with blocks.use(16, 16):
        attention(query, query, query, is_causal=True, rung="triton_forward")
    assert products[0] == 2 * (1 + 2 + 3 + 4)


def test_offsets_pass_two_to_the_31():
    step, seq_len = 2**26, 40  # row 32 starts at 2**31
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    with mmap.mmap(-1, 2 * seq_len * step, flags=flags) as memory:  # touched only where used
        storage = torch.frombuffer(memory, dtype=torch.float16)
        query, key, value, dout = (
            storage.as_strided((1, 1, seq_len, 4), (1, 1, step, 1), 8 * i) for i in range(4)
        )
        for tensor in (query, key, value, dout):
            tensor.copy_(torch.randn(1, 1, seq_len, 4))
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        near = [x.detach().contiguous().requires_grad_() for x in (query, key, value)]
        with blocks.use(16, 16):
            out = attention(*leaves, is_causal=True, rung="triton")
            found = torch.autograd.grad(out, leaves, dout)
            out_near = attention(*near, is_causal=True, rung="triton")
            expected = torch.autograd.grad(out_near, near, dout.contiguous())
        assert torch.equal(out, out_near)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs)
        del storage, query, key, value, dout, leaves, found, out


@pytest.fixture
def poisoned_memory():
    """Let torch hand out memory that is full of NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("mask", [None, torch.zeros(1, 1, 1, 20)], ids=["folded", "nats"])
@pytest.mark.usefixtures("poisoned_memory")
def test_every_number_that_is_returned_was_written(mask):
    assert torch.empty(3).isnan().all()
    query, key = torch.randn(1, 2, 17, 3), torch.randn(1, 1, 20, 3)
    call = Call((0, 17), (0, 20), 0.5, mask, is_causal=True)
    with blocks.use(16, 16):
        saved = launch.forward(query, key, key, call)
        gradients = torch.ones(1, 2, 17, 3), torch.ones(1, 2, 17)
        kept = (saved[0], *saved[2:])
        found = launch.backward(gradients, query, key, key, call, kept, want_scores=True)
    for tensor in (*saved, *found):
        assert not tensor.isnan().any()


def test_the_scale_keeps_its_float64_digits():
    high, low = arguments._two_floats(1 / 3)
    assert high + low == 1 / 3
    assert torch.tensor(high, dtype=torch.float32).item() == high
    query = torch.randn(1, 1, 3, 2, dtype=torch.float64)
    out = attention(query, query, query, scale=1 / 3, rung="triton")
    expected = reference.attention(query, query, query, scale=1 / 3)
    torch.testing.assert_close(out, torch.from_numpy(expected), rtol=1e-14, atol=1e-14)
