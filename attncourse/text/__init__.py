"""Text into integers and back: byte pairs, WordPiece, and a corpus to train on.

`Tokenizer`, `pad` and `train_bpe` are the ones that most chapters need. NumPy is enough for all
but `attncourse.text.corpus`.
"""

from attncourse.text.tokenizer import NUM_BYTES, Tokenizer, pad, train_bpe

__all__ = ["NUM_BYTES", "Tokenizer", "pad", "train_bpe"]
