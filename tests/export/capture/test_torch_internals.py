"""The private parts of torch that capture stands on; a failure here says what an upgrade moved."""

import inspect
from pathlib import Path

import torch
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from edgex.delegates.graph.provenance import source_of
from edgex.delegates.graph.torch_internals import OpOverload, pytree
from edgex.export.capture.diagnosis.guard_lines import find_guard_line
from edgex.export.capture.torch_internals import bounds_of, helpers_traced, traced_unseen


def export_dynamic():
    def forward(x):
        return torch.cat([x, x])

    class Model(torch.nn.Module):
        def forward(self, batch):
            return forward(batch["x"]) + batch["y"]

    half = Dim("half", min=1, max=4)
    args = ({"x": torch.ones(2, 3), "y": torch.ones(4, 3)},)
    return torch.export.export(Model(), args, dynamic_shapes={"batch": {"x": {0: half}, "y": {0: 2 * half}}})


def placeholders(program):
    return [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]


def test_operators_are_overloads_with_schemas():
    assert isinstance(torch.ops.aten.add_.Tensor, OpOverload)
    assert torch.ops.aten.add_.Tensor._schema.arguments[0].alias_info.is_write
    assert not torch.ops.aten.view.default._schema.arguments[0].alias_info.is_write


def test_paths_of_nested_values():
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path({"a": [1, None]})[0]]
    assert paths == ["['a'][0]", "['a'][1]"]


def test_bounds():
    program = export_dynamic()
    half, double = (tensor.shape[0].node.expr for tensor in placeholders(program))
    assert bounds_of(half, program.range_constraints, {}) == (1, 4)
    assert bounds_of(double, program.range_constraints, {half: 2}) == (4, 8)
    assert bounds_of(half + 1, {}, {})[1] is None


def test_the_shape_environment_knows_its_sources_and_guards():
    environment = placeholders(export_dynamic())[0].shape[0].node.shape_env
    names = {source.base.name for sources in environment.var_to_sources.values() for source in sources}
    assert names == {"L['batch']['x']", "L['batch']['y']"}
    assert isinstance(environment.guards, list)


def test_the_method_that_sees_every_guard():
    assert list(inspect.signature(ShapeEnv._log_guard).parameters) == ["self", "prefix", "g", "forcing_spec"]


def test_guard_line():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + torch.ones(3, 1)  # the line

    def export_again():
        torch.export.export(Model(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})

    line = find_guard_line(export_again, r"^Eq", Path(__file__).parent)
    assert line.text.endswith("# the line")


def helper(x):
    return x.sin()  # in a function


class Helped(torch.nn.Module):
    def heads(self, x):
        return x.cos()  # in a method

    def forward(self, x):
        inner = (lambda value: value.tan())(x)  # in a lambda
        return helper(x) + self.heads(x) * inner + torch.nn.functional.silu(x)  # in forward


def test_operators_in_helpers_have_the_lines_of_the_helpers():
    with helpers_traced():
        program = torch.export.export(Helped(), (torch.ones(2),), strict=False)
    lines = Path(__file__).read_text().splitlines()
    found = {}
    for node in program.graph.nodes:
        source = source_of(node, Path(__file__).parent)
        if node.op == "call_function" and source:
            found[node.target._schema.name] = lines[int(source.split(":")[1]) - 1].split("# ")[1]
    assert found == {
        "aten::sin": "in a function",
        "aten::cos": "in a method",
        "aten::tan": "in a lambda",
        **dict.fromkeys(("aten::add", "aten::mul", "aten::silu"), "in forward"),
    }


def test_forward_hears_that_it_is_not_traced_and_the_rest_that_it_is():
    heard = []

    class Model(torch.nn.Module):
        def forward(self, x):
            heard.append((torch.compiler.is_compiling(), torch.compiler.is_exporting()))
            return x + 1

    model = Model()
    for unseen in (False, True):
        heard.clear()
        if unseen:
            with traced_unseen(model):
                torch.export.export(model, (torch.ones(2),), strict=False)
                model(torch.ones(2))
        else:
            torch.export.export(model, (torch.ones(2),), strict=False)
        assert set(heard) == {(not unseen, not unseen)}
    assert not model._forward_hooks and not model._forward_pre_hooks and not torch.compiler.is_compiling()
