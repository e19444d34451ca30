"""SmolLM2-135M writing: our decoder against transformers' generate, in turns: about ten minutes.

Both write greedily, one text at a time, with and without a cache, in float32 and in bfloat16, on
one thread. They read the same weights from the same memory, all but the rows of queries and keys,
whose order differs: where weights happen to lie can change the time by a third. "first" is the
time until the first new token; "later" are tokens a second after it. Ratios are "times faster than
transformers in the same round". Run ``python benchmarks/pretrained_generate.py``; it writes
results/pretrained_generate.json beside itself. It needs the two packages that ``make weights``
installs, and transformers.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from attncourse import pretrained
from attncourse.measure.bench import interleaved, save, table
from attncourse.models.generate import generate
from attncourse.pretrained.loading import locate
from attncourse.pretrained.quantised import read_gguf

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from model_parity import smollm2_oracle

PROMPT = "The best thing about AI is its"
LONG = "Self-attention is a mechanism that lets every position of a sequence look at all others. "
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def models(dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Load the same weights into our decoder and into transformers' Llama."""
    ours, tokenizer = pretrained.load("smollm2", dtype=dtype)
    found = read_gguf(locate("smollm2"))
    # copied, so that none of them stays in a mapped file
    tensors = {name: tensor.to(dtype, copy=True) for name, tensor in found.tensors.items()}
    theirs = smollm2_oracle(tensors, found.settings, attn_implementation="sdpa")
    share(ours, theirs)
    theirs.generation_config.eos_token_id = None  # both write as many tokens as they are asked for
    theirs.generation_config.pad_token_id = 2
    return ours, theirs, tokenizer


def share(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    """Let their parameters stand where ours do, if they hold the same numbers."""
    mine: dict[torch.Size, list] = {}
    for parameter in ours.parameters():
        mine.setdefault(parameter.shape, []).append(parameter)
    for parameter in theirs.parameters():
        same = (x for x in mine.get(parameter.shape, []) if torch.equal(x, parameter))
        if (found := next(same, None)) is not None:
            parameter.data = found.data


def writers(ours: Any, theirs: Any, ids: torch.Tensor, cached: bool) -> dict[str, Callable]:
    """Return two functions that write a number of tokens."""
    asked = {"do_sample": False, "use_cache": cached}

    def write_theirs(new_tokens: int) -> torch.Tensor:
        return theirs.generate(ids, max_new_tokens=new_tokens, **asked)

    def write_ours(new_tokens: int) -> torch.Tensor:
        return generate(ours, ids, new_tokens, temperature=0, use_cache=cached)

    return {"transformers": write_theirs, "ours": write_ours}


def one_row(name: str, ids: torch.Tensor, cached: bool, new_tokens: int, both: tuple) -> dict:
    """Time the first token and all tokens, ours and theirs, in one interleaved run."""
    calls = writers(*both, ids, cached)
    texts = [write(new_tokens) for write in calls.values()]
    timed = {
        (who, count): partial(write, count)
        for who, write in calls.items()
        for count in (1, new_tokens)
    }
    found = interleaved(timed, seconds=60.0, rounds=9)
    rounds = {who: list(zip(found[who, 1], found[who, new_tokens], strict=True)) for who in calls}
    rates = {
        who: [(new_tokens - 1) / (whole - first) for first, whole in rounds[who]] for who in calls
    }
    row: dict[str, Any] = {"type": name, "prompt": ids.shape[1], "cache": "yes" if cached else "no"}
    row |= {"new": new_tokens, "same text": "yes" if torch.equal(*texts) else "no"}
    for who in calls:
        row[f"{who} first ms"] = 1e3 * statistics.median(found[who, 1])
        row[f"{who} later /s"] = statistics.median(rates[who])
    pairs = zip(found["transformers", 1], found["ours", 1], strict=True)
    row["first x"] = statistics.median(theirs / mine for theirs, mine in pairs)
    pairs = zip(rates["ours"], rates["transformers"], strict=True)
    row["later x"] = statistics.median(mine / theirs for mine, theirs in pairs)
    return row


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, dtype in DTYPES.items():
        ours, theirs, tokenizer = models(dtype)
        short = torch.tensor([tokenizer.encode(PROMPT)])
        long = torch.tensor([tokenizer.encode(LONG * 30)[:384]])
        for ids, cached, new_tokens in (
            (short, True, 64),
            (long, True, 32),
            (short, False, 24),
            (long, False, 4),
        ):
            rows.append(one_row(name, ids, cached, new_tokens, (ours, theirs)))
            print(table(rows), flush=True)
    path = Path(__file__).parent / "results" / "pretrained_generate.json"
    save(path, f"generate, transformers {transformers.__version__}", rows)


if __name__ == "__main__":
    main()
