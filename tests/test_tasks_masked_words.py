"""BERT's rule: 15 % are asked for; of these 80 % are hidden, 10 % replaced, 10 % left."""

import pytest
import torch

from attncourse.tasks.masked_words import NOT_ASKED, hide_words

SIZE, MASK = 1000, 999


def many(seed=0):
    ids = torch.randint(MASK, (400, 100), generator=torch.Generator().manual_seed(seed))
    may_hide = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed + 1)) < 0.7
    return ids, may_hide


def test_the_rule_is_berts():
    ids, may_hide = many()
    shown, asked = hide_words(ids, may_hide, mask_id=MASK, vocab_size=SIZE, generator=2)
    chosen = asked != NOT_ASKED
    assert not (chosen & ~may_hide).any()
    assert (asked[chosen] == ids[chosen]).all()
    assert (shown[~chosen] == ids[~chosen]).all()
    share = chosen.sum() / may_hide.sum()
    hidden = (shown[chosen] == MASK).float().mean()
    left = (shown[chosen] == ids[chosen]).float().mean()
    replaced = 1 - hidden - left
    for found, wanted in ((share, 0.15), (hidden, 0.8), (left, 0.1), (replaced, 0.1)):
        assert abs(found - wanted) < 0.02


def test_replacements_come_from_the_whole_vocabulary():
    ids, may_hide = many()
    shown, asked = hide_words(ids, may_hide, mask_id=MASK, vocab_size=SIZE, generator=3)
    other = shown[(asked != NOT_ASKED) & (shown != ids) & (shown != MASK)]
    assert other.unique().numel() > 200
    assert 0.4 * SIZE < other.float().mean() < 0.6 * SIZE


def test_the_inputs_stay_and_a_seed_decides():
    ids, may_hide = many()
    before = ids.clone()
    first, second, third = (
        hide_words(ids, may_hide, mask_id=MASK, vocab_size=SIZE, generator=seed)[0]
        for seed in (4, 4, 5)
    )
    assert torch.equal(ids, before)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_everything_may_be_asked_for():
    ids, may_hide = many()
    _, asked = hide_words(ids, may_hide, mask_id=MASK, vocab_size=SIZE, generator=0, share=1.0)
    assert torch.equal(asked != NOT_ASKED, may_hide)


def test_bad_input_is_named():
    ids, may_hide = many()
    options = {"mask_id": MASK, "vocab_size": SIZE, "generator": 0}
    with pytest.raises(ValueError, match=r"ids has shape \(400, 100\), may_hide \(400, 99\)"):
        hide_words(ids, may_hide[:, 1:], **options)
    with pytest.raises(ValueError, match="share must lie above 0 and at most at 1, got 0"):
        hide_words(ids, may_hide, share=0, **options)
    with pytest.raises(TypeError, match=r"may_hide must be boolean .*, got torch\.int64"):
        hide_words(ids, may_hide.long(), **options)
    with pytest.raises(TypeError, match="mask_id must be an integer, got float"):
        hide_words(ids, may_hide, **{**options, "mask_id": 1.5})
    with pytest.raises(ValueError, match="vocab_size must be at least 1, got 0"):
        hide_words(ids, may_hide, **{**options, "vocab_size": 0})
