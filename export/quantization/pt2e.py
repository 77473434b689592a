"""The adapter over torchao's PT2E: prepare a graph, let its observers see data, convert it.

What an observer saw of a value does not depend on which operators are quantized. Ranges are therefore kept by the
value's name, so that converting again with other operators in floating point needs no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.quantizers import QuantizerRecipe
from edgex.export.quantization.graph_module import attribute_of, close_program, open_program
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.native_stderr import capture_native_stderr

Takes = Callable[[Node], bool]


@dataclass(frozen=True)
class Observed:
    """A program with observers in it.

    Attributes:
        program: It is not changed.
        module: torchao's prepared module; its call_module nodes are observers.
    """

    program: CapturedProgram
    module: GraphModule

    def observers(self) -> dict[str, Any]:
        """The observer of each observed value, by the name of its node."""
        return {
            node.args[0].name: attribute_of(self.module, str(node.target))
            for node in self.module.graph.find_nodes(op="call_module")
            if isinstance(node.args[0], Node)
        }


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

        return Observed(program, prepare_pt2e(open_program(program), quantizer.make(observer, takes)))


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
    with _silence():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        return close_program(observed.program, convert_pt2e(observed.module))


def annotated(observed: Observed) -> Iterator[Node]:
    """The operators that the quantizer wants to quantize."""
    for node in observed.module.graph.nodes:
        annotation = node.meta.get("quantization_annotation")
        if node.op == "call_function" and annotation is not None and annotation._annotated:
            yield node


@contextmanager
def _silence() -> Iterator[None]:
    """Keep notices of torchao's own deprecations off the terminal."""
    with quiet_dependencies(everything=True), capture_native_stderr():
        yield
