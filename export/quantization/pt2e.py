"""The adapter over torchao's PT2E: prepare a graph, let its observers see data, convert it.

What an observer saw of a value does not depend on which operators are quantized. Ranges are therefore kept by the
value's name, so that converting again with other operators in floating point needs no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch.fx import GraphModule, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.quantizers import QuantizerRecipe
from edgex.export.quantization.graph_module import attribute_of, close_program, open_program
from edgex.export.quantization.shared_constants import Parted, join_constants, part_constants
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.native_stderr import capture_native_stderr

Takes = Callable[[Node], bool]


@dataclass(frozen=True)
class Observed:
    """A program with observers in it.

    Attributes:
        program: It is not changed.
        module: torchao's prepared module; its call_module nodes are observers.
        parted: Its constants that several operators read.
    """

    program: CapturedProgram
    module: GraphModule
    parted: Parted = field(default_factory=dict)

    def observers(self) -> dict[str, Any]:
        """The observer of each observed value, by the name of its node."""
        return {
            node.args[0].name: attribute_of(self.module, str(node.target))
            for node in self.module.graph.find_nodes(op="call_module")
            if isinstance(node.args[0], Node)
        }


# How `_convert_scalars_to_attrs` of ExecuTorch's quantizer names the tensors that it makes of numbers.
_OF_NUMBERS = "_tensor_constant_"


def prepare(program: CapturedProgram, quantizer: QuantizerRecipe, observer: str, takes: Takes) -> Observed:
    """Insert observers where the quantizer wants to convert.

    Args:
        program: A float32 program; it is not changed.
        quantizer: Of the delegate.
        observer: One of `edgex.delegates.recipes.quantizers.OBSERVERS`.
        takes: Whether an operator may be quantized.
    """
    with _silence():
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        module = open_program(program)
        hidden = _hide_norms(module)
        parted = part_constants(module)
        prepared = prepare_pt2e(module, quantizer.make(observer, takes))
        _show_norms(prepared, hidden)
        return Observed(program, prepared, parted)


def _hide_norms(module: GraphModule) -> list[str]:
    """Put an alias between convolutions and the batch norms that edgex has left behind them; their names.

    torchao folds such a norm into the weights although others read the convolution as well, as in a residual path.
    """
    import torch

    names = []
    for norm in module.graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default):
        with module.graph.inserting_before(norm):
            alias = module.graph.call_function(torch.ops.aten.alias.default, (norm.args[0],))
        alias.meta = {**norm.args[0].meta}
        norm.replace_input_with(norm.args[0], alias)
        names.append(alias.name)
    return names


def _show_norms(module: GraphModule, hidden: Sequence[str]) -> None:
    """Take these away again."""
    for node in list(module.graph.nodes):
        if node.name in hidden:
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()


def observe_weights(observed: Observed) -> None:
    """Show constants to their observers, which a run of the model would do too."""
    for node in observed.module.graph.find_nodes(op="call_module"):
        source = node.args[0]
        if isinstance(source, Node) and source.op == "get_attr":
            attribute_of(observed.module, str(node.target))(attribute_of(observed.module, str(source.target)))


def adopt(observed: Observed, ranges: Mapping[str, Any]) -> list[str]:
    """Put observers that have seen data in the place of new ones.

    Returns:
        Names of the values that are observed now and of which there is no range.
    """
    missing = []
    for node in observed.module.graph.find_nodes(op="call_module"):
        source = node.args[0]
        if not isinstance(source, Node) or source.op == "get_attr":
            continue
        if source.name in ranges:
            setattr(observed.module, str(node.target), ranges[source.name])
        else:
            missing.append(source.name)
    return missing


def convert(observed: Observed) -> CapturedProgram:
    """The program with quantize and dequantize operators in the place of observers; the module is used up."""
    with _silence(), _no_training():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        converted = convert_pt2e(observed.module)
        join_constants(converted, observed.parted)
        _restore_numbers(converted)
        return close_program(observed.program, converted)


def _restore_numbers(module: GraphModule) -> None:
    """Make numbers of the tensors that the quantizer made of them, where nothing quantizes these.

    ```
    before:  y = aten.add.Tensor(x, _tensor_constant_0)     # of 1e-5
    after:   y = aten.add.Tensor(x, 9.999999747378752e-06)
    ```

    Delegates read numbers: of a tensor they do not know that it keeps zero from a root.
    """
    import torch

    for node in module.graph.find_nodes(op="get_attr"):
        value = attribute_of(module, str(node.target))
        if not str(node.target).startswith(_OF_NUMBERS) or not isinstance(value, torch.Tensor) or value.dim():
            continue
        for user in list(node.users):
            if user.target in (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor) and user.args[0] is not node:
                user.update_arg(1, value.item())
        if not node.users:
            module.graph.erase_node(node)
    module.recompile()


def annotated(observed: Observed) -> Iterator[Node]:
    """The operators that the quantizer wants to quantize."""
    for node in observed.module.graph.nodes:
        annotation = node.meta.get("quantization_annotation")
        if node.op == "call_function" and annotation is not None and annotation._annotated:
            yield node


@contextmanager
def _no_training() -> Iterator[None]:
    """Leave out torchao's search for the batch norms of training: no graph here is prepared for it.

    Wherever a batch norm is left, torchao traces eight small models to find how training would have written it: seven
    seconds a conversion.
    """
    from torchao.quantization.pt2e import quantize_pt2e

    fold = quantize_pt2e._fold_conv_bn_qat
    quantize_pt2e._fold_conv_bn_qat = lambda module: module
    try:
        yield
    finally:
        quantize_pt2e._fold_conv_bn_qat = fold


@contextmanager
def _silence() -> Iterator[None]:
    """Keep notices of torchao's own deprecations off the terminal."""
    with quiet_dependencies(everything=True), capture_native_stderr():
        yield
