"""Models that cannot be captured, one for each cause; tests look for the lines by their comments."""

import random

import numpy as np
import torch
from torch import nn

CALLS = 0
HISTORY = []


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # branch
            return x * 2
        return x


class While(nn.Module):
    def forward(self, x):
        while x.sum() < 100:  # while
            x = x.abs() * 2 + 1
        return x


class _ExpertsLayer(nn.Module):
    is_transposed = False

    def forward(self, x):
        sums = torch.zeros_like(x)
        for expert in (x > 0).any(0).nonzero():  # experts
            sums = sums + x * expert
        return sums


class Experts(nn.Module):
    way = "eager"

    def __init__(self):
        super().__init__()
        self.experts = _ExpertsLayer()

    def get_experts_implementation(self):
        return {"": self.way}

    def forward(self, x):
        return self.experts(x)


class Combinations(nn.Module):
    def forward(self, x):
        return torch.combinations(x[0])  # combinations


class Loss(nn.Module):
    def forward(self, x):
        target, length = torch.tensor([[1, 2]]), torch.tensor([2])
        return torch.nn.functional.ctc_loss(x.unsqueeze(1), target, length, length)  # loss


class Item(nn.Module):
    def forward(self, x):
        count = int(x.abs().sum().item())  # item
        return x[:, :count].sum() + torch.stack([x.sum() * at for at in range(count)]).sum()


class Nonzero(nn.Module):
    def forward(self, x):
        rows = torch.nonzero(x > 0)
        return x * 2 if rows.shape[0] > 3 else x  # nonzero


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # counter
        return x * self.calls


class History(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x)  # history
        return x + sum(self.seen)


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.zeros(4)

    def forward(self, x):
        self.cache[0] = x[0, 0]  # cache
        return x + self.cache


class GlobalCounter(nn.Module):
    def forward(self, x):
        global CALLS
        CALLS += 1  # global counter
        return x + CALLS


class GlobalHistory(nn.Module):
    def forward(self, x):
        HISTORY.append(x.shape)  # global history
        return x + len(HISTORY)


class Pointer(nn.Module):
    def forward(self, x):
        return x * x.data_ptr()  # pointer


class Native(nn.Module):
    def forward(self, x):
        import pickle

        return pickle.loads(pickle.dumps(x))  # native


class NumpyOnly(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.interp(x.numpy(), [0, 1], [2, 3]))  # numpy only


class NumpyNoise(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(np.random.rand(2, 4))  # numpy noise


class PythonNoise(nn.Module):
    def forward(self, x):
        return x * random.random()  # python noise


class Dropout(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x)  # dropout


class Number(nn.Module):
    def forward(self, x):
        return x * 2, x.sum().item()  # number


class Nothing(nn.Module):
    def forward(self, x):
        x * 2
        return  # nothing


class WrongShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x):
        return self.linear(x)  # wrong shape


class FixedBatch(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + torch.ones(2, 4)  # fixed batch


class Even(nn.Module):
    def forward(self, x):
        y = x + 1
        return y.reshape(-1, 2, 4)  # even


class FlattenedBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, y):
        return self.linear(x.reshape(1, -1)) + y.sum()  # flattened batch


class Spectrogram(nn.Module):
    def forward(self, wave):
        return torch.stft(wave, 64, 32, window=torch.ones(64), return_complex=True).abs()  # spectrogram


class Parameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.scale.add_(1)  # parameter
        return x * self.scale


class Data(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x):
        self.count.data = self.count + 1  # data
        return x * self.count
