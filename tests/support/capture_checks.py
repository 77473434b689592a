"""Checks that every test of capture shares."""

from pathlib import Path

import torch
from torch import nn

from edgex.export.capture.program import capture

HERE = Path(__file__).parent
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def module_of(forward, **buffers):
    """A module in eval mode with a Linear(4, 4) named `linear`, the given buffers, and this forward."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            for name, value in buffers.items():
                self.register_buffer(name, value)

    Model.forward = forward
    torch.manual_seed(0)
    return Model().eval()


def captured(forward, args=(), kwargs=None, dynamic_shapes=None, dynamic=None, **buffers):
    return capture(module_of(forward, **buffers), args, kwargs, dynamic_shapes, source_root=HERE, dynamic=dynamic)


def names(specs):
    return [spec.name for spec in specs]


def assert_signature_holds(result):
    """The flat program takes positional tensors, returns a tuple of tensors, and gives eager's numbers."""
    program = result.program
    assert list(program.exported.graph_signature.user_inputs) == [
        node.name
        for node in program.exported.graph.find_nodes(op="placeholder")
        if node.name in program.exported.graph_signature.user_inputs
    ]
    assert len(program.exported.graph_signature.user_inputs) == len(program.inputs)
    assert len(program.exported.graph_signature.user_outputs) == len(program.outputs)
    inputs = [tensor.clone() for tensor in result.eager.example]
    for exported in (program.exported, program.exported.run_decompositions({})):
        outputs = exported.module()(*inputs)
        assert type(outputs) is tuple
        for spec, output, expected in zip(program.outputs, outputs, result.eager.example_outputs, strict=True):
            assert spec.static_shape is None or spec.static_shape == tuple(output.shape)
            assert spec.dtype == str(output.dtype).removeprefix("torch.")
            torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    for tensor, example in zip(inputs, result.eager.example, strict=True):
        assert torch.equal(tensor, example), "the program wrote to its input"


def assert_signature_holds_from_fresh(result):
    """The program's initial state is the model's, whatever eager did meanwhile, and both step alike."""
    for _ in range(3):
        result.eager.run(result.eager.example)
    program = result.program.exported
    result.eager.reset()
    module = program.run_decompositions({}).module()
    first = None
    for _ in range(3):
        expected = result.eager.run(result.eager.example)
        first = first or expected
        for output, reference in zip(module(*result.eager.example), expected, strict=True):
            torch.testing.assert_close(output, reference)
    assert not torch.equal(first[0], expected[0]), "these inputs do not show the state"
    for output, reference in zip(first, result.eager.example_outputs, strict=True):
        assert torch.equal(output, reference)
