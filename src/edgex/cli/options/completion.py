"""What the shell completes: targets by their entry points, artifacts and model files. Nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.types import StringParamType

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class TargetNames(StringParamType):
    """One target, or several by comma; checked later, with everything else that was asked."""

    name = "target"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of the registered targets, behind what was typed before the last comma."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(before + comma + name)
            for name in _target_names()
            if name.startswith(last) and name not in before.split(",")
        ]

    def get_missing_message(self, param: click.Parameter, *_context: Any) -> str:
        """The targets there are, for a command that was given none."""
        return ", ".join(_target_names())


class ArtifactPath(click.Path):
    """The path of an artifact."""

    name = "artifact"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Artifacts in the folder that was typed and in those inside it; without any, folders."""
        from click.shell_completion import CompletionItem

        folder = Path(incomplete if incomplete.endswith("/") else Path(incomplete).parent)
        found = sorted(
            str(path)
            for pattern in ("*.edgex", "*/*.edgex")
            for path in folder.glob(pattern)
            if str(path).startswith(str(Path(incomplete)) if incomplete else "")
        )
        return [CompletionItem(path) for path in found] or [CompletionItem(incomplete, type="dir")]


class ModelName(StringParamType):
    """`file.py[:name]`, `package.module:name` or `file.pt2`."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def _target_names() -> list[str]:
    # The registry itself imports NumPy, for which nobody at a prompt wants to wait.
    from edgex.runtime.support.entry_points import find_plugins

    return list(find_plugins("edgex.delegates"))
