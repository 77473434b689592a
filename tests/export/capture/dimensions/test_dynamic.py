"""Dynamic dimensions: asked for, named, bounded, and followed by the program."""

import dataclasses
from pathlib import Path

import pytest
import torch
from capture_checks import HERE, X, assert_signature_holds, captured, module_of
from torch.export import Dim as TorchDim

from edgex.cli.flags import parse_dynamic
from edgex.errors import CaptureError, UsageError
from edgex.export.capture.program import capture
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
        with pytest.raises(UsageError, match="there is no input 'X'") as caught:
            captured(lambda self, x: x * 2, (X,), dynamic={("X", 0): Dim("n", 1, 8)})
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


class TestFlags:
    """Dimensions of the command line: named, shared, derived, and what torch.export says of them as flags."""

    def flags(self, *values):
        return parse_dynamic(values)

    def test_one_name_in_two_inputs(self):
        dims = self.flags("x:0=L=2..8", "y:0=L")
        result = captured(lambda self, x, y: self.linear(x) + y, (X, X), dynamic=dims)
        assert [spec.shape[0] for spec in result.program.inputs] == [Dim("L", 2, 8)] * 2
        assert result.notices == ()
        assert self.flags("x:0=L=2..8,y:0=L") == dims, "lists come by comma too"

    def test_equal_bounds_are_unified_where_the_model_needs_it(self):
        dims = self.flags("x:0=2..8", "y:0=2..8")
        result = captured(lambda self, x, y: self.linear(x) + y, (X, X), dynamic=dims)
        one, other = (spec.shape[0] for spec in result.program.inputs)
        assert one == other
        assert (one.min, one.max) == (2, 8)
        assert "the model needs equal sizes" in result.notices[0]

    def test_equal_bounds_are_unified_in_a_files_dynamic_shapes(self):
        shapes = {"x": {0: TorchDim("a", min=2, max=8)}, "y": {0: TorchDim("b", min=2, max=8)}}
        result = captured(lambda self, x, y: self.linear(x) + y, (X, X), dynamic_shapes=shapes)
        assert result.program.inputs[0].shape[0] == result.program.inputs[1].shape[0]

    @pytest.mark.parametrize(
        ("values", "fix"),
        [
            (("x:0=0..8",), "--dynamic x:0=1..8"),
            (("x:0=n=0..8",), "--dynamic x:0=n=1..8"),
            (("x:0=auto=0..8",), "--dynamic x:0=auto=1..8"),
            (("x:0=n=1..8", "y:0=n-2"), "give n from 3 on"),
            (("x:0=2*n=0..4",), "give n from 1 on"),
        ],
    )
    def test_a_size_of_0_is_not_proved_and_refused(self, values, fix):
        with pytest.raises(UsageError, match="allows a size of 0") as caught:
            self.flags(*values)
        assert caught.value.fix == fix
        assert self.flags("x:0=n+1=0..8")["x", 0].offset == 1

    def test_other_bounds_are_not(self):
        dims = self.flags("x:0=2..8", "y:0=2..9")
        with pytest.raises(CaptureError) as caught:
            captured(lambda self, x, y: self.linear(x) + y, (X, X), dynamic=dims)
        assert "--dynamic" in caught.value.fix
        assert "Dim(" not in caught.value.fix

    def test_derived(self):
        dims = self.flags("x:0=n=1..4", "y:0=2*n", "z:0=n+1")

        def forward(self, x, y, z):
            return torch.cat([x, x]) + y, z[1:] + x

        result = captured(forward, (X, X.repeat(2, 1), torch.ones(4, 4)), dynamic=dims)
        assert [str(spec.shape[0]) for spec in result.program.inputs] == ["n=1..4", "2*n=2..8", "n + 1=2..5"]

    def test_a_name_that_means_something_in_expressions(self):
        with pytest.raises(UsageError, match="N cannot name a dimension that others follow"):
            captured(lambda self, x, y: (x, y), (X, X), dynamic=self.flags("x:0=N=1..4", "y:0=2*N"))

    def test_a_suggestion_can_be_pasted(self):
        def forward(self, x, y):
            return torch.cat([x, x]) + y

        given = (X, X.repeat(2, 1))
        with pytest.raises(CaptureError) as caught:
            captured(forward, given, dynamic=self.flags("x:0=1..4", "y:0=2..8"))
        pasted = [word for word in caught.value.fix.split() if "=" in word and ":" in word]
        result = captured(forward, given, dynamic=self.flags(*[word.rstrip(";") for word in pasted]))
        assert [(s.shape[0].min, s.shape[0].max) for s in result.program.inputs] == [(1, 4), (2, 8)]

    def test_a_size_that_must_be_even_can_be_pasted(self):
        def forward(self, x):
            return x.reshape(-1, 2, 4)

        with pytest.raises(CaptureError) as caught:
            captured(forward, (X.repeat(2, 1),), dynamic=self.flags("x:0=1..8"))
        (pasted,) = [word for word in caught.value.fix.split() if "*" in word]
        result = captured(forward, (X.repeat(2, 1),), dynamic=self.flags(pasted))
        # torch.export starts at 2 what no input has as its own size, and it is said.
        assert (result.program.inputs[0].shape[0].min, result.program.inputs[0].shape[0].max) == (4, 8)
        assert "asked to be 2..8 and is 4..8" in result.notices[0]

    def test_auto(self):
        dims = self.flags("x:0=auto=2..8", "x:1=auto=2..8")
        result = captured(lambda self, x: self.linear(x), (X,), dynamic=dims)
        assert result.program.inputs[0].shape == (Dim("x_0", 2, 8), 4)
        assert result.notices[-1] == "dimension 1 of x is always 4: the model needs that size"

    def test_one_size_only(self):
        with pytest.raises(CaptureError) as caught:
            captured(lambda self, x: x + torch.ones(3, 4), (X,), dynamic=self.flags("x:0=2..8"))
        assert caught.value.fix.startswith("leave --dynamic x:0 out")

    def test_a_size_that_another_input_has_is_shared(self):
        def forward(self, x, y, z):
            return self.linear(x) * y + z[:, None]

        given = (X, X, torch.ones(3))
        with pytest.raises(CaptureError) as caught:
            captured(forward, given, dynamic=self.flags("x:0=2..8"))
        assert caught.value.fix.startswith("y:0, z:0 have the same size: --dynamic x:0=L=2..8,y:0=L,z:0=L; otherwise")
        pasted = caught.value.fix.split("--dynamic ")[1].split(";")[0]
        result = captured(forward, given, dynamic=self.flags(pasted))
        assert [spec.shape[0] for spec in result.program.inputs] == [Dim("L", 2, 8)] * 3

    def test_a_size_that_two_dynamic_dimensions_and_another_axis_have(self):
        given = (X, X, torch.ones(3, 3))
        with pytest.raises(CaptureError) as caught:
            captured(lambda self, x, y, z: z @ x + y, given, dynamic=self.flags("x:0=L=2..8", "y:0=3..9"))
        assert "--dynamic x:0=L2=3..8,y:0=L2,z:0=L2,z:1=L2" in caught.value.fix

    @pytest.mark.parametrize(
        ("flags", "what"),
        [
            (["x:0"], "expected input:axis=min..max"),
            (["x:0=L"], "L has no bounds"),
            (["x:0=L=1..8", "y:0=L=1..9"], "L has other bounds"),
            (["x:0=8..1"], "min must be below max"),
        ],
    )
    def test_what_is_wrong_with_a_flag(self, flags, what):
        with pytest.raises(UsageError, match=what):
            self.flags(*flags)


class TestRecurrences:
    @pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
    def test_a_length_that_is_dynamic_is_refused_before_it_is_traced(self, kind, monkeypatch):
        monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("traced"))
        model = Recurrent(kind(4, 4, batch_first=True)).eval()
        with pytest.raises(CaptureError, match=f"the {kind.__name__} rnn runs over a dynamic dimension") as caught:
            capture(model, (X[None],), source_root=HERE, dynamic={("x", 1): Dim("length", 2, 50)})
        assert caught.value.where.endswith("return self.rnn(x)[0]")
        assert "leave --dynamic x:1 out" in caught.value.fix

    def test_a_dynamic_batch_works(self):
        model = Recurrent(torch.nn.GRU(4, 4, batch_first=True)).eval()
        result = capture(model, (X[None],), source_root=HERE, dynamic={("x", 0): Dim("batch", 1, 4)})
        assert result.program.inputs[0].shape[0] == Dim("batch", 1, 4)

    def test_a_cell_in_a_loop(self, monkeypatch):
        class Loop(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = torch.nn.GRUCell(4, 4)

            def forward(self, x):
                state = torch.zeros(1, 4)
                for step in range(x.shape[0]):
                    state = self.cell(x[step : step + 1], state)
                return state

        monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("traced"))
        with pytest.raises(CaptureError, match="the GRUCell cell runs over a dynamic dimension") as caught:
            capture(Loop().eval(), (X,), source_root=HERE, dynamic={("x", 0): Dim("n", 2, 8)})
        assert "3 steps with one size" in caught.value.why

    def test_a_loop_over_a_dimension(self):
        def forward(self, x):
            total = torch.zeros(4)
            for row in range(x.shape[0]):
                total = total + x[row]
            return total

        here, dims = Path(__file__).parent, {("x", 0): Dim("n", 2, 8)}
        with pytest.raises(CaptureError, match="cannot be dynamic") as caught:
            capture(module_of(forward), (X,), source_root=here, dynamic=dims)
        assert "a loop runs over it" in caught.value.why


class Recurrent(torch.nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x):
        return self.rnn(x)[0]
