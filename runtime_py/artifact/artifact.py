"""The artifact on disk: a directory that holds native files, a manifest and its own proof.

```
NAME.TARGET.edgex/
  manifest.json         see edgex.runtime.artifact.manifest
  model.pte | model.onnx [+ model.onnx.data] | model.pt2
  METHOD.onnx           in place of model.onnx, where there are several methods; their weights are in model.onnx.data
  state.safetensors     initial values of carried state (where the native file does not keep them)
  golden/               inputs and eager outputs, see edgex.runtime.artifact.golden
  debug/                operator -> module path and source line; quoted source lines; weights by name
```

Opening one executes nothing of it: JSON and safetensors only, every path checked to stay inside the folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from edgex.errors import ArtifactError, UsageError, nearest_name
from edgex.runtime.artifact.manifest import MANIFEST_FILE, FileEntry, Manifest, parse_manifest
from edgex.runtime.artifact.shapes import MAX_MANIFEST_BYTES
from edgex.runtime.support.arguments import check_path
from edgex.runtime.support.json.reading import MAX_BYTES, read_json, read_regular

SUFFIX = ".edgex"
CheckLevel = Literal["hash", "size"]
_LEVELS: tuple[str, ...] = get_args(CheckLevel)

# A file this large that occupies next to nothing is made to keep its reader busy.
_SPARSE_BYTES = 1 << 30

# Without a handler, Python prints warnings of a log on stderr, as they are.
_LOG = logging.getLogger("edgex")

EDITED = "manifest.json was changed after the export: what it says of proof, inputs and versions may be wrong"

_DAMAGED_FIX = "copy the artifact again from where it came, or export the model again"


@dataclass(frozen=True)
class Artifact:
    """An artifact that was opened and checked.

    Attributes:
        path: Its folder.
        manifest: What it says of itself.
        check_seconds: How long sizes and hashes took to check.
    """

    path: Path
    manifest: Manifest
    check_seconds: float = 0.0

    def select(self, method: str | None) -> Artifact:
        """The same artifact with one of its methods that is meant; None leaves it.

        Raises:
            RunError: It has no such method.
        """
        return self if method is None else replace(self, manifest=self.manifest.select(method))

    def file(self, suffix: str) -> Path:
        """Path of the first file that ends with `suffix`, for example `.pte`."""
        return self.path / self.manifest.file(suffix).path

    def read_json(self, file: str, max_bytes: int = MAX_BYTES) -> Any:
        """A JSON file of the artifact.

        Args:
            file: Its path as in the manifest; only what is listed there was checked.
            max_bytes: What is larger is refused before it is read.

        Raises:
            ArtifactError: The manifest does not list it, or it cannot be read.
        """
        try:
            if not any(entry.path == file for entry in self.manifest.files):
                raise ValueError("the manifest does not list it")
            return read_json(self.path / file, max_bytes)
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{file} cannot be read", self.path.name, _DAMAGED_FIX, why=str(error)) from error

    @property
    def total_bytes(self) -> int:
        """Size of all files, the manifest included."""
        return sum(entry.bytes for entry in self.manifest.files) + (self.path / MANIFEST_FILE).stat().st_size

    @property
    def digest(self) -> str:
        """SHA-256 of the native files' hashes: changes when what runs changes, whatever the golden data."""
        native = (f"{file.path} {file.sha256}" for file in self.manifest.native_files)
        return hashlib.sha256("\n".join(native).encode()).hexdigest()


def open_artifact(path: str | os.PathLike[str], check: CheckLevel = "hash") -> Artifact:
    """Open an artifact and check that it is whole.

    Args:
        path: The artifact's folder.
        check: `hash` compares SHA-256 of every file, `size` only their sizes.

    Raises:
        UsageError: The path is none, or there is no such check.
        ArtifactError: It is not there, not an artifact, of another format, or damaged.
    """
    check_path("the artifact", path)
    check_level(check)
    folder = Path(path)
    shown = folder.name or str(folder)
    if not folder.exists():
        raise ArtifactError(f"no artifact at {path}", fix="edgex export MODEL --target TARGET writes one")
    manifest_path = folder / MANIFEST_FILE
    if not folder.is_dir() or not manifest_path.is_file():
        raise ArtifactError(
            f"{path} is not an edgex artifact",
            why=f"an artifact is a folder that holds {MANIFEST_FILE}",
            fix="give the folder NAME.TARGET.edgex that `edgex export` wrote",
        )
    try:
        text = read_regular(manifest_path, MAX_MANIFEST_BYTES)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{MANIFEST_FILE} cannot be read", shown, _DAMAGED_FIX, why=str(error)) from error
    manifest = parse_manifest(text, shown)
    if manifest.edited:
        _LOG.warning("%s: %s", shown, EDITED)
    started = time.perf_counter()
    for entry in manifest.files:
        _check_file(folder, entry, check, shown)
    return Artifact(folder, manifest, time.perf_counter() - started)


def check_level(check: Any) -> None:
    """Refuse an unknown level: it would check less than its author means.

    Raises:
        UsageError: It is none of `CheckLevel`.
    """
    if check not in _LEVELS:
        near = nearest_name(check, _LEVELS) if isinstance(check, str) else f"known: {', '.join(_LEVELS)}"
        raise UsageError(f"unknown check {check!r}", why=near, fix="check='hash' compares SHA-256 of every file")


def _check_file(folder: Path, entry: FileEntry, check: CheckLevel, shown: str) -> None:
    path = folder / entry.path
    try:
        status = path.lstat()
        inside = path.resolve().is_relative_to(folder.resolve())
    except OSError as error:
        raise ArtifactError(
            f"the artifact lacks {entry.path}", shown, _DAMAGED_FIX, why=error.strerror or str(error)
        ) from error
    if not stat.S_ISREG(status.st_mode) or not inside:
        raise ArtifactError(f"{entry.path} is not a plain file inside the artifact", shown, "do not use this artifact")
    if status.st_size != entry.bytes:
        raise ArtifactError(
            f"{entry.path} has {status.st_size} bytes, the manifest says {entry.bytes}", shown, _DAMAGED_FIX
        )
    if status.st_size > _SPARSE_BYTES and getattr(status, "st_blocks", status.st_size) * 512 < status.st_size // 64:
        raise ArtifactError(f"{entry.path} is mostly holes", shown, "do not use this artifact")
    if check == "hash":
        try:
            actual = hash_file(path)
        except OSError as error:
            raise ArtifactError(f"{entry.path} cannot be read", shown, _DAMAGED_FIX, why=str(error)) from error
        if actual != entry.sha256:
            raise ArtifactError(
                f"{entry.path} was changed after the export: its SHA-256 is not the manifest's",
                shown,
                _DAMAGED_FIX,
            )


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, in hex, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
