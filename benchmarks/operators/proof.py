"""Export one operator to one target and prove it, in this process: hundreds of them would spend hours on starting."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgex.errors import EdgexError
from edgex.export import pipeline
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.execute.here.in_process import InProcess


@dataclass(frozen=True)
class Proved:
    """How an export ended.

    Attributes:
        error: What it was refused with; None where it passed.
        verification: The verification object; empty where it was refused.
        rewrites: Names of the passes that changed the program.
        delegated: How many operators the delegate took.
        warnings: The export's.
    """

    error: EdgexError | None = None
    verification: Mapping[str, Any] | None = None
    rewrites: tuple[str, ...] = ()
    delegated: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 where it passed."""
        return 0 if self.error is None else self.error.exit_code

    @property
    def reason(self) -> str:
        """What the user reads, in one text."""
        parts = () if self.error is None else (self.error.what, self.error.where, self.error.why)
        return "\n".join(str(part) for part in parts if part)


def prove(
    module: torch.nn.Module, args: Sequence[torch.Tensor], target: str, *, fresh: bool = False, **shapes: Any
) -> Proved:
    """Export a module to a target as `edgex export` does.

    Args:
        module: What to export.
        args: Its example inputs.
        target: Where to.
        fresh: Prove it in a fresh process, as `edgex export` does: an engine that crashes is then a failed proof, not
            the end of this process.
        shapes: `dynamic_shapes` and `allow_inconclusive`, as settings have them.
    """
    with tempfile.TemporaryDirectory() as folder, nullcontext() if fresh else verified_here():
        try:
            report = export_to_targets(
                lambda: wrap_model(module, tuple(args), {}, shapes.get("dynamic_shapes"), "operator"),
                ExportSettings((target,), Path(folder), allow_inconclusive=bool(shapes.get("allow_inconclusive"))),
                name="operator",
                stop_at_failure=True,
            )
        except EdgexError as error:
            return Proved(error)
        (artifact,) = report.artifacts
        names = tuple(str(rewrite["name"]) for rewrite in artifact.rewrites)
        return Proved(None, artifact.verification, names, artifact.plan.delegated_ops, artifact.warnings)


@contextmanager
def verified_here() -> Any:
    """Within it, exports are verified in this process instead of a fresh one."""
    fresh = pipeline.FreshProcess
    pipeline.FreshProcess = _Here  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        pipeline.FreshProcess = fresh  # type: ignore[misc]


class _Here(InProcess):
    """Stands for `FreshProcess`."""

    def prepare(self, engine: str) -> None:
        """There is no process to start."""
