"""Read ``generation_config.json``: how the makers of some weights want them to write.

The one idea: `attncourse.models.generate.generate` does what its caller says, and `load` reads no
wishes. Whoever wants the makers' asks for them here, and gets those that `generate` has; the others
are harmless, or refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attncourse.pretrained.files import read_json

HONOURED = (
    *("do_sample", "temperature", "top_k", "top_p", "eos_token_id", "max_new_tokens"),
    "use_cache",
)
HARMLESS = {
    "what stands before a prompt or behind an end": (
        *("bos_token_id", "pad_token_id", "decoder_start_token_id"),
    ),
    "how long texts are, which `new_tokens` says": ("max_length",),
    "who wrote the file": ("transformers_version", "_from_model_config", "is_assistant"),
    "what else comes back, or how fast": (
        *("output_scores", "output_logits", "output_attentions", "output_hidden_states"),
        *("return_dict_in_generate", "cache_implementation", "low_memory", "disable_compile"),
        "prefill_chunk_size",
    ),
    "a guess ahead, which changes no text": (
        *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_lookbehind"),
        *("assistant_confidence_threshold", "target_lookbehind"),
    ),
}
ONLY = {
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "length_penalty"), 1.0),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length"), 0),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty"), 0.0),
    **dict.fromkeys(("early_stopping", "renormalize_logits", "remove_invalid_values"), False),
    **{"typical_p": 1.0, "guidance_scale": 1.0, "token_healing": False},
}


def generation_options(folder: str | Path) -> dict[str, Any]:
    """Return the makers' wishes as arguments of `attncourse.models.generate.generate`.

    Parameters
    ----------
    folder : str or Path
        Where ``generation_config.json`` may lie, beside the weights.

    Returns
    -------
    dict
        `temperature`, `top_k`, `top_p`, `use_cache`, and where the file gives them `stop_token` and
        `new_tokens`. Without a file: greedy, as `transformers` writes then.

    Raises
    ------
    NotImplementedError
        For a wish that `generate` does not have; it is named.
    ValueError
        When the file is damaged, or a wish is of another kind.
    """
    path = Path(folder) / "generation_config.json"
    said = read_json(path) if path.exists() else {}
    said = {name: value for name, value in said.items() if value is not None}
    _refuse_unknown(said)
    for name in ("do_sample", "use_cache"):
        if not isinstance(said.get(name, False), bool):
            raise ValueError(f"{path} must give {name} as true or false, got {said[name]!r}")
    found: dict[str, Any] = {"temperature": 0.0, "top_k": None, "top_p": None}
    if said.get("do_sample", False):  # else it is greedy, whatever the others say
        found = {"temperature": said.get("temperature", 1.0), "top_p": said.get("top_p")}
        found["top_k"] = said.get("top_k", 50) or None  # what transformers does unasked; 0 is none
    found["use_cache"] = said.get("use_cache", True)
    if "max_new_tokens" in said:
        found["new_tokens"] = said["max_new_tokens"]
    ends = said.get("eos_token_id", [])
    ends = list(dict.fromkeys(ends)) if isinstance(ends, list) else [ends]
    if len(ends) > 1:
        raise NotImplementedError(f"{path} ends a text at any of {ends}; only one token can here")
    return found | ({"stop_token": ends[0]} if ends else {})


def _refuse_unknown(said: Mapping[str, Any]) -> None:
    """Refuse wishes that are neither honoured nor harmless."""
    harmless = {name for names in HARMLESS.values() for name in names}
    for name, value in said.items():
        if (name in ONLY and value == ONLY[name]) or name in harmless or name in HONOURED:
            continue
        wanted = f"only {ONLY[name]!r} is known here" if name in ONLY else "nothing is known of it"
        raise NotImplementedError(f"generation_config.json says {name} = {value!r}; {wanted}")
