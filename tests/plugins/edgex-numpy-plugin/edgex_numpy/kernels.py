"""The operators that both sides know: the delegate takes them, the engine computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

KERNELS: Mapping[str, Callable[..., Any]] = {
    "aten.add.Tensor": np.add,
    "aten.linear.default": lambda x, weight, bias=0.0: x @ weight.T + bias,
    "aten.mul.Tensor": np.multiply,
    "aten.relu.default": lambda x: np.maximum(x, 0),
    "aten.sub.Tensor": np.subtract,
    "aten.tanh.default": np.tanh,
}
