"""Dynamic dimensions: asked for, named, bounded, and followed by the program."""

import dataclasses

import pytest
import torch
from capture_checks import X, assert_signature_holds, captured
from torch.export import Dim as TorchDim

from edgex.errors import CaptureError, UsageError
from edgex.runtime.artifact.specs import Dim


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor


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
        assert_signature_holds(result)
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
        assert_signature_holds(result)
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
