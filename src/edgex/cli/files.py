"""Files that commands write: refused before any slow step, and written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from edgex.errors import RunError, UsageError


def check_output(path: Path, forms: Sequence[str], force: bool) -> None:
    """Refuse a file that cannot or must not be written, before any slow step.

    Args:
        path: What `-o` was given.
        forms: Suffixes that are known.
        force: An existing file may be replaced.

    Raises:
        UsageError: Its form is unknown, it exists already, or its folder does not.
    """
    if path.suffix not in forms:
        known = " or ".join(forms)
        raise UsageError(f"-o {path}: reports are written as {known}", fix=suggest_file(path, forms[0], "report"))
    if path.exists() and not force:
        raise UsageError(f"{path} exists", fix="--force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}", where=f"-o {path}")


def suggest_file(path: Path, form: str, stem: str) -> str:
    """What `-o` may be given instead of a path that has not the form it must have.

    Args:
        path: What it was given; a folder, or no name at all (`.`, `/`), takes a file in it.
        form: The suffix of the file.
        stem: Its name in a folder.
    """
    return f"-o {path / f'{stem}{form}' if path.is_dir() or not path.name else path.with_suffix(form)}"


def write_text(path: Path, text: str, *, quiet: bool = False) -> None:
    """Write a file; whole or not at all.

    Args:
        path: Where.
        text: Its content.
        quiet: Do not say so on stderr.

    Raises:
        RunError: The disk refuses.
    """
    from edgex.runtime.support import publish

    with publish.disk_errors(RunError, f"cannot write {path}"):
        publish.write_text(path, text)
    if not quiet:
        click.echo(f"written: {path}", err=True)
