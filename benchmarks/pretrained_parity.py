"""Our models with trained weights against transformers with the same: about a minute.

Errors are the largest difference over a layer's largest number, and of all layers the worst.
Attention weights lie between 0 and 1, so their error is absolute. Run
``python benchmarks/pretrained_parity.py``; it writes results/pretrained_parity.json beside itself.
It needs the two packages that ``make weights`` installs, and transformers.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers

from attncourse import pretrained
from attncourse.measure.bench import save, table
from attncourse.models.generate import generate
from attncourse.pretrained.loading import locate
from attncourse.pretrained.quantised import read_gguf

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from model_parity import smollm2_oracle

SENTENCES = (
    "The movie was not bad, it was actually great.",
    "The best thing about AI is its",
    "Self-attention isn't magic: naïve café, 自注意力 123!",
)


def worst(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor], scaled: bool) -> float:
    """Return the largest error over pairs of tensors."""
    pairs = list(zip(ours, theirs, strict=True))
    scales = [b.abs().max() if scaled else torch.tensor(1.0) for _, b in pairs]
    errors = [(a - b).abs().max() / s for (a, b), s in zip(pairs, scales, strict=True)]
    return max(errors).item()


def compare(ours: Any, theirs: Any, tokenizer: Any) -> dict[str, float]:
    """Compare every layer on every sentence; keep the worst."""
    found: dict[str, float] = {}
    for sentence in SENTENCES:
        ids = torch.tensor([tokenizer.encode(sentence)])
        out = theirs(ids, output_hidden_states=True, output_attentions=True)
        *states, last = ours.hidden_states(ids)
        states.append(last if ours.norm is None else ours.norm(last))
        errors = {
            "hidden states": worst(states, out.hidden_states, scaled=True),
            "attention weights": worst(ours.attention_weights(ids), out.attentions, scaled=False),
        }
        if hasattr(out, "logits"):
            errors["logits"] = worst([ours(ids)], [out.logits], scaled=True)
        found = {name: max(error, found.get(name, 0.0)) for name, error in errors.items()}
    return found


def main() -> None:
    model, tokenizer = pretrained.load("minilm")
    theirs = transformers.BertModel.from_pretrained(locate("minilm"), attn_implementation="eager")
    rows: list[dict[str, Any]] = [{"model": "minilm", **compare(model, theirs.eval(), tokenizer)}]

    model, tokenizer = pretrained.load("smollm2")
    file = read_gguf(locate("smollm2"))
    theirs = smollm2_oracle(file.tensors, file.settings)
    row = {"model": "smollm2", **compare(model, theirs, tokenizer)}
    prompts = [torch.tensor([tokenizer.encode(sentence)]) for sentence in SENTENCES]
    texts = [generate(model, ids, 40, temperature=0) for ids in prompts]
    row["as transformers writes"] = sum(
        torch.equal(
            text,
            theirs.generate(
                ids, max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=2
            ),
        )
        for ids, text in zip(prompts, texts, strict=True)
    )
    row["as without cache"] = sum(
        torch.equal(text, generate(model, ids, 40, temperature=0, use_cache=False))
        for ids, text in zip(prompts, texts, strict=True)
    )
    row["texts"] = len(texts)
    rows.append(row)
    print(table(rows))
    path = Path(__file__).parent / "results" / "pretrained_parity.json"
    save(path, f"largest errors, float32, transformers {transformers.__version__}", rows)


if __name__ == "__main__":
    with torch.no_grad():
        main()
