"""A decoder's tensors as the hub names them, and the reader's own model filled with them."""

import logging
import sys
import warnings
from pathlib import Path

import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("gguf")
sys.path.insert(0, str(Path(__file__).parent))
import tiny_gguf
from model_parity import SIZES, configuration, oracle, smollm2_oracle
from test_pretrained import PROMPT, needs

from attncourse import pretrained
from attncourse.models.from_scratch import Llama, generate, renamed, sizes_of
from attncourse.pretrained import llama
from attncourse.pretrained.keys import fill
from attncourse.pretrained.loading import locate
from attncourse.pretrained.quantised import read_gguf

IDS = torch.tensor([[1, 4, 2, 0, 3, 3, 5, 1]])


def own(tensors, settings):
    """Fill the reader's model."""
    model = Llama(**sizes_of(settings))
    model.load_state_dict(renamed(tensors))
    return model.eval()


@pytest.fixture
def folder(tmp_path):
    """A folder as transformers writes it, and the model that wrote it."""
    sizes = SIZES | {"num_key_value_heads": 2, "rope_theta": 500.0, "tie_word_embeddings": True}
    theirs = oracle("LlamaForCausalLM", configuration("LlamaConfig", **sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("transformers").setLevel(logging.ERROR)
        theirs.save_pretrained(tmp_path)
    return tmp_path, theirs


def test_a_gguf_file_gives_the_names_and_rows_of_a_safetensors_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    tiny_gguf.write(path)
    tensors, settings = pretrained.published(path)
    ours, _ = pretrained.load(path)
    with torch.no_grad():
        expected = ours(IDS)
        again = fill(llama.plan(settings, tensors), tensors)(IDS)
        mine = own(tensors, settings)(IDS)
    torch.testing.assert_close(again, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)
    # unmended rows would be another model
    wrong = {
        n: ours.state_dict().get(m, t)
        for (n, t), m in zip(tensors.items(), renamed(tensors), strict=True)
    }
    assert (own(wrong, settings)(IDS) - expected).abs().max() > 0.01


def test_a_folder_is_passed_on_and_the_readers_model_is_transformers_llama(folder):
    path, theirs = folder
    tensors, settings = pretrained.published(path)
    assert settings["num_key_value_heads"] == 2
    with torch.no_grad():
        expected, came = theirs(IDS).logits, own(tensors, settings)(IDS)
    scale = expected.abs().max().item()
    assert scale > 0.5
    torch.testing.assert_close(came, expected, rtol=0, atol=1e-5 * scale)


def test_another_architecture_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "strange.gguf"
    tiny_gguf.write(path, architecture="rwkv")
    with pytest.raises(ValueError, match="family 'gguf:rwkv', not a Llama"):
        pretrained.published(path)


@pytest.mark.slow
def test_the_readers_model_with_smollm2s_weights_is_transformers_model():
    needs("smollm2")
    mine = own(*pretrained.published("smollm2"))
    found = read_gguf(locate("smollm2"))
    theirs = smollm2_oracle(found.tensors, found.settings)
    _, tokenizer = pretrained.load("smollm2")
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    with torch.no_grad():
        expected, came = theirs(ids).logits, mine(ids)
        text = theirs.generate(ids, max_new_tokens=16, do_sample=False, pad_token_id=2)
    scale = expected.abs().max().item()
    torch.testing.assert_close(came, expected, rtol=0, atol=1e-5 * scale)
    assert generate(mine, ids, 16, temperature=0).tolist() == text.tolist()
