"""The one adapter over `torch.testing._internal`: PyTorch's list of operators with sample inputs for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# No inference: they train, draw at random, make memory without values, or look at a tensor instead of computing.
_LEFT_OUT = (
    *("bernoulli", "dropout", "rand", "normal", "uniform", "multinomial", "cauchy", "exponential", "geometric"),
    *("log_normal", "empty", "new_empty", "to_sparse", "sparse", "jiterator", "_loss", "nn.functional.ctc", "item"),
    *("linalg", "cholesky", "svd_lowrank", "pca_lowrank", "stft", "bfloat16", "chalf", "backward"),
    *("cdouble", "cfloat", "complex", "torch_ops", "ops.aten._", "equal", "data_ptr", "resize", "as_strided"),
)
# Whole words only: "lu" is a part of "gelu".
_LEFT_OUT_WORDS = frozenset({"svd", "qr", "lu", "eig"})


@dataclass(frozen=True)
class Sample:
    """One call of an operator.

    Attributes:
        name: The operator and the sample's number, as `nn.functional.gelu#0`.
        module: Calls it.
        tensors: What the module is given.
    """

    name: str
    module: torch.nn.Module
    tensors: tuple[torch.Tensor, ...]


class _Calls(torch.nn.Module):
    """An operator with its literals; tensors are inputs."""

    def __init__(self, function: Any, values: Sequence[Any], named: dict[str, Any]) -> None:
        super().__init__()
        self._function, self._values, self._named = function, values, named

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        values = [_filled(value, given) for value in self._values]
        return self._function(*values, **{key: _filled(value, given) for key, value in self._named.items()})


def operator_names() -> list[str]:
    """The operators of inference that take float32, in PyTorch's order."""
    from torch.testing._internal.common_methods_invocations import op_db

    names = dict.fromkeys(op.name for op in op_db if torch.float32 in op.supported_dtypes("cpu"))
    return [
        name
        for name in names
        if not any(part in name for part in _LEFT_OUT) and not _LEFT_OUT_WORDS & set(re.split(r"[._]", name))
    ]


def samples_of(name: str, count: int) -> Iterator[Sample]:
    """The first samples of an operator whose inputs are tensors that hold something."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    operator = next(op for op in op_db if op.name == name)
    made = 0
    for number, sample in enumerate(operator.sample_inputs("cpu", torch.float32, requires_grad=False)):
        values, named = (sample.input, *sample.args), dict(sample.kwargs)
        tensors = tuple(_tensors([*values, *named.values()]))
        if not tensors or any(tensor.numel() == 0 or tensor.dim() == 0 for tensor in tensors):
            continue
        yield Sample(f"{name}#{number}", _Calls(operator.op, values, named), tensors)
        made += 1
        if made == count:
            return


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _tensors(element)


def _filled(value: Any, given: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return next(given)
    return type(value)(_filled(element, given) for element in value) if type(value) in (list, tuple) else value
