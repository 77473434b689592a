"""A product reads its second matrix transposed, instead of a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.executorch.inner import InnerNode
from edgex.delegates.xnnpack import serialized

BATCH, ROWS, KEYS, WIDTH = 2, 5, 7, 8
Made = tuple[torch.Tensor, ...]


class Call(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], Made]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Made:
        return self.function(x, y)


def scores(x: torch.Tensor, y: torch.Tensor) -> Made:
    return ((x @ y.transpose(1, 2)).softmax(-1) @ y,)


def twice(x: torch.Tensor, y: torch.Tensor) -> Made:
    turned = (y * 2.0).transpose(1, 2)
    return ((x @ turned) + (x.sigmoid() @ turned),)


def of_itself(x: torch.Tensor, y: torch.Tensor) -> Made:
    return x @ x.transpose(1, 2), y @ y.mT


def returned(x: torch.Tensor, y: torch.Tensor) -> Made:
    turned = y.transpose(1, 2).sigmoid()
    return (x @ turned) @ y, turned


def first(x: torch.Tensor, y: torch.Tensor) -> Made:
    return (x.transpose(1, 2) @ (x @ y.mT),)


def rows_and_batch(x: torch.Tensor, y: torch.Tensor) -> Made:
    return (x.relu().permute(1, 0, 2) @ x.sigmoid().permute(1, 2, 0), y + 1.0)


# Transpositions that are left of each; a program of all of one number is lowered once.
CASES = {scores: 0, twice: 0, of_itself: 0, returned: 1, first: 1, rows_and_batch: 2}


@pytest.mark.parametrize("kept", [False, True])
def test_only_other_transpositions_are_left(kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    plain = serialized.read_nodes

    def spy(processed: bytes) -> list[InnerNode]:
        nodes = plain(processed)
        kinds.extend(node.kind for node in nodes)
        return nodes

    monkeypatch.setattr(serialized, "read_nodes", spy)
    functions = [function for function, left in CASES.items() if bool(left) == kept]
    torch.manual_seed(0)
    inputs = torch.randn(BATCH, ROWS, WIDTH), torch.randn(BATCH, KEYS, WIDTH)
    keys = torch.export.Dim("keys", min=2, max=64)
    artifact = edgex.export_model(
        Call(lambda x, y: tuple(made for function in functions for made in function(x, y))).eval(),
        inputs,
        target="xnnpack",
        output=tmp_path,
        name="made",
        dynamic_shapes=({}, {1: keys}),
    )
    plan = artifact.manifest.delegation
    assert plan["delegated_ops"] == plan["total_ops"], plan["fallbacks"]
    assert kinds.count("BatchMatrixMultiply") >= len(functions)
    assert kinds.count("StaticTranspose") == sum(CASES[function] for function in functions)
