"""The bytes that interpreted kernels move, against the formula."""

from importlib.util import find_spec
from itertools import product

import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import attention  # noqa: E402
from attncourse.kernels import blocks, runtime, traffic  # noqa: E402
from attncourse.measure import cost  # noqa: E402

if not runtime.INTERPRETED:
    pytest.skip("counts in the interpreter", allow_module_level=True)

pytestmark = pytest.mark.ladder


CAUSAL = {"is_causal": True}
CASES = [
    *product(("triton_forward", "triton"), ({}, CAUSAL, CAUSAL | {"causal_align": "bottom_right"})),
    ("triton", CAUSAL | {"window_size": 48}),
]


@pytest.mark.parametrize(("rung", "options"), CASES, ids=str)
def test_the_kernels_move_what_the_formula_predicts(rung, options):
    lengths = (128, 192) if options.get("causal_align") else (160, 160)
    query, key = torch.randn(1, 2, lengths[0], 64), torch.randn(1, 2, lengths[1], 64)
    with blocks.use(32, 32), traffic.counted() as counts:
        attention(query, key, key, rung=rung, **options)
    problem = cost.Problem(*lengths, num_heads=2, **options)
    predicted = cost.bytes_moved(problem, rung, block_q=32)
    assert counts.moved == pytest.approx(predicted, rel=0.02)
    if rung == "triton_forward":
        assert counts.moved == predicted
    assert counts.stored == 4 * 2 * lengths[0] * (64 + (1 if rung == "triton_forward" else 2))


def test_counting_ends_with_the_block():
    query = torch.randn(1, 1, 16, 4)
    with traffic.counted() as counts:
        pass
    attention(query, query, query, rung="triton")
    assert counts.moved == 0
