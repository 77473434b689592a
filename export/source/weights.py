"""Checks on a model before it is captured: mode, device, and weights that are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import CaptureError

# How many names an error or a notice lists.
NAMES_SHOWN = 5


def put_in_eval(module: torch.nn.Module) -> tuple[str, ...]:
    """Put a module in eval mode.

    Returns:
        A notice if it, or a part of it, was in training mode, naming the layers for which that matters.
    """
    training = [name or "the model" for name, part in module.named_modules() if part.training]
    if not training:
        return ()
    layers = [
        f"{name or 'the model'} ({type(part).__name__})"
        for name, part in module.named_modules()
        if part.training and _depends_on_mode(part)
    ]
    try:
        module.eval()
    except NotImplementedError:
        return ()  # what ExportedProgram.module() gives has one mode, whatever its flag says
    matter = f"; this changes {shorten(layers)}" if layers else ""
    return (f"the model was in training mode and has been put in eval mode{matter}",)


@contextmanager
def modes_kept(model: Any) -> Iterator[None]:
    """Whatever is put in eval mode in the block is in its own mode again behind it, however the block ends.

    Args:
        model: What Python code hands over: a module, or methods by name; others have no mode.
    """
    parts = [(part, part.training) for owner in _owners(model) for part in owner.modules()]
    try:
        yield
    finally:
        # A `train` of its own may do more than set the flag: LoRA layers split and merge their weights in it.
        for part, was in parts:
            if part.training != was and type(part).train is not torch.nn.Module.train:
                part.train(was)
        for part, was in parts:
            part.training = was


def _owners(model: Any) -> list[torch.nn.Module]:
    given = [model]
    if isinstance(model, Mapping):
        given = [entry[0] for entry in model.values() if isinstance(entry, tuple) and entry]
    owners = [getattr(one, "__self__", one) for one in given]
    return [owner for owner in owners if isinstance(owner, torch.nn.Module)]


def _depends_on_mode(part: torch.nn.Module) -> bool:
    """Whether a layer computes something else in training mode."""
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    rate = getattr(part, "dropout", None)  # a number in recurrent and attention layers, a layer elsewhere
    return isinstance(part, (_BatchNorm, _DropoutNd)) or (isinstance(rate, float) and rate > 0)


def check_on_cpu(module: torch.nn.Module, inputs: Any) -> None:
    """Refuse weights and example inputs that are not in the host's memory.

    Raises:
        CaptureError: Some are on an accelerator, or on the meta device, which holds no values.
    """
    named = _named(module, inputs)
    meta = [name for name, tensor in named if tensor.device.type == "meta"]
    if meta:
        raise CaptureError(
            f"{shorten(meta)} {'is' if len(meta) == 1 else 'are'} on the meta device, which holds no values",
            fix="create the model on the CPU, or load its weights with load_state_dict(..., assign=True)",
        )
    elsewhere = [(name, str(tensor.device)) for name, tensor in named if tensor.device.type != "cpu"]
    if elsewhere:
        raise CaptureError(
            f"{shorten([name for name, _ in elsewhere])}: on {elsewhere[0][1]} instead of the CPU",
            why="artifacts are made and proved on the CPU",
            fix="call model.cpu(), and .cpu() on the example inputs",
        )


def check_dense(module: torch.nn.Module, inputs: Any) -> None:
    """Refuse weights and example inputs that list only what is not zero (adjacency of graph networks).

    Raises:
        CaptureError: Some are sparse, in whatever layout.
    """
    # By name: not every layout has a flag of its own.
    sparse = [(name, str(tensor.layout)) for name, tensor in _named(module, inputs) if "sparse" in str(tensor.layout)]
    if sparse:
        raise CaptureError(
            f"{shorten([name for name, _ in sparse])}: {sparse[0][1]}, and an exported program has dense tensors only",
            why="torch.export and all engines compute with dense tensors",
            fix="keep tensor.to_dense() and multiply with @; or keep the edges, and write the product as "
            "torch.zeros_like(x).index_add(0, rows, values[:, None] * x[columns])",
        )


def _named(module: torch.nn.Module, inputs: Any) -> list[tuple[str, torch.Tensor]]:
    named = [(f"weight {name}", tensor) for name, tensor in _weights_of(module)]
    return named + [("an example input", leaf) for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]


def check_weights(module: torch.nn.Module | ExportedProgram) -> None:
    """Refuse weights that are not numbers.

    NaN is refused everywhere. Infinity is refused in parameters only: in a buffer it is legal, an attention mask
    for one.

    Raises:
        CaptureError: It names the tensors.
    """
    parameters = {id(tensor) for _, tensor in module.named_parameters()}
    bad: dict[str, list[str]] = {"NaN": [], "Inf": []}
    for name, tensor in _weights_of(module):
        kind = _find_non_finite(tensor)
        if kind == "NaN" or (kind == "Inf" and id(tensor) in parameters):
            bad[kind].append(name)
    found = [f"{kind} in {shorten(names)}" for kind, names in bad.items() if names]
    if found:
        raise CaptureError(
            f"the weights hold {' and '.join(found)}",
            why="every comparison with such a model is meaningless",
            fix="check the checkpoint and how it was trained or converted",
        )


def shorten(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _find_non_finite(tensor: torch.Tensor) -> str | None:
    """`NaN`, `Inf` or None. A sum shows in one pass whether a closer look is needed."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta":
        return None
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return None  # quantized and other subclasses: their parts are listed by their owner
    with torch.no_grad():
        if bool(torch.isfinite(tensor.sum())):
            return None
        if bool(torch.isnan(tensor).any()):
            return "NaN"
        return "Inf" if bool(torch.isinf(tensor).any()) else None


def _weights_of(module: torch.nn.Module | ExportedProgram) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name; a subclass of Tensor by the plain tensors inside it."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        yield name, tensor
        if hasattr(tensor, "__tensor_flatten__"):
            for inner in tensor.__tensor_flatten__()[0]:
                yield f"{name}.{inner}", getattr(tensor, inner)
