"""Use a reader for a task: one linear map on the first token, or on every token.

The one idea: the encoder describes, and a map as small as possible judges. What the map can judge,
the description holds. Left out: freezing the encoder, and tasks with two sentences.
"""

from __future__ import annotations

from torch import Tensor, nn

from attncourse.models.bert import Bert


class SentenceVerdict(nn.Module):
    """Judge a whole sentence by the description of its first token.

    Parameters
    ----------
    reader : Bert
        The encoder; it is trained along.
    num_classes : int, default 2
        C.
    """

    def __init__(self, reader: Bert, num_classes: int = 2) -> None:
        super().__init__()
        self.reader = reader
        self.judge = nn.Linear(reader.config.d_model, num_classes)

    def forward(self, ids: Tensor, attend: Tensor | None = None) -> Tensor:
        """Turn tokens (B, L) into scores (B, C); `attend` as in `Bert.forward`."""
        return self.judge(self.reader(ids, attend)[:, 0])


class WordVerdict(SentenceVerdict):
    """Judge every token by its own description; the parameters are those of `SentenceVerdict`."""

    def forward(self, ids: Tensor, attend: Tensor | None = None) -> Tensor:
        """Turn tokens (B, L) into scores (B, L, C); `attend` as in `Bert.forward`."""
        return self.judge(self.reader(ids, attend))
