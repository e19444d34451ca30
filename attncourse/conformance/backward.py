"""Laws of the backward pass: rows that see nothing, odd layouts, dropout, half types."""

from __future__ import annotations

import numpy as np

from attncourse.conformance._backward import (
    NAMES,
    grad_of,
    gradients,
    hold_gradients,
    hold_lse_gradients,
    leaves,
    output_gradient,
    plain_gradients,
)
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, same_bits
from attncourse.conformance._modes import bool_mask
from attncourse.conformance._oracle import Problem, Size, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS

THEME = Theme("backward")
GRAD = frozenset({"grad", "torch"})


@THEME.case(
    "no-key-no-gradient",
    "a row that sees nothing gives gradients of 0, not NaN",
    needs=GRAD | {"bool_mask"},
)
def _empty_rows(subject: Subject) -> None:
    inputs = problem(subject, Size(5, 7, 4, 3))
    mask = np.ones((5, 7), bool)
    mask[2] = mask[:, 3] = False
    grads = gradients(subject, inputs, output_gradient(inputs), attn_mask=mask)
    same_bits(
        "gradient of the query that sees nothing",
        grads["query"][..., 2, :],
        0 * inputs.query[..., 2, :],
    )
    for name in ("key", "value"):
        unseen = grads[name][..., 3, :]
        same_bits(f"gradient of the {name} that nobody sees", unseen, np.zeros_like(unseen))
    hold_gradients(subject, inputs, attn_mask=mask)


@THEME.case(
    "empty-rows-everywhere",
    "rows that see nothing, every third of 20, leave the other rows' gradients as they are",
    needs=GRAD | {"bool_mask"},
    level="full",
    scores=400,
)
def _empty_everywhere(subject: Subject) -> None:
    mask = np.ones((20, 20), bool)
    mask[1::3] = False
    hold_gradients(subject, problem(subject, Size(20, 20, 4, 3)), attn_mask=mask)


@THEME.case(
    "all-rows-empty",
    "where nothing is visible all gradients are 0",
    needs=GRAD | {"bool_mask"},
    level="full",
)
def _all_empty(subject: Subject) -> None:
    inputs = problem(subject, Size(5, 7, 4, 3))
    mask = np.zeros((5, 7), bool)
    grads = gradients(subject, inputs, output_gradient(inputs), attn_mask=mask)
    for name, grad in grads.items():
        same_bits(f"gradient of {name}", grad, np.zeros_like(grad))


@THEME.case(
    "no-keys-at-all",
    "gradients of S = 0 and of L = 0 are zeros of the right shape",
    needs=GRAD,
    level="full",
)
def _no_keys(subject: Subject) -> None:
    for size in (Size(3, 0, 4, 3), Size(0, 3, 4, 3)):
        inputs = problem(subject, size)
        grads = gradients(subject, inputs, output_gradient(inputs))
        for name, array in zip(NAMES, inputs, strict=True):
            same_bits(f"gradient of {name}", grads[name], np.zeros_like(array))


@THEME.case(
    "grouped-gradients-add-up",
    "a shared key head collects the gradients of its group",
    needs=GRAD | {"gqa", "batch"},
)
def _grouped(subject: Subject) -> None:
    hold_gradients(subject, problem(subject, Size(5, 7, 4, 3, H=6, Hkv=2)), enable_gqa=True)


@THEME.case(
    "any-number-of-axes",
    "gradients of (L, E), (H, L, E) and of two batch axes",
    needs=GRAD | {"batch"},
    level="full",
)
def _axes(subject: Subject) -> None:
    grouped = subject.has("gqa")
    inputs = problem(subject, Size(5, 7, 4, 3, H=4, Hkv=2 if grouped else 4))
    options = {"enable_gqa": True} if grouped else {}
    hold_gradients(subject, inputs.map(lambda array: array[0, 0]))
    hold_gradients(subject, inputs.map(lambda array: array[0]), **options)
    hold_gradients(subject, inputs.map(lambda array: array[None]), **options)


@THEME.case(
    "nan-nobody-sees-backward",
    "NaN in a key nobody sees reaches no gradient but 0",
    needs=GRAD | {"bool_mask"},
    level="full",
)
def _nan_hidden(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33, 8, 5))
    mask = bool_mask(inputs)
    upstream = output_gradient(inputs)
    wanted = gradients(subject, inputs, upstream, attn_mask=mask)
    inputs.key[..., 2, :] = inputs.value[..., 2, :] = np.nan
    came = gradients(subject, inputs, upstream, attn_mask=mask)
    for name in NAMES:
        close(f"gradient of {name}", came[name], wanted[name], 1e3 * EPS[subject.dtype("float64")])


@THEME.case(
    "only-some-inputs", "gradients for the key alone, or the value alone", needs=GRAD, level="full"
)
def _some(subject: Subject) -> None:
    for name in NAMES:
        hold_gradients(subject, problem(subject, Size(5, 7, 4, 3)), wanted=(name,))


@THEME.case(
    "one-tensor-three-times",
    "a tensor that is query, key and value at once collects all three gradients",
    needs=GRAD,
    level="full",
)
def _self(subject: Subject) -> None:
    query = problem(subject, Size(7, 7, 4)).query
    inputs = Problem(query, query, query)
    upstream, dtype = output_gradient(inputs), subject.dtype("float64")
    apart = gradients(subject, inputs, upstream)
    shared = subject.native(query, dtype).requires_grad_()
    out = subject.call_native({"query": shared, "key": shared, "value": shared}, {}).native_out
    out.backward(subject.native(upstream, dtype))
    close("gradient", grad_of(shared, "query"), sum(apart.values()), 1e4 * EPS[dtype])


@THEME.case("expanded-upstream", "out.sum().backward(): its gradient has stride 0", needs=GRAD)
def _expanded(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 20, 8, 5))
    dtype = subject.dtype("float64")
    natives = leaves(subject, inputs, dtype)
    subject.call_native(natives, {}).native_out.sum().backward()
    wanted = gradients(subject, inputs, np.ones((*inputs.query.shape[:-1], 5)))
    for name in NAMES:
        close(f"gradient of {name}", grad_of(natives[name], name), wanted[name], 1e3 * EPS[dtype])


@THEME.case(
    "strided-leaves",
    "gradients reach views: (B, L, H, E) seen as (B, H, L, E)",
    needs=GRAD | {"batch"},
    level="full",
)
def _strided(subject: Subject) -> None:
    inputs = problem(subject, Size(9, 12, 8, 5))
    upstream = output_gradient(inputs)
    wanted = plain_gradients(inputs, upstream, "float64", {})
    dtype = subject.dtype("float64")
    stored = leaves(subject, inputs.map(lambda array: array.swapaxes(1, 2)), dtype)
    views = {name: tensor.transpose(1, 2) for name, tensor in stored.items()}
    out = subject.call_native(views, {}).native_out
    turned = subject.native(upstream.swapaxes(1, 2), dtype).transpose(1, 2)
    out.backward(turned)
    for name in NAMES:
        grad = grad_of(stored[name], name).swapaxes(1, 2)
        close(f"gradient of {name}", grad, wanted[name], 1e4 * EPS[dtype])


@THEME.case(
    "expanded-keys",
    "one key and value shown to all heads with stride 0 collects all their gradients",
    needs=GRAD | {"batch"},
    level="full",
)
def _expanded_keys(subject: Subject) -> None:
    inputs = problem(subject, Size(9, 12, 8, 5))
    inputs = Problem(inputs.query, inputs.key[:1, :1], inputs.value[:1, :1])
    upstream, dtype = output_gradient(inputs), subject.dtype("float64")
    stored = leaves(subject, inputs, dtype)
    shown = {name: tensor.expand(2, 2, -1, -1) for name, tensor in stored.items()}
    subject.call_native(shown, {}).native_out.backward(subject.native(upstream, dtype))
    copies = inputs.map(lambda array: np.broadcast_to(array, (2, 2, *array.shape[2:])).copy())
    wanted = plain_gradients(copies, upstream, "float64", {})
    for name in ("key", "value"):
        summed = wanted[name].sum((0, 1), keepdims=True)
        close(f"gradient of {name}", grad_of(stored[name], name), summed, 1e4 * EPS[dtype])


def _weights_back(
    subject: Subject, **options: float
) -> tuple[Problem, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Run forward and backward with unit vectors as values: the output is the weights."""
    inputs = problem(subject, Size(9, 12, 8, 5))
    eye = np.broadcast_to(np.eye(12), (*inputs.key.shape[:-1], 12)).copy()
    inputs = Problem(inputs.query, inputs.key, eye)
    upstream = np.random.default_rng(2).standard_normal((*inputs.query.shape[:-1], 12))
    dtype = subject.dtype("float64")
    natives = leaves(subject, inputs, dtype)
    answer = subject.call_native(natives, dict(options))
    answer.native_out.backward(subject.native(upstream, dtype))
    return inputs, answer.out, upstream, {name: grad_of(natives[name], name) for name in NAMES}


@THEME.case(
    "same-dropout-in-both-passes",
    "the backward pass drops exactly the weights that the forward pass dropped",
    needs=GRAD | {"dropout"},
)
def _dropout_passes(subject: Subject) -> None:
    _, dropped, upstream, grads = _weights_back(subject, dropout_p=0.4)
    wanted = dropped.swapaxes(-1, -2) @ upstream
    close("gradient of value", grads["value"], wanted, 1e3 * EPS[subject.dtype("float64")])


@THEME.case(
    "dropout-scaled-in-both-passes",
    "the gradients of query and key count the weights that stayed 1 / (1 - p) times",
    needs=GRAD | {"dropout"},
)
def _dropout_scaled(subject: Subject) -> None:
    inputs, weights, upstream, plain_grads = _weights_back(subject)
    _, dropped, _, grads = _weights_back(subject, dropout_p=0.4)
    allowed = 1e4 * EPS[subject.dtype("float64")]
    for came, kept in ((plain_grads, 1.0), (grads, dropped / weights)):
        by_weights = upstream * kept
        rest = (by_weights * weights).sum(-1, keepdims=True)
        by_scores = weights * (by_weights - rest) / 8**0.5
        right = {
            "query": by_scores @ inputs.key,
            "key": by_scores.swapaxes(-1, -2) @ inputs.query,
        }
        if came is plain_grads and any(abs(came[n] - right[n]).max() > allowed for n in right):
            return  # wrong without dropout too: that is another case's business
        for name, wanted in right.items():
            close(f"gradient of {name}", came[name], wanted, allowed)


@THEME.case(
    "lse-gradient-right-or-cut",
    "a log-sum-exp that requires gradients gives right ones, beside those of the output",
    needs=GRAD | {"lse"},
    level="full",
)
def _lse(subject: Subject) -> None:
    hold_lse_gradients(subject, problem(subject, Size(5, 7, 4, 3)))


@THEME.case(
    "repeatable", "the same call gives the same gradients, bit for bit", needs=GRAD, level="full"
)
def _repeatable(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 20, 8, 5))
    first, second = (gradients(subject, inputs, output_gradient(inputs)) for _ in range(2))
    for name in NAMES:
        same_bits(f"gradient of {name}", second[name], first[name])
