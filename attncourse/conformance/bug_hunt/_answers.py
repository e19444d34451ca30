"""The answers of the bug hunt: spoilers. Read the reports of chapter 21 first."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """What is wrong with a suspect.

    Attributes
    ----------
    mistake : str
        In one sentence.
    caught_by : str
        The case of the conformance suite that names it best.
    find, become : str
        The text of `kernel.py` that was changed, and what it became.
    """

    mistake: str
    caught_by: str
    find: str
    become: str


ANSWERS = {
    "A": Answer(
        "The last block of keys is left out when it is not full.",
        "shapes/17x33-w8-v5-plain",
        "return blocks(0, min(rows.stop, seq_len_kv) if is_causal else seq_len_kv)",
        """stop = min(rows.stop, seq_len_kv) if is_causal else seq_len_kv
    return blocks(0, min(stop, max(stop // BLOCK, 1) * BLOCK))""",
    ),
    "B": Answer(
        "The running maximum starts at 0 and not at -inf, so rows of very low scores vanish.",
        "values/all-scores-very-low",
        "q.new_full(lse[..., rows, :].shape, -torch.inf)",
        "q.new_full(lse[..., rows, :].shape, 0.0)",
    ),
    "C": Answer(
        "The triangle is pinned to the bottom right corner instead of the top left one.",
        "exact/causal-more-keys",
        "queries = torch.arange(rows.start, rows.stop, device=q.device)[:, None]",
        """queries = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        queries = queries + max(k.shape[-2] - q.shape[-2], 0)""",
    ),
    "D": Answer(
        "The lse comes in bits, base 2, where the signature promises nats.",
        "order/lse",
        "lse = lse.squeeze(-1)",
        "lse = lse.squeeze(-1) / math.log(2)",
    ),
    "E": Answer(
        "Keys and values get the gradient of the first query head of their group only.",
        "backward/grouped-gradients-add-up",
        "grad.unflatten(-3, groups).sum(-3)",
        "grad.unflatten(-3, groups)[..., 0, :, :]",
    ),
}
