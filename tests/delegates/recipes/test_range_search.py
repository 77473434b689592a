"""The search for the best range gives what torchao's own gives, step by step slower."""

from __future__ import annotations

import pytest
import torch

from edgex.delegates.recipes.range_search import find_range

SHAPES = {
    "normal": lambda g: torch.randn(20_000, generator=g),
    "outlier": lambda g: torch.cat([torch.randn(20_000, generator=g), torch.tensor([90.0])]),
    "one-sided": lambda g: torch.relu(torch.randn(20_000, generator=g)) ** 2,
    "few": lambda g: torch.randn(7, generator=g),
    "heavy tails": lambda g: torch.randn(20_000, generator=g) / (torch.rand(20_000, generator=g) + 0.01),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_range_is_that_of_torchao(shape: str) -> None:
    from torchao.quantization.pt2e import HistogramObserver

    observer = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine)
    observer(SHAPES[shape](torch.Generator().manual_seed(0)))
    low, high = (float(value) for value in observer._non_linear_param_search())
    lowest, highest = float(observer.min_val), float(observer.max_val)
    found = find_range(observer.histogram.double().numpy(), lowest, highest, 256)
    # Half a bin: torchao adds up in 32 bits.
    assert found == pytest.approx((low, high), abs=(highest - lowest) / 2048 / 2)


def test_one_value_alone_is_its_own_range() -> None:
    assert find_range(torch.zeros(2048).double().numpy(), 3.0, 3.0, 256) == (3.0, 3.0)
