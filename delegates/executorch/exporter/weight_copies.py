"""Weights of large models, of which ExecuTorch would hold two more copies in memory while it lowers.

- It copies each region's program, weights and all, before a backend sees it, "in case backends change graph". The copy
  here is one of the graph: its weights are the model's own. No backend of edgex writes to a weight.
- It keeps what goes into the file as bytes in memory until that is written. Large ones lie in temporary files here,
  which end with the program.

For 537 MB of weights the exporting process held 1.6 GB for `xnnpack`, beside its libraries, and holds 0.64 with these.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

# Smaller ones are not worth a file.
_LARGE_BYTES = 1 << 20


@contextmanager
def weights_shared() -> Iterator[None]:
    """Within it, programs that are copied for a backend share their weights with the model."""
    from executorch.exir.backend.backend_details import BackendDetails

    original = BackendDetails.__dict__["copy_exported_program_for_preprocess"]
    BackendDetails.copy_exported_program_for_preprocess = classmethod(lambda _cls, program, _specs: copy_graph(program))
    try:
        yield
    finally:
        BackendDetails.copy_exported_program_for_preprocess = original


def copy_graph(program: ExportedProgram) -> ExportedProgram:
    """A copy whose weights are the program's own; of a part of larger memory, all of which backends write, a copy."""
    import torch

    from edgex.delegates.graph.torch_internals import FakeTensor

    kept: dict[int, Any] = {}
    for tensor in (*program.state_dict.values(), *program.constants.values()):
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor) or tensor.layout != torch.strided:
            continue
        own_bytes = tensor.numel() * tensor.element_size()
        if tensor.is_contiguous() and tensor.untyped_storage().nbytes() == own_bytes:
            kept[id(tensor)] = tensor
        elif type(tensor) is torch.Tensor:
            kept[id(tensor)] = tensor.detach().clone()
    copied: ExportedProgram = copy.deepcopy(program, kept)
    return copied


class WeightFiles:
    """What goes into a program's file, on disk until it is written.

    Where the system has no room for it, it stays in memory: the file that is written is the same.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._count = 0

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Within it, what backends give ExecuTorch to store lies in files."""
        from executorch.exir._serialize._named_data_store import NamedDataStore

        original = NamedDataStore.add_named_data

        def add(store: Any, key: str, data: bytes | torch.Tensor, *args: Any, **kwargs: Any) -> None:
            original(store, key, self._store(data), *args, **kwargs)

        NamedDataStore.add_named_data = add
        try:
            yield
        except BaseException:
            self._stack.close()
            raise
        finally:
            NamedDataStore.add_named_data = original

    def end_with(self, program: Any) -> None:
        """Remove the files as soon as nothing refers to the emitted program."""
        weakref.finalize(program, self._stack.close)

    def _store(self, data: Any) -> Any:
        if not isinstance(data, bytes) or len(data) < _LARGE_BYTES:
            return data
        from executorch.exir._serialize._cord import FileBackedData

        path = None
        try:
            if self._folder is None:
                self._folder = self._stack.enter_context(scratch_folder("weights"))
            path = self._folder / f"{self._count}.bin"
            path.write_bytes(data)
        except OSError:
            if path is not None:
                path.unlink(missing_ok=True)  # what there is of it fills the disk
            return data
        self._count += 1
        return FileBackedData(str(path), cleanup=True)
