"""Weights on disk: mapped files, which the system drops from memory when it needs the room and reads again.

```
before:  parameter -> memory of its own              4.9 GB of a process that the system cannot take back
after:   parameter -> mapped, nameless file          0 to 4.9 GB, as much as is free
```

Nothing of a parameter changes but where its values are. Files without a name end with the process, however it ends.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import torch

from edgex.delegates.graph.torch_internals import count_owners, storage_of
from edgex.runtime.support.machine.memory import give_back_memory

# Smaller ones are not worth a file.
_LEAST_BYTES = 1 << 20
# Of the disk, what is left to others.
_MARGIN_BYTES = 1 << 28
# File systems whose files are memory.
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


class WeightsOnDisk:
    """The weights of one export that lie on disk.

    Attributes:
        bytes: How much was moved there.
        problem: Why no more could be, or None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Create an account of nothing.

        Args:
            folder: Where files may be; None is a place for temporary files on a disk.
        """
        self.bytes = 0
        self.problem: str | None = None
        self._folder = folder

    def move(self, parameters: Iterable[torch.Tensor]) -> int:
        """Move what can be moved: plain tensors in memory of their own that nothing but these parameters refers to.

        Values, shapes, strides and what shares memory with each other stay. Whoever holds another view of a weight
        would not see later writes, so such weights stay where they are.

        Args:
            parameters: Of a model, on the CPU; what they share counts once.

        Returns:
            The bytes of memory that this gave back.
        """
        moved = 0
        for group in _by_storage(parameters):
            if self.problem is not None:
                break
            try:
                moved += self._move_storage(group)
            except OSError as error:
                self.problem = error.strerror or str(error)
        self.bytes += moved
        if moved:
            give_back_memory()
        return moved

    def _move_storage(self, parameters: list[torch.Tensor]) -> int:
        count = parameters[0].untyped_storage().nbytes()
        if count < _LEAST_BYTES or count_owners(parameters[0]) > len(parameters):
            return 0
        if self._folder is None:
            self._folder = find_disk_folder()
        values = map_bytes(count, self._folder)
        values.copy_(torch.empty(0, dtype=torch.uint8).set_(parameters[0].untyped_storage()))
        for parameter in parameters:
            plain = torch.empty(0, dtype=parameter.dtype)
            parameter.data = plain.set_(
                values.untyped_storage(), parameter.storage_offset(), parameter.size(), parameter.stride()
            )
        return count


def map_bytes(count: int, folder: Path) -> torch.Tensor:
    """Bytes in a file without a name.

    Args:
        count: How many.
        folder: On the disk where they are.

    Returns:
        Zeros, `(count,)`, uint8. The file ends with the last tensor that shares their memory.

    Raises:
        OSError: The disk has no room: asked for now, since a page that is missing when it is written kills the process.
    """
    free = shutil.disk_usage(folder).free
    if free < count + _MARGIN_BYTES:
        raise OSError(None, f"{folder} has {free / 1e9:.1f} GB left")
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, count)
        else:
            file.truncate(count)
        return torch.frombuffer(mmap.mmap(file.fileno(), count), dtype=torch.uint8)


def find_disk_folder() -> Path:
    """A place for temporary files on a disk: the system's own, or /var/tmp where that is memory.

    Raises:
        OSError: Both are memory.
    """
    for folder in (Path(tempfile.gettempdir()), Path("/var/tmp")):
        if folder.is_dir() and os.access(folder, os.W_OK) and _file_system(folder) not in _IN_MEMORY:
            return folder
    raise OSError(None, f"{tempfile.gettempdir()} lies in memory; TMPDIR names another place")


def is_in_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor's values are in memory that torch took for it, and not in a mapped file or another's memory."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.untyped_storage().resizable()
    )


def _by_storage(parameters: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Parameters that can be moved, those that share memory together."""
    groups: dict[int, dict[int, torch.Tensor]] = {}
    for parameter in parameters:
        if is_in_memory(parameter):
            groups.setdefault(storage_of(parameter), {})[id(parameter)] = parameter
    yield from (list(group.values()) for group in groups.values())


def _file_system(folder: Path) -> str:
    """The type of the file system that a folder lies in."""
    places = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    resolved = folder.resolve()
    return next((places[place] for place in (resolved, *resolved.parents) if place in places), "")
