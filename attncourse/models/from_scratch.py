"""The reader's own small Llama: every line of it stands on a page of the course.

The one idea: what chapters 05 to 09 write adds up to a model. A later chapter imports it from here;
a test holds these lines equal to the cells, and the model equal to `attncourse.models.gpt.GPT`
with the same weights. Left out: checks, speed, and everything that an option could change.
**Source:** Touvron et al. 2023, section 2.2 (arXiv:2302.13971).
"""

from __future__ import annotations

import math

import torch
from torch import nn


def attention(q, k, v, mask=None):
    """Average the values, each weighted by how well its key fits the query (chapters 03, 07)."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # (..., L, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v  # (..., L, E)


def split(x, num_heads):
    """Cut the width into heads (chapter 05)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, L, E)


def join(heads):
    """Put the heads side by side again (chapter 05)."""
    return heads.transpose(1, 2).flatten(2)  # (B, L, H * E)


def share(heads, num_heads):
    """Give each key or value head to a group of query heads (chapter 05)."""
    return heads.repeat_interleave(num_heads // heads.shape[1], dim=1)


def rotary(x, start=0, base=10_000.0):
    """Turn pairs of components by angles that grow with the position (chapter 06)."""
    L, E = x.shape[-2:]
    speed = base ** (-torch.arange(0, E, 2).double() / E)  # (E / 2,)
    angle = torch.arange(start, start + L)[:, None] * speed  # (L, E / 2)
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def causal_mask(L, S):
    """Let L queries see the past: the last query is the newest of S keys (chapter 07)."""
    return torch.ones(L, S, dtype=torch.bool).tril(S - L)


class GroupedAttention(nn.Module):
    """Ask with every head, keep fewer heads of keys and values (chapters 05 to 08)."""

    def __init__(self, d_model, num_heads, num_kv_heads, head_dim, base):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.base = num_heads, num_kv_heads, base
        self.to_query = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self.to_key = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.to_value = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.to_out = nn.Linear(num_heads * head_dim, d_model, bias=False)

    def forward(self, x, cache=None):
        """Turn tokens (B, L, d_model) into tokens of the same shape."""
        start = 0 if cache is None else len(cache)
        q = rotary(split(self.to_query(x), self.num_heads), start, self.base)
        k = rotary(split(self.to_key(x), self.num_kv_heads), start, self.base)
        v = split(self.to_value(x), self.num_kv_heads)  # (B, Hkv, L, E)
        if cache is not None:
            k, v = cache.append(k, v)  # (B, Hkv, S, E)
        mask = causal_mask(q.shape[2], k.shape[2]).to(x.device)
        k, v = share(k, self.num_heads), share(v, self.num_heads)
        return self.to_out(join(attention(q, k, v, mask)))


class RMSNorm(nn.Module):
    """Divide each token by the root of its mean square (chapter 08)."""

    def __init__(self, d_model, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        """Return tokens of the same shape (..., d_model), each with mean square 1."""
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return x * (mean_square + self.eps).rsqrt() * self.weight


class SwiGLU(nn.Module):
    """Work on each token alone: widen it, gate it, narrow it again (chapter 08)."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        """Turn tokens (..., d_model) into tokens of the same shape."""
        gate = self.gate(x)
        return self.down(gate * gate.sigmoid() * self.up(x))


class Block(nn.Module):
    """Add what attention finds, then what the feed-forward layer makes of it (chapter 08)."""

    def __init__(self, d_model, num_heads, num_kv_heads, head_dim, d_ff, base, eps):
        super().__init__()
        self.attention_norm = RMSNorm(d_model, eps)
        self.attention = GroupedAttention(d_model, num_heads, num_kv_heads, head_dim, base)
        self.feed_forward_norm = RMSNorm(d_model, eps)
        self.feed_forward = SwiGLU(d_model, d_ff)

    def forward(self, x, cache=None):
        """Turn tokens (B, L, d_model) into tokens of the same shape."""
        x = x + self.attention(self.attention_norm(x), cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """Predict the next token at every position (chapter 08)."""

    def __init__(self, vocab_size, d_model, num_layers, *, eps=1e-5, **sizes):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(d_model, eps=eps, **sizes) for _ in range(num_layers))
        self.norm = RMSNorm(d_model, eps)

    def forward(self, ids, caches=None):
        """Turn ids (B, L) into logits (B, L, vocab_size); with caches, ids are the new ones."""
        x = self.embed(ids)  # (B, L, d_model)
        for i, block in enumerate(self.blocks):
            x = block(x, caches and caches[i])
        return self.norm(x) @ self.embed.weight.T  # (B, L, vocab_size)


def cross_entropy(logits, target):
    """Average -log p(right token), in nats (chapter 08)."""
    right = logits.gather(-1, target[..., None])[..., 0]
    return (logits.logsumexp(-1) - right).mean()


def learning_rate(step, steps, highest, warm_up=50):
    """Rise in a line, fall in half a cosine (chapter 08)."""
    if step < warm_up:
        return highest * (step + 1) / warm_up
    done = (step - warm_up) / (steps - warm_up)
    return highest * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def fit(model, make_batch, steps, highest, warm_up=50):
    """Lower the cross-entropy step by step, and return its course (chapter 08)."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, highest, warm_up)
        inputs, target = make_batch()
        loss = cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Cache:
    """Keep the keys and values of what was read, for one block (chapter 09)."""

    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[-2]

    def append(self, k, v):
        """Add new keys and values (B, Hkv, L, E), and return all of them."""
        if self.k is not None:
            k, v = torch.cat((self.k, k), -2), torch.cat((self.v, v), -2)
        self.k, self.v = k, v
        return k, v


def probabilities(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Turn logits into the distribution to draw from (chapter 09)."""
    if temperature == 0:
        best = logits.argmax(-1)
        return nn.functional.one_hot(best, logits.shape[-1]).to(logits)
    p = (logits / temperature).softmax(-1)  # (..., vocab_size)
    p, order = p.sort(dim=-1, descending=True)
    if top_k is not None:
        p[..., top_k:] = 0
        p = p / p.sum(-1, keepdim=True)
    if top_p < 1:
        before = p.cumsum(-1) - p  # probability of all better tokens
        p[before >= top_p] = 0
    p = torch.zeros_like(p).scatter(-1, order, p)
    return p / p.sum(-1, keepdim=True)


@torch.no_grad()
def generate(model, ids, new_tokens, generator=None, **choice):
    """Read the prompt once, then draw, append and read one token at a time (chapter 09)."""
    caches = [Cache() for _ in model.blocks]
    logits = model(ids, caches)
    for _ in range(new_tokens):
        p = probabilities(logits[:, -1], **choice)
        token = torch.multinomial(p, 1, generator=generator)  # (B, 1)
        ids = torch.cat((ids, token), dim=1)
        logits = model(token, caches)
    return ids


NAMES = {
    "model.": "",
    "layers": "blocks",
    "embed_tokens": "embed",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_forward_norm",
    "self_attn": "attention",
    "mlp": "feed_forward",
    "q_proj": "to_query",
    "k_proj": "to_key",
    "v_proj": "to_value",
    "o_proj": "to_out",
    "_proj": "",
}


def renamed(published):
    """Give published tensors the names of our parameters (chapter 09)."""
    ours = {}
    for name, tensor in published.items():
        for theirs, own in NAMES.items():
            name = name.replace(theirs, own)
        ours[name] = tensor
    return ours


def sizes_of(settings):
    """Read the sizes of our model out of a published ``config.json`` (chapter 09)."""
    s, num_heads = settings, settings["num_attention_heads"]
    return {
        "vocab_size": s["vocab_size"],
        "d_model": s["hidden_size"],
        "num_layers": s["num_hidden_layers"],
        "num_heads": num_heads,
        "num_kv_heads": s["num_key_value_heads"],
        "head_dim": s["hidden_size"] // num_heads,
        "d_ff": s["intermediate_size"],
        "base": s["rope_theta"],
        "eps": s["rms_norm_eps"],
    }
