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
        _close(got.mT[:, :, seen[0]].mT, expected.mT[:, :, seen[0]].mT, atol, f"weights {layer}")
    if hasattr(out, "logits"):
        assert out.logits.abs().max() > 0.5, "logits near 0 would agree by chance"
        _close(logits[seen], out.logits[seen], atol, "logits")


def _close(got, expected, atol, what):
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=what)
