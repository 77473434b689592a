"""What went wrong in capture, in the user's terms: the line, the cause, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.errors import CaptureError
from edgex.export.leaves import Leaf


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def explain_eager_failure(error: Exception, module, args, kwargs, source_root: Path) -> CaptureError:
    return CaptureError("the model fails on its own example inputs", why=f"{type(error).__name__}: {first_line(error)}")


def check_outputs(output: Any, module: torch.nn.Module, source_root: Path) -> None:
    return


def check_symbolic_constants(program: ExportedProgram, inputs: Sequence[Leaf], outputs: Sequence[Leaf]) -> None:
    return


def explain_export_failure(errors: Sequence[Exception], module: torch.nn.Module, source_root: Path) -> CaptureError:
    return CaptureError("torch.export cannot capture the model", why=first_line(errors[0]))


def explain_changed_constant(name: str, kind: InputKind, node: Node, source_root: Path) -> CaptureError:
    return CaptureError(f"forward changes {name}, which is no buffer")


def explain_lost_state(names: Sequence[str], module: torch.nn.Module, source_root: Path) -> CaptureError:
    return CaptureError(f"torch.export lost the change that forward makes to {names}")
