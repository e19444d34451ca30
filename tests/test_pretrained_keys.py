"""Key maps: every tensor finds its place, or is named in an error."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from attncourse.pretrained import llama, settings  # noqa: E402
from attncourse.pretrained.keys import Goes, Plan, affine, fill, in_layers  # noqa: E402


class Pair(nn.Module):
    """Two maps and a third that is tied to the first."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 2), nn.Linear(3, 2)
        self.tied = nn.Linear(3, 2, bias=False)
        self.tied.weight = self.one.weight


KEYS = {
    "both.weight": Goes("one.weight", "two.weight", transposed=True),
    "both.bias": Goes("one.bias", "two.bias"),
}
PLAN = Plan(
    Pair,
    KEYS,
    prefixes=("model.",),
    renames={"gamma": "weight"},
    copies={"head.weight": "both.weight"},
    unused=(r"mask\.\d+",),
)


def tensors(**changes):
    torch.manual_seed(0)
    found = {"model.both.gamma": torch.randn(3, 4), "both.bias": torch.randn(4)}
    return {name: tensor for name, tensor in {**found, **changes}.items() if tensor is not None}


def test_parts_go_where_the_map_says():
    given = tensors(**{"mask.0": torch.ones(2)})
    model = fill(PLAN, given)
    weight = given["model.both.gamma"]
    torch.testing.assert_close(model.one.weight.data, weight[:, :2].T)
    torch.testing.assert_close(model.two.weight.data, weight[:, 2:].T)
    torch.testing.assert_close(model.two.bias.data, given["both.bias"][2:])
    assert model.tied.weight is model.one.weight
    assert not model.training
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    assert fill(PLAN, given, dtype=torch.bfloat16).one.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"both.bias": None}, "the file lacks tensor 'both.bias', which the model needs"),
        ({"mask.x": torch.ones(1)}, "the file holds tensor 'mask.x', which the model has no place"),
        (
            {f"{n}": torch.ones(1) for n in range(7)},
            "holds tensors '0', '1', '2', '3', '4' and 2 m",
        ),
        (
            {"both.bias": torch.ones(6)},
            r"'both.bias' has shape \(6,\).* 'one.bias' is \(3,\), want",
        ),
        ({"model.both.gamma": torch.ones(4, 3)}, r"'both.weight' has shape \(4, 3\)"),
        (  # the same count of numbers, in another shape
            {"model.both.gamma": torch.ones(2, 6)},
            r"'both.weight' has shape \(2, 6\); its part for 'one.weight' is \(3, 2\), want",
        ),
        ({"both.bias": torch.tensor(1.0)}, r"'both.bias' has shape \(\); .*wanted \(2,\)"),
        ({"both.bias": torch.ones(1)}, r"'both.bias' has shape \(1,\); .*wanted \(2,\)"),
        ({"both.bias": torch.ones(4).long()}, "'both.bias' must hold floating.*got torch.int64"),
        ({"head.weight": torch.ones(3, 4)}, "'head.weight' and 'both.weight' differ"),
    ],
    ids=[
        "missing",
        "left-over",
        "many",
        "shape",
        "turned",
        "reshaped",
        "scalar",
        "short",
        "whole",
        "untied",
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        fill(PLAN, tensors(**changes))


def test_what_lacks_and_what_is_there_instead_are_both_named():
    with pytest.raises(ValueError, match=r"lacks tensor 'both.bias', .* it holds tensor 'net.both"):
        fill(PLAN, tensors(**{"both.bias": None, "net.both.bias": torch.ones(4)}))


@pytest.mark.parametrize("twice", ["both.weight", "model.both.weight", "both.gamma"])
def test_two_names_for_one_tensor_are_refused(twice):
    with pytest.raises(ValueError, match=r"holds tensor 'both\.weight' twice"):
        fill(PLAN, {**tensors(), twice: torch.ones(3, 4)})


def test_a_prefix_stands_in_front_only():
    assert PLAN.plain("model.both.gamma") == "both.weight"
    assert PLAN.plain("both.model.bias") == "both.model.bias"


def test_a_copy_that_is_equal_is_fine():
    given = tensors()
    fill(PLAN, {**given, "head.weight": given["model.both.gamma"].clone()})


def test_a_parameter_that_the_map_forgot_is_named():
    with pytest.raises(
        ValueError, match=r"nothing for the parameters \['two.bias', 'two.weight'\]"
    ):
        fill(
            Plan(Pair, affine("one", "one")),
            {"one.weight": torch.ones(2, 3), "one.bias": torch.ones(2)},
        )


def test_the_model_has_memory_of_its_own():
    given = tensors()
    model = fill(PLAN, given)
    kept = model.two.bias.clone()
    given["both.bias"].zero_()
    assert torch.equal(model.two.bias, kept)
    assert all(parameter.is_contiguous() for parameter in model.parameters())


def test_flattened_tensors_become_rows():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Parameter(torch.empty(3, 4))

    plan = Plan(Rows, {"rows": Goes("rows")}, flattened={"rows": ("a", "b")})
    given = {"a": torch.randn(1, 1, 4), "b": torch.randn(2, 2, 2)}
    torch.testing.assert_close(fill(plan, given).rows.data[1:], given["b"].reshape(2, 4))
    with pytest.raises(ValueError, match="lacks tensor 'b'"):
        fill(plan, {"a": given["a"]})
    for wrong in (torch.ones(3, 5), torch.tensor(1.0), torch.ones(0, 4)):
        with pytest.raises(ValueError, match=r"tensor 'b' has shape .*, wanted rows of 4 numbers"):
            fill(plan, {**given, "b": wrong})


def test_layers_repeat_one_map():
    repeated = in_layers(2, affine("ln", "norm", bias=False), "h.{}", "blocks.{}")
    assert {name: goes.names for name, goes in repeated.items()} == {
        "h.0.ln.weight": ("blocks.0.norm.weight",),
        "h.1.ln.weight": ("blocks.1.norm.weight",),
    }


def test_settings_that_change_the_computation_are_refused():
    settings.refuse({"a": 1, "b": None}, a=1, b=2, c=3)
    with pytest.raises(NotImplementedError, match="says a = 2; only 1 is known here"):
        settings.refuse({"a": 2}, a=1)


LLAMA = {"hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9, "num_hidden_layers": 1}
LLAMA |= {"max_position_embeddings": 8, "intermediate_size": 16, "rms_norm_eps": 1e-5}


@pytest.mark.parametrize(
    "wish",
    [
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
        {"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"rope_type": "linear"}},
    ],
    ids=["old", "new", "both"],
)
def test_a_llama_that_stretches_its_positions_is_refused(wish):
    same = {"rope_type": "default", "rope_theta": 500.0}
    assert llama.config({**LLAMA, "rope_parameters": same}).rotary_base == 500.0
    assert llama.config({**LLAMA, "rope_parameters": same, "rope_scaling": same}).rotary_base == 500
    with pytest.raises(NotImplementedError, match="the configuration says rope"):
        llama.config({**LLAMA, **wish})


@pytest.mark.parametrize(
    "wish",
    [
        {"rope.scaling.type": "linear"},
        {"rope.scaling.factor": 4.0},
        {"rope.scale_linear": 4.0},
        {"attention.causal": False},
    ],
    ids=lambda wish: next(iter(wish)),
)
def test_a_gguf_llama_that_computes_otherwise_is_refused(wish):
    sizes = {"vocab_size": 9, "context_length": 8, "embedding_length": 8, "block_count": 1}
    sizes |= {"attention.head_count": 2, "feed_forward_length": 16, "rope.scaling.factor": 1.0}
    sizes |= {"attention.layer_norm_rms_epsilon": 1e-5, "rope.scaling.type": "none"}
    given = {f"llama.{name}": value for name, value in sizes.items()}
    assert llama.gguf_config(given, tied=True).num_layers == 1
    with pytest.raises(NotImplementedError, match="the configuration says llama"):
        llama.gguf_config(given | {f"llama.{name}": value for name, value in wish.items()}, True)


@pytest.mark.parametrize(
    ("wish", "error", "message"),
    [
        (
            {"rope_theta": "500"},
            ValueError,
            "must give 'rope_theta', above 0 and finite, got '500'",
        ),
        ({"rope_theta": 0}, ValueError, "must give 'rope_theta', above 0"),
        ({"rope_theta": True}, ValueError, "must give 'rope_theta', above 0"),
        ({"rope_theta": float("inf")}, ValueError, "must give 'rope_theta', above 0"),
        ({"rope_theta": 10**400}, ValueError, "must give 'rope_theta', above 0"),
        ({"rope_parameters": "default"}, ValueError, "'rope_parameters' as a table, got 'default'"),
        ({"rope_scaling": [1]}, ValueError, "must give 'rope_scaling' as a table"),
        ({"hidden_size": 2**63}, ValueError, "must give 'hidden_size', 1 to"),
        ({"num_hidden_layers": 10**7}, ValueError, "must give 'num_hidden_layers', 1 to 10,000"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else None,
)
def test_a_setting_of_the_wrong_kind_is_named(wish, error, message):
    with pytest.raises(error, match=message):
        llama.config({**LLAMA, **wish})


@pytest.mark.parametrize("came", ["swish", ["gelu"], {"gelu": 1}, 3])
def test_an_activation_that_is_none_of_ours_is_named(came):
    with pytest.raises(NotImplementedError, match=r"no activation .* here, only"):
        settings.one_of({"gelu": "gelu"}, came)
    assert settings.one_of({"gelu_new": "gelu_tanh"}, "gelu_new") == "gelu_tanh"
