"""Run a captured program, or a graph module made of it, in PyTorch: state carried from run to run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion
from edgex.export.quantization.linear.conversion import ConvertingInPieces, convert
from edgex.export.rewrites.editing.editor import constant_tensors, placeholders, tensor_of
from edgex.export.source.eager import reference_conditions
from edgex.runtime.support.machine.memory import read_available_bytes

# Of what the system could give; the model in float32, its engines and other programs are to have the rest.
_LARGEST_SHARE = 1 / 4


class GraphRunner:
    """A program as something to call: tensors in, tensors out, as `EagerModel`.

    Args:
        program: It is not changed; its state is copied.
        module: Of `open_program`: what runs instead of the program's own graph.
        interpreter: Runs it.
    """

    def __init__(
        self,
        program: CapturedProgram,
        module: GraphModule | None = None,
        interpreter: Callable[[GraphModule], Interpreter] = ConvertingInPieces,
    ) -> None:
        exported = program.exported
        constants = {} if module is None else constant_tensors(program)
        self._program = program
        self._interpreter = interpreter
        self._specs = [spec for node, spec in placeholders(exported) if node not in constants]
        self._module = exported.graph_module if module is None else module
        self._float_weights: dict[Node, torch.Tensor] | None = None
        self._state: dict[str, torch.Tensor] = {}
        self._sharing: tuple[GraphRunner, ...] = (self,)
        self.reset()

    def share_state(self, others: Sequence[GraphRunner]) -> None:
        """Keep one state with these, as the methods of an artifact do; all are as at the start afterwards."""
        group = (self, *(other for other in others if other is not self))
        for runner in group:
            runner._state, runner._sharing = self._state, group
        self.reset()

    def reset(self) -> None:
        """Put back the initial state, that of all methods where several share it."""
        for runner in self._sharing:
            runner._reset_own()

    def _reset_own(self) -> None:
        state = {spec.name for spec in self._program.state}
        self._state |= {
            str(spec.target): tensor_of(self._program.exported, spec).detach().clone()
            for spec in self._specs
            if spec.target in state
        }

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """What the last run left, by name; copies."""
        return {name: value.clone() for name, value in self._state.items()}

    def set_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Go on from other state: what `state` gave, of this runner or of one that keeps the same.

        Args:
            values: By name; tensors that the program does not keep are left out.
        """
        self._state |= {name: value.clone() for name, value in values.items() if name in self._state}

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run once, from the state that the last run left.

        Args:
            inputs: Tensors in the order of the program's inputs; they are not written to.

        Returns:
            Tensors in the order of its outputs, owned by the caller.
        """
        exported = self._program.exported
        given = iter(inputs)
        values = [
            next(given).clone()
            if spec.kind is InputKind.USER_INPUT
            else self._state[str(spec.target)]
            if spec.target in self._state
            else tensor_of(exported, spec).detach()
            for spec in self._specs
        ]
        with reference_conditions():
            results = self._interpreter(self._module).run(*values, initial_env=dict(self._known()))
        outputs = []
        for spec, value in zip(exported.graph_signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                outputs.append(value.detach().clone())
            elif spec.target in self._state:
                self._state[str(spec.target)] = value.detach().clone()
        return outputs

    def release(self) -> None:
        """Give back the memory that runs were made quicker with; the next run takes it again."""
        self._float_weights = None

    def _known(self) -> Mapping[Node, torch.Tensor]:
        """What need not be computed again; who watches operators by an interpreter sees each of them run."""
        if self._interpreter is not ConvertingInPieces:
            return {}
        if self._float_weights is None:
            self._float_weights = compute_float_weights(self._module, constant_tensors(self._program))
        return self._float_weights


def compute_float_weights(
    module: GraphModule, constants: Mapping[Node, torch.Tensor], available_bytes: int | None = None
) -> dict[Node, torch.Tensor]:
    """The values of conversions that read constants alone: the weights as layers read them.

    A program of a few bits converts every weight at every run, in the operators of a recipe that are made to be fused
    and not to be run. A language model is run some hundred times for its proof, mostly for one token, and the
    conversions were most of that.

    Args:
        module: What is run.
        constants: Placeholders of its graph with values that never change; others' placeholders do no harm.
        available_bytes: Of memory; None asks the system.

    Returns:
        For an interpreter's environment: converted weights in the program's order, as many as a quarter of the
        available memory holds. None where the system does not say what it has.
    """
    sources = {node: value.detach() for node, value in constants.items() if node.graph is module.graph}
    for node in module.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(str(node.target))(module)
        if isinstance(value, torch.Tensor):
            sources[node] = value
    available = read_available_bytes() if available_bytes is None else available_bytes
    left = (available or 0) * _LARGEST_SHARE
    values: dict[Node, torch.Tensor] = {}
    with torch.no_grad():
        for node in module.graph.nodes:
            reads = node.all_input_nodes
            if not reads or not is_conversion(str(node.target)) or any(read not in sources for read in reads):
                continue
            described = node.meta.get("val")
            if isinstance(described, torch.Tensor) and described.nbytes <= left:
                args, kwargs = map_arg((node.args, node.kwargs), sources.__getitem__)
                assert callable(node.target)
                values[node] = convert(node.target, args, kwargs)
                left -= described.nbytes
    return values
