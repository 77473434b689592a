"""Say behind which operator NaN and infinity come out otherwise than in eager PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram, KnowsSpecialValues
from edgex.delegates.graph.provenance import source_of
from edgex.delegates.graph.schema import leaves_of
from edgex.export.proof.stress import takes_special
from edgex.export.rewrites.editing.editor import input_values
from edgex.export.source.eager import reference_conditions
from edgex.runtime.artifact.golden import STRESS, Arrays, Case
from edgex.runtime.artifact.shapes import SPECIAL_INPUTS

if TYPE_CHECKING:
    from edgex.export.target_model import TargetModel

_SHOWN = 4


def describe_special_values(
    verdict: Mapping[str, Any], cases: Sequence[Case], model: TargetModel
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The verdict with operators and source lines in `nan_inf`, and `refuses`; a sentence for each way to differ.

    Args:
        verdict: The `edgex.verify/1` object of an artifact that passed.
        cases: What was replayed.
        model: What the artifact was made of.
    """
    found: list[Mapping[str, Any]] = list(verdict.get("nan_inf", ()))
    table = model.job.delegate.special_values if isinstance(model.job.delegate, KnowsSpecialValues) else {}
    fed = {case.name.removeprefix(STRESS): case.steps[0].inputs for case in cases if case.kind == "report"}
    places = {name: _locate(model.program, inputs, table) for name, inputs in fed.items() if found and table}
    told = []
    entries = []
    for entry in found:
        operator, source, effect = places.get(entry["input"]) or (None, None, None)
        entries.append({**entry, "op": operator, "source": source})
        behind = f"; behind {operator} at {source or 'no source line'}: {effect}" if operator else ""
        told.append(
            f"{entry['input']}: {entry['output']} has {entry['engine']} where eager has {entry['eager']}{behind}"
        )
    more = (
        [f"NaN and infinity: {len(told) - _SHOWN} more differences are in the manifest"] if len(told) > _SHOWN else []
    )
    method = {} if model.source.method is None else {"method": model.source.method}
    refused = [{**entry, **method} for entry in find_refused(verdict, cases)]
    return {**verdict, "nan_inf": entries, "refuses": refused}, (*told[:_SHOWN], *more)


def find_refused(verdict: Mapping[str, Any], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The inputs that may not hold NaN, or infinity: all, unless the artifact did as eager does.

    Integers know neither, so quantized artifacts, which are not tried with them, refuse both.
    """
    example = next(case for case in cases if case.kind == "compare").steps[0].inputs
    inputs = [name for name, array in example.items() if takes_special(array)]
    otherwise = {result["name"] for result in verdict["cases"] if result["verdict"] == "warning"}
    as_eager = {case.name for case in cases if case.kind == "report"} - otherwise
    kinds = [fed for fed in SPECIAL_INPUTS if f"{STRESS}{fed}" not in as_eager]
    return [{"values": fed, "inputs": inputs} for fed in kinds] if inputs else []


def _locate(program: CapturedProgram, inputs: Arrays, table: Mapping[str, str]) -> tuple[str, str | None, str] | None:
    """The first operator of the table that is given NaN or infinity: its name, source line, and what it does."""
    wanted = [node for node in program.exported.graph.nodes if str(node.target) in table]
    if not wanted:
        return None
    watch = _Watch(program, {source for node in wanted for source in node.all_input_nodes})
    tensors = [torch.from_numpy(np.array(inputs[spec.name])).to(getattr(torch, spec.dtype)) for spec in program.inputs]
    # A program may refuse such numbers, as places or sizes made of them; what came before it is known then.
    with reference_conditions(), contextlib.suppress(RuntimeError, IndexError, ValueError):
        watch.run(*input_values(program, tensors))
    for node in wanted:
        if any(source in watch.special for source in node.all_input_nodes):
            name = str(node.target)
            return name, source_of(node, program.source_root), table[name]
    return None


class _Watch(torch.fx.Interpreter):
    """Notes which of some values hold NaN or infinity."""

    def __init__(self, program: CapturedProgram, watched: set[Node]) -> None:
        super().__init__(program.exported.graph_module)
        self._watched = watched
        self.special: set[Node] = set()

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self._watched and any(_is_special(leaf) for leaf in leaves_of(value)):
            self.special.add(n)
        return value


def _is_special(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    return not bool(torch.isfinite(value).all())
