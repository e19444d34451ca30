"""The one-layer reader: every way of telling positions does what its name says."""

import pytest

torch = pytest.importorskip("torch")

from attncourse import tasks, train  # noqa: E402
from attncourse.models.reader import POSITIONS, Reader  # noqa: E402

TOKENS, _ = tasks.reversal(3, 8, generator=1)


def fresh(**options):
    train.set_seed(0)
    return Reader(num_heads=2, **options).double()


@pytest.mark.parametrize("position", POSITIONS)
def test_order_counts_exactly_when_positions_are_told(position):
    model = fresh(position=position)
    order = torch.tensor([4, 1, 7, 0, 2, 6, 3, 5])
    same = torch.allclose(model(TOKENS[:, order]), model(TOKENS)[:, order], atol=1e-12)
    assert same == (position == "none")


@pytest.mark.parametrize("position", ["rotary", "alibi"])
def test_relative_positions_do_not_see_where_the_text_starts(position):
    model = fresh(position=position, causal=True)
    padded = torch.cat([TOKENS[:, :1]] * 5 + [TOKENS], dim=1)
    scores = model.heads.project(model.place(padded))[0].shape
    assert scores == (3, 2, 13, 32)
    inner = model.weights(padded)[:, :, 5:, 5:]
    alone = model.weights(TOKENS)
    ratio = inner / alone  # (3, 2, 8, 8): one number a row, what the five in front took away
    seen = torch.ones(8, 8).tril().bool()
    rows = ratio.where(seen, torch.nan)
    assert torch.allclose(
        rows.nanmean(-1, keepdim=True).expand_as(ratio)[..., seen], ratio[..., seen]
    )


@pytest.mark.parametrize("causal", [True, False])
def test_causal_hides_the_future(causal):
    model = fresh(causal=causal)
    changed = TOKENS.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 10
    same = torch.equal(model(changed)[:, :5], model(TOKENS)[:, :5])
    assert same == causal
    assert not torch.equal(model(changed)[:, 5:], model(TOKENS)[:, 5:])


def test_the_weights_are_those_of_the_forward_pass():
    model = fresh(position="alibi", causal=True)
    _, _, value = model.heads.project(model.place(TOKENS))
    read = model.heads.to_out((model.weights(TOKENS) @ value).transpose(1, 2).flatten(2))
    assert torch.allclose(model.readout(read), model(TOKENS), atol=1e-12)


def test_heads_change_no_count_of_parameters():
    counts = {sum(p.numel() for p in Reader(num_heads=h).parameters()) for h in (1, 2, 4, 8)}
    assert len(counts) == 1


def test_several_answers_and_a_wider_readout():
    model = fresh(answers=2, hidden=32)
    assert model(TOKENS).shape == (3, 8, 2, 10)
    assert fresh()(TOKENS).shape == (3, 8, 10)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="'absolute'"):
        Reader(position="absolute")
    with pytest.raises(ValueError, match="answers must be at least 1, got 0"):
        Reader(answers=0)
    with pytest.raises(ValueError, match=r"shape \(B, T\), got \(8,\)"):
        fresh()(TOKENS[0])
    with pytest.raises(ValueError, match=r"at most 5 symbols.*got 8"):
        fresh(max_len=5)(TOKENS)
