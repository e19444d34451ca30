"""The one-layer model: it starts where the derivation of the scale starts, and it learns."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attncourse import tasks, train  # noqa: E402
from attncourse.models.one_layer import OneLayer  # noqa: E402


def fresh(**sizes):
    train.set_seed(0)
    return OneLayer(16, **sizes)


@pytest.mark.parametrize(("head_dim", "scale"), [(32, None), (256, None), (256, 1.0)])
def test_queries_and_keys_start_with_variance_one(head_dim, scale):
    model = fresh(d_model=256, head_dim=head_dim, scale=scale, num_symbols=200)
    tokens, _ = tasks.reversal(64, 16, 200, generator=1)
    with torch.no_grad():
        query, key, value = model.project(tokens)
        spread = model.scores(tokens).std().item()
    for part in (query, key, value):
        assert part.std().item() == pytest.approx(1.0, rel=0.1)
    expected = 1.0 if scale is None else head_dim**0.5
    assert spread == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_answer_is_the_weighted_sum_that_its_scores_promise(scale):
    model = fresh(d_model=24, head_dim=5, scale=scale).double()
    tokens, _ = tasks.reversal(3, 7, generator=2)
    with torch.no_grad():
        _, _, value = model.project(tokens)
        expected = model.answer(model.scores(tokens).softmax(-1) @ value.squeeze(1))
        np.testing.assert_allclose(model(tokens), expected, rtol=1e-12)
    assert model(tokens).shape == (3, 7, 10)


def test_positions_matter():
    model = fresh()
    tokens = torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(model(tokens).flip(1), model(tokens.flip(1)))


@pytest.mark.slow
def test_it_learns_to_reverse_on_every_seed():
    for seed in range(3):
        train.set_seed(seed)
        model = OneLayer(16)
        history = train.fit(
            model,
            lambda g: tasks.reversal(64, 16, generator=g),
            steps=200,
            lr=3e-3,
            seed=seed,
            stop=0.999,
            progress=False,
        )
        assert history.stopped_at is not None
        tokens, _ = tasks.reversal(64, 16, generator=7)
        weights = model.scores(tokens).softmax(-1).mean(0)
        assert weights.flip(1).diagonal().min() > 0.9


def test_the_committed_seeds_say_what_chapter_04_says():
    path = Path(__file__).parents[1] / "benchmarks/results/scaling_seeds.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    assert {"torch", "numpy", "device", "date"} <= results.keys()
    steps = {}
    for group in results["groups"]:
        assert len(group["runs"]) >= 5
        solved = [run["steps_to_solve"] for run in group["runs"]]
        steps[group["scores"], group["head_dim"]] = np.mean(solved)
    divided = [mean for (scores, _), mean in steps.items() if scores == "divided"]
    assert max(divided) < 2 * min(divided), "hardly depends on the width"
    assert steps["not divided", 16] < 1.25 * steps["divided", 16], "alike at width 16"
    for width in (64, 256, 512):
        assert steps["not divided", width] > 2 * steps["divided", width], "the gap opens"
