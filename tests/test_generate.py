"""Writing: the cache changes nothing, cuts cut what they say, and the window is a hard edge."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attncourse.models.generate import draw, generate, probabilities
from attncourse.models.gpt import GPT, GPTConfig

SIZES = {"d_model": 32, "num_layers": 2, "num_heads": 4}
STYLES = {
    "learned": GPTConfig(17, 24, **SIZES),
    "alibi": GPTConfig(17, 24, positions="alibi", **SIZES),
    "window": GPTConfig(17, 24, positions="none", window_size=5, **SIZES),
    "llama": GPTConfig.llama(17, 24, num_kv_heads=2, **SIZES),
}


def make(style="learned", seed=0):
    """Return a random model whose choices are not all the same."""
    torch.manual_seed(seed)
    model = GPT(STYLES[style])
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.25)
    return model.double().eval()


def prompts(batch_size=3, length=4, seed=1):
    return torch.randint(17, (batch_size, length), generator=torch.Generator().manual_seed(seed))


def greedy_by_hand(model, ids, new_tokens, window):
    with torch.no_grad():
        for _ in range(new_tokens):
            best = model(ids[:, -window:])[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat((ids, best), 1)
    return ids


@pytest.mark.parametrize("style", STYLES)
def test_greedy_writes_the_best_token_with_a_cache_and_without(style):
    model, ids = make(style), prompts()
    expected = greedy_by_hand(model, ids, 20, 24)
    assert len(set(expected.flatten().tolist())) > 5
    for use_cache in (True, False):
        text = generate(model, ids, 20, temperature=0, use_cache=use_cache)
        assert text.tolist() == expected.tolist()


@pytest.mark.parametrize("style", STYLES)
def test_sampling_is_the_same_with_a_cache_and_without(style):
    model, ids = make(style), prompts(batch_size=8)
    settings = {"temperature": 0.9, "top_k": 9, "top_p": 0.95, "generator": 3}
    kept = generate(model, ids, 20, **settings)
    assert kept.tolist() == generate(model, ids, 20, use_cache=False, **settings).tolist()
    assert kept.tolist() != generate(model, ids, 20, **{**settings, "generator": 4}).tolist()


def test_the_cache_saves_reading():
    model, lengths = make(), []
    model.register_forward_pre_hook(lambda _, args: lengths.append(args[0].shape[1]))
    generate(model, prompts(), 5)
    assert lengths == [4, 1, 1, 1, 1]
    lengths.clear()
    generate(model, prompts(), 5, use_cache=False)
    assert lengths == [4, 5, 6, 7, 8]


def test_writing_on_gives_the_same_as_writing_at_once():
    model, random = make(), torch.Generator().manual_seed(5)
    at_once = generate(model, prompts(), 12, generator=5)
    first = generate(model, prompts(), 7, generator=random)
    assert generate(model, first, 5, generator=random).tolist() == at_once.tolist()


def test_at_the_edge_it_stops_or_slides():
    model, ids = make(), prompts()
    stopped = generate(model, ids, 40, temperature=0)
    assert stopped.shape == (3, 24)
    slid = generate(model, ids, 40, temperature=0, at_edge="slide")
    assert slid.shape == (3, 44)
    assert slid.tolist() == greedy_by_hand(model, ids, 40, 24).tolist()
    assert generate(model, ids, 40, temperature=0, window=9).shape == (3, 9)


def test_what_slid_out_of_the_window_has_no_influence():
    model, ids = make(), prompts(batch_size=1, length=24)
    outside, inside = ids.clone(), ids.clone()
    outside[0, 3] = (ids[0, 3] + 1) % 17
    inside[0, 4:12] = (ids[0, 4:12] + 1) % 17
    options = {"temperature": 1.0, "at_edge": "slide", "window": 20}
    plain, far, near = (
        generate(model, t, 30, **options)[:, 24:].tolist() for t in (ids, outside, inside)
    )
    assert far == plain
    assert near != plain


def test_any_decoder_will_do():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=17, n_positions=32, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3
    )
    other = transformers.GPT2LMHeadModel(config).eval()

    def model(ids, cache=None):
        return other(ids).logits

    ids = prompts()
    theirs = other.generate(
        ids, max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    ours = generate(model, ids, 20, temperature=0, use_cache=False)
    assert ours.tolist() == theirs.tolist()
    with pytest.raises(TypeError, match="has no new_cache"):
        generate(model, ids, 20)


def test_a_text_that_ended_stays_ended():
    def count_up(ids, cache=None):
        return nn.functional.one_hot((ids + 1) % 6, 6).float()

    ids = torch.tensor([[0], [3]])
    options = {"temperature": 0, "use_cache": False}
    text = generate(count_up, ids, 10, stop_token=5, **options)
    assert text.tolist() == [[0, 1, 2, 3, 4, 5], [3, 4, 5, 5, 5, 5]]
    assert generate(count_up, ids, 3, **options).tolist() == [[0, 1, 2, 3], [3, 4, 5, 0]]
    assert generate(count_up, ids, 0, **options).tolist() == ids.tolist()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.05, 0.7, 1.0, 2.5]),
    st.sampled_from([None, 1, 3, 50]),
    st.sampled_from([None, 0.01, 0.5, 0.9, 1.0]),
)
def test_shares_are_those_of_transformers(seed, temperature, top_k, top_p):
    warpers = pytest.importorskip("transformers.generation.logits_process")
    scores = 3 * torch.randn(4, 12, generator=torch.Generator().manual_seed(seed)).double()
    ours = probabilities(scores, temperature=temperature, top_k=top_k, top_p=top_p)
    scores = warpers.TemperatureLogitsWarper(temperature)(None, scores)
    if top_k is not None:
        scores = warpers.TopKLogitsWarper(top_k)(None, scores)
    if top_p is not None:
        scores = warpers.TopPLogitsWarper(top_p)(None, scores)
    torch.testing.assert_close(ours, scores.softmax(-1), rtol=1e-9, atol=1e-12)


def test_shares_by_hand():
    scores = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()
    assert probabilities(scores, temperature=0).tolist() == [[0, 1, 0, 0]]
    flat = probabilities(torch.zeros(1, 4), temperature=0)
    assert flat.tolist() == [[1, 0, 0, 0]]
    squared = torch.tensor([[0.01, 0.25, 0.0225, 0.0625]])
    torch.testing.assert_close(probabilities(scores, temperature=0.5), squared / squared.sum())
    assert (probabilities(scores, top_k=2) > 0).tolist() == [[False, True, False, True]]
    assert (probabilities(scores, top_p=0.4) > 0).tolist() == [[False, True, False, False]]
    assert (probabilities(scores, top_p=0.6) > 0).tolist() == [[False, True, False, True]]
    # Two halves: the first alone reaches .5, so the second is not needed.
    assert (probabilities(torch.zeros(1, 2), top_p=0.5) > 0).tolist() == [[True, False]]
    # top_k first: of .5 and .25 the first one alone is two thirds.
    assert (probabilities(scores, top_k=2, top_p=0.6) > 0).tolist() == [[False, True, False, False]]
    for tiny in ({"temperature": 1e-40}, {"temperature": 5e-324}, {"top_p": 1e-50}):
        assert probabilities(torch.tensor([[1.0, 2.0]]), **tiny).tolist() == [[0, 1]]


def test_draws_follow_the_shares_and_never_take_what_was_cut():
    wanted = torch.tensor([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    drawn = draw(wanted.expand(20_000, -1), torch.Generator().manual_seed(0))
    found = drawn.bincount(minlength=6) / 20_000
    assert found[wanted == 0].sum() == 0
    torch.testing.assert_close(found, wanted, atol=0.015, rtol=0)


def test_a_draw_at_the_very_top_is_the_last_token_that_is_left(monkeypatch):
    top = torch.tensor([[1 - 2**-53], [0.0]], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: top)
    wanted = torch.tensor([[0.0, 0.1, 0.9, 0.0], [0.0, 0.1, 0.9, 0.0]])
    assert draw(wanted, torch.Generator()).tolist() == [2, 1]


def test_bad_input_is_named():
    model, ids = make(), prompts()
    with pytest.raises(ValueError, match="temperature must be 0 or a positive number, got -1"):
        generate(model, ids, 1, temperature=-1)
    with pytest.raises(ValueError, match="top_k must keep at least 1 token, got 0"):
        generate(model, ids, 1, top_k=0)
    with pytest.raises(ValueError, match=r"top_p must lie above 0 and at most at 1, got 1\.5"):
        generate(model, ids, 1, top_p=1.5)
    with pytest.raises(ValueError, match=r"shape \(B, L\) with at least one token, got \(4,\)"):
        generate(model, ids[0], 1)
    with pytest.raises(ValueError, match=r"at least one token, got \(3, 0\)"):
        generate(model, ids[:, :0], 1)
    with pytest.raises(TypeError, match=r"ids must be a tensor of integers, got torch\.float32"):
        generate(model, ids.float(), 1)
    with pytest.raises(TypeError, match="ids must be a tensor of integers, got list"):
        generate(model, ids.tolist(), 1)
    with pytest.raises(ValueError, match="new_tokens must be 0 or more, got -1"):
        generate(model, ids, -1)
    with pytest.raises(ValueError, match="stop_token must be a token, 0 or more, got -1"):
        generate(model, ids, 1, stop_token=-1)
    with pytest.raises(TypeError, match="stop_token must be an integer, got float"):
        generate(model, ids, 1, stop_token=1.5)
    with pytest.raises(ValueError, match=r"at_edge must be one of .* got 'wrap'"):
        generate(model, ids, 1, at_edge="wrap")
    with pytest.raises(ValueError, match="the prompt has 30 tokens, the window 24; shorten it"):
        generate(model, prompts(length=30), 1)
    with pytest.raises(ValueError, match="window must be at least 1 token, got 0"):
        generate(model, ids, 1, window=0)
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator or an int"):
        generate(model, ids, 1, generator="7")
    with pytest.raises(ValueError, match=r"into logits \(3, 17\); wanted \(3, 4, 'vocabulary'\)"):
        generate(lambda ids, cache=None: torch.zeros(3, 17), ids, 1, use_cache=False)
    with pytest.raises(TypeError, match="top_k must be an integer, got float"):
        probabilities(torch.zeros(3), top_k=2.5)
    with pytest.raises(TypeError, match="new_tokens must be an integer, got float"):
        generate(model, ids, 2.5)
    with pytest.raises(TypeError, match="window must be an integer, got float"):
        generate(model, ids, 1, window=9.5)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_model_without_a_best_token_is_named(bad, temperature):
    def model(ids, cache=None):
        scores = torch.zeros(*ids.shape, 17)
        scores[1] = bad
        return scores

    options = {"temperature": temperature, "use_cache": False}
    with pytest.raises(ValueError, match=rf"best score .* finite number, got \[0\.0, {bad}\]"):
        generate(model, prompts(2), 3, **options)


def test_ruling_out_some_tokens_is_no_fault():
    def model(ids, cache=None):
        scores = torch.full((*ids.shape, 17), -torch.inf)
        scores[..., 5] = 0
        return scores

    text = generate(model, prompts(2), 3, use_cache=False)
    assert text[:, 4:].tolist() == [[5, 5, 5]] * 2


@pytest.mark.parametrize("bad", [torch.nan, 0.0])
def test_nothing_is_drawn_from_nothing(bad):
    rows = torch.tensor([[0.5, 0.5], [bad, bad]])
    with pytest.raises(ValueError, match=f"each row of probabilities must sum to 1, got {bad}"):
        draw(rows, torch.Generator().manual_seed(0))
