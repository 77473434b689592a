"""Model files of language models and of several methods: one operator is wrong on onnx-cpu without rewrites."""

# ONNX Runtime ignores the divisor; a rewrite avoids that.
POOLED = """\
import torch
from torch import nn
from torch.nn import functional as F


def pooled(x):
    return F.avg_pool2d(x[:, None], (1, 3), 1, (0, 1), divisor_override=2)[:, 0]
"""

DECODER = (
    POOLED
    + """

class Decoder(nn.Module):
    def __init__(self, context=64, vocabulary=60, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.project = nn.Linear(width, 3 * width)
        self.scores = nn.Linear(width, vocabulary)
        self.context = context
        self.register_buffer("keys", torch.zeros(1, context, width))
        self.register_buffer("values", torch.zeros(1, context, width))

    def forward(self, tokens, position):
        places = position + torch.arange(tokens.shape[1])
        query, key, value = self.project(self.embed(tokens)).chunk(3, -1)
        self.keys.index_copy_(1, places, key)
        self.values.index_copy_(1, places, value)
        hidden = torch.arange(self.context)[None] > places[:, None]
        scores = query @ self.keys.transpose(1, 2) / 4.0
        return self.scores(pooled(scores.masked_fill(hidden, -1e9).softmax(-1) @ self.values))


def get_model():
    torch.manual_seed(0)
    return Decoder().eval()
"""
)

METHODS = (
    POOLED
    + """

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(1, 2, 6))

    def add(self, x):
        self.sum.add_(x)
        return x.cumsum(1) * 2.0

    def read(self, scale):
        return pooled(self.sum) * scale + self.sum


def methods():
    torch.manual_seed(0)
    model = Counter().eval()
    return {"add": (model.add, (torch.randn(1, 2, 6),)), "read": (model.read, (torch.randn(1, 1, 1),))}
"""
)
