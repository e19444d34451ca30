"""The ring of processing elements: right results, exact cycles, and no schedule that cheats."""

import numpy as np
import pytest

from attncourse import reference
from attncourse.parallel import plans, schedule
from attncourse.parallel.schedule import ScheduleError, execute, plan

SCHEMES = [("full", "plain"), ("symmetric", "plain"), ("causal", "plain"), ("causal", "zigzag")]
each_scheme = pytest.mark.parametrize(("scheme", "order"), SCHEMES, ids=lambda x: x)


def inputs(num_tokens, scheme, width=8):
    rng = np.random.default_rng(num_tokens)
    query, key = rng.normal(size=(2, num_tokens, width))
    value = rng.normal(size=(num_tokens, width + 1))
    return query, query if scheme == "symmetric" else key, value


@each_scheme
@pytest.mark.parametrize(("num_tokens", "elements"), [(12, 1), (24, 3), (32, 4), (60, 5)])
def test_the_result_is_attention(num_tokens, elements, scheme, order):
    if num_tokens % (2 * elements):
        num_tokens *= 2
    arrays = inputs(num_tokens, scheme)
    outcome = execute(plan(num_tokens, elements, scheme, order), *arrays)
    expected = reference.attention(*arrays, is_causal=scheme == "causal")
    np.testing.assert_allclose(outcome.out, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "order", "saved"),
    [
        ("full", "plain", lambda n: 0),
        ("symmetric", "plain", lambda n: (n - 1) / (4 * n)),
        ("causal", "zigzag", lambda n: (n - 1) / (2 * n)),
    ],
)
@pytest.mark.parametrize(("num_tokens", "elements"), [(48, 3), (48, 4), (16, 2)])
def test_cycles_are_work_divided_by_elements(num_tokens, elements, scheme, order, saved):
    width = 16
    arrays = inputs(num_tokens, scheme, width)
    outcome = execute(plan(num_tokens, elements, scheme, order), *arrays)
    assert outcome.work == round(2 * width * num_tokens**2 * (1 - saved(num_tokens)))
    assert outcome.cycles * elements == outcome.work
    assert outcome.busy.all()


def test_the_plain_order_wastes_a_causal_mask():
    arrays = inputs(48, "causal", 16)
    plain, zigzag = (
        execute(plan(48, 4, "causal", order), *arrays) for order in ("plain", "zigzag")
    )
    assert plain.work == zigzag.work
    assert plain.cycles > 1.7 * zigzag.cycles
    assert plain.busy.mean() < 0.6


def test_short_blocks_wait_for_the_scores_to_come_home():
    outcome = execute(plan(16, 4, "symmetric"), *inputs(16, "symmetric", 4))
    assert outcome.cycles * 4 > outcome.work


def first(made, kind):
    """Return the first round, element and op of a kind."""
    return next(
        (round_, p, op)
        for round_ in made.rounds
        for p, ops in enumerate(round_.ops)
        for op in ops
        if op.kind == kind
    )


def drop_a_score(made):
    round_, p, op = first(made, "score")
    round_.ops[p].remove(op)


def drop_an_add(made):
    round_, p, op = first(made, "add")
    round_.ops[p].remove(op)


def add_twice(made):
    round_, p, op = first(made, "add")
    round_.ops[p].append(op)


def score_twice(made):
    round_, p, op = first(made, "score")
    round_.ops[p].append(op)


def too_early(made):
    made.rounds[0].ops[0].append(plans.Op("score", 0, 12))  # lives on element 2


def elsewhere(made):
    made.rounds[0].ops[1].append(plans.Op("score", 0, 6))


def stand_still(made):
    made.rounds[0].moves = False


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (drop_a_score, "still lacks the scores of"),
        (drop_an_add, "never added up"),
        (add_twice, "may not add"),
        (score_twice, "has scored 0 before"),
        (too_early, "element 0, round 0, slot 36: key 12 is not there"),
        (elsewhere, "row 0 lives on element 0"),
        (stand_still, "is not there"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_schedule_that_no_machine_could_follow_is_refused(spoil, words):
    made = plan(24, 4, "full")
    spoil(made)
    with pytest.raises(ScheduleError, match=words):
        execute(made, *inputs(24, "full"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plan(10, 4), "10 tokens cannot be cut into 4 equal pieces"),
        (lambda: plan(12, 4, "causal", "zigzag"), "into 8 equal pieces"),
        (lambda: plan(8, 2, "half"), "scheme must be one of"),
        (lambda: execute(plan(8, 2), *inputs(12, "full")), "the plan is for 8 tokens, got 12"),
        (lambda: execute(plan(8, 2, "symmetric"), *inputs(8, "full")), "equal queries and keys"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_public_names():
    assert schedule.plan is plans.plan
