"""A classifier of texts for the checks of the Android app; its tokenizer lies beside it."""

from types import SimpleNamespace

import torch
from torch import nn

_TOKENS = torch.export.Dim("tokens", min=2, max=32)
dynamic_shapes = {"input_ids": {1: _TOKENS}, "attention_mask": {1: _TOKENS}}
model_card = {"labels": ["dull", "lively"]}


class Reader(nn.Module):
    """Ids `[1, T]` to two scores `[1, 2]`: the mean of what the mask leaves in."""

    def __init__(self) -> None:
        super().__init__()
        # Models of Hugging Face's libraries have one: it says that a tokenizer belongs to them.
        self.config = SimpleNamespace(model_type="reader", name_or_path="", to_dict=dict)
        self.table = nn.Embedding(64, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        weights = attention_mask.unsqueeze(-1).float()
        mean = (self.table(input_ids) * weights).sum(1) / weights.sum(1).clamp(min=1)
        scores: torch.Tensor = self.head(mean)
        return scores


torch.manual_seed(0)
model = Reader().eval()
example_inputs = (torch.arange(1, 8).unsqueeze(0), torch.ones(1, 7, dtype=torch.int64))
