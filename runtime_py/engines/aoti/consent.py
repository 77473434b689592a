"""Whose compiled code may run here: what was compiled here, and what the user said yes to.

A package of AOTInductor is a shared library. Nothing can be checked in it that would make a stranger's harmless, so
that it is loaded only where its SHA-256 is known: an export notes it, and so does `edgex verify --trust-code`. Both
notes are empty files in the user's cache; whoever empties the cache withdraws them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgex.errors import RunError, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.cache import CACHE_FIX, user_cache

ENGINE = "aoti"
# The option of a session that says yes for itself alone.
OPTION = "trust_code"


def trust_code(package: Path) -> None:
    """Let this package run on this user's account from now on.

    Raises:
        RunError: The cache cannot be written.
    """
    note = _note_of(package)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    except OSError as error:
        raise RunError(
            f"nothing can note that {package.name} may run here", str(note.parent), CACHE_FIX, why=str(error)
        ) from error


def trust_artifact(artifact: Artifact) -> None:
    """Let the code in an artifact of somebody else run from now on.

    Raises:
        UsageError: There is none in it.
        RunError: The cache cannot be written.
    """
    if artifact.manifest.engine != ENGINE:
        raise UsageError(f"{artifact.path.name} holds no compiled code to trust", fix="leave --trust-code out")
    trust_code(artifact.file(".pt2"))


def require_consent(artifact: Artifact, package: Path) -> None:
    """Refuse a package that nobody said yes to.

    Raises:
        RunError: It was not compiled here by this user, nor trusted.
    """
    if not _note_of(package).exists():
        name = artifact.path.name
        raise RunError(
            f"{name} holds compiled code that was not made here",
            name,
            f"if you trust who made it, once: edgex verify {name} --trust-code; else export the model here",
            why="a package of AOTInductor is a shared library: loading it runs whatever its maker wrote",
        )


def _note_of(package: Path) -> Path:
    """Named by what will really be loaded: the manifest's digest is the maker's claim."""
    with package.open("rb") as file:
        return user_cache("trusted", hashlib.file_digest(file, "sha256").hexdigest())
