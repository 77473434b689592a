from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Untouched, capture_program, check_rewrite, operators, program_of, run_program
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from benchmarks.operators.proof import prove
from edgex.export.rewrites import apply_rewrites
from edgex.export.rewrites.folding.constants import fold_constants
from edgex.export.rewrites.regions import inline_regions

X = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(1))


def old_weight_norm(module):
    with pytest.warns(FutureWarning):
        return torch.nn.utils.weight_norm(module)


def fold(module, *args, state=(), **kwargs):
    """Capture, fold, check; returns the program before, after, and the report."""
    before = capture_program(module, *args, state=state, **kwargs)
    untouched = Untouched(before, *args, steps=2)
    after, rewrite = fold_constants(before)
    check_rewrite(before, after, *args, steps=2, untouched=untouched)
    return before, after, rewrite


def targets(program):
    return {spec.target for spec in program.exported.graph_signature.input_specs if spec.target}


@pytest.mark.filterwarnings("ignore:The tensor attribute")
@pytest.mark.parametrize("norm", [weight_norm, old_weight_norm], ids=["parametrization", "old form"])
@pytest.mark.parametrize("layer", [nn.Conv1d(4, 8, 3), nn.ConvTranspose1d(4, 8, 3), nn.Linear(16, 3)])
def test_weight_norm_becomes_a_constant_weight(norm, layer):
    layer = type(layer)(16, 3) if isinstance(layer, nn.Linear) else type(layer)(4, 8, 3)
    before, after, rewrite = fold(nn.Sequential(norm(layer), nn.ReLU()), X)
    assert any("weight_norm" in name for name in operators(before))
    assert [name for name in operators(after) if "relu" not in name] == [
        name for name in operators(before) if "relu" not in name and "weight_norm" not in name
    ]
    assert rewrite.count == 1
    assert rewrite.name == "fold_constants"
    assert targets(after) == {"0.bias", "0._weight_norm"}
    assert set(after.exported.state_dict) == {"0.bias", "0._weight_norm"}
    assert rewrite.sources


@pytest.mark.parametrize("two_results", [True, False])
def test_decomposed_weight_norm_folds(two_results):
    table = torch.export.default_decompositions()
    if two_results:
        del table[torch.ops.aten._weight_norm_interface.default]
    before = capture_program(weight_norm(nn.Conv1d(4, 8, 3)), X)
    before = program_of(before.exported.run_decompositions(table), (X,))
    assert ("aten._weight_norm_interface.default" in operators(before)) == two_results
    after, rewrite = fold_constants(before)
    check_rewrite(before, after, X)
    assert operators(after) == ["aten.convolution.default"]
    assert rewrite.count == (1 if two_results else 3)


def test_source_line_and_module_are_reported():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(16, 16)
            self.gain = nn.Parameter(torch.ones(16))

        def forward(self, x):
            return nn.functional.linear(x, self.inner.weight * self.gain, self.inner.bias)

    _, after, rewrite = fold(nn.Sequential(Scaled()), X)
    line = Scaled.forward.__code__.co_firstlineno + 1
    assert rewrite.sources == (f"0 (test_rewrites_constants.py:{line})",)
    assert operators(after) == ["aten.linear.default"]


class SharedScale(nn.Module):
    """Two weights joined by one scale, one of them behind a view, and a third built from slices and literals."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.a = nn.Parameter(torch.ones(8, 4, 3))
        self.b = nn.Parameter(torch.ones(6, 8))
        self.q, self.k = nn.Parameter(torch.ones(4, 6)), nn.Parameter(torch.ones(4, 6))

    def forward(self, x):
        y = nn.functional.conv1d(x, self.a * self.scale)
        y = nn.functional.linear(y.mT, (self.b * self.scale).reshape(6, 8))
        mask = torch.arange(6) % 2 == 0
        weight = torch.cat([self.q, torch.where(mask, self.k, 0.0)])
        return y @ weight.mT


def test_shared_scale_cat_and_literals_fold():
    _, after, rewrite = fold(SharedScale(), X)
    assert rewrite.count >= 6
    assert [name for name in operators(after) if "mT" not in name] == [
        "aten.conv1d.default",
        "aten.linear.default",
        "aten.matmul.default",
    ]
    assert not targets(after) & {"scale", "a", "b", "q", "k"}


def test_part_of_a_tuple_that_is_an_output_does_not_stop_the_rest():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(8, 16))

        def forward(self, x):
            first, second = torch.split(self.w * 2, 4)
            return nn.functional.linear(x, first.exp()), second

    _, after, rewrite = fold(Parts(), X)
    assert rewrite.count >= 1
    assert "aten.exp.default" not in operators(after)


def test_checks_of_the_tracer_do_not_keep_a_weight():
    class Converted(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.g = nn.Parameter(torch.ones(3, 16)), nn.Parameter(torch.ones(3, 1))

        def forward(self, x):
            return nn.functional.linear(x, self.w.float() * self.g.to(torch.float32))

    before, after, _ = fold(Converted(), X)
    assert "aten._assert_tensor_metadata.default" in operators(before)
    assert operators(after) == ["aten.linear.default"]
    assert len(after.exported.state_dict) == 1


class LeaveAlone(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.w = nn.Parameter(torch.ones(16, 16))
        self.register_buffer("n", torch.ones(16))

    def forward(self, x):
        if self.kind == "view":
            return x @ self.w.mT.expand(2, 16, 16)
        if self.kind == "literal":
            return x + torch.arange(16) * 0.5
        if self.kind == "random":
            return x + 0 * torch.rand_like(self.w)[0]
        if self.kind == "uninitialised":
            return x + 0 * torch.empty_like(self.w)[0].clamp(0, 1).isnan()
        if self.kind == "mutated buffer":
            self.n.add_(1)
            return x * (self.n * 2)
        if self.kind == "mutated view":
            self.n[2:4].mul_(2)
            return x * (self.n * 2)
        if self.kind == "mutated result":
            table = self.w[0] * 2
            table[0] = x.sum()
            return x + table
        assert self.kind == "output"
        return x + 1, self.w * 2


@pytest.mark.parametrize(
    "kind",
    ["view", "literal", "random", "uninitialised", "mutated buffer", "mutated view", "mutated result", "output"],
)
def test_left_alone(kind):
    state = ("n",) if kind.startswith("mutated") and kind != "mutated result" else ()
    before = capture_program(LeaveAlone(kind), X, state=state)
    after, rewrite = fold_constants(before)
    assert rewrite is None
    assert after is before


def test_mutated_buffer_is_found_without_being_listed_as_state():
    before = capture_program(LeaveAlone("mutated view"), X)
    assert fold_constants(before)[0] is before


def test_symbolic_sizes_are_left_alone():
    class Sliced(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.gain = nn.Parameter(torch.ones(32, 4)), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x + (self.table * self.gain)[: x.shape[0]].exp()

    x = torch.randn(5, 4)
    before = capture_program(Sliced(), x, dynamic_shapes=({0: torch.export.Dim("n", min=2, max=32)},))
    after, rewrite = fold_constants(before)
    assert rewrite.count == 1
    assert "aten.exp.default" in operators(after)
    for rows in (2, 5, 32):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run_program(after, x), run_program(before, x))
    assert after.exported.range_constraints == before.exported.range_constraints


def test_spectral_norm_in_eval_folds_completely():
    _, after, _ = fold(spectral_norm(nn.Linear(16, 3)), X)
    assert operators(after) == ["aten.linear.default"]


def test_tied_weights_keep_one_copy():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 8)
            self.head = nn.Linear(8, 10, bias=False)
            self.head.weight = self.embedding.weight
            self.gain = nn.Parameter(torch.ones(8))

        def forward(self, i):
            return nn.functional.linear(self.embedding(i), self.head.weight * self.gain)

    _, after, rewrite = fold(Tied(), torch.arange(6))
    assert rewrite.count == 1
    assert len({tensor.data_ptr() for tensor in after.exported.state_dict.values()}) == 2


def test_weights_that_did_not_change_are_not_copied():
    before, after, _ = fold(nn.Sequential(weight_norm(nn.Conv1d(4, 8, 3)), nn.Linear(14, 3)), X)
    assert after.exported.state_dict["1.weight"] is before.exported.state_dict["1.weight"]


def test_fake_weights_fold_too():
    """A plan is made without weights."""
    with torch._subclasses.FakeTensorMode():
        module = weight_norm(nn.Conv1d(4, 8, 3)).eval()
        x = torch.randn(2, 4, 16)
    exported = torch.export.export(module, (x,))
    after, rewrite = fold_constants(program_of(exported, (x,)))
    assert rewrite.count == 1
    assert operators(after) == ["aten.conv1d.default"]


class Regions(nn.Module):
    """Rotary angles as transformers computes them: without gradients, with autocast switched off."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("freqs", torch.ones(16), persistent=False)

    def forward(self, x):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            angles = torch.arange(4)[:, None].float() * self.freqs
            with torch.enable_grad():
                cos = angles.cos()
        return self.linear(x) * cos


def test_regions_are_inlined_and_their_constants_fold():
    with torch.enable_grad():
        module = Regions().eval()
        before = program_of(torch.export.export(module, (X,)), (X,))
    assert any("wrap_with" in name for name in operators(before))
    untouched = Untouched(before, X)
    inlined, rewrite = inline_regions(before)
    check_rewrite(before, inlined, X, untouched=untouched)
    assert rewrite.count >= 2
    assert not any("wrap_with" in name for name in operators(inlined))
    after, rewrites = apply_rewrites(before)
    check_rewrite(before, after, X)
    assert [rewrite.name for rewrite in rewrites] == ["inline_regions", "fold_constants"]
    assert operators(after) == ["aten.linear.default", "aten.mul.Tensor"]


def test_enabled_autocast_stays():
    class Autocast(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return x @ x.mT

    before = capture_program(Autocast(), X)
    assert inline_regions(before)[0] is before


def test_nothing_to_do_gives_the_same_program():
    before = capture_program(nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU()), X)
    after, rewrites = apply_rewrites(before)
    assert after is before
    assert rewrites == ()


@pytest.fixture(scope="module")
def lower():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    def delegated_and_left(exported):
        edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        names = operators_of_graph(edge.exported_program().graph)
        return sum("executorch_call_delegate" in name for name in names), [
            name for name in names if "executorch_call_delegate" not in name and "getitem" not in name
        ]

    return delegated_and_left


def operators_of_graph(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def test_xnnpack_takes_weight_norm_as_one_convolution(lower):
    before = capture_program(nn.Sequential(weight_norm(nn.Conv1d(4, 8, 3)), nn.ReLU()), X)
    calls, left = lower(before.exported)
    assert left, "if XNNPACK takes weight_norm by itself, this pass has lost its reason"
    after, _ = fold_constants(before)
    calls, left = lower(after.exported)
    assert (calls, left) == (1, [])


@settings(max_examples=examples(12), deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ["add", "mul", "matmul", "exp", "mT", "cat", "split", "literal", "input", "in place", "norm"]
            ),
            st.integers(0, 30),
        ),
        min_size=2,
        max_size=12,
    )
)
def test_random_programs_keep_their_numbers(steps):
    class Random(nn.Module):
        """Values from weights, a buffer that changes, and the input, mixed at random; all of them are returned."""

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(4, 4))
            self.register_buffer("fixed", torch.ones(4, 4))
            self.register_buffer("changing", torch.ones(4, 4))

        def forward(self, x):
            values = [self.a, self.b, self.fixed, self.changing, x]
            for name, which in steps:
                value, other = values[which % len(values)], values[(which * 5 + 2) % len(values)]
                if name in ("add", "mul", "matmul"):
                    value = getattr(torch, name)(value, other).clamp(-3, 3)
                elif name == "exp":
                    value = value.clamp(-1, 1).exp()
                elif name == "mT":
                    value = value.mT
                elif name == "cat":
                    value = torch.cat([value[:2], other[2:]])
                elif name == "split":
                    value = sum(torch.split(value, 2, dim=1)).repeat(1, 2)
                elif name == "literal":
                    value = value * torch.arange(4) + torch.full((4, 4), 0.5)
                elif name == "input":
                    value = value + x
                elif name == "in place":
                    self.changing.mul_(0.5)
                    value = value.clone()
                    value[which % 4] += other[0]
                else:
                    value = torch._weight_norm(value, other[:, :1].abs() + 1, 0)
                values.append(value)
            return tuple(x + value for value in values)

    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(3))
    before = capture_program(Random(), x, state=("changing",))
    untouched = Untouched(before, x, steps=2)
    after, _ = fold_constants(before)
    check_rewrite(before, after, x, steps=2, untouched=untouched)
    # Nothing that depends on weights only is left, but views.
    again, rewrite = fold_constants(after)
    assert rewrite is None
    assert again is after


class ScaledInHalf(nn.Module):
    """Its constant would be called `scale.to`, after the operator: a method of every module."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(16, 16, bias=False, dtype=torch.float64)

    def forward(self, x):
        return x @ self.scale.weight.to(torch.float32)


def test_a_constant_is_not_called_like_a_method_of_modules():
    _, after, rewrite = fold(ScaledInHalf(), X)
    assert rewrite.count == 1
    assert targets(after) == {"scale.to_0"}
    after.exported.run_decompositions({})  # registers every constant on a module


class PositionBias(nn.Module):
    """One head: a permutation is contiguous at once, and leaves a stride of 1 in a dimension of size 1."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.empty(5, 1))
        self.register_buffer("index", torch.arange(16) % 5)

    def forward(self, x):
        return x + self.table[self.index].view(4, 4, -1).permute(2, 0, 1).contiguous().unsqueeze(0)


def test_constants_are_contiguous_to_the_letter():
    # ExecuTorch reads the order of dimensions from the strides, and XNNPACK added this one transposed.
    after = fold_constants(capture_program(PositionBias(), torch.randn(1, 3, 1, 4, 4)))[0]
    (value,) = after.exported.state_dict.values()
    (node,) = [n for n in after.exported.graph.find_nodes(op="placeholder") if n.name.startswith("p_")]
    assert value.stride() == node.meta["val"].stride() == (16, 16, 4, 1)
    assert hasattr(node.meta["val"], "fake_mode")


@pytest.mark.parametrize("transposed", [False, True])
def test_one_filter_for_all_channels_is_a_weight(transposed):
    class Antialiased(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("filter", torch.hann_window(12).view(1, 1, 12))

        def forward(self, x):
            filters = self.filter.expand(x.shape[1], -1, -1)
            convolve = nn.functional.conv_transpose1d if transposed else nn.functional.conv1d
            return convolve(x, filters, stride=2, groups=x.shape[1])

    x = torch.randn(1, 6, 40, generator=torch.Generator().manual_seed(0))
    before = capture_program(Antialiased(), x)
    after, rewrite = fold_constants(before)
    assert rewrite is not None and "aten.expand.default" not in operators(after)
    check_rewrite(before, after, x)
    proof = prove(Antialiased(), (x,), "xnnpack")
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert proof.delegated >= 1
