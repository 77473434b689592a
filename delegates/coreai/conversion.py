"""The one place that imports coreai_torch: its decompositions, its table of operators, and the way to an `.aimodel`.

Package and format are betas: what an upgrade moves shows in `tests/delegates/coreai`, and is mended here.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.whole_programs import first_sentence
from edgex.errors import LoweringError
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.native_stderr import capture_native_stderr

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# The name of the method in the file, which Apple's samples use too.
ENTRY_POINT = "main"
# What the converter takes out of the graph before it looks at it.
_STRIPPED = ("aten._assert", "aten.sym_constrain_range")


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that coreai_torch says of its progress, which it prints, reaches the terminal."""
    with quiet_dependencies(everything=True), capture_native_stderr(), contextlib.redirect_stdout(io.StringIO()):
        import coreai_torch  # noqa: F401

        yield


def decompose(exported: ExportedProgram) -> ExportedProgram:
    """The program in the operators that coreai_torch converts one by one; weights may be fake, the argument stays.

    ```
    before:  linear = aten.linear(x, w, b)        hardswish = aten.hardswish(linear)
    after:   addmm  = aten.addmm(b, x, w_t)       hardswish = aten.hardswish(addmm)     # kept whole on purpose
    ```
    """
    from coreai_torch import get_decomp_table

    table = get_decomp_table()
    decomposed: ExportedProgram = retry_stale_symbols(lambda: exported.run_decompositions(table))
    _drop_layouts(decomposed)
    return decomposed


def _drop_layouts(decomposed: ExportedProgram) -> None:
    """Take out `as_strided` that only names another memory layout, as global pooling of channels_last images has it.

    ```
    before:  as_strided = aten.as_strided(mean, [1, 320, 1, 1], [320, 1, 320, 320])     # mean: [1, 320, 1, 1]
    after:   mean
    ```
    """
    import torch

    for node in decomposed.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        source, sizes, strides, *offset = node.args
        value = source.meta["val"]
        moving = [axis for axis, size in enumerate(value.shape) if size != 1]
        same = list(sizes) == list(value.shape) and not any(offset)
        if same and all(strides[axis] == value.stride(axis) for axis in moving):
            node.replace_all_uses_with(source)
            decomposed.graph.erase_node(node)
    decomposed.graph_module.recompile()


def find_unknown(decomposed: ExportedProgram) -> list[Node]:
    """The operators that coreai_torch does not convert."""
    from coreai_torch._aten_to_core import _aten_to_core_resolver as operators
    from coreai_torch._aten_to_core import _higher_order_resolver as higher_order

    # `aten.add.Tensor` is listed as `add.Tensor`, Python's own arithmetic of sizes as `add`.
    def is_known(node: Node) -> bool:
        name = str(node.target)
        if name.startswith(_STRIPPED):
            return True
        short = name.removeprefix("aten.") if name.startswith("aten.") else getattr(node.target, "__name__", name)
        return short in operators or short in higher_order

    return [node for node in decomposed.graph.nodes if is_operator(node) and not is_known(node)]


def convert(decomposed: ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, bytes]:
    """The files of an `.aimodel` folder, by their names; the same program gives the same bytes.

    Args:
        decomposed: What `decompose` gave, with its weights.
        inputs: Names of its inputs, in order.
        outputs: Names of its outputs.

    Raises:
        LoweringError: The converter fails.
    """
    from coreai_torch import TorchConverter

    _separate_outputs(decomposed)
    with scratch_folder("coreai") as folder, capture_native_stderr():
        try:
            # RELEASE: no stack traces in the file, which would name places of this machine.
            converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
            converter.add_exported_program(
                decomposed, input_names=list(inputs), output_names=list(outputs), entrypoint_name=ENTRY_POINT
            )
            path = folder / "model.aimodel"
            converter.to_coreai().save_asset(path)
        except Exception as error:  # MLIR's and its own, of no common kind
            raise LoweringError(
                "coreai-torch fails to convert this model",
                fix="export to another target: -t xnnpack reads most of the same models",
                why=first_sentence(str(error)),
            ) from error
        files = {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}
        shutil.rmtree(path)
    files["metadata.json"] = _without_date(files["metadata.json"])
    return dict(sorted(files.items()))


def _separate_outputs(decomposed: ExportedProgram) -> None:
    """A copy of every result that is returned a second time: the converter counts outputs by what makes them.

    ```
    before:  return (relu, relu)
    after:   clone = aten.clone(relu); return (relu, clone)
    ```
    """
    import torch
    from torch.export.graph_signature import TensorArgument

    graph = decomposed.graph
    output = graph.output_node()
    returned = list(output.args[0])
    for place, node in enumerate(returned):
        if node in returned[:place]:
            with graph.inserting_before(output):
                copy = graph.call_function(torch.ops.aten.clone.default, (node,))
            copy.meta = {**node.meta}
            returned[place] = copy
            decomposed.graph_signature.output_specs[place].arg = TensorArgument(copy.name)
    output.args = (tuple(returned),)
    decomposed.graph_module.recompile()


def _without_date(metadata: bytes) -> bytes:
    """`metadata.json` with its keys in order, and without the day on which it was made."""
    document = json.loads(metadata)
    document.pop("creationDate", None)
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
