"""Rows of a table, which the backend takes by itself: every form against eager, and the table in the file once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_support import Network, capture, check, load, lower, needs_onednn, with_other_shape
from torch import nn

from edgex.errors import RunError

pytestmark = needs_onednn
ROWS, WIDTH = 37, 24


def table(rows: int = ROWS, width: int = WIDTH) -> nn.Embedding:
    weight = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
    return nn.Embedding.from_pretrained(weight)


def numbers(*shape: int, dtype: torch.dtype = torch.int64, rows: int = ROWS) -> torch.Tensor:
    return torch.randint(0, rows, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


FORMS = {
    "one_place": (lambda i, e: e(i) * 2, numbers(5)),
    "a_batch": (lambda i, e: F.relu(e(i)), numbers(3, 5)),
    "a_single_number": (lambda i, e: e(i) * 2, torch.tensor(7)),
    "three_dimensions": (lambda i, e: e(i).sum(-1, keepdim=True), numbers(2, 3, 4)),
    "of_32_bits": (lambda i, e: e(i) * 2, numbers(3, 5, dtype=torch.int32)),
    "by_columns": (lambda i, e: e(i).transpose(1, 2).contiguous() + e(i[:, :1]).transpose(1, 2), numbers(3, 5)),
    "twice": (lambda i, e: e(i) * e(i.flip(0)), numbers(4, 6)),
    "padding": (lambda i, e: F.embedding(i, e.weight, padding_idx=0) * 2, numbers(4, 6) % 3),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_it(name: str, precision: str) -> None:
    function, indices = FORMS[name]
    outside = {"by_columns": 1, "twice": 1}.get(name, 0)  # slices and flips of integers are ExecuTorch's
    check(Network(function, table()), indices, precision=precision, left=outside)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 40), st.integers(1, 40))
def test_shapes(shape: list[int], rows: int, width: int) -> None:
    check(Network(lambda i, e: e(i) * 2, table(rows, width)), numbers(*shape, rows=rows))


def test_enough_rows_for_several_threads() -> None:
    """4 MB of them."""
    check(Network(lambda i, e: e(i) * 2, table(ROWS, 512)), numbers(4, 512))


def test_a_length_known_only_when_it_runs() -> None:
    shapes = {"inputs": ({1: torch.export.Dim("length", min=1, max=64)},)}
    more = [(numbers(2, length),) for length in (1, 40, 9)]
    lowered = check(Network(lambda i, e: F.gelu(e(i)), table()), numbers(2, 9), shapes=shapes, more=more)
    assert lowered.plan.delegate_calls == 1


class TiedModel(nn.Module):
    """A small language model: its last layer multiplies by the table of its embedding."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.middle = nn.Embedding(rows, width), nn.Linear(width, width)
        self.last = nn.Linear(width, rows, bias=False)
        self.last.weight = self.embedding.weight

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(F.gelu(self.middle(self.embedding(indices))))
        return found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_table_that_the_last_layer_shares_is_in_the_file_once(precision: str, tmp_path: Path) -> None:
    model = TiedModel(2000, 64)
    weights = sum(weight.numel() for weight in model.parameters()) * (4 if precision == "fp32" else 2)
    lowered = check(model, numbers(2, 16, rows=2000), precision=precision)
    lowered.write(tmp_path)
    size = (tmp_path / "model.pte").stat().st_size
    assert weights < size < 1.03 * weights + 8192, f"{size} bytes for {weights} of weights"


def test_equal_constants_are_in_the_plan_once(tmp_path: Path) -> None:
    """Two layers whose weights are equal, though not the same tensor."""
    torch.manual_seed(0)
    one, other = nn.Linear(256, 256), nn.Linear(256, 256)
    other.load_state_dict(one.state_dict())
    lowered = check(Network(lambda x, a, b: b(F.relu(a(x))), one, other), torch.randn(3, 256))
    lowered.write(tmp_path)
    assert (tmp_path / "model.pte").stat().st_size < 1.2 * 4 * 256 * 256


@pytest.mark.parametrize("number", [ROWS, -1, 2**40])
def test_a_number_that_has_no_row_is_refused_and_the_next_run_is_right(number: int) -> None:
    network, indices = Network(lambda i, e: e(i) * 2, table()), numbers(3, 5)
    loaded = load(lower(capture(network, (indices,))))
    try:
        wrong = indices.clone()
        wrong[1, 2] = number
        with pytest.raises(RunError) as caught:
            loaded(wrong)
        assert f"number {number} of an embedding with {ROWS} rows" in str(caught.value.why)
        np.testing.assert_allclose(loaded(indices)[0], network(indices), rtol=1e-6)
    finally:
        loaded.runner.close()


def test_alone_it_stays_with_executorch() -> None:
    """A region of rows only would gain nothing."""
    lowered = lower(capture(Network(lambda i, e: e(i), table()), (numbers(3, 5),)))
    assert lowered.plan.delegated_ops == 0
    assert lowered.plan.fallbacks[0].reason.startswith("it computes nothing")


def test_a_table_that_is_computed_stays_with_executorch() -> None:
    network = Network(lambda i, t: F.embedding(i, t * 2) * 3)
    check(network, numbers(3, 5), torch.randn(ROWS, WIDTH), left=1)


def test_it_is_an_event_of_its_own(tmp_path: Path) -> None:
    indices = numbers(3, 5)
    loaded = load(lower(capture(Network(lambda i, e: F.gelu(e(i)), table()), (indices,))), trace=True)
    loaded(indices)
    loaded.runner.write_trace(tmp_path / "trace")
    loaded.runner.close()
    content = (tmp_path / "trace").read_bytes()
    assert b"embedding" in content
    assert b"gelu" in content
    assert b"embedding+" not in content


def test_shapes_that_do_not_fit_are_refused() -> None:
    """A plan with a right checksum, whose table has rows of another size than the result."""
    lowered = lower(capture(Network(lambda i, e: e(i) * 2, table()), (numbers(3, 5),)))
    with pytest.raises(RunError) as caught:
        load(with_other_shape(lowered, (ROWS, WIDTH), (ROWS, WIDTH - 1)))
    assert "a tensor whose memory has gaps" in str(caught.value.why)
