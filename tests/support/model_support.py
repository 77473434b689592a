"""Tiny real models that several files export, and the command line in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TARGETS = ("reference", "xnnpack", "onnx-cpu")

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

MODELS = {"convnet": CONV_NET, "counter": COUNTER, "dynamic": DYNAMIC}


def run_edgex(*args: str, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does: a process of its own."""
    command = [sys.executable, "-m", "edgex", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
