"""Code of graph modules that is written when somebody wants it."""

import copy
import inspect

import pytest
import torch

from edgex.delegates.executorch.exporter.lazy_code import code_on_demand


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2


def traced():
    return torch.fx.symbolic_trace(Doubled())


def triple(module):
    """Make of twice a number three times it, as a pass does."""
    product = next(node for node in module.graph.nodes if node.op == "call_function")
    product.args = (product.args[0], 3)


@pytest.mark.parametrize("made_within", [False, True])
def test_a_changed_graph_gives_what_it_says(made_within):
    module = None if made_within else traced()
    with code_on_demand():
        module = module or traced()
        triple(module)
        module.recompile()
        assert module(torch.ones(2)).tolist() == [3, 3]
        assert "x * 3" in module.code
    assert module(torch.ones(2)).tolist() == [3, 3]


def test_code_is_written_once_it_is_wanted(monkeypatch):
    written = []
    write = torch.fx.Graph.python_code
    monkeypatch.setattr(
        torch.fx.Graph,
        "python_code",
        lambda graph, *args, **kwargs: written.append(graph) or write(graph, *args, **kwargs),
    )
    module = traced()
    written.clear()
    with code_on_demand():
        for _ in range(5):
            module.recompile()
        assert not written
        module(torch.ones(2)), module(torch.ones(2))
        assert len(written) == 1
        module.recompile()
    assert len(written) == 2, "what waits at the end has its code then"
    module(torch.ones(2))
    assert len(written) == 2


def test_what_reads_the_code_has_it():
    with code_on_demand():
        module = traced()
        triple(module)
        module.recompile()
        assert "x * 3" in str(module)
        assert "* 3" in module.recompile().src
        module.recompile()
        assert copy.deepcopy(module)(torch.ones(1)).item() == 3


def test_the_names_of_inputs_are_those_of_the_function():
    with code_on_demand():
        module = torch.export.export(Doubled(), (torch.ones(2),)).module()
        module.recompile()
        assert list(inspect.signature(module.forward).parameters) == ["x"]
        again = torch.export.export(module, (torch.ones(2),))
    assert again.graph_signature.user_inputs == ("x",)


def test_a_function_that_is_given_to_a_module_is_its_function():
    with code_on_demand():
        module = traced()
        module.recompile()
        module.forward = lambda x: x - 1
        assert module(torch.ones(1)).item() == 0


def test_torch_is_as_it_was_afterwards():
    before = torch.fx.GraphModule.recompile
    with pytest.raises(KeyError), code_on_demand():
        raise KeyError
    assert torch.fx.GraphModule.recompile is before
    module = traced()
    triple(module)
    assert "x * 2" in module.code
    module.recompile()
    assert "x * 3" in module.code


def test_the_structure_of_inputs_is_known_without_the_code():
    program = torch.export.export(Doubled(), (torch.ones(2),)).module()
    with code_on_demand():
        structure = program._in_spec
        program.recompile()
        assert program._in_spec == structure
        assert program(torch.ones(2)).tolist() == [2, 2]
