"""Programs captured and .pte artifacts made by hand, so that a test stands on the delegate and the engine alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.export.capture.program import capture
from edgex.runtime.artifact.artifact import Artifact, hash_file, open_artifact
from edgex.runtime.artifact.manifest import FileEntry, Manifest
from edgex.runtime.session.numerics import measure_sqnr_db


class Call(torch.nn.Module):
    """A function of (module, *inputs) as a module, with parts `m.0`, `m.1`, … and buffers."""

    def __init__(self, function: Callable[..., Any], *parts: torch.nn.Module, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.m = torch.nn.ModuleList(parts)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x, y=None):
        return self.function(self, x) if y is None else self.function(self, x, y)


def captured(module: torch.nn.Module, *args: torch.Tensor, dynamic_shapes: Any = None) -> CapturedProgram:
    return capture(module.eval(), args, None, dynamic_shapes, source_root=Path(__file__).parent.parent).program


def write_artifact(program: CapturedProgram, folder: Path, **options: Any) -> tuple[LoweredModule, Artifact]:
    """Lower to xnnpack and write an artifact that holds the .pte and nothing that proves it."""
    lowered = XnnpackDelegate().lower(program, XnnpackOptions(**options))
    folder.mkdir(parents=True)
    lowered.write(folder)
    return lowered, write_manifest(folder, lowered)


def write_manifest(folder: Path, lowered: LoweredModule, **changes: Any) -> Artifact:
    files = [FileEntry(name, (folder / name).stat().st_size, hash_file(folder / name)) for name in lowered.files]
    fields = {
        "name": folder.name.split(".")[0],
        "target": "xnnpack",
        "engine": "executorch",
        "precision": "fp32",
        "methods": lowered.methods,
        "files": tuple(files),
        "producer": {},
        "delegation": lowered.plan.to_json(),
        "requirements": lowered.requirements,
        "options": lowered.options,
    }
    (folder / "manifest.json").write_text(Manifest(**{**fields, **changes}).dumps())
    return open_artifact(folder)


def assert_close(actual: np.ndarray, expected: torch.Tensor, decibels: float = 80.0) -> None:
    """What an engine gave is eager's, but for rounding."""
    reference = expected.detach().float().numpy()
    assert actual.shape == reference.shape
    sqnr = measure_sqnr_db(reference, actual.astype(np.float32))
    assert sqnr >= decibels, f"SQNR {sqnr:.1f} dB"
