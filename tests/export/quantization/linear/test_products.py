"""Products with matrices of weights: layers to every recipe, as GPT-2 writes all of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rewriting import capture_program, operators, run_program
from torch import nn

import edgex
from edgex.export.quantization.linear.products import write_layers

X = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))


class Products(nn.Module):
    """A block in the forms that libraries write: `addmm` over rows, `matmul`, and a matrix that is transposed."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first, self.second, self.third = (
            nn.Parameter(torch.randn(*shape, generator=generator) / 3) for shape in ((8, 16), (16, 12), (6, 12))
        )
        self.bias = nn.Parameter(torch.randn(16, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(self.bias, x.flatten(0, 1), self.first).unflatten(0, x.shape[:2])
        y = torch.matmul(torch.relu(y), self.second)
        return torch.mm(y.flatten(0, 1), self.third.t())


def test_products_become_layers() -> None:
    program = capture_program(Products(), X, randomise=False)
    after, rewrite = write_layers(program)
    assert rewrite is not None and rewrite.count == 3
    assert operators(after).count("aten.linear.default") == 3
    assert not {"aten.addmm.default", "aten.matmul.default", "aten.mm.default"} & set(operators(after))
    for one, other in zip(run_program(program, X), run_program(after, X), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["table", "read elsewhere", "scaled", "bias of a matrix", "vector", "constant"])
def test_others_stay_products(kind: str) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            matrix = torch.randn(8, 8, generator=torch.Generator().manual_seed(2))
            self.weight = nn.Parameter(matrix)
            self.register_buffer("table", matrix.clone())

        def forward(self, x: torch.Tensor) -> Any:
            rows = x.view(-1, 8)
            if kind == "table":
                return rows @ self.table
            if kind == "read elsewhere":
                return rows @ self.weight, rows[:8] + self.weight
            if kind == "scaled":
                return torch.addmm(self.table[0], rows, self.weight, alpha=2)
            if kind == "bias of a matrix":
                return torch.addmm(rows * 2, rows, self.weight)
            if kind == "vector":
                return x[0, 0] @ self.weight
            return self.table @ self.weight + rows[:8]

    program = capture_program(Other(), X, randomise=False)
    after, rewrite = write_layers(program)
    assert after is program and rewrite is None


def test_sizes_that_only_a_run_knows_are_left_alone() -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 4, generator=torch.Generator().manual_seed(3)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = x[x[:, 0] > 0] @ self.weight
            columns = rows.t().contiguous()  # as far apart as there are rows
            return torch.mm(columns, columns.t()).sum()

    program = capture_program(Scores(), X.view(-1, 8), randomise=False)
    after, rewrite = write_layers(program)
    assert rewrite is not None and rewrite.count == 1
    assert operators(after).count("aten.mm.default") == 1
    torch.testing.assert_close(run_program(after, X.view(-1, 8)), run_program(program, X.view(-1, 8)))


@pytest.mark.parametrize(
    ("target", "recipe"),
    [("xnnpack", "int8"), ("onnx-cpu", "int8"), ("onednn", "int8"), ("xnnpack", "8da8w")],
)
def test_they_are_quantized(target: str, recipe: str, tmp_path: Path) -> None:
    data = [(X + number / 10,) for number in range(8)] if recipe == "int8" else None
    artifact = edgex.export_model(
        Products().eval(), (X,), target=target, output=tmp_path, quantize=recipe, calibration=data
    )
    manifest = json.loads((artifact.path / "manifest.json").read_text())
    assert "write_layers" in {rewrite["name"] for rewrite in manifest["rewrites"]}
    assert not find_float_matrices(artifact.path)


def test_every_size_has_them(tmp_path: Path) -> None:
    """Ranges are measured at one of the sizes, and go to the values of the others by name."""
    data = [(X + number / 10,) for number in range(8)]
    artifact = edgex.export_model(
        *(Products().eval(), (X,)),
        target="xnnpack",
        output=tmp_path,
        quantize="int8",
        calibration=data,
        sizes=["x:1=5,9"],
    )
    assert not find_float_matrices(artifact.path)


def find_float_matrices(artifact: Path) -> list[str]:
    documents = [json.loads(path.read_text()) for path in artifact.rglob("weights.json")]
    assert documents
    return [
        row["name"]
        for weights in documents
        for row in weights
        if row["dtype"] == "float32" and max(row["shape"], default=1) != math.prod(row["shape"])
    ]
