"""A model whose tensors hold no values: the same modules, every weight a fake tensor on the CPU.

Capture and partitioning look at dtypes and shapes only, so a model of any size is planned in the memory of its graph. A
model built under `torch.device("meta")` never had values; one that was built for real gives its memory back here.
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.graph.torch_internals import FakeTensorMode, pytree
from edgex.export.capture.torch_internals import tensor_stores


def drop_values(module: torch.nn.Module) -> None:
    """Replace every parameter, buffer and tensor attribute of a module by a fake tensor of the same dtype and shape.

    Tied weights stay tied. Tensors of a subclass (quantized weights, say) stay as they are: their parts are their own.

    Args:
        module: It is changed, and computes nothing any more.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # All are held until all are replaced: an id is only unique as long as its object lives.
    stores: list[dict[str, Any]] = []
    for part in module.modules():
        stores += tensor_stores(part)
    found = [(store, name, value) for store in stores for name, value in store.items() if _is_plain(value)]
    made: dict[int, torch.Tensor] = {}
    for _, _, tensor in found:
        if id(tensor) in made:
            continue
        with mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        made[id(tensor)] = torch.nn.Parameter(fake, requires_grad=False) if is_parameter else fake
    for store, name, tensor in found:
        store[name] = made[id(tensor)]


def give_values(value: Any) -> Any:
    """Nested example inputs with zeros in place of tensors on the meta device."""
    return pytree.tree_map_only(torch.Tensor, lambda t: torch.zeros_like(t, device="cpu") if t.is_meta else t, value)


def _is_plain(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided
