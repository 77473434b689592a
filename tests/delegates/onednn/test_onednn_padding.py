"""Padding in front of convolutions, which pad by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Network, capture, compare, load, lower, needs_onednn, random
from torch import nn

from benchmarks.operators.proof import prove
from edgex.delegates.onednn.operators.padding import is_done_by_readers
from tests.support.rewriting import Calls

pytestmark = needs_onednn

IMAGE, SEQUENCE = random(2, 8, 13, 15), random(2, 8, 30)
PADDED: dict[str, tuple[Callable[..., object], torch.Tensor, nn.Module]] = {
    "same, with a stride of 2": (lambda x, conv: conv(F.pad(x, (0, 1, 1, 0))), IMAGE, nn.Conv2d(8, 16, 3, 2)),
    "depthwise": (lambda x, conv: conv(F.pad(x, (1, 2, 2, 1))), IMAGE, nn.Conv2d(8, 8, 5, 2, groups=8)),
    "grouped": (lambda x, conv: conv(F.pad(x, (1, 0, 0, 2))), IMAGE, nn.Conv2d(8, 16, 3, groups=2)),
    "beside its own": (lambda x, conv: conv(F.pad(x, (1, 0))), IMAGE, nn.Conv2d(8, 16, 3, padding=1)),
    "causal, with holes": (lambda x, conv: conv(F.pad(x, (8, 0))), SEQUENCE, nn.Conv1d(8, 16, 3, dilation=4)),
    "of two": (lambda x, conv: conv(y := F.pad(x, (1, 0, 1, 0))) + conv(y).relu(), IMAGE, nn.Conv2d(8, 16, 3)),
    "of channels beside it": (lambda x, conv: conv(F.pad(x, (1, 1, 0, 0, 0, 1))), IMAGE, nn.Conv2d(9, 16, 3)),
    "more than a window": (lambda x, conv: conv(F.pad(x, (4, 0))), IMAGE, nn.Conv2d(8, 16, 3)),
    "read by others": (lambda x, conv: (conv(y := F.pad(x, (1, 0))), y + 1), IMAGE, nn.Conv2d(8, 16, 3)),
    "not with zeros": (lambda x, conv: conv(F.pad(x, (1, 0), value=1.0)), IMAGE, nn.Conv2d(8, 16, 3)),
    "transposed": (lambda x, conv: conv(F.pad(x, (1, 0))), IMAGE, nn.ConvTranspose2d(8, 16, 3)),
}
OWN = ("same, with a stride of 2", "depthwise", "grouped", "beside its own", "causal, with holes", "of two")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("case", PADDED)
def test_padded_convolutions(case: str, precision: str) -> None:
    function, x, layer = PADDED[case]
    network = Network(function, layer)
    with torch.no_grad():
        wanted = network(x)
    lowered = lower(capture(network, [x], precision=precision))
    assert not lowered.plan.fallbacks
    with load(lowered) as loaded:
        compare(wanted, loaded(x), precision)


@pytest.mark.parametrize("case", PADDED)
def test_convolutions_pad_where_they_can(case: str) -> None:
    function, x, layer = PADDED[case]
    program = capture(Network(function, layer), [x]).exported.run_decompositions()
    (pad,) = [node for node in program.graph.nodes if "constant_pad_nd" in str(node.target)]
    assert is_done_by_readers(pad) == (case in OWN)


def test_a_causal_convolution_of_any_length() -> None:
    """Padding of sizes that only a run knows was ExecuTorch's."""
    conv = nn.Conv1d(8, 8, 3, dilation=2).eval()
    length = torch.export.Dim("length", min=2, max=64)
    proved = prove(
        Calls(lambda x: conv(F.pad(x, (4, 0))).relu()), (SEQUENCE,), "onednn", dynamic_shapes=(({2: length},),)
    )
    assert proved.exit_code == 0, proved.reason
