"""Tiny real models that several files export, and the command line in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from warm_processes import find_command

TARGETS = ("reference", "xnnpack", "onnx-cpu")
# Of models that are exported to others than these.
OTHER_TARGETS = {"decoder": ("xnnpack", "onnx-cpu", "onednn")}

CONV_NET = '''\
"""A small convolutional classifier with two inputs of interest: it needs every kind of operator once."""

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


def get_model():
    torch.manual_seed(0)
    model = ConvNet()
    with torch.no_grad():
        model.norm.running_mean.normal_()
        model.norm.running_var.uniform_(0.5, 2.0)
    return model.eval()


def get_args():
    return (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)
'''

COUNTER = '''\
"""State: a counter that starts at 5 and a running sum."""

import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([5.0]))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.count.add_(1.0)
        self.total.add_(x)
        return self.total * self.count, self.count + 0.0


model = Counter().eval()
example_inputs = (torch.tensor([1.0, -2.0, 0.5, 3.0]),)
'''

DYNAMIC = '''\
"""A dynamic batch of 1 to 8 and two outputs in a dict."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 16)
        self.two = nn.Linear(16, 3)

    def forward(self, x, scale):
        hidden = torch.relu(self.one(x))
        return {"logits": self.two(hidden) * scale, "norm": hidden.norm(dim=1)}


def get_model():
    torch.manual_seed(0)
    return Net().eval()


def get_args():
    g = torch.Generator().manual_seed(1)
    return {"x": torch.randn(3, 6, generator=g), "scale": torch.rand(3, 1, generator=g) + 0.5}


batch = torch.export.Dim("batch", min=1, max=8)
dynamic_shapes = {"x": {0: batch}, "scale": {0: batch}}
'''

DECODER = '''\
"""A decoder with a cache: 61 ids, 48 places, up to 16 tokens in a run."""

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 61, 32, 2, 2, 48
model_card = {"context": CONTEXT}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))

    def forward(self, x, places):
        n = x.shape[1]
        query, key, value = self.project(x).view(1, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        bias = torch.where(torch.arange(CONTEXT).view(1, CONTEXT) <= places.view(n, 1), 0.0, -1e9)
        scores = query @ self.keys.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + bias
        return self.output((scores.softmax(-1) @ self.values).transpose(1, 2).reshape(1, n, WIDTH))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, position):
        places = position + torch.arange(tokens.shape[1])
        x = self.embed(tokens) + self.place(places)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), places)
        return self.head(x)[:, -1]


def get_model():
    torch.manual_seed(0)
    model = Decoder().eval()
    for name, parameter in model.named_parameters():
        if "weight" in name and "norms" not in name:
            nn.init.normal_(parameter, std=0.3)
    nn.init.zeros_(model.head.bias)  # scores that depend on the text
    return model


def get_args():
    return torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([0])


dynamic_shapes = {"tokens": {1: torch.export.Dim("n", min=1, max=16)}, "position": None}
example_sequence = [(get_args(), {}), ((torch.tensor([[6]]), torch.tensor([5])), {})]
'''

# XNNPACK counts in whole microseconds: a fast machine takes less than one for each operator of the small network.
PHOTO_NET = CONV_NET.replace("1, 3, 8, 8", "1, 3, 96, 96").replace("(3, 8,", "(3, 64,")
PHOTO_NET = PHOTO_NET.replace("BatchNorm2d(8)", "BatchNorm2d(64)").replace("Linear(8,", "Linear(64,")

MODELS = {"convnet": CONV_NET, "photonet": PHOTO_NET, "counter": COUNTER, "dynamic": DYNAMIC, "decoder": DECODER}


def run_edgex(*args: str, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does: a process of its own."""
    command = find_command("edgex", os.environ) or [sys.executable, "-m", "edgex"]
    return subprocess.run([*command, *args], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
