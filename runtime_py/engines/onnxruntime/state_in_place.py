"""Runs of a session whose state stays where it is: its kernels read and write it in the same memory.

Without this, ONNX Runtime gives a new array for every tensor of the state at every run: for a language model, a copy of
the whole cache for each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from edgex.runtime.artifact.manifest import Method

_CPU = "cpu"


def keeps_in_place(method: Method) -> bool:
    """Whether all that a method carries may stay in one memory, and its outputs have sizes known beforehand."""
    carried = [spec for spec in method.state if spec.input is not None]
    return bool(carried) and all(spec.in_place for spec in carried) and all(out.is_static for out in method.outputs)


class StateInPlace:
    """A session bound to the memory of its state.

    Attributes:
        values: The state's tensors, in the order of the method's carried state; runs write to them.
    """

    def __init__(self, session: Any, method: Method, initial: Sequence[np.ndarray]) -> None:
        """Bind.

        Args:
            session: An `onnxruntime.InferenceSession`; its first inputs and outputs are the user's.
            method: Says what state is carried, and the outputs' shapes.
            initial: The state's values before the first run; they are copied.
        """
        self._session, self._binding = session, session.io_binding()
        self._initial = initial
        self.values = [np.array(value, order="C") for value in initial]
        self._inputs = [node.name for node in session.get_inputs()][: len(method.inputs)]
        # What each input is bound to, with its shape and address; kept, so that its memory is nobody else's.
        self._bound: list[tuple[np.ndarray | None, tuple[int, ...], int]] = [(None, (), 0)] * len(self._inputs)
        names = [node.name for node in session.get_outputs()]
        shapes = [tuple(size for size in spec.shape if isinstance(size, int)) for spec in method.outputs]
        kinds = [spec.numpy_dtype.type for spec in method.outputs]
        self._outputs = list(zip(names, shapes, kinds, strict=False))
        carried = [spec for spec in method.state if spec.input is not None]
        for spec, value in zip(carried, self.values, strict=True):
            place = (_CPU, 0, value.dtype.type, value.shape, value.ctypes.data)
            self._binding.bind_input(spec.input, *place)
            self._binding.bind_output(spec.output, *place)

    def run(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once; the outputs are the caller's."""
        binding = self._binding
        for at, given in enumerate(inputs):
            known, shape, address = self._bound[at]
            # A loop that writes each token into the same array is bound already: binding costs 3 us an input.
            if given is known and given.shape == shape and _address(given) == address:
                continue
            value = np.ascontiguousarray(given)
            address = _address(value)
            binding.bind_input(self._inputs[at], _CPU, 0, value.dtype.type, value.shape, address)
            self._bound[at] = value, value.shape, address
        results = []
        for name, shape, kind in self._outputs:
            result = np.empty(shape, kind)
            results.append(result)
            binding.bind_output(name, _CPU, 0, kind, shape, _address(result))
        self._session.run_with_iobinding(binding)
        return tuple(results)

    def write(self, values: Sequence[np.ndarray]) -> None:
        """Start the next run from these values."""
        for place, value in zip(self.values, values, strict=True):
            place[...] = value

    def reset(self) -> None:
        """Start the next run from the initial values."""
        self.write(self._initial)


def _address(array: np.ndarray) -> int:
    """Where its memory begins; `array.ctypes` takes twice as long."""
    address: int = array.__array_interface__["data"][0]
    return address
