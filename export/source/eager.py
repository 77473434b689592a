"""The user's model as it runs in eager PyTorch: the reference that every artifact is compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.support.native_stderr import prints_on_stderr

# References computed with another number of threads differ in the last bits, and with them the artifact's golden files.
REFERENCE_THREADS = 2


@contextlib.contextmanager
def reference_conditions(*, fast_attention: bool = False) -> Iterator[None]:
    """Run the user's code as references are computed: without gradients, two threads, its prints on stderr.

    Args:
        fast_attention: Allow the fused path of `nn.TransformerEncoder`, which torch.export never takes and which gives
            0 at padding.
    """
    threads, fast = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    torch.set_num_threads(REFERENCE_THREADS)
    torch.backends.mha.set_fastpath_enabled(fast and fast_attention)
    try:
        with torch.no_grad(), prints_on_stderr():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mha.set_fastpath_enabled(fast)


@dataclass(frozen=True)
class _SavedBuffer:
    names: tuple[str, ...]
    owners: tuple[tuple[torch.nn.Module, str], ...]
    tensor: torch.Tensor
    address: int
    value: torch.Tensor


class BufferSnapshot:
    """The buffers of a module as they are now, to see what a run touched and to put them back.

    Copying them does not raise the peak memory of an export: lowering later holds a second copy of all weights.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        found: dict[int, tuple[torch.Tensor, list[str], list[tuple[torch.nn.Module, str]]]] = {}
        for prefix, owner in module.named_modules(remove_duplicate=False):
            for key, tensor in owner._buffers.items():
                if tensor is not None:
                    entry = found.setdefault(id(tensor), (tensor, [], []))
                    entry[1].append(f"{prefix}.{key}" if prefix else key)
                    entry[2].append((owner, key))
        self._saved = [
            _SavedBuffer(tuple(names), tuple(owners), tensor, _address_of(tensor), tensor.detach().clone())
            for tensor, names, owners in found.values()
        ]

    def touched(self) -> dict[str, tuple[str, ...]]:
        """Buffers replaced or changed since: each one's names, by its first name.

        Values are compared, since some writes count no version: those of batch norm, and those through .data.
        """
        return {b.names[0]: b.names for b in self._saved if self._is_replaced(b) or not _same(b.tensor, b.value)}

    def replaced(self) -> list[str]:
        """Buffers in whose place another tensor is, by their first names."""
        return [b.names[0] for b in self._saved if self._is_replaced(b)]

    def replaced_data(self) -> list[str]:
        """Buffers whose tensor is the same and has other memory: somebody assigned to its .data."""
        return [b.names[0] for b in self._saved if not self._is_replaced(b) and _address_of(b.tensor) != b.address]

    def value_of(self, name: str) -> torch.Tensor | None:
        """The saved value of a buffer by any of its names; a copy of its own."""
        return next((buffer.value.clone() for buffer in self._saved if name in buffer.names), None)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all buffers but these."""
        wanted = set(names)
        self._saved = [buffer for buffer in self._saved if wanted.intersection(buffer.names)]

    def forget(self, names: Iterable[str]) -> None:
        """Forget these buffers."""
        unwanted = set(names)
        self._saved = [buffer for buffer in self._saved if not unwanted.intersection(buffer.names)]

    def restore(self) -> None:
        """Put the values back into the original tensors, and these back into the module."""
        with torch.no_grad():
            for buffer in self._saved:
                # One made in inference mode cannot be written to outside of it, so that nobody changed it either.
                if not buffer.tensor.is_inference():
                    _once(buffer.tensor).copy_(_once(buffer.value, buffer.tensor))
                for owner, key in buffer.owners:
                    owner._buffers[key] = buffer.tensor

    @staticmethod
    def _is_replaced(buffer: _SavedBuffer) -> bool:
        return any(owner._buffers.get(key) is not buffer.tensor for owner, key in buffer.owners)


def _once(tensor: torch.Tensor, as_in: torch.Tensor | None = None) -> torch.Tensor:
    """A view with each place in memory once: what `expand` repeats, nobody can write to as a whole.

    Args:
        tensor: Of any strides.
        as_in: What it was copied from, whose strides count.
    """
    strides = (tensor if as_in is None else as_in).stride() if tensor.layout == torch.strided else ()
    for dim, stride in enumerate(strides):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether values are equal, NaN to NaN."""
    if first.shape != second.shape:
        return False
    return torch.equal(first, second) or bool(((first == second) | ((first != first) & (second != second))).all())


def _address_of(tensor: torch.Tensor) -> int:
    return tensor.data_ptr() if tensor.layout == torch.strided and tensor.device.type != "meta" else 0


class EagerModel:
    """The model behind the signature of its program: tensors in, tensors out.

    Attributes:
        inputs: As `CapturedProgram.inputs`.
        outputs: As `CapturedProgram.outputs`.
        example: The example inputs, in the order of `inputs`.
        example_outputs: Eager's answer to them from the initial state, in the order of `outputs`.
        figures: What it reaches, by metric: one measurement holds for all targets.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        buffers: BufferSnapshot,
        example_output: Any,
    ) -> None:
        self._call = call
        self._leaves, self._structure = pytree.tree_flatten((args, dict(kwargs)))
        self._buffers = buffers
        self._others: tuple[BufferSnapshot, ...] = ()
        self.inputs = inputs
        self.outputs = outputs
        self.example = [leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)]
        self.example_outputs = _tensor_leaves(example_output)
        self.figures: dict[str, float] = {}

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run once, from the state that the last run left.

        Args:
            inputs: Tensors in the order of `inputs`; they are not written to, even where forward writes to them.

        Returns:
            Tensors in the order of `outputs`, owned by the caller.
        """
        given = iter(inputs)
        leaves = [next(given).clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        with reference_conditions():
            # A copy, since a stateful model may return the buffer that its next run changes.
            return [tensor.clone() for tensor in _tensor_leaves(self._call(*args, **kwargs))]

    @property
    def module(self) -> Callable[..., Any]:
        """The user's module, or what stands for it."""
        return self._call

    def reset(self) -> None:
        """Put back the initial state, that of all methods where several share it."""
        for buffers in (self._buffers, *self._others):
            buffers.restore()

    def reset_with(self, others: Sequence[EagerModel]) -> None:
        """Put back what these methods change, too, from now on."""
        self._others = tuple(other._buffers for other in others if other is not self)

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[torch.Tensor]:
        """The tensors of another call of the same structure, in the order of `inputs`.

        Raises:
            ValueError: The structure is not that of the example inputs.
        """
        ordered = {key: (kwargs or {})[key] for key in self._structure.child(1).context or () if key in (kwargs or {})}
        ordered |= {key: value for key, value in (kwargs or {}).items() if key not in ordered}
        leaves, structure = pytree.tree_flatten((tuple(args), ordered))
        if structure != self._structure:
            raise ValueError(f"the inputs have the structure {structure}, the example inputs have {self._structure}")
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _tensor_leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
