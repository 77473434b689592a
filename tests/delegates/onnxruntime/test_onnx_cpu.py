"""The onnx-cpu delegate on real programs: lowered, loaded by ONNX Runtime, and compared with eager PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx_support import capture, check, compare, lower, open_session, reinitialise, write_artifact
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate, OnnxCpuOptions
from edgex.delegates.onnxruntime.versions import NEWEST_OPSET, OLDEST_OPSET, OLDEST_RUNTIME
from edgex.errors import LoweringError
from edgex.runtime.artifact.specs import Dim

pytestmark = pytest.mark.long_file


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Mixed(nn.Module):
    """Integers and booleans in, several outputs and dtypes out."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)

    def forward(self, ids, keep):
        x = torch.where(keep[..., None], self.norm(self.table(ids)), torch.zeros(()))
        return x.cumsum(1), x.argmax(-1), keep & (ids > 2), ids.to(torch.int32) * 3


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell = kind(6, 5, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.cell(x)[0]


class Sorting(nn.Module):
    def forward(self, x):
        values, order = torch.sort(x, dim=-1, descending=True)
        best, index = torch.topk(x, 3)
        return values, order, best, index, torch.nonzero(x > 0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return nn.functional.gelu(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


class PaddedPooling(nn.Module):
    """Zeros around numbers that are all negative: each maximum at an edge is a zero of the padding."""

    def forward(self, x):
        padded = nn.functional.pad(-x.abs() - 1, (1, 1, 1, 1))
        same = nn.functional.max_pool2d(padded, 3, 2)
        longer = nn.functional.max_pool1d(nn.functional.pad(-x.abs().flatten(2) - 1, (2, 0)), 2)
        return same, longer, nn.functional.max_pool2d(padded, 3, 2, padding=1)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.linear(y).sin(), lambda y: self.linear(y).cos(), (x,))


MODELS = {
    "conv": lambda: (ConvNet(), (random(2, 3, 8, 8),)),
    "mixed": lambda: (Mixed(), (torch.arange(6).reshape(2, 3), torch.tensor([[True, False, True]] * 2))),
    "gru": lambda: (Recurrent(nn.GRU), (random(2, 7, 6),)),
    "lstm": lambda: (Recurrent(nn.LSTM), (random(2, 7, 6),)),
    "sorting": lambda: (Sorting(), (random(3, 6),)),
    "attention": lambda: (Attention(), (random(2, 5, 8),)),
    "padded pooling": lambda: (PaddedPooling(), (random(1, 4, 8, 8),)),
    "branch": lambda: (Branch(), (random(3, 4),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_eagers(name: str, tmp_path: Path) -> None:
    module, args = MODELS[name]()
    reinitialise(module)
    lowered = lower(capture(module, args))
    check(tmp_path / "a", lowered, module, args)
    assert lowered.plan.fraction == 1.0
    assert lowered.plan.delegate_calls == 1
    assert lowered.files == ("model.onnx",)


def test_the_branch_not_taken_by_the_example_is_there(tmp_path: Path) -> None:
    module = reinitialise(Branch())
    session = check(tmp_path / "a", lower(capture(module, (torch.ones(3, 4),))), module, (torch.ones(3, 4),))
    compare(session, module, (-torch.ones(3, 4),))


def test_a_dynamic_batch_has_its_name_and_runs_at_every_size(tmp_path: Path) -> None:
    module, batch = reinitialise(ConvNet()), torch.export.Dim("batch", min=1, max=8)
    program = capture(module, (random(3, 3, 8, 8),), dynamic=({0: batch},), dims={("x", 0): Dim("batch", 1, 8)})
    lowered = lower(program)
    session = check(tmp_path / "a", lowered, module, (random(3, 3, 8, 8),))
    for size in (1, 5, 8):
        compare(session, module, (random(size, 3, 8, 8, seed=size),))
    graph = onnx.load(tmp_path / "a" / "model.onnx").graph
    dims = [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    assert dims == ["batch", 3, 8, 8]
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_size_that_is_an_expression_speaks_of_the_users_dimension(tmp_path: Path) -> None:
    class Double(nn.Module):
        def forward(self, x):
            return torch.cat([x, x * 2, x[:1]])

    batch = torch.export.Dim("batch", min=2, max=8)
    program = capture(Double(), (random(3, 4),), dynamic=({0: batch},), dims={("x", 0): Dim("batch", 2, 8)})
    write_artifact(lower(program), tmp_path / "a")
    output = onnx.load(tmp_path / "a" / "model.onnx").graph.output[0]
    expression = output.type.tensor_type.shape.dim[0].dim_param
    assert "batch" in expression
    assert not any(name.startswith("s") for name in expression.replace("*", " ").split())


@pytest.mark.parametrize("name", ["conv", "gru", "lstm", "attention"])
def test_fp16_runs_and_keeps_its_dtype(name: str, tmp_path: Path) -> None:
    module, (x,) = MODELS[name]()
    reinitialise(module).half()
    session = check(tmp_path / "a", lower(capture(module, (x.half(),), precision="fp16")), module, (x.half(),), 40)
    assert session.outputs[0].dtype == "float16"


class TestNames:
    def graph_names(self, folder: Path) -> tuple[list[str], list[str]]:
        graph = onnx.load(folder / "model.onnx").graph
        return [value.name for value in graph.input], [value.name for value in graph.output]

    def test_dots_and_dict_keys_are_kept(self, tmp_path: Path) -> None:
        class Net(nn.Module):
            def forward(self, x):
                return {"relu": x.relu(), "scores.0": x * 2}

        program = capture(Net(), (random(2, 3),), outputs=("relu", "scores.0"))
        check(tmp_path / "a", lower(program), Net(), (random(2, 3),))
        assert self.graph_names(tmp_path / "a") == (["x"], ["relu", "scores.0"])

    def test_an_output_named_like_an_input_or_a_weight(self, tmp_path: Path) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(3, 3)

            def forward(self, mask, output_1):
                return {"mask": self.fc(mask), "fc.weight": output_1 + mask, "output_1": mask * 3}

        module, args = reinitialise(Net()), (random(2, 3), random(2, 3, seed=1))
        program = capture(module, args, outputs=("mask", "fc.weight", "output_1"))
        lowered = lower(program)
        session = check(tmp_path / "a", lowered, module, args)
        assert self.graph_names(tmp_path / "a") == (["mask", "output_1"], ["mask.out", "fc.weight", "output_1.out"])
        assert [spec.name for spec in session.outputs] == ["mask", "fc.weight", "output_1"]

    def test_outputs_that_are_inputs_or_constants_or_equal(self, tmp_path: Path) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("table", torch.arange(1.0, 4.0))

            def forward(self, x, unused):
                y = x * 2
                return x, y, y, self.table, self.table + 1

        args = (random(3), random(2))
        session = check(tmp_path / "a", lower(capture(Net(), args)), Net(), args)
        for output in session.run(*args):
            output.fill(np.nan)
        compare(session, Net(), args)
        names = self.graph_names(tmp_path / "a")
        assert names == (["x", "unused"], [f"output_{index}" for index in range(5)])


class TestOpset:
    @pytest.mark.parametrize(
        "opset",
        [OLDEST_OPSET, 18, *(pytest.param(n, marks=pytest.mark.slow) for n in (21, 22, 23, 24)), NEWEST_OPSET],
    )
    def test_it_is_the_one_asked_for(self, opset: int, tmp_path: Path) -> None:
        module, args = reinitialise(nn.Sequential(nn.Linear(4, 3), nn.GELU())), (random(2, 4),)
        lowered = lower(capture(module, args), opset)
        check(tmp_path / "a", lowered, module, args)
        imports = {entry.domain: entry.version for entry in onnx.load(tmp_path / "a" / "model.onnx").opset_import}
        assert imports == {"": opset}
        assert lowered.requirements.minimum_version == OLDEST_RUNTIME[opset]
        assert lowered.options == {"opset": opset}

    @pytest.mark.parametrize("opset", [11, 16, 26])
    def test_one_that_would_silently_be_another_is_refused(self, opset: int) -> None:
        with pytest.raises(ValueError, match=f"opset {opset} cannot be had"):
            OnnxCpuOptions(opset)

    def test_a_model_that_needs_a_newer_one_is_refused(self) -> None:
        # The mean's axes became an input in opset 18, and the converter does not take that back.
        program = capture(reinitialise(ConvNet()), (random(1, 3, 8, 8),))
        with pytest.raises(LoweringError, match="wrote opset 18 where 17 was asked for") as caught:
            lower(program, 17)
        assert caught.value.fix == "--option opset=18"


def test_plan_needs_no_weights(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = ConvNet().eval()
    args = (torch.empty(1, 3, 8, 8, device="meta"),)
    planned = OnnxCpuDelegate().plan(capture(module, args), OnnxCpuOptions())
    real = lower(capture(reinitialise(ConvNet()), (random(1, 3, 8, 8),))).plan
    assert (planned.total_ops, planned.delegated_ops) == (real.total_ops, real.delegated_ops) == (5, 5)


def test_plan_takes_fake_weights_and_finds_the_same() -> None:
    cache, step = TestState.Cache, (random(1, 1, 4), torch.tensor([2]))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = capture(cache().eval(), tuple(mode.from_tensor(x) for x in step))
    assert any(isinstance(weight, FakeTensor) for weight in fake.exported.state_dict.values())
    planned = OnnxCpuDelegate().plan(fake, OnnxCpuOptions())
    assert planned == lower(capture(reinitialise(cache()), step)).plan


def test_a_program_with_data_dependent_sizes_can_be_lowered_again_and_again(tmp_path: Path) -> None:
    module, args = MODELS["sorting"]()
    program, delegate = capture(module, args), OnnxCpuDelegate()
    plans = [delegate.plan(program, OnnxCpuOptions()) for _ in range(3)]
    lowered = lower(program)
    assert plans == [lowered.plan] * 3
    check(tmp_path / "a", lowered, module, args)
    write_artifact(lower(program), tmp_path / "b")
    assert (tmp_path / "a" / "model.onnx").read_bytes() == (tmp_path / "b" / "model.onnx").read_bytes()


def test_a_model_that_writes_into_its_input_says_so(tmp_path: Path) -> None:
    class Writes(nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x + 1

    lowered = lower(capture(Writes(), (random(3),)))
    (warning,) = lowered.warnings
    assert "writes into its input x" in warning
    session = open_session(write_artifact(lowered, tmp_path / "a"))
    given = np.ones(3, np.float32)
    np.testing.assert_array_equal(session.run(given)[0], np.full(3, 3, np.float32))
    np.testing.assert_array_equal(given, np.ones(3, np.float32))


def test_lowering_is_silent_and_leaves_the_program_alone(capfd: pytest.CaptureFixture[str]) -> None:
    module = reinitialise(ConvNet())
    program = capture(module, (random(1, 3, 8, 8),))
    before = str(program.exported), {key: value.clone() for key, value in program.exported.state_dict.items()}
    capfd.readouterr()
    lower(program)
    assert capfd.readouterr() == ("", "")
    assert str(program.exported) == before[0]
    for key, value in program.exported.state_dict.items():
        assert torch.equal(value, before[1][key]), key


def test_work_is_counted() -> None:
    plan = lower(capture(reinitialise(nn.Linear(8, 4)), (random(2, 8),))).plan
    assert plan.total_flops == plan.delegated_flops == 2 * 2 * 8 * 4


class TestState:
    """Buffers that the model changes are carried by the session."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.tensor(5, dtype=torch.int64))
            self.register_buffer("total", torch.zeros(3), persistent=False)

        def forward(self, x):
            self.count += 1
            self.total += x
            return self.total * self.count, self.count, self.total[1:]

    class Cache(nn.Module):
        """A static key cache, written at one place a step; what is returned aliases it."""

        def __init__(self) -> None:
            super().__init__()
            self.key = nn.Linear(4, 4)
            self.register_buffer("keys", torch.zeros(1, 6, 4))

        def forward(self, x, at):
            self.keys.index_copy_(1, at, self.key(x))
            seen = (torch.arange(6) <= at)[None, None]
            weights = torch.where(seen, x @ self.keys.mT, torch.tensor(-1e9)).softmax(-1)
            return weights @ self.keys, self.keys.view(6, 4)

    def steps(self, count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(random(1, 1, 4, seed=index), torch.tensor([index])) for index in range(count)]

    def test_a_counter_starts_where_its_buffer_does(self, tmp_path: Path) -> None:
        module, x = self.Counter().eval(), torch.tensor([1.0, -2.0, 3.0])
        lowered = lower(capture(module, (x,)))
        assert lowered.files == ("model.onnx", "state.safetensors")
        assert {(s.name, s.input, s.output) for s in lowered.methods[0].state} == {
            ("count", "state_in.count", "state_out.count"),
            ("total", "state_in.total", "state_out.total"),
        }
        session = open_session(write_artifact(lowered, tmp_path / "a"))
        for _ in range(4):
            compare(session, module, (x,))
        assert int(module.count) == 9

    def test_a_cache_over_steps_with_reset_in_mid_sequence(self, tmp_path: Path) -> None:
        module = reinitialise(self.Cache())
        session = open_session(write_artifact(lower(capture(module, self.steps()[0])), tmp_path / "a"))
        for args in self.steps():
            compare(session, module, args)
        session.reset()
        module.keys.zero_()
        for args in self.steps(3):
            compare(session, module, args)

    def test_two_sessions_have_a_state_each(self, tmp_path: Path) -> None:
        module, x = self.Counter().eval(), torch.tensor([1.0, -2.0, 3.0])
        folder = write_artifact(lower(capture(module, (x,))), tmp_path / "a")
        first, second = open_session(folder), open_session(folder)
        assert [int(first.run(x)[1]) for _ in range(3)] == [6, 7, 8]
        assert int(second.run(x)[1]) == 6
        assert int(first.run(x)[1]) == 9

    def test_writing_into_an_output_changes_no_state(self, tmp_path: Path) -> None:
        module = reinitialise(self.Cache())
        session = open_session(write_artifact(lower(capture(module, self.steps()[0])), tmp_path / "a"))
        untouched = open_session(tmp_path / "a")
        for args in self.steps(3):
            expected, actual = untouched.run(*args), session.run(*args)
            np.testing.assert_array_equal(actual[1], expected[1])
            actual[1].fill(np.nan)

    def test_a_buffer_that_is_only_written_and_one_that_is_swapped(self, tmp_path: Path) -> None:
        class Swap(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("a", torch.tensor([1.0]))
                self.register_buffer("b", torch.tensor([2.0]))
                self.register_buffer("last", torch.tensor([0.0]))

            def forward(self, x):
                old = self.a.clone()
                self.a.copy_(self.b)
                self.b.copy_(old)
                self.last.copy_(x)
                return x + self.a * 10

        module = Swap()
        session = open_session(write_artifact(lower(capture(module, (torch.ones(1),))), tmp_path / "a"))
        for _ in range(4):
            compare(session, module, (torch.ones(1),))

    def test_an_int_dynamic_axis_beside_state(self, tmp_path: Path) -> None:
        class Sum(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("total", torch.tensor([0.5, 0.25]))

            def forward(self, x):
                self.total += x.sum(0)
                return x + self.total

        rows = torch.export.Dim("rows", min=1, max=8)
        module = Sum()
        program = capture(module, (random(3, 2),), dynamic=({0: rows},), dims={("x", 0): Dim("rows", 1, 8)})
        session = open_session(write_artifact(lower(program), tmp_path / "a"))
        for size in (3, 1, 8, 2):
            compare(session, module, (random(size, 2, seed=size),))
        graph = onnx.load(tmp_path / "a" / "model.onnx").graph
        assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"

    def test_state_with_nonzero(self, tmp_path: Path) -> None:
        class Positive(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("calls", torch.tensor([0]))

            def forward(self, x):
                self.calls += 1
                return torch.nonzero(x > 0), self.calls + 0

        module = Positive()
        session = open_session(write_artifact(lower(capture(module, (random(6),))), tmp_path / "a"))
        for seed in range(3):
            compare(session, module, (random(6, seed=seed),))
