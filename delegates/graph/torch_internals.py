"""The private names of torch that read a graph, in one place: operator classes, fake tensors, modes, pytrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "PyTreeCodeGen",
    "TorchDispatchMode",
    "count_owners",
    "pytree",
    "storage_of",
]


def storage_of(tensor: Tensor) -> int:
    """A number that tensors share if they lie in one memory, also fake ones, which have no address."""
    return int(tensor.untyped_storage()._cdata)


def count_owners(tensor: Tensor) -> int:
    """How many tensors lie in a tensor's memory, itself included, wherever they are kept."""
    import torch

    # The object that stands for the memory here is one of its owners.
    return int(torch._C._storage_Use_Count(storage_of(tensor))) - 1
