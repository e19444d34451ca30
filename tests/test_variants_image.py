"""Attention in windows of a picture: against plain loops, a convolution, and its own definition."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attncourse.variants import image  # noqa: E402

HEIGHT, WIDTH, CHANNELS = 5, 4, 6


def picture(seed=0, batch=2, channels=CHANNELS):
    generator = torch.Generator().manual_seed(seed)
    size = batch, channels, HEIGHT, WIDTH
    return 3 * torch.randn(size, generator=generator, dtype=torch.float64)


def layer(kind, seed=1, **options):
    torch.manual_seed(seed)
    return kind(CHANNELS, **options).double()


PAIRWISE = [
    pytest.param({"relation": relation, **more}, id=f"{relation}-{name}")
    for relation in image.PAIRWISE
    for name, more in {
        "softmax": {},
        "raw": {"normalise": False},
        "blind": {"positions": False, "size": 5},
        "shared": {"values": 8, "share": 4},
    }.items()
]
PATCHWISE = [
    pytest.param({"relation": relation, **more}, id=f"{relation}-{name}")
    for relation in image.PATCHWISE
    for name, more in {
        "plain": {},
        "wide": {"size": 5},
        "shared": {"values": 8, "share": 4},
    }.items()
]


# The oracle: NumPy, one pixel and one neighbour at a time, nothing shared with the package.


def linear(module, vector):
    bias = 0 if module.bias is None else module.bias.detach().numpy()
    return module.weight.detach().numpy().reshape(len(module.weight), -1) @ vector + bias


def gamma(module, vector):
    return linear(module.gamma[2], np.maximum(linear(module.gamma[0], vector), 0))


def window(size, row, column):
    """List the window's pixels: where they are, and whether they lie inside the picture."""
    half = size // 2
    for i in range(row - half, row + half + 1):
        for j in range(column - half, column + half + 1):
            yield i, j, 0 <= i < HEIGHT and 0 <= j < WIDTH


def mapped(module, pixels, i, j, seen):
    """Return a linear map of one pixel, zero outside the picture."""
    return linear(module, pixels[:, i, j]) if seen else np.zeros(len(module.weight))


def pairwise_weights(module, pixels, row, column):
    scores, q = [], linear(module.to_query, pixels[:, row, column])
    for i, j, seen in window(module.size, row, column):
        k = mapped(module.to_key, pixels, i, j, seen)
        delta = {
            "subtraction": q - k,
            "summation": q + k,
            "concatenation": np.concatenate([q, k]),
            "hadamard": q * k,
            "dot": np.array([q @ k]),
        }[module.relation]
        if module.to_position is not None:
            here = linear(module.to_position, [2 * row / (HEIGHT - 1), 2 * column / (WIDTH - 1)])
            there = linear(module.to_position, [2 * i / (HEIGHT - 1), 2 * j / (WIDTH - 1)])
            delta = np.concatenate([delta, here - there])
        scores.append(gamma(module, delta) if seen else None)
    if not module.normalise:
        return [0 if s is None else s for s in scores]
    total = sum(np.exp(s) for s in scores if s is not None)
    return [0 if s is None else np.exp(s) / total for s in scores]


def patchwise_weights(module, pixels, row, column):
    where = list(window(module.size, row, column))
    q = linear(module.to_query, pixels[:, row, column])
    keys = [mapped(module.to_key, pixels, *spot) for spot in where]
    queries = [mapped(module.to_query, pixels, *spot) for spot in where]
    described = {
        "star": lambda: [q @ k for k in keys],
        "clique": lambda: [a @ b for a in queries for b in keys],
        "concatenation": lambda: np.concatenate([q, *keys]),
    }[module.relation]()
    return gamma(module, np.array(described)).reshape(len(where), -1)


def by_loops(module, x, make_weights):
    batch = []
    for pixels in x.numpy():
        out = np.zeros((len(module.to_value.weight), HEIGHT, WIDTH))
        for row, column in np.ndindex(HEIGHT, WIDTH):
            weights = make_weights(module, pixels, row, column)
            for (i, j, seen), weight in zip(window(module.size, row, column), weights, strict=True):
                value = mapped(module.to_value, pixels, i, j, seen)
                each = np.broadcast_to(weight, len(value) // module.share)
                out[:, row, column] += np.repeat(each, module.share) * value
        batch.append(out)
    return np.stack(batch)


@pytest.mark.parametrize("options", PAIRWISE)
def test_pairwise_is_its_definition(options):
    module, x = layer(image.PairwiseAttention, **options), picture()
    with torch.no_grad():
        out = module(x).numpy()
    np.testing.assert_allclose(out, by_loops(module, x, pairwise_weights), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", PATCHWISE)
def test_patchwise_is_its_definition(options):
    module, x = layer(image.PatchwiseAttention, **options), picture()
    with torch.no_grad():
        out = module(x).numpy()
    np.testing.assert_allclose(out, by_loops(module, x, patchwise_weights), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "relation"),
    [(image.PairwiseAttention, r) for r in image.PAIRWISE]
    + [(image.PatchwiseAttention, r) for r in image.PATCHWISE],
)
def test_gradients_are_those_of_finite_differences(kind, relation):
    torch.manual_seed(0)
    module = kind(2, relation=relation, hidden=3).double()
    x = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in module.named_parameters()]

    def run(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *module.parameters()))


def test_pairwise_weights_are_shares_of_what_lies_inside():
    module = layer(image.PairwiseAttention, size=5)
    weights = module.weights(picture())
    seen = image.inside(HEIGHT, WIDTH, 5)
    assert (weights > 0).equal(seen[None, :, :, None].expand_as(weights))
    torch.testing.assert_close(weights.sum(2), torch.ones_like(weights[:, :, 0]))


def test_channels_have_weights_of_their_own():
    weights = layer(image.PairwiseAttention).weights(picture())
    assert weights.shape[-1] == CHANNELS
    assert weights.std(dim=-1)[:, image.inside(HEIGHT, WIDTH, 3)].min() > 0


@pytest.mark.parametrize("relation", image.PAIRWISE)
def test_pairwise_works_on_a_set(relation):
    module, x = layer(image.PairwiseAttention, relation=relation), picture()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    query = module.to_query(x).flatten(2).mT
    key = image.footprint(module.to_key(x), 3)
    away, seen = image.steps(HEIGHT, WIDTH, 3), image.inside(HEIGHT, WIDTH, 3)
    weights = module.compare(query, key, away, seen)
    shuffled = module.compare(query, key[:, :, order], away[order], seen[:, order])
    torch.testing.assert_close(shuffled, weights[:, :, order])
    misplaced = module.compare(query, key[:, :, order], away, seen[:, order])
    assert (misplaced - weights[:, :, order]).abs().max() > 1e-3, "positions must matter"


def test_a_wider_pairwise_window_costs_no_parameter_and_a_patchwise_one_does():
    def count(kind, size):
        return sum(p.numel() for p in kind(CHANNELS, size).parameters())

    assert count(image.PairwiseAttention, 3) == count(image.PairwiseAttention, 7)
    assert count(image.PatchwiseAttention, 3) < count(image.PatchwiseAttention, 7)


def test_patchwise_contains_every_depthwise_convolution():
    kernel, x = picture(4, batch=1)[0, :, :3, :3], picture()
    expected = torch.nn.functional.conv2d(x, kernel[:, None], padding=1, groups=CHANNELS)
    torch.testing.assert_close(image.depthwise(kernel)(x), expected, rtol=1e-12, atol=1e-12)


def test_patchwise_and_two_maps_contain_every_convolution():
    conv = torch.nn.Conv2d(CHANNELS, 3, 3, padding=1, bias=False).double()
    x = picture()
    inner = image.depthwise(conv.weight.detach().flatten(0, 1))
    copies = x.repeat(1, 3, 1, 1)  # one copy of the picture for each channel of the result
    summed = inner(copies).unflatten(1, (3, CHANNELS)).sum(2)
    torch.testing.assert_close(summed, conv(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", [image.PairwiseAttention, image.PatchwiseAttention])
def test_a_window_sees_no_further(kind):
    module, x = layer(kind), picture()
    far = x.clone()
    far[:, :, 3:, :] += 1.0
    with torch.no_grad():
        change = (module(far) - module(x)).abs().amax((0, 1, 3))
    assert change[:2].max() == 0
    assert change[2:].min() > 0


def test_steps_point_from_the_neighbour_to_the_pixel():
    away = image.steps(5, 3, 3).view(3, 3, 2)
    torch.testing.assert_close(away[1, 1], torch.zeros(2).double())
    torch.testing.assert_close(away[0, 1], torch.tensor([0.5, 0.0]).double())
    torch.testing.assert_close(away[1, 2], torch.tensor([0.0, -1.0]).double())


@pytest.mark.parametrize("size", [0, 2, -3])
def test_a_window_needs_a_middle(size):
    with pytest.raises(ValueError, match=f"size must be odd.*got {size}"):
        image.footprint(picture(), size)
    with pytest.raises(ValueError, match="size must be odd"):
        image.PairwiseAttention(4, size)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"\(B, C, height, width\), got \(6, 5, 4\)"):
        image.footprint(picture()[0], 3)
    with pytest.raises(ValueError, match=r"relation must be one of .*subtraction.*got 'star'"):
        image.PairwiseAttention(4, relation="star")
    with pytest.raises(ValueError, match=r"relation must be one of .*clique.*got 'dot'"):
        image.PatchwiseAttention(4, relation="dot")
    with pytest.raises(ValueError, match="share = 4 must divide the 6 value channels"):
        image.PairwiseAttention(6, share=4)
    with pytest.raises(ValueError, match=r"\(C, size, size\), got \(2, 3, 5\)"):
        image.depthwise(torch.zeros(2, 3, 5))
    with pytest.raises(ValueError, match="share must be at least 1, got 0"):
        image.PatchwiseAttention(6, share=0)
    with pytest.raises(ValueError, match="hidden must be at least 1, got 0"):
        image.PairwiseAttention(6, hidden=0)


@pytest.mark.parametrize("kind", [image.PairwiseAttention, image.PatchwiseAttention])
def test_no_picture_gives_no_picture(kind):
    assert layer(kind)(picture(batch=0)).shape == (0, CHANNELS, HEIGHT, WIDTH)
