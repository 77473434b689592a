"""From a captured program to a .pte, the way every ExecuTorch target goes; a target brings only its partitioner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.executorch import exir
from edgex.delegates.executorch.exporter.evaluations import shared_evaluations
from edgex.delegates.executorch.exporter.retraces import retraces_spared
from edgex.delegates.executorch.exporter.shared_constants import constants_of_regions
from edgex.delegates.executorch.exporter.weight_copies import WeightFiles, weights_shared
from edgex.delegates.executorch.kernels import check_emitted, refuse_missing
from edgex.delegates.executorch.loops import write_loops
from edgex.delegates.executorch.partition import (
    EdgeOperator,
    assign_regions,
    describe_slow_reads,
    make_plan,
    read_partition,
)
from edgex.delegates.executorch.refusals import Refuse
from edgex.delegates.executorch.source_map import ReadRegion, make_source_map
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.graph.provenance import source_in_trace
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.graph.values import GraphValues, read_graph_values
from edgex.delegates.plan import PartitionPlan, merge_plans
from edgex.errors import EdgexError, LoweringError
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.entry_points import installed_version

if TYPE_CHECKING:
    from torch.export import ExportedProgram

ENGINE = "executorch"
PROGRAM_FILE = "model.pte"

# A target's partitioner calls this once, at the end of `partition`, with the tagged program and its reasons.
OnPartition = Callable[["ExportedProgram", Refuse], None]
# Makes the partitioner, with the captured nodes that stay out of the backend; called with the exporter imported.
MakePartitioner = Callable[[OnPartition, frozenset[str]], Any]

_WHY_LINES = 6
# What torch.fx appends to an exception raised inside a graph.
_NOISE = ("Original traceback:", "None", "Use tlparse")


def predict_plan(program: CapturedProgram, target: str, make_partitioner: MakePartitioner) -> PartitionPlan:
    """The plan, by taking the exporter's own road up to the partitioner and stopping there.

    Weights are not looked at; they may be fake tensors.

    Raises:
        LoweringError: The program does not get as far as the partitioner.
    """
    found: tuple[EdgeOperator, ...] = ()

    def stop(edge: ExportedProgram, refuse: Refuse) -> None:
        nonlocal found
        found = read_partition(edge, program.source_root, refuse, program.excluded)
        raise _Partitioned

    with _exporter([program], target), composites_listed_once(), suppress(_Partitioned):
        retry_stale_symbols(
            lambda: exir.lower_to_edge(program.exported, make_partitioner(stop, program.excluded), planning=True)
        )
    return make_plan(found)


def lower_program(
    program: CapturedProgram,
    target: str,
    make_partitioner: MakePartitioner,
    *,
    plan_inputs: bool,
    options: Mapping[str, Any],
    read_region: ReadRegion | None = None,
) -> LoweredModule:
    """Lower to a .pte in memory; see `lower_methods`.

    Raises:
        LoweringError: Operators have no kernel (all are named), or ExecuTorch failed.
    """
    lowered = lower_methods(
        {exir.FORWARD: program},
        target,
        make_partitioner,
        plan_inputs=plan_inputs,
        options=options,
        read_region=read_region,
    )
    return replace(lowered, debug=lowered.method_debug[exir.FORWARD], method_debug={})


@dataclass(frozen=True)
class _Partitioning:
    """What the partitioner was given and what it took, of one method."""

    operators: tuple[EdgeOperator, ...]
    values: GraphValues


def lower_methods(
    programs: Mapping[str, CapturedProgram],
    target: str,
    make_partitioner: MakePartitioner,
    *,
    plan_inputs: bool,
    options: Mapping[str, Any],
    read_region: ReadRegion | None = None,
) -> LoweredModule:
    """Lower programs to the methods of one .pte in memory: constants of the same bytes lie in it once.

    Args:
        programs: By method; they are not changed, their weights are not copied.
        target: The delegate's name, for messages.
        make_partitioner: Makes the target's partitioner.
        plan_inputs: See `edgex.delegates.executorch.exir.emit`.
        options: The options in effect, for the manifest.
        read_region: Reads what the backend made of a region, for the profiler; see `make_source_map`.

    Raises:
        LoweringError: Operators have no kernel (all are named), or ExecuTorch failed.
    """
    seen: dict[str, _Partitioning] = {}

    def watch(name: str) -> OnPartition:
        def on_partition(edge: ExportedProgram, refuse: Refuse) -> None:
            program = programs[name]
            values = read_graph_values(edge, [spec.name for spec in program.inputs])
            operators = read_partition(edge, program.source_root, refuse, program.excluded)
            seen[name] = _Partitioning(operators, values)
            # Here, before the backend packs weights: what cannot run is known already.
            refuse_missing(make_plan(seen[name].operators).fatal, target)

        return on_partition

    files = WeightFiles()
    with _exporter(programs.values(), target), composites_listed_once(), weights_shared(), files.collecting():
        edge = retry_stale_symbols(
            lambda: exir.lower_to_edge(
                {name: program.exported for name, program in programs.items()},
                {name: make_partitioner(watch(name), program.excluded) for name, program in programs.items()},
            )
        )
        write_loops(
            edge,
            lambda left: make_partitioner(lambda _program, _refuse: None, left),
            {name: program.excluded for name, program in programs.items()},
        )
        regions = {name: exir.regions_of(edge.exported_program(name)) for name in programs}
        emitted = exir.emit(edge, plan_inputs=plan_inputs)
    files.end_with(emitted)
    operators: dict[str, tuple[EdgeOperator, ...]] = {}
    for name in programs:
        check_emitted(exir.emitted_kernels(emitted, name), target)
        numbers = {node: number for number, region in enumerate(regions[name]) for node in region.nodes}
        operators[name] = assign_regions(seen[name].operators, numbers)
    plan = merge_plans([make_plan(found) for found in operators.values()])

    def write(folder: Path) -> None:
        with (folder / PROGRAM_FILE).open("wb") as stream:
            emitted.write_to_file(stream)

    return LoweredModule(
        files=(PROGRAM_FILE,),
        write=write,
        methods=tuple(replace(program.method, name=name) for name, program in programs.items()),
        plan=plan,
        requirements=Requirements(ENGINE, minimum_version=_runtime_version()),
        method_debug={
            name: make_source_map(found, regions[name], emitted, seen[name].values, read_region, name)
            for name, found in operators.items()
        },
        options=options,
        warnings=(*_warnings(plan, target), *describe_slow_reads(chain.from_iterable(operators.values()))),
        regions=_captured_regions(operators[exir.FORWARD]) if exir.FORWARD in operators else {},
    )


def _captured_regions(operators: Iterable[EdgeOperator]) -> dict[str, int]:
    """The region of each captured operator; that of its first part where it was decomposed."""
    regions: dict[str, int] = {}
    for item in operators:
        if item.region is not None and item.captured is not None:
            regions.setdefault(item.captured, item.region)
    return regions


class _Partitioned(Exception):
    """The partitioner was reached; nothing after it is wanted."""


@contextmanager
def _exporter(programs: Collection[CapturedProgram], target: str) -> Iterator[None]:
    """The exporter imported, quiet, and its exceptions made into errors that the user can read."""
    exir.import_exporter()
    with ExitStack() as stack, quiet_dependencies(), shared_evaluations(), retraces_spared(), constants_of_regions():
        for program in programs:
            stack.enter_context(_tensors_kept(program.exported))
        try:
            yield
        except (EdgexError, MemoryError):
            raise
        except Exception as error:  # ExecuTorch raises every kind, and most of them for what the model holds
            text = f"{type(error).__name__}: {str(error).strip()}"
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)]
            raise LoweringError(
                f"ExecuTorch could not lower the program for {target}",
                source_in_trace(text, next(iter(programs)).source_root),
                "run again with -v for the full trace; `edgex why MODEL -t onnx-cpu,reference` says whether another "
                "target takes it",
                why="\n".join(lines[:_WHY_LINES]),
            ) from error


@contextmanager
def _tensors_kept(exported: ExportedProgram) -> Iterator[None]:
    """Put back what lowering takes out: constants that go into a delegate leave the dictionary that is not its own."""
    kept = [(tensors, dict(tensors)) for tensors in (exported.constants, exported.state_dict)]
    try:
        yield
    finally:
        for tensors, content in kept:
            tensors.clear()
            tensors.update(content)


def _runtime_version() -> str | None:
    """Major and minor version of the runtime: newer ones read the file, older ones need not."""
    installed = installed_version("executorch")
    return ".".join(installed.split("+")[0].split(".")[:2]) if installed else None


def _warnings(plan: PartitionPlan, target: str) -> tuple[str, ...]:
    if plan.total_ops and not plan.delegated_ops:
        return (f"{target} took no operator: all of them run on ExecuTorch's slow portable kernels",)
    return ()
