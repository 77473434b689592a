"""Whether memory holds an export: asked before the slow steps, so that none ends in the system's kill."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from edgex.delegates.base import KnowsMemory
from edgex.errors import ArtifactError, EdgexError

# Peak of an export over the model's weights where the delegate does not know it: the model itself and one copy.
# docs/decisions/0009-memory-factors.md says how delegates measured theirs.
LEAST_FACTOR = 2.0

_FIX = (
    "use a machine with more memory, or end other programs; --no-memory-check tries all the same, and `edgex why` "
    "needs no weights"
)


def peak_factor(delegates: Iterable[object], recipe: str | None = None) -> float:
    """How many times a model's weights an export holds at its peak; targets are exported one after the other."""
    known = [delegate.peak_memory_factor(recipe) for delegate in delegates if isinstance(delegate, KnowsMemory)]
    return max(LEAST_FACTOR, *known) if known else LEAST_FACTOR


def needed_bytes(
    module: torch.nn.Module | ExportedProgram, delegates: Iterable[object], recipe: str | None = None
) -> int:
    """What an export of a model needs at its peak, about; weights that share memory count once."""
    return int(peak_factor(delegates, recipe) * _weight_bytes([*module.parameters(), *module.buffers()]))


def check_memory(
    module: torch.nn.Module | ExportedProgram,
    delegates: Sequence[object],
    available_bytes: int | None,
    recipe: str | None = None,
) -> None:
    """Refuse a model whose export would not fit.

    Args:
        module: With its weights in memory.
        delegates: Those of the targets to which it is exported.
        available_bytes: What the system could still give; None where unknown, and then nothing is refused.
        recipe: Name of the quantization recipe, or None.

    Raises:
        ArtifactError: It says how much is needed, and how much there is.
    """
    weights = _weight_bytes([*module.parameters(), *module.buffers()])
    needed = needed_bytes(module, delegates, recipe)
    # The weights are held already.
    if available_bytes is None or needed <= available_bytes + weights:
        return
    raise ArtifactError(
        "exporting this model needs more memory than there is",
        None,
        _FIX,
        why=f"its weights take {_gigabytes(weights)}, and an export{'' if recipe is None else f' with {recipe}'} "
        f"about {peak_factor(delegates, recipe):g} times that: "
        f"{_gigabytes(needed)} needed, {_gigabytes(available_bytes + weights)} available",
    )


@contextmanager
def refusing_large_models(available_bytes: int | None) -> Iterator[None]:
    """Stop the user's code as soon as the parameters that it makes are larger than the memory.

    Args:
        available_bytes: What the system could give before; None where unknown, and then nothing is refused.

    Raises:
        ArtifactError: From inside the user's code, or in place of its failure to get memory.
    """
    if available_bytes is None:
        yield
        return
    made: list[weakref.ref[torch.Tensor]] = []
    total = 0

    def count(_module: torch.nn.Module, _name: str, parameter: Any) -> None:
        nonlocal total
        if not isinstance(parameter, torch.Tensor) or parameter.is_meta:
            return
        made.append(weakref.ref(parameter))
        total += _weight_bytes([parameter])
        if total > available_bytes:
            # Seldom, and for sure: what was made and dropped since does not count.
            alive = [tensor for tensor in (reference() for reference in made) if tensor is not None]
            total = _weight_bytes(alive)
        if total > available_bytes:
            raise _too_large(f"{_gigabytes(total)} so far, {_gigabytes(available_bytes)} available")

    handle = torch.nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    except EdgexError as error:
        cause = error.__cause__
        if isinstance(cause, MemoryError) or "DefaultCPUAllocator" in str(cause):
            said = str(cause).partition("you tried to allocate ")[2].partition(" bytes")[0]
            asked = f"one of {_gigabytes(int(said))} was refused, " if said.isdigit() else ""
            raise _too_large(f"{asked}{_gigabytes(available_bytes)} available", error.where) from error
        raise
    finally:
        handle.remove()


def _too_large(why: str, where: str | None = None) -> ArtifactError:
    return ArtifactError("the model's weights alone need more memory than there is", where, _FIX, why=why)


def _weight_bytes(tensors: list[torch.Tensor]) -> int:
    """Bytes that tensors take, or would take with values; what they share counts once."""
    return sum({_key(tensor): tensor.numel() * tensor.element_size() for tensor in tensors}.values())


def _key(tensor: torch.Tensor) -> int:
    """Tied weights are one object, or views of one memory."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return tensor.data_ptr() if plain and not tensor.is_meta and tensor.data_ptr() else id(tensor)


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
