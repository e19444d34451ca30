"""Write a small Llama as a GGUF file, as llama.cpp's converter does."""

import gguf
import numpy as np

TOKENS = ["<s>", "a", "b", "ab", "Ġ", "Ġab"]
SHAPES = {
    "attn_norm": (32,),
    "attn_q": (32, 32),
    "attn_k": (16, 32),
    "attn_v": (16, 32),
    "attn_output": (32, 32),
    "ffn_norm": (32,),
    "ffn_gate": (64, 32),
    "ffn_up": (64, 32),
    "ffn_down": (32, 64),
}


def write(path, architecture="llama", quantised=True, tied=True):
    """Write random weights, most of them in 8 bits; return them as they will be read."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_vocab_size(len(TOKENS))
    writer.add_context_length(40)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b", "Ġ ab"])
    shapes = {"token_embd.weight": (len(TOKENS), 32), "output_norm.weight": (32,)}
    shapes |= {} if tied else {"output.weight": (len(TOKENS), 32)}
    shapes |= {f"blk.{n}.{name}.weight": shape for n in range(2) for name, shape in SHAPES.items()}
    written = {}
    for name, shape in shapes.items():
        tensor = rng.standard_normal(shape).astype(np.float32)
        if quantised and len(shape) == 2:
            packed = gguf.quantize(tensor, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
            tensor = gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, tensor)
        written[name] = tensor
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written
