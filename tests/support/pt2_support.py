"""Rewrite a `.pt2` as an attacker would: any member, and the artifact's hashes after it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgex.export.packaging.package import list_files


def rewrite_members(path: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> None:
    """Change members of a .pt2 and add others."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(members)).partition("/")[0]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(name, content))
        for name, content in (more or {}).items():
            archive.writestr(f"{root}/{name}", content)


def rewrite_json(path: Path, member: str, change: Callable[[Any], object]) -> None:
    """Change one JSON member, found by the end of its name."""

    def rewrite(name: str, content: bytes) -> bytes:
        if not name.endswith(member):
            return content
        document = json.loads(content)
        change(document)
        return json.dumps(document).encode()

    rewrite_members(path, rewrite)


def rehash(artifact: Path) -> None:
    """Write the right sizes and hashes into the manifest, as whoever changes a file can."""
    manifest = artifact / "manifest.json"
    document = json.loads(manifest.read_text())
    document["files"] = [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256} for f in list_files(artifact)]
    manifest.write_text(json.dumps(document))
