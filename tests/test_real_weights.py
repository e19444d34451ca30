"""What the chapters show of trained models is what the models say, where they are installed."""

import base64
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from attncourse import pretrained
from attncourse.notebook import measured
from attncourse.notebook.results import unpacked

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import real_weights  # noqa: E402

pytestmark = pytest.mark.slow


def loaded(name):
    if not pretrained.available(name):
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed: .ci/run installs it")
        pytest.skip(f"{name} is not installed")
    return pretrained.load(name)


@pytest.fixture(scope="module")
def minilm():
    return loaded("minilm")


def bytes_of(entry):
    return np.frombuffer(base64.b64decode(entry["weights"]), np.uint8).astype(int)


def test_the_gallery_shows_the_heads_of_minilm(minilm):
    now, kept = real_weights.gallery(*minilm), measured("minilm_heads")
    assert [e["text"] for e in kept["sentences"]] == list(real_weights.SENTENCES)
    assert (kept["layers"], kept["heads"]) == (now["layers"], now["heads"]) == (6, 12)
    for ours, stored in zip(now["sentences"], kept["sentences"], strict=True):
        assert ours["tokens"] == stored["tokens"]
        assert abs(bytes_of(ours) - bytes_of(stored)).max() <= 1  # one step of rounding


def test_the_sources_sentence_and_its_controls(minilm):
    now, kept = real_weights.negation(*minilm), measured("minilm_negation")
    assert now["sentence"] == kept["sentence"]
    for name, similar in kept["similarity"].items():
        assert now["similarity"][name] == pytest.approx(similar, abs=2e-3)
    for word, received in kept["bad_to_word"].items():
        np.testing.assert_allclose(now["bad_to_word"][word], received, atol=2e-3)


@pytest.fixture(scope="module")
def smollm2():
    _, tokenizer = loaded("smollm2")
    return *real_weights.readers_model("smollm2"), tokenizer


def test_the_prompts_are_continued_as_stored(smollm2):
    model, about, tokenizer = smollm2
    now, kept = about | real_weights.continuation(model, tokenizer), measured("smollm2_prompt")
    for name in ("prompt", "parameters", "vocab_size", "shapes"):
        assert now[name] == kept[name]
    assert now["written"]["greedy"] == kept["written"]["greedy"]
    for prompt, stored in kept["prompts"].items():
        came = now["prompts"][prompt]
        assert [token for token, _ in came["next"]][:3] == [t for t, _ in stored["next"]][:3]
        for (_, ours), (_, theirs) in zip(came["next"], stored["next"], strict=True):
            assert ours == pytest.approx(theirs, abs=2e-3)
        ours, theirs = unpacked(came["logits"]), unpacked(stored["logits"])
        np.testing.assert_allclose(ours, theirs, atol=0.05)
