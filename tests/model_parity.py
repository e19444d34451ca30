"""Hold a model of ours to a transformers model with the same weights."""

import logging
import warnings

import numpy as np
import pytest
import torch

from attncourse.pretrained.keys import fill

logging.getLogger("transformers").setLevel(logging.ERROR)

SIZES = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "attn_implementation": "eager"}


def oracle(name, config):
    """Build a transformers model whose every parameter, norms and biases too, is random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        torch.manual_seed(0)
        model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def configuration(name, **settings):
    """Build a configuration of transformers."""
    return getattr(pytest.importorskip("transformers"), name)(**settings)


def loaded(plan, theirs):
    """Fill our model with the parameters of theirs."""
    tensors = dict(theirs.state_dict())
    settings = theirs.config.to_dict()
    return fill(plan(settings, tensors) if callable(plan) else plan, tensors)


def assert_same(ours, theirs, ids, logits=None, *, attend=None, atol=1e-5):
    """Assert that hidden states of all layers, weights and logits agree within `atol`."""
    given = {} if attend is None else {"attention_mask": attend.long()}
    mine = (ids,) if attend is None else (ids, attend)
    with torch.no_grad():
        out = theirs(ids, output_hidden_states=True, output_attentions=True, **given)
        states = list(ours.hidden_states(*mine))
        states[-1] = states[-1] if ours.norm is None else ours.norm(states[-1])
        logits = ours(ids) if logits is None else logits(*mine)
    weights = ours.attention_weights(*mine)
    assert len(states) == len(out.hidden_states) == len(weights) + 1
    seen = torch.ones_like(ids, dtype=torch.bool) if attend is None else attend
    for layer, (got, expected) in enumerate(zip(states, out.hidden_states, strict=True)):
        _close(got[seen], expected[seen], atol, f"hidden states {layer}")
    for layer, (got, expected) in enumerate(zip(weights, out.attentions, strict=True)):
        _close(got, expected, atol, f"weights {layer}")
    if hasattr(out, "logits"):
        assert out.logits.abs().max() > 0.5, "logits near 0 would agree by chance"
        _close(logits[seen], out.logits[seen], atol, "logits")


def _close(got, expected, atol, what):
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=what)


def smollm2_oracle(tensors, settings, attn_implementation="eager"):
    """Build transformers' Llama from a GGUF file: rows of queries and keys go back in place."""
    transformers = pytest.importorskip("transformers")
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    names |= {f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"}
    names |= {"attn_output": "self_attn.o_proj"}
    names |= {f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}
    state = {"model.norm.weight": tensors["output_norm.weight"]}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        state[name] = tensors["token_embd.weight"]
    for name, tensor in tensors.items():
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            if part in ("attn_q", "attn_k"):
                tensor = tensor.unflatten(0, (-1, 32, 2)).transpose(1, 2).flatten(0, 2)
            state[f"model.layers.{layer}.{names[part]}.weight"] = tensor
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=settings["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=settings["llama.rope.freq_base"],
        tie_word_embeddings=True,
        attn_implementation=attn_implementation,
    )
    with torch.device("meta"):
        theirs = transformers.LlamaForCausalLM(config)
    theirs.load_state_dict(state, assign=True)
    theirs.model.rotary_emb = type(theirs.model.rotary_emb)(config)
    return theirs.eval()
