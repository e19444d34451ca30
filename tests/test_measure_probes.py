"""The probes find the depth, the reach and the strength that are known by construction."""

import pytest
import torch

from attncourse.measure import probes
from attncourse.measure.probes import gradient_by_distance, receptive_field, sequential_depth
from attncourse.models.reader import Reader
from attncourse.models.recurrent import ElmanNetwork


def test_depth_follows_the_longest_chain():
    x = torch.ones(3, requires_grad=True)
    assert sequential_depth(x * 2) == 1
    assert sequential_depth(((x * 2) + x).exp() + x) == 4
    branch = x.exp()
    assert sequential_depth(branch * branch.sin().cos()) == 4


def test_depth_of_a_long_recurrence_grows_by_a_constant_a_step():
    network = ElmanNetwork(2, 2)
    depths = [sequential_depth(network(torch.zeros(1, t, 2))) for t in (10, 20, 3000)]
    assert (depths[2] - depths[1]) * 10 == (depths[1] - depths[0]) * 2980


def test_depth_needs_a_history():
    with pytest.raises(ValueError, match="no recorded history"):
        sequential_depth(torch.ones(3))


def test_gradient_of_a_known_decay():
    def decay(x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = 0.5 * state + x[:, t]
            states.append(state)
        return torch.stack(states, 1)

    x = torch.randn(3, 6, 4, dtype=torch.float64)
    expected = 0.5 ** torch.arange(6, dtype=torch.float64)
    torch.testing.assert_close(gradient_by_distance(decay, x), expected)
    assert not x.requires_grad
    with pytest.raises(ValueError, match=r"\(3, 6, 4\) into \(3, 4\)"):
        gradient_by_distance(lambda x: x[:, -1], x)


@pytest.mark.parametrize("dilation", [1, 2])
def test_receptive_field_of_a_convolution(dilation):
    conv = torch.nn.Conv1d(2, 2, 3, padding=dilation, dilation=dilation)
    x = torch.randn(2, 9, 2)
    seen = receptive_field(lambda x: conv(x.mT).mT, x, position=4)
    assert seen.nonzero().flatten().tolist() == [4 - dilation, 4, 4 + dilation]


@pytest.mark.parametrize("causal", [True, False])
def test_influence_draws_the_mask_of_one_layer(causal):
    torch.manual_seed(0)
    model = Reader(num_heads=2, causal=causal)
    tokens = torch.randint(10, (3, 9), generator=torch.Generator().manual_seed(1))
    expected = torch.ones(9, 9, dtype=torch.bool)
    assert torch.equal(probes.influence(model, tokens, 10), expected.tril() if causal else expected)


def test_influence_sees_the_smallest_leak():
    tokens = torch.arange(6).reshape(1, 6)
    leak = torch.eye(6)
    leak[1, 4] = 1e-30

    def model(tokens):
        return torch.nn.functional.one_hot(tokens, 8).float().transpose(1, 2) @ leak.T

    found = probes.influence(lambda t: model(t).transpose(1, 2), tokens, 8)
    assert torch.equal(found, leak != 0)


def test_influence_refuses_what_it_cannot_judge():
    tokens = torch.zeros(1, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"differently.*eval"):
        probes.influence(lambda t: torch.rand(1, 4, 2), tokens, 3)
    with pytest.raises(ValueError, match="num_symbols must be at least 2, got 1"):
        probes.influence(lambda t: t, tokens, 1)
