"""Constants that onnxscript's optimizer makes and leaves out of the graph."""

import torch
from rewriting import Calls

from edgex.delegates.onnxruntime.graph.lost_initializers import register_lost_initializers


def _optimized(function, x):
    program = torch.export.export(Calls(function), (x,))
    written = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    written.optimize()
    return written.model


def _run(model, x):
    import onnx_ir
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model).SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})


def _clamps(x):
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    return (
        torch.maximum(torch.minimum(x, one), -one),
        torch.minimum(torch.maximum(x, -two), two),
        torch.maximum(torch.minimum(x, two), one),
    )


def test_three_clips_of_one_value():
    x = torch.linspace(-3, 3, 13)
    model = _optimized(_clamps, x)
    assert register_lost_initializers(model) == 4, "onnxscript registers them by itself: this pass can go"
    assert register_lost_initializers(model) == 0
    for found, expected in zip(_run(model, x), _clamps(x), strict=True):
        assert torch.equal(torch.from_numpy(found), expected)


def test_a_graph_that_lacks_nothing():
    x = torch.linspace(-3, 3, 13)
    model = _optimized(lambda x: torch.relu(x) + 1, x)
    names = list(model.graph.initializers)
    assert register_lost_initializers(model) == 0
    assert list(model.graph.initializers) == names
