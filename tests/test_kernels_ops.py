"""The kernels as operators: what torch checks of them, and torch.compile."""

from functools import partial
from importlib.util import find_spec

import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import attention  # noqa: E402
from attncourse.kernels import ops, runtime  # noqa: E402
from attncourse.rungs import triton_forward  # noqa: E402

pytestmark = [pytest.mark.ladder, pytest.mark.slow]
DEVICE = "cpu" if runtime.INTERPRETED else "cuda"


def make(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, 4, 9, 8), (2, 2, 14, 8), (2, 2, 14, 5)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [tensor.to(DEVICE).requires_grad_() for tensor in drawn]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("learned", [False, True], ids=["plain", "learned-mask-and-slopes"])
def test_the_operators_are_registered_as_torch_wants(learned):
    query, key, value = make()
    mask = slopes = None
    if learned:
        mask = torch.randn(1, 4, 9, 14, dtype=torch.float64, device=DEVICE, requires_grad=True)
        slopes = torch.rand(2, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    options = (0.3, True, 5, 6, 2.0, 0.2, 7)
    inputs = (query, key, value, mask, slopes, *options)
    torch.library.opcheck(ops.attention_forward, inputs)
    saved = [x.detach() for x in ops.attention_forward(*inputs)]
    out, lse, row_max, row_sum = saved
    inputs = (out, lse, *(x.detach() for x in (query, key, value)), None, None)
    torch.library.opcheck(
        ops.attention_backward,
        (*inputs, out, row_max, row_sum, learned, *options),
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_short_kernel_is_an_operator_too():
    query, key, value = (tensor.detach() for tensor in make())
    torch.library.opcheck(triton_forward.launch, (query, key, value, 0.3, True, 5))
    ask = partial(attention, is_causal=True, enable_gqa=True, return_lse=True)
    whole = torch.compile(partial(ask, rung="triton_forward"), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(query, key, value), ask(query, key, value, rung="batched"))


def test_wide_float32_rows_are_multiplied_in_halves_to_the_same_sums():
    generator = torch.Generator().manual_seed(3)
    query, key, value = torch.randn(3, 1, 2, 40, 128, generator=generator).to(DEVICE)
    for x in (query, key, value):
        x.requires_grad_()
    grads = {}
    for rung in ("triton", "batched"):
        out = attention(query, key, value, is_causal=True, rung=rung)
        grads[rung] = (out, *torch.autograd.grad(out.sin().sum(), (query, key, value)))
    torch.testing.assert_close(grads["triton"], grads["batched"], rtol=2e-5, atol=2e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_traces_the_whole_call():
    def step(query, key, value):
        out, lse = attention(
            query,
            key,
            value,
            is_causal=True,
            enable_gqa=True,
            softcap=3.0,
            return_lse=True,
            rung="triton",
        )
        return out.sin().sum() + lse.sum()

    inputs = make()
    expected = torch.autograd.grad(step(*inputs), inputs)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*inputs), inputs)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
