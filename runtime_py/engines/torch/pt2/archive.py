"""Load a `.pt2` without executing anything in it.

`torch.export.load` says of itself that it must not be given a stranger's file. It unpickles (constants, script objects,
sample inputs), loads shared libraries (`data/aotinductor/`), evaluates sizes and guards as Python, calls whatever a
node names, and builds source text from names. So the members of the archive are known by name, its JSON is checked
against torch's schema with a grammar for every text (`edgex.runtime.engines.torch.pt2.document`), and what is left is
loaded with torch's own guard against pickles (`TORCH_FORCE_WEIGHTS_ONLY_LOAD`) on.

What remains is what the operators do with their numbers: they are native code and check shapes as they do for any
model.
"""

from __future__ import annotations

import os
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.errors import ArtifactError, RunError
from edgex.runtime.support.json.reading import parse_json

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_LOAD_LOCK = threading.Lock()
_GUARD = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"

_PROGRAM = "models/model.json"
_PAYLOADS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_MEMBER = re.compile(
    r"models/model\.json|data/weights/(?:weight_[0-9]+|model_weights_config\.json)"
    r"|data/constants/(?:tensor_[0-9]+|model_constants_config\.json)|data/sample_inputs/model\.pt"
    r"|archive_format|archive_version|byteorder|\.data/version|\.data/serialization_id|version|extra/[^/]+"
)
_MAX_JSON_BYTES = 512 << 20
_MAX_JSON_DEPTH = 400


def load_program(path: Path) -> ExportedProgram:
    """Load a program.

    Args:
        path: The file.

    Raises:
        ArtifactError: It holds something that torch would execute, or that torch never writes.
        RunError: It is damaged.
    """
    try:
        _check_archive(path)
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path.name} holds what could execute code, or what torch.export.save does not write",
            path.parent.name,
            "do not use this file",
            why=str(error),
        ) from error
    except (OSError, RuntimeError, zipfile.BadZipFile, AssertionError) as error:
        raise _damaged(path, error) from error
    import torch

    try:
        # torch keeps the deserializer and the guard in places that the whole process shares.
        with _LOAD_LOCK, _no_pickles():
            return torch.export.load(path)
    except Exception as error:  # a damaged archive fails in torch in many ways; all mean the same to the user
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunError:
    first = next(iter(str(error).splitlines()), "")
    return RunError(
        f"torch cannot load {path.name}",
        path.parent.name,
        "export the model again",
        why=f"{type(error).__name__}: {first}",
    )


def _check_archive(path: Path) -> None:
    """Read the archive as torch does, with torch's reader, and check everything that torch would interpret."""
    from torch.export.pt2_archive import PT2ArchiveReader

    from edgex.runtime.engines.torch.pt2.document import check_payloads, check_program

    listed = _check_members(path)
    with PT2ArchiveReader(str(path)) as archive:
        names = archive.get_file_names()
        # Two readers of zip files may see two archives in one file.
        if sorted(names) != sorted(listed):
            raise ValueError("its directory can be read in two ways")
        for name in names:
            if not _MEMBER.fullmatch(name):
                raise ValueError(f"{name!r} is no member that torch.export.save writes for one model")
        for name in _PAYLOADS:
            check_payloads(parse_json(archive.read_bytes(name), _MAX_JSON_DEPTH))
        check_program(parse_json(archive.read_bytes(_PROGRAM), _MAX_JSON_DEPTH))


def _check_members(path: Path) -> list[str]:
    """Names of the members without the folder that all are in; they are stored as they are, each once."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("its members are larger than the file")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{member.filename!r} is compressed")
        if member.filename.endswith(".json") and member.file_size > _MAX_JSON_BYTES:
            raise ValueError(f"{member.filename!r} has {member.file_size:,} bytes")
    roots = {member.filename.partition("/")[0] for member in members}
    if len(roots) != 1:
        raise ValueError("its members are not all in one folder")
    names = [member.filename.partition("/")[2] for member in members]
    if len({name.lower() for name in names}) != len(names):
        raise ValueError("it has two members of one name")
    return names


@contextmanager
def _no_pickles() -> Iterator[None]:
    before = os.environ.get(_GUARD)
    os.environ[_GUARD] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_GUARD]
        else:
            os.environ[_GUARD] = before
