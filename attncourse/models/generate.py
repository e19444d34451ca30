"""Write with a decoder: choose the next token, append it, and read it again.

The one idea: a decoder gives scores for the next token and nothing else. Writing is a loop around
it, with three decisions: how to choose from the scores, what to keep between the steps (the keys
and values of what was read, or nothing), and what to do when the context window is full.
Left out: beams, penalties for repetition, prompts of different lengths in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attncourse import _validate
from attncourse.models.gpt import GPT

EDGES = ("stop", "slide")
Randomness = torch.Generator | int


def probabilities(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Turn logits of the next token into the probabilities with which it is drawn.

    Parameters
    ----------
    logits : Tensor, shape (..., vocabulary)
        Scores.
    temperature : float, default 1.0
        The scores are divided by it: below 1 the likely tokens gain, above 1 the unlikely ones.
        0 is the limit: everything goes to the best token (the first of equal ones).
    top_k : int, optional
        Keep only the k best tokens.
    top_p : float, optional
        Keep only the smallest set of best tokens that together reach this probability. The token
        that crosses the line is kept, so at least one is.

    Returns
    -------
    Tensor, shape (..., vocabulary)
        At least 0, with sum 1; exactly 0 for what was cut. In float32 or wider.

    Raises
    ------
    TypeError
        When `top_k` is not an integer.
    ValueError
        When a setting lies out of its range.

    Notes
    -----
    In this order: temperature, `top_k`, `top_p`, and what is left is made to sum to 1 again.
    **Source:** Holtzman et al. 2020, section 3.1 for `top_p` (arXiv:1904.09751); Fan et al. 2018,
    section 5.4 for `top_k` (arXiv:1805.04833).

    Examples
    --------
    >>> scores = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    >>> probabilities(scores, top_k=2)
    tensor([0.6250, 0.3750, 0.0000, 0.0000])
    >>> probabilities(scores, top_p=0.9)
    tensor([0.5263, 0.3158, 0.1579, 0.0000])
    """
    _check_choice(temperature, top_k, top_p)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)  # (..., 1)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)
    # The largest score becomes 0: a tiny temperature cannot overflow then.
    tiny = torch.finfo(logits.dtype).tiny  # what is smaller would become 0
    temperature = max(temperature, tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    found = logits.softmax(dim=-1)  # (..., vocabulary)
    ordered, order = found.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        rank = torch.arange(ordered.shape[-1], device=ordered.device)
        ordered = ordered * (rank < top_k)
        ordered = ordered / ordered.sum(dim=-1, keepdim=True)
    if top_p is not None and top_p < 1:
        reached_before = ordered.cumsum(dim=-1) - ordered
        ordered = ordered * ((reached_before < top_p) | (reached_before == 0))
        ordered = ordered / ordered.sum(dim=-1, keepdim=True)
    return torch.zeros_like(ordered).scatter(-1, order, ordered)


def draw(chances: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one token for each row of probabilities.

    Parameters
    ----------
    chances : Tensor, shape (B, vocabulary)
        Each row sums to 1.
    generator : torch.Generator
        On the CPU: one number is drawn for each row, so a seed means the same on every device.

    Returns
    -------
    Tensor of int64, shape (B,)

    Raises
    ------
    ValueError
        When a row has no sum above 0, so that no token can be drawn; NaN is not above 0.
    """
    spots = torch.rand(len(chances), 1, generator=generator, dtype=torch.float64)  # (B, 1)
    ends = chances.double().cumsum(dim=-1)  # (B, vocabulary)
    total = ends[:, -1:]
    if not (total > 0).all():
        raise ValueError(f"each row of probabilities must sum to 1, got {total.min().item()}")
    spots = torch.minimum(spots.to(ends) * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(ends, spots, right=True).squeeze(-1)


def generate(
    model: Callable[..., Tensor],
    ids: Tensor,
    new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Randomness = 0,
    use_cache: bool = True,
    window: int | None = None,
    at_edge: str = "stop",
    stop_token: int | None = None,
) -> Tensor:
    """Continue texts token by token.

    Parameters
    ----------
    model : callable
        ``model(ids (B, L), cache=None) -> logits (B, L, vocabulary)``; with a cache, `ids` are
        the new tokens only, and ``model.new_cache(B)`` makes an empty one.
    ids : Tensor of int64, shape (B, L)
        The prompts: at least one token, all of the same length.
    new_tokens : int
        How many tokens to write at most, 0 or more.
    temperature, top_k, top_p
        As in `probabilities`; ``temperature=0`` is greedy.
    generator : torch.Generator or int, default 0
        The source of randomness; an int is a seed.
    use_cache : bool, default True
        Keep keys and values between the steps. The text is the same without, and takes longer.
    window : int, optional
        Most tokens that the model can read; ``model.config.max_len`` by default, no limit if the
        model has none.
    at_edge : {"stop", "slide"}
        When the text fills the window: write no more, or go on and let the model read the newest
        `window` tokens only. Sliding moves every token to another position, and what was kept has
        seen the tokens that are forgotten now: from then on each step reads the window anew.
    stop_token : int, optional
        A text that has written it ends there, and is filled up with it while others go on.

    Returns
    -------
    Tensor of int64, shape (B, L + n)
        Prompt and continuation; n is smaller than `new_tokens` when the window was full or every
        text had ended.

    Raises
    ------
    TypeError
        When `ids`, a number or `generator` is of another type, or the model cannot make a cache.
    ValueError
        When a shape or a setting is out of range, the prompt is longer than the window (and may
        not slide), or the model's scores are NaN or infinite.

    Notes
    -----
    A module in training mode is used as it is: call ``model.eval()`` first if it has dropout.
    """
    _check_choice(temperature, top_k, top_p)
    window = _window_of(model) if window is None else window
    _check_prompt(ids, new_tokens, window, at_edge)
    _check_stop(stop_token)
    random = _generator(generator)
    reader = _Reader(model, ids, ids.shape[1] + new_tokens, use_cache, window)
    choice: Any = {"temperature": temperature}
    choice |= {"top_k": top_k, "top_p": top_p}
    text, going_on = ids, torch.ones_like(ids[:, 0], dtype=torch.bool)
    # no gradients, and a little less work for each call
    with torch.inference_mode():
        for _ in range(new_tokens):
            if at_edge == "stop" and text.shape[1] == window:
                break
            logits = reader.read(text)  # (B, vocabulary)
            if temperature == 0:  # no need to write the probabilities down
                chosen = logits.argmax(dim=-1)  # (B,)
            else:
                chosen = draw(probabilities(logits, **choice), random)
            if stop_token is not None:
                chosen = chosen.masked_fill(~going_on, stop_token)
                going_on &= chosen != stop_token
            text = torch.cat((text, chosen[:, None]), dim=1)
            if not going_on.any():
                break
    return text.clone()  # an ordinary tensor again


class _Reader:
    """Gives the scores of the next token, reading as little as it can."""

    def __init__(
        self, model: Any, ids: Tensor, longest: int, use_cache: bool, window: int | None
    ) -> None:
        if use_cache and not hasattr(model, "new_cache"):
            raise TypeError(
                f"{type(model).__name__} has no new_cache(batch_size) to make a cache with; "
                "give use_cache=False"
            )
        self.model, self.window = model, window
        longest = longest if window is None else min(longest, window)
        room = {"capacity": longest} if isinstance(model, GPT) else {}  # nothing is moved later
        self.cache = model.new_cache(len(ids), **room) if use_cache else None
        self.done = 0

    def read(self, text: Tensor) -> Tensor:
        """Return the scores (B, vocabulary) of the token after `text`, shape (B, L)."""
        if self.window is not None and text.shape[1] > self.window:
            self.cache, text = None, text[:, -self.window :]
        if self.cache is None:
            return self._scores(text)
        unread, self.done = text[:, self.done :], text.shape[1]
        return self._scores(unread, cache=self.cache)

    def _scores(self, ids: Tensor, **cache: Any) -> Tensor:
        if isinstance(self.model, GPT):  # it need not score what is not asked for
            return _finite(self.model(ids, last_only=True, **cache)[:, -1])
        return _finite(_last(self.model(ids, **cache), ids))


def _window_of(model: Any) -> int | None:
    """Return how many tokens the model says it can read, or None."""
    return getattr(getattr(model, "config", None), "max_len", None)


def _last(logits: Tensor, ids: Tensor) -> Tensor:
    if logits.ndim != 3 or logits.shape[:2] != ids.shape:
        raise ValueError(
            f"the model turned ids {tuple(ids.shape)} into logits {tuple(logits.shape)}; "
            f"wanted {(*ids.shape, 'vocabulary')}"
        )
    return logits[:, -1]


def _finite(logits: Tensor) -> Tensor:
    """Refuse scores without a best token; -inf may rule out some, not all."""
    best = logits.amax(dim=-1)  # (B,)
    if not best.isfinite().all():
        raise ValueError(
            f"the best score of the next token must be a finite number, got {best.tolist()}"
        )
    return logits


def _generator(generator: Randomness) -> torch.Generator:
    if isinstance(generator, torch.Generator):
        return generator
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.Generator().manual_seed(generator)
    raise TypeError(f"generator must be a torch.Generator or an int, got {generator!r}")


def _check_choice(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < torch.inf:
        raise ValueError(f"temperature must be 0 or a positive number, got {temperature}")
    if top_k is not None and _validate.whole("top_k", top_k) < 1:
        raise ValueError(f"top_k must keep at least 1 token, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie above 0 and at most at 1, got {top_p}")


def _check_stop(stop_token: int | None) -> None:
    if stop_token is not None and _validate.whole("stop_token", stop_token) < 0:
        raise ValueError(f"stop_token must be a token, 0 or more, got {stop_token}")


def _check_prompt(ids: Any, new_tokens: int, window: int | None, at_edge: str) -> None:
    if not isinstance(ids, Tensor) or ids.dtype not in (torch.int64, torch.int32):
        kind = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"ids must be a tensor of integers, got {kind}")
    if ids.ndim != 2 or 0 in ids.shape:
        raise ValueError(
            f"ids must have shape (B, L) with at least one token, got {tuple(ids.shape)}"
        )
    if _validate.whole("new_tokens", new_tokens) < 0:
        raise ValueError(f"new_tokens must be 0 or more, got {new_tokens}")
    if at_edge not in EDGES:
        raise ValueError(f"at_edge must be one of {EDGES}, got {at_edge!r}")
    if window is not None and _validate.whole("window", window) < 1:
        raise ValueError(f"window must be at least 1 token, got {window}")
    if window is not None and ids.shape[1] > window and at_edge == "stop":
        raise ValueError(
            f"the prompt has {ids.shape[1]} tokens, the window {window}; shorten it, or give "
            'at_edge="slide" to let the model read its end only'
        )
