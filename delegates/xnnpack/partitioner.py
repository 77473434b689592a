"""XNNPACK's partitioner with an ear: what it takes is unchanged but for a few gaps, and its reasons are kept.

The gaps, each with a test: operators that come out wrong (`workarounds`); ELU, which ExecuTorch 1.5 can lower but
leaves out; functions of one number in 8 bits, likewise; a buffer that the model changes is no constant weight (lowered
as one, the program crashes when it is loaded); operators inside `torch.cond` are not kept whole for a partitioner that
never looks there; and reasons, which it only logs, are collected, also those for which an operator was decomposed
instead of being kept.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch.backends.xnnpack.partition.config.generic_node_configs import (
    EluConfig,
    GeluConfig,
    HardswishConfig,
    LeakyReLUConfig,
    SigmoidConfig,
    TanhConfig,
)
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.utils import tag_constant_data
from torch.fx.passes.infra.partitioner import Partition

from edgex.delegates.executorch.exir import is_excluded, operator_name, origin_of
from edgex.delegates.executorch.lowering import OnPartition
from edgex.delegates.executorch.refusals import EXCLUDED, Refusal
from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.xnnpack.partitions.copies import leave_copies, read_past_copies
from edgex.delegates.xnnpack.partitions.cycles import TAG, separate_cycles
from edgex.delegates.xnnpack.partitions.merging import merge_groups
from edgex.delegates.xnnpack.reasons import explain_refusal
from edgex.delegates.xnnpack.run_time_sizes import sizes_of_run_time
from edgex.delegates.xnnpack.workarounds import refuse_wrong

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# Each configuration module below it logs a `WhyNoPartition` object, with `node` and `reason`, at DEBUG.
REASON_LOGGER = "executorch.backends.xnnpack.partition.config"


def make_partitioner(on_partition: OnPartition, excluded: frozenset[str] = frozenset()) -> Any:
    """The partitioner; `on_partition` is called once with what it did. It takes nothing of the `excluded` nodes."""
    return _WatchedPartitioner(on_partition, excluded)


class _WatchedPartitioner(XnnpackPartitioner):  # type: ignore[misc]  # executorch ships no types
    def __init__(self, on_partition: OnPartition, excluded: frozenset[str]) -> None:
        super().__init__(configs=[*map(_with_tables, ALL_PARTITIONER_CONFIGS), EluConfig])
        self.edge_passes = (read_past_copies,)
        self._on_partition, self._excluded = on_partition, excluded
        # Why an operator that XNNPACK would have liked whole was decomposed, by the operator's origin.
        self._taken_apart: dict[str | None, Refusal] = {}
        configs: dict[str, Any] = vars(self)["target_partitioner_configs"]
        self.target_partitioner_configs = {name: _Guard(config, excluded) for name, config in configs.items()}

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[Node], bool] | None]:
        """What to keep whole: only in the top graph, for branches of torch.cond are never partitioned."""
        whole, takes = super().ops_to_not_decompose(ep)

        def keeps(node: Node) -> bool:
            if takes is None or node.graph is not ep.graph or is_excluded(node, self._excluded):
                return False
            with _collected_reasons() as reasons:
                kept = bool(takes(node))
            if node in reasons:
                refusal = self._refuse(node, reasons, ep)
                reason = f"part of {operator_name(node)}: {refusal.reason}"
                self._taken_apart[origin_of(node)] = dataclasses.replace(refusal, reason=reason)
            return kept

        return whole, keeps

    def generate_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The groups that ExecuTorch's own partitioner would form, without its walk through the graph for each pair."""
        groups = merge_groups(ep.graph, self.get_matched_nodes_from_configs(ep))
        return [Partition(id=group.number, nodes=group.nodes) for group in groups]

    def partition(self, exported_program: ExportedProgram) -> Any:
        """Tag the nodes, then tell what was done."""
        _name_alpha(exported_program)
        with _collected_reasons() as reasons:
            result = super().partition(exported_program)
        leave_copies(result.tagged_exported_program.graph)
        separated = separate_cycles(result.tagged_exported_program.graph)
        if separated:
            result.partition_tags.update({new: result.partition_tags[old] for new, old in separated.items()})
            _tag_constants(result.tagged_exported_program)
        self._on_partition(result.tagged_exported_program, lambda node: self._refuse(node, reasons, exported_program))
        return result

    def _refuse(self, node: Node, reasons: Mapping[Node, str], ep: ExportedProgram) -> Refusal:
        if is_excluded(node, self._excluded):
            return EXCLUDED
        refusal = explain_refusal(node, reasons.get(node), self.target_partitioner_configs.keys(), ep)
        if refusal.code == "not_in_delegate":
            return self._taken_apart.get(origin_of(node), refusal)
        return refusal


# Functions of one number that XNNPACK reads from a table of 256 bytes, which ExecuTorch 1.5 asks for in float only.
_IN_TABLES = (SigmoidConfig, HardswishConfig, TanhConfig, GeluConfig, LeakyReLUConfig)


def _with_tables(config: Any) -> Any:
    """An operator's configuration that takes it between dequantize and quantize, too, where XNNPACK has a table."""
    if config not in _IN_TABLES:
        return config
    types = [ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT]
    return type(config.__name__, (config,), {"supported_precision_types": lambda _self: list(types)})


def _tag_constants(program: ExportedProgram) -> None:
    """Give constants a tag of their readers, once more."""
    for node in program.graph.find_nodes(op="placeholder"):
        node.meta.pop(TAG, None)
    tag_constant_data(program)


def _name_alpha(program: ExportedProgram) -> None:
    """Give every ELU its alpha as an argument, which ExecuTorch reads by its place, also where it is the default."""
    for node in program.graph.nodes:
        if node.op == "call_function" and operator_name(node) == "aten.elu.default" and len(node.args) == 1:
            node.args = (*node.args, named_arguments(node)["alpha"])


class _Guard:
    """One operator's configuration; refuses what comes out wrong, and constants that the model changes."""

    def __init__(self, config: Any, excluded: frozenset[str]) -> None:
        self._config, self._excluded = config, excluded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        if is_excluded(node, self._excluded):
            return False
        with sizes_of_run_time():
            if not self._config.check_constraints(node, ep):
                return False
        wrong = refuse_wrong(node, ep)
        if wrong is not None:
            logging.getLogger(REASON_LOGGER).debug(_Reason(node, wrong))
            return False
        changed = set(ep.graph_signature.buffers_to_mutate.values())
        if not changed:
            return True
        buffers = ep.graph_signature.inputs_to_buffers
        packed = [buffers.get(constant.name) for constant in self._config.get_node_and_deps(node, ep)]
        state = [buffer for buffer in packed if buffer in changed]
        if state:
            logging.getLogger(REASON_LOGGER).debug(
                _Reason(node, f"state as weight: it is the buffer {state[0]}, which the model changes")
            )
        return not state


class _Reason:
    """A reason in the form in which XNNPACK's configurations log theirs."""

    def __init__(self, node: Node, reason: str) -> None:
        self.node = node
        self.reason = reason


class _ReasonHandler(logging.Handler):
    def __init__(self, reasons: dict[Node, str]) -> None:
        super().__init__(logging.DEBUG)
        self._reasons = reasons

    def emit(self, record: logging.LogRecord) -> None:
        # The logged object is used again for the next node: read it now. The first reason is the cause.
        message: Any = record.msg
        if hasattr(message, "node") and hasattr(message, "reason"):
            self._reasons.setdefault(message.node, str(message.reason))


@contextmanager
def _collected_reasons() -> Iterator[dict[Node, str]]:
    """Reasons by node, as long as the block runs; the logger is left as it was."""
    logger = logging.getLogger(REASON_LOGGER)
    level, propagate = logger.level, logger.propagate
    reasons: dict[Node, str] = {}
    handler = _ReasonHandler(reasons)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
