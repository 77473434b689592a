"""Convolutions of one input that are added become one, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from examples import examples
from hypothesis import HealthCheck, given, settings
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name
from edgex.export import rewrites
from edgex.export.capture.program import capture
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.norms.batch_norm import fold_batch_norm
from edgex.export.rewrites.weights.branches import join_branches
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent


def norm(channels: int, kind: type[nn.Module] = nn.BatchNorm2d) -> Any:
    made: Any = kind(channels)
    with torch.no_grad():
        for tensor in (made.weight, made.bias, made.running_mean):
            tensor.normal_()
        made.running_var.uniform_(0.5, 2.0)
    return made


class Block(nn.Module):
    """As RepVGG and MobileOne are trained: several kernels, each with its norm, and a norm of the input."""

    def __init__(self, groups: int = 1, stride: int = 1, channels: int = 8, in_place: bool = False) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, size, stride, size // 2, groups=groups, bias=False), norm(channels)
            )
            for size in (3, 1, 3)
        )
        self.identity = norm(channels) if stride == 1 else None
        self.in_place = in_place

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.kernels[0](x) + 0
        if self.identity is not None:
            y = self.identity(x) + y
        for kernel in list(self.kernels)[1:]:
            if self.in_place:
                y += kernel(x)
            else:
                y = y + kernel(x)
        return torch.relu(y)


def rewritten(model: nn.Module, x: torch.Tensor) -> tuple[CapturedProgram, CapturedProgram, list[str]]:
    """The program with norms folded, the same with branches joined, and the operators of that."""
    before, _ = fold_batch_norm(capture(model.eval(), (x,), {}, dynamic_shapes=None, source_root=HERE).program)
    after, _ = join_branches(before)
    names = [operator_name(node) or "" for node in after.exported.graph.nodes if node.op == "call_function"]
    return before, after, names


def check_numbers(model: nn.Module, program: CapturedProgram, x: torch.Tensor) -> None:
    with torch.no_grad():
        sqnr = measure_sqnr_db(model(x).numpy(), GraphRunner(program).run([x])[0].numpy())
    assert sqnr > 100, f"{sqnr:.1f} dB"


@settings(max_examples=examples(20), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    groups=st.sampled_from([1, 2, 8]),
    stride=st.sampled_from([1, 2]),
    in_place=st.booleans(),
    seed=st.integers(0, 9),
)
def test_a_block_is_one_convolution(groups: int, stride: int, in_place: bool, seed: int) -> None:
    torch.manual_seed(seed)
    model, x = Block(groups, stride, in_place=in_place), torch.randn(2, 8, 7, 6)
    _, after, names = rewritten(model, x)
    assert sorted(names) == ["aten::conv2d", "aten::relu"], names
    check_numbers(model, after, x)


def test_what_was_joined_is_told_and_weights_that_nothing_reads_are_gone() -> None:
    torch.manual_seed(0)
    before, after, _ = rewritten(Block(), torch.randn(1, 8, 6, 6))
    _, rewrite = join_branches(before)
    assert rewrite is not None and rewrite.name == "join_branches" and rewrite.count == 3
    assert all("test_rewrites_branches.py" in source for source in rewrite.sources)
    assert len([tensor for tensor in after.exported.state_dict.values() if tensor.dim() == 4]) == 1


class Apart(nn.Module):
    """Sums that stay: kernels that do not cover each other, a residual path, other readers, shared weights."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.high = nn.Conv2d(8, 8, (1, 3), padding=(0, 1)), nn.Conv2d(8, 8, (3, 1), padding=(1, 0))
        self.one, self.two = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.holes = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.strided, self.other = nn.Conv2d(8, 8, 1, stride=2), nn.Conv2d(8, 8, 3, stride=1)
        self.norm = norm(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        read_twice = self.one(x)
        return (
            self.wide(x) + self.high(x),
            x + self.two(x),
            read_twice + self.two(torch.relu(x)),
            read_twice * 2,
            self.holes(x) + self.wide(torch.relu(x)),
            self.strided(x) + self.other(x)[..., :4, :4],
            self.norm(torch.relu(x)) + self.high(torch.tanh(x)),
            self.two(x) + self.two(torch.tanh(x)),
        )


def test_everything_else_stays() -> None:
    before = capture(Apart().eval(), (torch.randn(1, 8, 8, 8),), {}, dynamic_shapes=None, source_root=HERE).program
    assert join_branches(before) == (before, None)


def test_sizes_that_are_added_are_no_branches() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            size = x.shape[-1]
            return (self.conv(x) + size) + (torch.arange(size) + (size + 1)) + torch.ones(size + size).sum()

    dynamic = {"x": {2: torch.export.Dim("n", min=2, max=16)}}
    before = capture(Positions().eval(), (torch.randn(1, 4, 8),), {}, dynamic_shapes=dynamic, source_root=HERE).program
    assert any(
        "val" in node.meta and isinstance(node.meta["val"], torch.SymInt) for node in before.exported.graph.nodes
    )
    assert join_branches(before) == (before, None)


def test_a_norm_is_taken_away_from_a_convolution_of_its_input() -> None:
    """As the token mixers of FastViT do; a convolution taken away from a norm stays."""

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.last = nn.Conv2d(8, 8, 3, padding=1, groups=8), norm(8), nn.Conv2d(8, 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.conv(x) - (self.norm(x) + 0))
            return self.norm(y) - self.last(y)

    torch.manual_seed(0)
    model, x = Mixer(), torch.randn(1, 8, 6, 6)
    _, after, names = rewritten(model, x)
    assert names == ["aten::conv2d", "aten::relu", "aten::batch_norm", "aten::conv2d", "aten::sub"]
    check_numbers(model, after, x)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank: int) -> None:
    torch.manual_seed(0)
    conv: Any = {1: nn.Conv1d, 3: nn.Conv3d}[rank]
    kind: Any = {1: nn.BatchNorm1d, 3: nn.BatchNorm3d}[rank]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large, self.small, self.norm = (
                conv(6, 6, 5, padding=2, groups=3),
                conv(6, 6, 3, padding=1, groups=3),
                norm(6, kind),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.small(x) + self.large(x) + self.norm(x)

    model, x = Net(), torch.randn(2, 6, *[7] * rank)
    _, after, names = rewritten(model, x)
    assert names == [f"aten::conv{rank}d"]
    check_numbers(model, after, x)


class Chosen(nn.Module):
    """Rows that a mask chooses, and a row beside them: how many there are only a run knows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        rows = y[mask]
        return torch.cat((rows * 2 + rows.mean(0), self.layer(x[mask]) + y.sum() * self.layer.bias))


def test_sums_with_sizes_that_only_a_run_knows_are_left_alone() -> None:
    example = (torch.randn(10, 4), torch.arange(10) % 3 == 0)
    program = capture(Chosen().eval(), example, {}, source_root=HERE).program
    assert join_branches(program) == (program, None)


def test_a_pass_that_asks_about_such_sizes_leaves_the_program_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def asking(program: CapturedProgram) -> Any:
        index = next(node for node in program.exported.graph.nodes if node.target == torch.ops.aten.index.Tensor)
        return program, None if index.meta["val"].shape[0] == 8 else Rewrite("asking", 1, "", ())

    example = (torch.randn(10, 4), torch.arange(10) % 3 == 0)
    program = capture(Chosen().eval(), example, {}, source_root=HERE).program
    monkeypatch.setattr(rewrites, "_passes", lambda: (("asking", False, asking),))
    assert rewrites.apply_rewrites(program) == (program, ())
