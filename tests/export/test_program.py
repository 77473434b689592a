"""What capture promises: a flat, named border, right numbers, named and bounded dims, known state."""

import dataclasses
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim as TorchDim

from edgex.errors import CaptureError, UsageError
from edgex.export.program import capture
from edgex.runtime.specs import Dim, StateSpec

HERE = Path(__file__).parent


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


def assert_border_holds(result):
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


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def test_one_tensor():
    result = captured(lambda self, x: self.linear(x), (X,))
    assert [str(spec) for spec in result.program.inputs] == ["x: float32[3, 4]"]
    assert [str(spec) for spec in result.program.outputs] == ["output_0: float32[3, 4]"]
    assert result.program.state == ()
    assert result.notices == ()
    assert not result.strict
    assert_border_holds(result)


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
    assert_border_holds(result)


def test_keyword_inputs_follow_the_signature():
    def forward(self, x, second=None, first=None):
        return self.linear(x) + 2 * first - second

    result = captured(forward, (), {"first": X, "second": X * 2, "x": X * 3})
    assert names(result.program.inputs) == ["x", "second", "first"]
    assert_border_holds(result)


def test_dataclass_inputs_and_outputs():
    def forward(self, batch):
        y = self.linear(batch.ids)
        return Result(y, (y + 1, [y + 2]), None)

    result = captured(forward, (Batch(X, X + 1),))
    assert names(result.program.inputs) == ["batch.ids", "batch.mask"]
    assert names(result.program.outputs) == ["logits", "states.0", "states.1.0"]
    assert_border_holds(result)


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
    assert_border_holds(result)


def test_an_output_may_be_an_input_or_a_buffer():
    result = captured(lambda self, x: (x, self.table, self.linear.weight), (X,), table=torch.ones(2))
    assert_border_holds(result)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8, torch.float16, torch.float64])
def test_dtypes(dtype):
    value = torch.tensor([[0, 1, 1, 0]]).to(dtype)
    result = captured(lambda self, x: (self.linear(x.float()), x[:, 1:]), (value,))
    expected = str(dtype).removeprefix("torch.")
    assert [result.program.inputs[0].dtype, result.program.outputs[1].dtype] == [expected, expected]
    assert_border_holds(result)


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
    assert_border_holds(result)


def test_the_memory_order_of_the_example_does_not_matter():
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    result = capture(nn.Conv2d(3, 4, 3).eval(), (image,), source_root=HERE)
    placeholder = result.program.exported.graph.find_nodes(op="placeholder")[-1]
    assert placeholder.meta["val"].is_contiguous()
    assert result.eager.example[0].is_contiguous()
    assert_border_holds(result)


def test_weights_or_inputs_on_an_accelerator():
    with torch._subclasses.FakeTensorMode():
        elsewhere = torch.empty(3, 4, device="cuda")
    with pytest.raises(CaptureError, match="an example input: on cuda:0 instead of the CPU") as caught:
        captured(lambda self, x: self.linear(x), (elsewhere,))
    assert "model.cpu()" in caught.value.fix


def test_no_inputs():
    result = captured(lambda self: self.linear.weight * 2)
    assert result.program.inputs == ()
    assert_border_holds(result)


def test_writes_to_inputs_stay_inside():
    def forward(self, x, parts):
        x.mul_(2)
        parts["view"][0].add_(1)
        return self.linear(x) + parts["view"]

    result = captured(forward, (X.clone(), {"view": X.clone()}))
    assert result.notices == ("forward writes to its input x, parts.view: the artifact writes to a copy",)
    assert_border_holds(result)


def test_writes_to_inputs_of_a_decomposed_program():
    def forward(self, x):
        x.mul_(2)
        return self.linear(x)

    exported = torch.export.export(module_of(forward), (X.clone(),)).run_decompositions({})
    assert exported.graph_signature.user_inputs_to_mutate
    result = capture(exported, source_root=HERE)
    assert not result.program.exported.graph_signature.user_inputs_to_mutate
    assert "writes to its input x" in result.notices[0]
    assert_border_holds(result)


def test_numpy_inside_forward_needs_strict_capture():
    def forward(self, x):
        return self.linear(x) + torch.from_numpy(np.tanh(x.numpy()) * 2)

    result = captured(forward, (X,))
    assert result.strict
    assert result.notices[0].startswith("captured in strict mode, since non-strict capture fails: ")
    assert "test_program.py:" in result.notices[0]
    assert_border_holds(result)


def test_training_mode_is_left_with_a_notice():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9))
    result = capture(module, (X,), source_root=HERE)
    assert result.notices == ("the model was in training mode and has been put in eval mode; this changes 1 (Dropout)",)
    assert_border_holds(result)


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
    assert_border_holds(result)
    inputs = [torch.randn(7, 4), torch.randn(7, 4)]
    torch.testing.assert_close(result.eager.run(inputs)[0], module(inputs[0], {"mask": inputs[1]}, 3)["y"])


def test_exported_program_without_examples_or_with_dims():
    exported = torch.export.export(module_of(lambda self, x: self.linear(x)), (X,))
    with pytest.raises(UsageError, match="are fixed"):
        capture(exported, source_root=HERE, dynamic={("x", 0): Dim("b", 1, 8)})
    exported.example_inputs = None
    with pytest.raises(CaptureError, match="holds no example inputs"):
        capture(exported, source_root=HERE)


class TestDynamic:
    def test_named_dims_and_expressions(self):
        def forward(self, x, y):
            return self.linear(x) + y, torch.cat([x, y]), x.repeat_interleave(2, 0)[1:]

        batch = TorchDim("batch", min=1, max=6)
        result = captured(forward, (X, X), dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
        assert [spec.shape[0] for spec in result.program.inputs] == [Dim("batch", 1, 6)] * 2
        assert [spec.shape[0] for spec in result.program.outputs] == [
            Dim("batch", 1, 6),
            Dim("2*batch", 2, 12),
            Dim("2*batch - 1", 1, 11),
        ]
        assert_border_holds(result)
        self.assert_follows(result, [(1, 4), (1, 4)], [(5, 4), (5, 4)], [(6, 4), (6, 4)])

    def assert_follows(self, result, *shapes):
        for module in (result.program.exported.module(), result.program.exported.run_decompositions({}).module()):
            for given in shapes:
                inputs = [torch.randn(shape) for shape in given]
                for output, expected in zip(module(*inputs), result.eager.run(inputs), strict=True):
                    torch.testing.assert_close(output, expected)

    def test_tuple_form_and_nested_inputs(self):
        def forward(self, batch, xs):
            return batch["a"] + xs[0]

        rows = TorchDim("rows", min=2, max=5)
        shapes = ({"a": {0: rows}}, [{0: rows}])
        result = captured(forward, ({"a": X}, [X]), dynamic_shapes=shapes)
        assert [spec.shape for spec in result.program.inputs] == [(Dim("rows", 2, 5), 4)] * 2
        self.assert_follows(result, [(2, 4), (2, 4)], [(5, 4), (5, 4)])

    def test_derived_dims(self):
        half = TorchDim("half", min=1, max=4)
        result = captured(
            lambda self, x, y: torch.cat([x, x]) + y,
            (X, torch.cat([X, X])),
            dynamic_shapes={"x": {0: half}, "y": {0: 2 * half}},
        )
        assert [spec.shape[0] for spec in result.program.inputs] == [Dim("half", 1, 4), Dim("2*half", 2, 8)]
        self.assert_follows(result, [(1, 4), (2, 4)], [(4, 4), (8, 4)])

    @pytest.mark.parametrize("factor", [1, 2])
    def test_an_example_of_size_one_may_be_dynamic(self, factor):
        batch = TorchDim("batch", min=1, max=4)
        result = captured(
            lambda self, x, y: self.linear(x) + y.reshape(-1, factor, 4).sum(1),
            (X[:1], X[:factor]),
            dynamic_shapes={"x": {0: batch}, "y": {0: factor * batch if factor > 1 else batch}},
        )
        assert result.program.inputs[0].shape == (Dim("batch", 1, 4), 4)
        assert result.eager.example[0].shape == (1, 4)
        assert_border_holds(result)
        self.assert_follows(result, [(1, 4), (factor, 4)], [(4, 4), (4 * factor, 4)])

    def test_command_line(self):
        dims = {("batch.a", 0): Dim("n", 1, 8), ("y", 0): Dim("n", 1, 8), ("y", 1): Dim("y_1", 2, 9)}
        result = captured(lambda self, batch, y: (batch["a"], y.sum(1)), ({"a": X[:1]}, X[:1]), dynamic=dims)
        assert [spec.shape for spec in result.program.inputs] == [
            (Dim("n", 1, 8), 4),
            (Dim("n", 1, 8), Dim("y_1", 2, 9)),
        ]
        self.assert_follows(result, [(1, 4), (1, 2)], [(8, 4), (8, 9)])

    def test_command_line_names_what_does_not_exist(self):
        with pytest.raises(UsageError, match="there is no input 'xs'") as caught:
            captured(lambda self, x: x * 2, (X,), dynamic={("xs", 0): Dim("n", 1, 8)})
        assert caught.value.why == "did you mean 'x'? known: x"
        with pytest.raises(UsageError, match="the input has 2 dimensions"):
            captured(lambda self, x: x * 2, (X,), dynamic={("x", 2): Dim("n", 1, 8)})

    def test_hints(self):
        shapes = {"x": {0: TorchDim.DYNAMIC(min=1, max=8), 1: TorchDim.AUTO}}
        result = captured(lambda self, x: self.linear(x), (X,), dynamic_shapes=shapes)
        assert result.program.inputs[0].shape == (Dim("x_0", 2, 8), 4)
        assert "asked to be 1..8 and is 2..8" in result.notices[0]
        assert result.notices[1] == "dimension 1 of x is always 4: the model needs that size"

    def test_a_size_that_must_be_even(self):
        result = captured(
            lambda self, x: x.reshape(-1, 2, 4), (X.repeat(2, 1),), dynamic_shapes={"x": {0: TorchDim.DYNAMIC(max=8)}}
        )
        assert result.notices[-1].startswith("the program works only for sizes with ((4*x.shape[0]) % 8) == 0")

    def test_shapes_collection(self):
        shapes = torch.export.ShapesCollection()
        shapes[X] = {0: TorchDim("rows", min=2, max=5)}
        result = captured(lambda self, x: self.linear(x), (X,), dynamic_shapes=shapes)
        assert result.program.inputs[0].shape == (Dim("rows", 2, 5), 4)

    def test_dataclass_input(self):
        rows = TorchDim("rows", min=2, max=5)
        result = captured(
            lambda self, batch: batch.ids + batch.mask,
            (Batch(X, X),),
            dynamic_shapes={"batch": [{0: rows}, {0: rows}]},
        )
        assert [spec.shape[0] for spec in result.program.inputs] == [Dim("rows", 2, 5)] * 2

    def test_size_zero_is_not_proved(self):
        result = captured(lambda self, x: x * 2, (X,), dynamic_shapes={"x": {0: TorchDim("n", max=5)}})
        assert result.program.inputs[0].shape[0] == Dim("n", 1, 5)
        assert result.notices == ("dimension 0 of x starts at 1: size 0 is not proved",)

    def test_no_upper_bound(self):
        with pytest.raises(CaptureError, match="dimension 0 of input x has no upper bound") as caught:
            captured(lambda self, x: x * 2, (X,), dynamic_shapes={"x": {0: TorchDim("rows")}})
        assert "Dim('rows', min=1, max=...)" in caught.value.fix
        assert "--dynamic x:0=1..N" in caught.value.fix

    def test_outputs_whose_size_depends_on_the_data(self):
        result = captured(lambda self, x: x[x > 0], (X,))
        (dim,) = result.program.outputs[0].shape
        assert (dim.min, dim.max) == (0, 12)


class TestState:
    def test_buffers_that_change(self):
        def forward(self, x):
            self.count += 1
            self.cache[0] = x[0]
            return self.linear(x) * self.count + self.cache.sum() + self.frozen

        buffers = {"count": torch.tensor(5.0), "cache": torch.zeros(2, 4), "frozen": torch.ones(4)}
        result = captured(forward, (X,), **buffers)
        assert result.program.state == (StateSpec("count", "float32", ()), StateSpec("cache", "float32", (2, 4)))
        assert torch.equal(result.program.exported.state_dict["count"], torch.tensor(5.0))
        assert_border_holds_from_fresh(result)

    def test_replaced_buffer(self):
        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

        result = captured(forward, (X,), count=torch.tensor(5))
        assert names(result.program.state) == ["count"]
        assert_border_holds_from_fresh(result)

    def test_strict_capture_that_loses_a_replaced_buffer_is_refused(self):
        def forward(self, x):
            self.count = self.count + 1
            return torch.from_numpy(np.tanh(x.numpy())) * self.count

        with pytest.raises(CaptureError, match="lost the change that forward makes to buffer count") as caught:
            captured(forward, (X,), count=torch.tensor(5))
        assert "self.count.copy_(value)" in caught.value.fix

    def test_non_persistent_and_shared_buffers(self):
        class Part(nn.Module):
            def __init__(self, cache):
                super().__init__()
                self.register_buffer("cache", cache, persistent=False)

            def forward(self, x):
                self.cache.add_(x)
                return self.cache * 2

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                cache = torch.full((3, 4), 7.0)
                self.one, self.two = Part(cache), Part(cache)

            def forward(self, x):
                return self.one(x) + self.two(x)

        result = capture(Model().eval(), (X,), source_root=HERE)
        assert names(result.program.state) in (["one.cache"], ["two.cache"])
        assert_border_holds_from_fresh(result)

    def test_a_view_that_is_written(self):
        def forward(self, x):
            self.cache.view(8)[:4].add_(x[0])
            return self.cache * 2

        result = captured(forward, (X,), cache=torch.zeros(2, 4))
        assert names(result.program.state) == ["cache"]
        assert_border_holds_from_fresh(result)

    def test_a_copy_that_is_written_is_no_state(self):
        def forward(self, x):
            return self.table.t().reshape(8).mul_(2) + x.sum()

        result = captured(forward, (X,), table=torch.ones(2, 4))
        assert result.program.state == ()

    def test_batch_norm_counts_no_version(self):
        def forward(self, x):
            return nn.functional.batch_norm(x, self.mean, self.var, training=True) + self.mean

        result = captured(forward, (X,), mean=torch.zeros(4), var=torch.ones(4))
        assert names(result.program.state) == ["mean", "var"]
        assert_border_holds_from_fresh(result)

    def test_unchanged_values_are_state_all_the_same(self):
        def forward(self, x):
            self.cache[0] = x[0]
            return self.cache + x

        result = captured(forward, (torch.zeros(3, 4),), cache=torch.zeros(3, 4))
        assert names(result.program.state) == ["cache"]

    def test_under_autocast_regions(self):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                self.count.add_(1)
            return x * self.count

        result = captured(forward, (X,), count=torch.tensor(5.0))
        assert names(result.program.state) == ["count"]

    def test_of_an_exported_program(self, tmp_path):
        def forward(self, x):
            self.count += 1
            return x * self.count

        torch.export.save(torch.export.export(module_of(forward, count=torch.tensor(5.0)), (X,)), tmp_path / "n.pt2")
        result = capture(torch.export.load(tmp_path / "n.pt2"), source_root=tmp_path)
        assert names(result.program.state) == ["count"]
        assert_border_holds_from_fresh(result)


def assert_border_holds_from_fresh(result):
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


def test_named_tuple_type_of_collections():
    kind = namedtuple("kind", ["a", "b"])
    result = captured(lambda self, pair: pair.a - pair.b, (kind(X, X * 2),))
    assert names(result.program.inputs) == ["pair.a", "pair.b"]
