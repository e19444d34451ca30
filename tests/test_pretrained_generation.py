"""What generation_config.json asks for is written so, or refused by name."""

import json

import pytest

torch = pytest.importorskip("torch")

from model_parity import configuration, loaded, oracle  # noqa: E402

from attncourse.models.generate import generate, probabilities  # noqa: E402
from attncourse.pretrained import generation_options, gpt2  # noqa: E402
from attncourse.pretrained.generation import HARMLESS, ONLY  # noqa: E402

SIZES = {"vocab_size": 61, "n_positions": 30, "n_embd": 24, "n_layer": 2, "n_head": 4}


def wishes(folder, **said):
    (folder / "generation_config.json").write_text(json.dumps(said))
    return generation_options(folder)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"eos_token_id": 9, "pad_token_id": 9},
        {"eos_token_id": [17], "do_sample": False, "temperature": 0.6, "top_p": 0.9},
        {"use_cache": False, "bos_token_id": 0},
    ],
    ids=str,
)
def test_greedy_texts_are_those_of_transformers(tmp_path, said):
    theirs = oracle("GPT2LMHeadModel", configuration("GPT2Config", **SIZES, eos_token_id=None))
    ids = torch.randint(0, 61, (1, 5), generator=torch.Generator().manual_seed(2))
    theirs.generation_config = type(theirs.generation_config)(**said)
    expected = theirs.generate(ids, max_new_tokens=12)
    wanted = wishes(tmp_path, **said)
    got = generate(loaded(gpt2.plan, theirs), ids, 12, **wanted)
    assert got.tolist() == expected.tolist()
    assert wanted["use_cache"] == said.get("use_cache", True)


@pytest.mark.parametrize(
    "said",
    [{}, {"temperature": 0.6, "top_p": 0.9}, {"top_k": 0}, {"top_k": 3, "temperature": 2.0}],
    ids=str,
)
def test_drawn_tokens_have_the_probabilities_of_transformers(tmp_path, said):
    transformers = pytest.importorskip("transformers")
    logits = 2 * torch.randn(3, 61, generator=torch.Generator().manual_seed(0))
    steps = [("temperature", transformers.TemperatureLogitsWarper, 1.0)]
    steps += [("top_k", transformers.TopKLogitsWarper, 50)]
    steps += [("top_p", transformers.TopPLogitsWarper, 1.0)]
    expected = logits
    for name, warper, usual in steps:
        if value := said.get(name, usual):
            expected = warper(value)(None, expected)
    wanted = wishes(tmp_path, do_sample=True, **said)
    found = {name: wanted[name] for name in ("temperature", "top_k", "top_p")}
    torch.testing.assert_close(probabilities(logits, **found), expected.softmax(-1))


def test_without_a_file_it_is_greedy(tmp_path):
    assert generation_options(tmp_path) == wishes(tmp_path)
    assert generation_options(str(tmp_path))["temperature"] == 0
    assert wishes(tmp_path, max_new_tokens=7)["new_tokens"] == 7


def test_harmless_wishes_change_nothing(tmp_path):
    harmless = {name: 1 for names in HARMLESS.values() for name in names}
    assert wishes(tmp_path, **harmless, **ONLY) == wishes(tmp_path)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"num_beams": 4}, "num_beams = 4; only 1 is known here"),
        ({"repetition_penalty": 1.1}, "repetition_penalty = 1.1; only 1.0"),
        ({"min_p": 0.1}, "min_p = 0.1; nothing is known of it"),
        ({"bad_words_ids": [[3]]}, "bad_words_ids = .*; nothing is known"),
        ({"eos_token_id": [1, 2]}, r"ends a text at any of \[1, 2\]; only one"),
    ],
    ids=str,
)
def test_a_wish_that_we_do_not_have_is_refused(tmp_path, said, message):
    with pytest.raises(NotImplementedError, match=message):
        wishes(tmp_path, **said)


def test_a_wish_of_another_kind_is_named(tmp_path):
    with pytest.raises(ValueError, match="must give do_sample as true or false, got 'yes'"):
        wishes(tmp_path, do_sample="yes")
