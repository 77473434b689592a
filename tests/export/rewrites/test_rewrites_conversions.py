"""Whole numbers become floats before they are moved, and many of them by a concatenation."""

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program
from torch import nn

import edgex
from edgex.export.rewrites.numbers.conversions import convert_by_joining
from edgex.export.rewrites.numbers.early import convert_early

SHAPE = (1, 80, 80, 3)


def numbers(dtype, shape=SHAPE):
    made = torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=torch.Generator().manual_seed(0))
    return made.to(dtype)


MEANS = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
FRAME = numbers(torch.uint8)
EARLY = {
    "a frame": lambda x: x.permute(0, 3, 1, 2).float() / 255,
    "its range": lambda x: x.permute(0, 3, 1, 2).to(torch.float32) / 127.5 - 1,
    "what converts by itself": lambda x: x.permute(0, 3, 1, 2) / 255,
    "a row of frames": lambda x: x.transpose(1, 3).unsqueeze(0).float() * 0.25,
    "means of channels": lambda x: (x.permute(0, 3, 1, 2).float() / 255 - MEANS) / (MEANS * 0.5),
    "an image alone": lambda x: (x[0].permute(2, 0, 1).float().unsqueeze(0) / 255 - MEANS) * MEANS,
    "without a scale": lambda x: x.movedim(-1, 1).float(),
}
LATE = {
    "nothing is moved": lambda x: x.float() / 255,
    "the bytes are read too": lambda x: (lambda moved: (moved.float(), moved))(x.permute(0, 3, 1, 2)),
    "floats in between": lambda x: x.float().exp().permute(0, 3, 1, 2) / 255,
    "a scale of integers": lambda x: x.permute(0, 3, 1, 2) * 2,
}


@pytest.mark.parametrize("name", EARLY)
def test_conversions_come_first(name):
    before = capture_program(Calls(EARLY[name]), FRAME)
    after, rewrite = convert_early(before)
    assert rewrite is not None
    # What moves the numbers is last, and moves floats.
    found = [node for node in after.exported.graph.nodes if operators_of(node) in ("permute", "transpose", "movedim")]
    moves = [node for node in found if node.meta["val"].numel() == FRAME.numel()]
    assert moves[-1].meta["val"].dtype == torch.float32
    assert not any(operators_of(user) in ("div", "sub", "mul") for move in moves for user in move.users)
    check(before, after, FRAME)


@pytest.mark.parametrize("name", LATE)
def test_the_rest_stays_in_order(name):
    before = capture_program(Calls(LATE[name]), FRAME)
    assert convert_early(before) == (before, None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.bool])
def test_many_numbers_are_joined(dtype):
    x = numbers(dtype)
    before = capture_program(Calls(lambda x: x.float() + 1), x)
    after, rewrite = convert_by_joining(before)
    assert rewrite is not None and rewrite.count == 1
    assert "aten.cat.default" in operators(after)
    check(before, after, x)


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (numbers(torch.uint8, (1, 8, 8, 3)), torch.float32),
        (numbers(torch.uint8), torch.float64),
        (numbers(torch.uint8), torch.int64),
        # As wide as floats are, in one precision or the other: the kernel copies their bits.
        (numbers(torch.int32), torch.float32),
        (numbers(torch.int16), torch.float32),
    ],
)
def test_other_conversions_are_left_alone(x, dtype):
    before = capture_program(Calls(lambda x: x.to(dtype)), x)
    assert convert_by_joining(before) == (before, None)


def check(before, after, *args):
    for expected, found in zip(run_program(before, *args), run_program(after, *args), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)


def operators_of(node):
    return str(node.target).removeprefix("aten.").split(".")[0]


class Camera(nn.Module):
    """Frames as a camera gives them, a mask, and two more inputs of whole numbers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, frame, mask, counts, offsets):
        images = frame.permute(0, 3, 1, 2).float() / 127.5 - 1
        others = mask.float() - counts.float() * 0.1 + offsets.float() * 0.2
        return self.layer(images), self.layer(others.movedim(-1, 1))


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_targets_convert(target, tmp_path):
    torch.manual_seed(0)
    inputs = tuple(numbers(dtype) for dtype in (torch.uint8, torch.bool, torch.int64, torch.int8))
    artifact = edgex.export_model(Camera().eval(), inputs, target=target, output=tmp_path)
    assert artifact.manifest.verification["passed"]
    left = [fallback["op"] for fallback in artifact.manifest.delegation["fallbacks"]]
    assert left.count("aten.cat.default") == 4, left
    # One zero for all; what moves the frame is in the delegate.
    assert left.count("aten.full.default") == 1, left
    assert not any("permute" in op or "_to_dim_order_copy" in op for op in left)
