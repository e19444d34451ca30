"""The loop trains, repeats itself, stops early, clips, and names what is wrong."""

import builtins
import math

import pytest
import torch
from torch import nn

from attncourse import train
from attncourse.notebook import progress


def make_batch(generator):
    x = torch.randn(32, 4, generator=generator)
    return x, (x.sum(1) > 0).long()


def model(seed=0):
    train.set_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 2))


def fit(net, **options):
    settings = {"steps": 60, "lr": 0.02, "seed": 3, "device": "cpu"} | options
    return train.fit(net, make_batch, **settings)


def test_training_learns_and_tells_what_happened():
    net = model()
    before = train.evaluate(net, make_batch, seed=1)
    history = fit(net, steps=150)
    assert before < 0.8 < 0.9 < train.evaluate(net, make_batch, seed=1)
    assert len(history.losses) == len(history.grad_norms) == 150
    assert history.losses[-1] < history.losses[0] / 2
    assert history.metric_steps == [150]
    assert history.stopped_at is None
    assert history.seconds > 0
    assert history.device == "cpu"
    assert not net.training


def test_the_same_seeds_give_the_same_run():
    first, second, other = model(), model(), model()
    assert fit(first).losses == fit(second).losses != fit(other, seed=4).losses
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_it_stops_when_the_metric_is_reached():
    history = fit(model(), steps=1000, stop=0.9, measure_every=10)
    assert history.stopped_at == len(history.losses) == history.metric_steps[-1] < 1000
    assert history.metrics[-1] >= 0.9 > max(history.metrics[:-1], default=0)
    assert history.metric_steps == list(range(10, history.stopped_at + 1, 10))


def test_a_metric_of_ones_own_decides():
    history = fit(model(), stop=-0.6, metric=lambda out, y: -train.cross_entropy(out, y).item())
    assert history.stopped_at is not None
    assert -0.6 <= history.metrics[-1] < 0


def test_clipping_bounds_each_step():
    def moved(clip):
        net = nn.Linear(4, 2, bias=False)
        nn.init.ones_(net.weight)
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        history = train.History()
        loud = lambda out, y: 1e4 * train.cross_entropy(out * torch.tensor([1.0, -1.0]), y)  # noqa: E731
        x, y = make_batch(torch.Generator().manual_seed(0))
        train._one_step(net, (x,), y, loud, optimizer, clip, history)
        return (net.weight - 1).norm().item(), history.grad_norms[0]

    step, norm = moved(0.5)
    assert norm > 100
    assert step == pytest.approx(0.5, rel=1e-4)
    assert moved(None)[0] == pytest.approx(norm, rel=1e-4)


def test_evaluating_changes_nothing_and_sees_other_batches():
    net = model().train()
    seen = []

    def spy(generator):
        seen.append(make_batch(generator))
        return seen[-1]

    values = {train.evaluate(net, spy, seed=3) for _ in range(3)}
    assert len(values) == 1, "dropout must be off while measuring"
    assert net.training
    assert not torch.equal(seen[0][0], make_batch(torch.Generator().manual_seed(3))[0])


def test_several_inputs_are_passed_on():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(4, 2)

        def forward(self, one, two):
            return self.map(one + two)

    def halves(generator):
        x, y = make_batch(generator)
        return (x / 2, x / 2), y

    history = train.fit(Both(), halves, steps=80, lr=0.05, seed=0, device="cpu")
    assert history.metrics[-1] > 0.9


def test_device_choice_prefers_the_accelerator(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert train.pick_device().type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train.pick_device().type == "mps"
    assert train.pick_device("cpu").type == "cpu"
    with pytest.raises(ValueError, match="'cuda:1' was asked for"):
        train.pick_device("cuda:1")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert train.pick_device().type == "cpu"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be positive, got 0"),
        ({"lr": -1.0}, r"lr must be positive, got -1\.0"),
        ({"lr": math.nan}, "lr must be positive, got nan"),
        ({"measure_every": 0}, "measure_every must be positive"),
        ({"clip": 0.0}, r"clip must be positive, got 0\.0"),
        ({"loss": lambda out, y: out}, "scalar tensor"),
    ],
    ids=["steps", "lr", "lr-nan", "measure-every", "clip", "loss"],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        fit(model(), **options)


def test_a_loss_that_is_not_finite_stops_the_run():
    with pytest.raises(FloatingPointError, match="the loss became nan at step 1"):
        fit(model(), loss=lambda out, y: out.sum() * math.nan)


def test_accuracy_names_shapes_that_do_not_belong_together():
    assert train.accuracy(torch.eye(3), torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"\(4, 3, 2\), target \(4,\)"):
        train.accuracy(torch.zeros(4, 3, 2), torch.zeros(4, dtype=torch.long))


def test_a_stored_page_gets_no_bar_and_a_terminal_does(monkeypatch, capsys):
    for name in progress._LIVE_NOTEBOOKS:
        monkeypatch.delenv(name, raising=False)
    assert list(progress.counted(3, "training")) == [1, 2, 3]
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert list(progress.counted(3, "training")) == [1, 2, 3]
    assert "training" in capsys.readouterr().err
    assert list(progress.counted(3, "training", False)) == [1, 2, 3]
    assert capsys.readouterr().err == ""


def test_a_missing_tqdm_is_an_error_that_helps(monkeypatch):
    real_import = builtins.__import__

    def without_tqdm(name, *rest):
        if name.startswith("tqdm"):
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    with pytest.raises(ImportError, match=r"attncourse\[train\]"):
        progress.counted(3, "training")


def test_each_step_is_adams_step_on_that_batch_alone():
    net, twin = (nn.Sequential(nn.Linear(4, 2)) for _ in range(2))
    twin.load_state_dict(net.state_dict())
    fixed = make_batch(torch.Generator().manual_seed(0))
    train.fit(net, lambda _: fixed, steps=3, lr=0.1, seed=0, device="cpu", clip=None)
    adam = torch.optim.Adam(twin.parameters(), lr=0.1)
    for _ in range(3):
        gradients = torch.autograd.grad(
            nn.functional.cross_entropy(twin(fixed[0]), fixed[1]), [*twin.parameters()]
        )
        for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
            parameter.grad = gradient
        adam.step()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_metric_that_raises_leaves_the_model_in_training():
    net = model()
    with pytest.raises(ZeroDivisionError):
        train.evaluate(net, make_batch, lambda output, target: 1 / 0, seed=0)
    assert net.training
