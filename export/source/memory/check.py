"""Whether memory holds an export: asked before the slow steps, so that none ends in the system's kill."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from edgex.delegates.base import KnowsMemory
from edgex.errors import ArtifactError, EdgexError
from edgex.export.source.memory.on_disk import WeightsOnDisk, is_in_memory

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
    read_available: Callable[[], int | None],
    recipe: str | None = None,
    disk: WeightsOnDisk | None = None,
    *,
    refuse: bool = True,
) -> None:
    """Move the weights of a model to disk whose export would not fit beside them; refuse what does not fit then.

    Args:
        module: With its weights in memory, or on disk.
        delegates: Those of the targets to which it is exported.
        read_available: Gives what the system could still give; None where unknown, and then nothing is done.
        recipe: Name of the quantization recipe, or None.
        disk: Where the weights go; None leaves them in memory.
        refuse: False moves them and hopes.

    Raises:
        ArtifactError: It says how much is needed, and how much there is.
    """
    weights = _weight_bytes([*module.parameters(), *module.buffers()])
    needed = needed_bytes(module, delegates, recipe)

    def find_shortage() -> int | None:
        """What is available, where it is too little; the weights are held already, in memory or on disk."""
        available = read_available()
        return None if available is None or needed <= available + weights else available

    available = find_shortage()
    if available is not None and disk is not None and disk.move(module.parameters()):
        available = find_shortage()
    if available is None or not refuse:
        return
    on_disk = 0 if disk is None else disk.bytes
    raise ArtifactError(
        "exporting this model needs more memory than there is",
        None,
        _FIX,
        why=f"its weights take {_gigabytes(weights)}, and an export{'' if recipe is None else f' with {recipe}'} "
        f"about {peak_factor(delegates, recipe):g} times that: {_gigabytes(needed - on_disk)} needed"
        f"{f' beside the {_gigabytes(on_disk)} on disk' if on_disk else ''}, "
        f"{_gigabytes(available + weights - on_disk)} available{_why_not_on_disk(disk)}",
    )


def _why_not_on_disk(disk: WeightsOnDisk | None) -> str:
    return "" if disk is None or disk.problem is None else f"; not on disk: {disk.problem}"


@contextmanager
def refusing_large_models(
    available_bytes: int | None, disk: WeightsOnDisk | None = None, *, refuse: bool = True
) -> Iterator[None]:
    """Stop the user's code as soon as the parameters that it makes are larger than the memory.

    Args:
        available_bytes: What the system could give before; None where unknown, and then nothing is refused.
        disk: Where parameters go as soon as no export of what there is would fit beside them; None leaves them in
            memory.
        refuse: False moves them, and stops nothing.

    Raises:
        ArtifactError: From inside the user's code, or in place of its failure to get memory.
    """
    if available_bytes is None:
        yield
        return
    made: list[weakref.ref[torch.Tensor]] = []
    total = 0
    largest = available_bytes if disk is None else int(available_bytes / LEAST_FACTOR)

    def count(_module: torch.nn.Module, _name: str, parameter: Any) -> None:
        nonlocal total
        if not isinstance(parameter, torch.Tensor) or parameter.is_meta:
            return
        if disk is not None and not is_in_memory(parameter):
            return
        made.append(weakref.ref(parameter))
        total += _weight_bytes([parameter])
        if total > largest:
            # Seldom, and for sure: what was made and dropped since does not count.
            alive = [tensor for tensor in (reference() for reference in made) if tensor is not None]
            if disk is not None:
                # All but this one, which has no values yet, or another owner.
                disk.move(tensor for tensor in alive if tensor is not parameter)
                alive = [tensor for tensor in alive if is_in_memory(tensor)]
                made[:] = map(weakref.ref, alive)
            total = _weight_bytes(alive)
        if total > available_bytes and refuse:
            figures = f"{_gigabytes(total)} so far, {_gigabytes(available_bytes)} available"
            raise _too_large(figures + _why_not_on_disk(disk))

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
