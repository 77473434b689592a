"""`flex_attention` as plain attention: masks, biases, other functions of scores, keys that heads share, logarithms."""

import math
import warnings

import pytest
import torch
from rewriting import operators, program_of, run_program
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import edgex
from edgex.export.capture.function_transforms import expand_transforms
from edgex.export.rewrites.attention.flexible import write_flex_attention

LENGTH, HEADS, WIDTH = 24, 4, 8
DOCUMENTS = torch.tensor([0] * 10 + [1] * 14)
LENGTHS = torch.tensor([24, 5])
SLOPES = 2.0 ** -torch.arange(1, HEADS + 1)
TABLE = torch.randn(HEADS, 2 * LENGTH - 1, generator=torch.Generator().manual_seed(1))

MASKS = {
    "causal": lambda tables: lambda b, h, q, k: q >= k,
    "window": lambda tables: lambda b, h, q, k: (q >= k) & (q - k < 5),
    "prefix": lambda tables: lambda b, h, q, k: (q >= k) | (k < 7),
    "documents": lambda tables: lambda b, h, q, k: (tables.documents[q] == tables.documents[k]) & (q >= k),
    "lengths": lambda tables: lambda b, h, q, k: k < tables.lengths[b],
    "empty": lambda tables: lambda b, h, q, k: k < q,
}
SCORES = {
    "alibi": lambda tables: lambda score, b, h, q, k: score + tables.slopes[h] * (k - q),
    "table": lambda tables: lambda score, b, h, q, k: score + tables.table[h, q - k + LENGTH - 1],
    "hidden": lambda tables: lambda score, b, h, q, k: torch.where(k < q, score, -math.inf),
    "capped": lambda tables: lambda score, b, h, q, k: 2 * torch.tanh(score / 2),
    "capped_hidden": lambda tables: lambda score, b, h, q, k: torch.where(k < q, 2 * torch.tanh(score / 2), -math.inf),
}


class Attention(nn.Module):
    def __init__(self, mask=None, score=None, groups=HEADS, **given):
        super().__init__()
        self.register_buffer("documents", DOCUMENTS)
        self.register_buffer("lengths", LENGTHS)
        self.register_buffer("slopes", SLOPES)
        self.register_buffer("table", TABLE)
        self.score = SCORES[score](self) if score else None
        self.blocks = None
        if mask:
            batch = 2 if mask == "lengths" else None
            self.blocks = create_block_mask(
                MASKS[mask](self), batch, None, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=LENGTH
            )
        self.groups, self.given = groups, given

    def forward(self, queries, keys, values):
        keys, values = keys[:, : self.groups], values[:, : self.groups]
        return flex_attention(queries, keys, values, self.score, self.blocks, **self.given)


def operands(batch=2):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(batch, HEADS, LENGTH, WIDTH, generator=generator) for _ in range(3))


@torch.no_grad()
def check(module, args, **given):
    """Rewrites a module's program; returns the new one's operators, after its answers were compared with eager's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is slow in eager
        expected = module(*args)
        program = program_of(expand_transforms(torch.export.export(module, args, **given)), args)
    after, rewrite = write_flex_attention(program)
    assert rewrite is not None
    found = operators(after)
    assert "flex_attention" not in found
    expected = expected if isinstance(expected, tuple) else (expected,)
    for answer, wanted in zip(run_program(after, *args), expected, strict=True):
        torch.testing.assert_close(answer, wanted, atol=2e-6, rtol=1e-5)
    return found


@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("score", [None, "alibi", "table", "hidden"])
def test_masks_and_what_is_added_are_masks_of_attention(mask, score):
    found = check(Attention(mask, score, scale=0.3), operands())
    assert "aten.scaled_dot_product_attention.default" in found
    assert "aten.softmax.int" not in found


@pytest.mark.parametrize("mask", [None, "causal", "empty"])
@pytest.mark.parametrize("score", ["capped", "capped_hidden"])
def test_other_functions_take_the_scores(mask, score):
    found = check(Attention(mask, score, groups=2, enable_gqa=True), operands())
    assert "aten.tanh.default" in found
    # Rows without a key are looked for only where there may be some.
    assert ("aten.any.dim" in found) == (mask is not None or score == "capped_hidden")


def test_heads_share_keys():
    assert "aten.scaled_dot_product_attention.default" in check(
        Attention("causal", groups=2, enable_gqa=True), operands()
    )


@pytest.mark.parametrize(("mask", "score"), [(None, None), ("empty", None), ("empty", "alibi"), (None, "hidden")])
def test_logarithms_of_sums(mask, score):
    check(Attention(mask, score, groups=2, enable_gqa=True, return_lse=True), operands())


def test_keys_of_one_batch_are_those_of_all():
    queries, keys, values = operands()
    check(Attention("lengths"), (queries, keys[:1], values[:1]))


class Dynamic(nn.Module):
    """A mask of the length that a call has."""

    def forward(self, queries, keys, values):
        length = queries.shape[2]
        blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device="cpu")
        return flex_attention(queries, keys, values, block_mask=blocks)


def test_lengths_may_vary_and_blocks_leave_nothing_behind():
    sizes = {0: torch.export.Dim("batch", min=1, max=4), 2: torch.export.Dim("length", min=2, max=64)}
    found = check(Dynamic(), operands(), dynamic_shapes=(sizes, sizes, sizes))
    assert "aten.argsort.stable" not in found
    assert "aten._assert_tensor_metadata.default" not in found


def test_a_program_without_any_is_left_alone():
    args = operands()
    program = program_of(torch.export.export(_Plain(), args), args)
    assert write_flex_attention(program) == (program, None)


class _Plain(nn.Module):
    def forward(self, queries, keys, values):
        return nn.functional.scaled_dot_product_attention(queries, keys, values)


class Layers(nn.Module):
    """One of each kind, over what the layers before it made."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(
            (
                Attention("documents"),
                Attention("empty"),
                Attention("causal", "alibi"),
                Attention("empty", "capped", groups=2, enable_gqa=True),
            )
        )

    def forward(self, states):
        for layer in self.layers:
            states = states + layer(self.project(states), states, states)
        return states


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_targets_run_it(target, tmp_path):
    torch.manual_seed(0)
    artifact = edgex.export_model(Layers(), operands()[:1], target=target, output=tmp_path)
    assert artifact.manifest.verification["passed"]
