"""What capture promises about the signature: flat, named, with eager's numbers."""

import dataclasses
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
import torch
from capture_checks import HERE, X, assert_signature_holds, captured, module_of, names
from torch import nn
from torch.export import Dim as TorchDim

from edgex.errors import CaptureError, UsageError
from edgex.export.capture.program import capture
from edgex.runtime.artifact.specs import Dim


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    states: tuple
    nothing: torch.Tensor | None = None


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_one_tensor():
    result = captured(lambda self, x: self.linear(x), (X,))
    assert [str(spec) for spec in result.program.inputs] == ["x: float32[3, 4]"]
    assert [str(spec) for spec in result.program.outputs] == ["output_0: float32[3, 4]"]
    assert result.program.state == ()
    assert result.notices == ()
    assert not result.strict
    assert_signature_holds(result)


def test_nested_inputs_and_constants():
    def forward(self, x, batch, xs, *args, scale=2, flag=False, **more):
        y = self.linear(x) * scale + batch["mask"] + xs[0] + xs[1]["deep"] + args[0] + more["extra"]
        return y if flag else -y

    result = captured(
        forward,
        (X, {"mask": X + 1, "size": 3}, [X * 2, {"deep": X * 3}], X * 4, "word"),
        {"extra": X * 5, "flag": True, "scale": 3.0},
    )
    assert names(result.program.inputs) == ["x", "batch.mask", "xs.0", "xs.1.deep", "args.0", "extra"]
    fixed = "inputs that are not tensors are fixed in the program: batch.size=3, args.1='word', scale=3.0, flag=True"
    assert result.notices == (fixed,)
    assert_signature_holds(result)


def test_keyword_inputs_follow_the_signature():
    def forward(self, x, second=None, first=None):
        return self.linear(x) + 2 * first - second

    result = captured(forward, (), {"first": X, "second": X * 2, "x": X * 3})
    assert names(result.program.inputs) == ["x", "second", "first"]
    assert_signature_holds(result)


class Output(dict):
    """As diffusers' outputs: a mapping that its library registers without saying how its parts are called."""


def test_outputs_of_a_class_that_a_library_registered_without_names():
    from edgex.delegates.graph.torch_internals import pytree

    if Output not in pytree.SUPPORTED_NODES:
        pytree.register_pytree_node(
            Output, lambda d: (list(d.values()), list(d)), lambda v, k: Output(zip(k, v, strict=True))
        )
    result = captured(lambda self, x: (Output(sample=self.linear(x), more=[x]), x + 1), (X,))
    assert names(result.program.outputs) == ["output_0.sample", "output_0.more.0", "output_2"]
    assert_signature_holds(result)


def test_outputs_that_never_change_are_left_out():
    def forward(self, x):
        return {"y": self.linear(x), "sizes": (x.shape[1], 3), "label": "cat", "scale": 1.5, "none": None, "flag": True}

    result = captured(forward, (X,))
    assert names(result.program.outputs) == ["y"]
    assert_signature_holds(result)
    (said,) = [notice for notice in result.notices if "the same whatever the inputs" in notice]
    assert said.endswith(
        "left out: " + ", ".join((f"sizes.0={X.shape[1]}", "sizes.1=3", "label='cat'", "scale=1.5", "flag=True"))
    )


def test_a_size_that_varies_is_no_output():
    with pytest.raises(CaptureError, match="output output_1 is a number that the inputs decide") as caught:
        captured(lambda self, x: (self.linear(x), x.shape[0]), (X,), dynamic_shapes=({0: TorchDim("batch", max=8)},))
    assert "sizes can be read off the other outputs" in caught.value.fix


def test_dataclass_inputs_and_outputs():
    def forward(self, batch):
        y = self.linear(batch.ids)
        return Result(y, (y + 1, [y + 2]), None)

    result = captured(forward, (Batch(X, X + 1),))
    assert names(result.program.inputs) == ["batch.ids", "batch.mask"]
    assert names(result.program.outputs) == ["logits", "states.0", "states.1.0"]
    assert_signature_holds(result)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda y: y, ["output_0"]),
        (lambda y: (y, y + 1), ["output_0", "output_1"]),
        (lambda y: [y, (y + 1, [y + 2])], ["output_0", "output_1", "output_2"]),
        (lambda y: (y, None, y + 1), ["output_0", "output_1"]),
        (lambda y: {"b": y, "a": [y + 1, y + 2]}, ["b", "a.0", "a.1"]),
        (lambda y: (y, {"attention": y + 1}), ["output_0", "output_1.attention"]),
        (lambda y: Pair(y, y + 1), ["output_0", "output_1"]),
        (lambda y: {"pair": Pair(y, y + 1)}, ["pair.first", "pair.second"]),
        (lambda y: torch.max(y, 1), ["output_0", "output_1"]),
        (lambda y: (y, y), ["output_0", "output_1"]),
    ],
)
def test_output_names(value, expected):
    result = captured(lambda self, x: value(self.linear(x)), (X,))
    assert names(result.program.outputs) == expected
    assert_signature_holds(result)


def test_an_output_may_be_an_input_or_a_buffer():
    result = captured(lambda self, x: (x, self.table, self.linear.weight), (X,), table=torch.ones(2))
    assert_signature_holds(result)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8, torch.float16, torch.float64])
def test_dtypes(dtype):
    value = torch.tensor([[0, 1, 1, 0]]).to(dtype)
    result = captured(lambda self, x: (self.linear(x.float()), x[:, 1:]), (value,))
    expected = str(dtype).removeprefix("torch.")
    assert [result.program.inputs[0].dtype, result.program.outputs[1].dtype] == [expected, expected]
    assert_signature_holds(result)


def test_complex_passes_and_unknown_dtypes_are_refused():
    result = captured(lambda self, x: (x * 2).real, (torch.complex(X, X),))
    assert result.program.inputs[0].dtype == "complex64"
    with pytest.raises(CaptureError, match="output output_0 has dtype complex128") as caught:
        captured(lambda self, x: x.to(torch.complex128), (X,))
    assert caught.value.exit_code == 3


def test_the_same_tensor_twice():
    result = captured(lambda self, x, y: self.linear(x) - 2 * y, (X, X))
    assert names(result.program.inputs) == ["x", "y"]
    other = torch.ones(3, 4)
    torch.testing.assert_close(result.program.exported.module()(X, other)[0], result.eager.run([X, other])[0])


def test_a_compiled_module_is_unwrapped():
    result = capture(torch.compile(module_of(lambda self, x: self.linear(x))), (X,), source_root=HERE)
    assert names(result.program.inputs) == ["x"]
    assert_signature_holds(result)


def test_the_memory_order_of_the_example_does_not_matter():
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    result = capture(nn.Conv2d(3, 4, 3).eval(), (image,), source_root=HERE)
    placeholder = result.program.exported.graph.find_nodes(op="placeholder")[-1]
    assert placeholder.meta["val"].is_contiguous()
    assert result.eager.example[0].is_contiguous()
    assert_signature_holds(result)


def test_an_axis_that_numpy_added_has_an_ordinary_stride():
    row = torch.from_numpy(np.arange(4.0, dtype=np.float32)[None])
    assert row.stride() == (0, 1) and row.is_contiguous()
    result = capture(nn.Linear(4, 2).eval(), (row,), source_root=HERE)
    assert result.eager.example[0].stride() == (4, 1)


def test_weights_or_inputs_on_an_accelerator():
    with torch._subclasses.FakeTensorMode():
        elsewhere = torch.empty(3, 4, device="cuda")
    with pytest.raises(CaptureError, match="an example input: on cuda:0 instead of the CPU") as caught:
        captured(lambda self, x: self.linear(x), (elsewhere,))
    assert "model.cpu()" in caught.value.fix


def test_no_inputs():
    result = captured(lambda self: self.linear.weight * 2)
    assert result.program.inputs == ()
    assert_signature_holds(result)


def test_writes_to_inputs_stay_inside():
    def forward(self, x, parts):
        x.mul_(2)
        parts["view"][0].add_(1)
        return self.linear(x) + parts["view"]

    result = captured(forward, (X.clone(), {"view": X.clone()}))
    assert result.notices == ("forward writes to its input x, parts.view: the artifact writes to a copy",)
    assert_signature_holds(result)


def test_writes_to_inputs_of_a_decomposed_program():
    def forward(self, x):
        x.mul_(2)
        return self.linear(x)

    exported = torch.export.export(module_of(forward), (X.clone(),)).run_decompositions({})
    assert exported.graph_signature.user_inputs_to_mutate
    result = capture(exported, source_root=HERE)
    assert not result.program.exported.graph_signature.user_inputs_to_mutate
    assert "writes to its input x" in result.notices[0]
    assert_signature_holds(result)


def test_numpy_inside_forward_needs_strict_capture():
    def forward(self, x):
        return self.linear(x) + torch.from_numpy(np.tanh(x.numpy()) * 2)

    result = captured(forward, (X,))
    assert result.strict
    assert result.notices[0].startswith("captured in strict mode, since non-strict capture fails: ")
    assert "test_program.py:" in result.notices[0]
    assert_signature_holds(result)


def test_training_mode_is_left_with_a_notice():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9))
    result = capture(module, (X,), source_root=HERE)
    assert result.notices == ("the model was in training mode and has been put in eval mode; this changes 1 (Dropout)",)
    assert_signature_holds(result)


def test_exported_program_keeps_its_names(tmp_path):
    def forward(self, x, batch, k=2):
        return {"y": self.linear(x) * k + batch["mask"], "none": None}

    module = module_of(forward)
    batch = TorchDim("batch", min=1, max=8)
    shapes = {"x": {0: batch}, "batch": {"mask": {0: batch}}, "k": None}
    exported = torch.export.export(module, (X, {"mask": X + 1}), {"k": 3}, dynamic_shapes=shapes)
    torch.export.save(exported, tmp_path / "net.pt2")
    result = capture(torch.export.load(tmp_path / "net.pt2"), source_root=tmp_path)
    assert names(result.program.inputs) == ["x", "batch.mask"]
    assert names(result.program.outputs) == ["y"]
    bounds = [(d.min, d.max) for spec in (*result.program.inputs, *result.program.outputs) for d in spec.shape[:1]]
    assert bounds == [(1, 8)] * 3
    assert_signature_holds(result)
    inputs = [torch.randn(7, 4), torch.randn(7, 4)]
    torch.testing.assert_close(result.eager.run(inputs)[0], module(inputs[0], {"mask": inputs[1]}, 3)["y"])


def test_exported_program_without_examples_or_with_dims():
    exported = torch.export.export(module_of(lambda self, x: self.linear(x)), (X,))
    with pytest.raises(UsageError, match="are fixed"):
        capture(exported, source_root=HERE, dynamic={("x", 0): Dim("b", 1, 8)})
    exported.example_inputs = None
    with pytest.raises(CaptureError, match="holds no example inputs"):
        capture(exported, source_root=HERE)


def test_named_tuple_type_of_collections():
    kind = namedtuple("kind", ["a", "b"])
    result = captured(lambda self, pair: pair.a - pair.b, (kind(X, X * 2),))
    assert names(result.program.inputs) == ["pair.a", "pair.b"]


def test_the_fused_path_of_a_transformer_encoder_is_named_and_not_the_reference():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)

        def forward(self, x, padding):
            return self.encoder(x, src_key_padding_mask=padding)

    torch.manual_seed(0)
    padding = torch.tensor([[False, False, False], [False, False, True]])
    result = capture(Model().eval(), (torch.randn(2, 3, 8), padding), source_root=HERE)
    assert any("fused path gives other values" in notice for notice in result.notices)
    assert_signature_holds(result)


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        kept = self.linear(x)
        shown = kept.view(-1)
        kept.relu_()
        return torch.relu_(self.linear(x)) + 1, shown


def test_activations_in_place_are_written_out_of_place_where_nobody_sees_it():
    module, x = InPlace().eval(), torch.randn(2, 3)
    program = capture(module, (x,), source_root=HERE).program
    targets = [node.target for node in program.exported.graph.nodes]
    assert targets.count(torch.ops.aten.relu.default) == targets.count(torch.ops.aten.relu_.default) == 1
    for found, wanted in zip(program.exported.module()(x), module(x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
