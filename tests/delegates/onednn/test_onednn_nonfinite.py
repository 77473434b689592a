"""NaN and infinity through every operator that oneDNN takes: as eager, or listed with the user's line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from onednn_support import Network, capture, load, lower, needs_onednn
from torch import nn

from edgex.delegates.nonfinite import NonFiniteDifference, group_differences

pytestmark = needs_onednn
Function = Callable[[torch.Tensor], torch.Tensor]


def half() -> torch.Tensor:
    return torch.full((4, 8), 0.5)


def as_image(x: torch.Tensor) -> torch.Tensor:
    return x.view(1, 4, 2, 4)


AS_EAGER: Mapping[str, Function] = {
    **{"sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": F.hardswish, "mish": F.mish, "silu": F.silu},
    **{"gelu": F.gelu, "tanh gelu": lambda x: F.gelu(x, approximate="tanh"), "elu": F.elu, "softplus": F.softplus},
    **{"leaky": lambda x: F.leaky_relu(x, 0.1), "abs": torch.abs, "log": torch.log, "sqrt": torch.sqrt},
    **{"square": lambda x: x**2, "cube": lambda x: x**3, "round": torch.round, "negate": torch.neg},
    **{"add": lambda x: x + 1.5, "multiply": lambda x: x * 1.5, "divide": lambda x: x / half()},
    **{"sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1), "prod": lambda x: x.prod(-1)},
    **{"layer norm": lambda x: F.layer_norm(x, (8,)), "average": lambda x: F.avg_pool2d(as_image(x), 2)},
    **{"concatenate": lambda x: torch.cat([x, x])},
}
# With what becomes of a NaN where it is one number.
LISTED: Mapping[str, tuple[Function, float | None]] = {
    "relu": (F.relu, 0.0),
    "hardtanh": (F.hardtanh, -1.0),
    "clamp": (lambda x: x.clamp(-0.25, 2), -0.25),
    "hardsigmoid": (F.hardsigmoid, 1.0),
    "exp": (torch.exp, float("inf")),
    "maximum": (lambda x: torch.maximum(x, half()), 0.5),
    "minimum": (lambda x: torch.minimum(x, half()), 0.5),
    "amax": (lambda x: x.amax(-1), None),
    "amin": (lambda x: x.amin(-1), None),
    "max_pool2d_with_indices": (lambda x: F.max_pool2d(as_image(x), 2), None),
    "softmax": (lambda x: x.softmax(-1), None),
    "log_softmax": (lambda x: x.log_softmax(-1), None),
}


def with_one(content: float) -> torch.Tensor:
    x = torch.rand(4, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    x[1, 3] = content
    return x


def kinds(x: torch.Tensor) -> torch.Tensor:
    """0 where a number is finite, else which of the others it is."""
    return x.isnan() * 1 + x.isposinf() * 2 + x.isneginf() * 3


def test_what_is_not_listed_is_as_eager() -> None:
    network = Network(lambda x: tuple(function(x) for function in AS_EAGER.values()))
    loaded = load(lower(capture(network, (with_one(0.5),))))
    assert loaded.lowered.nonfinite == () and loaded.lowered.plan.delegated_ops >= len(AS_EAGER)
    for content in (float("nan"), float("inf"), float("-inf")):
        x = with_one(content)
        for name, wanted, found in zip(AS_EAGER, network(x), loaded(x), strict=True):
            assert torch.equal(kinds(wanted), kinds(found)), f"{name} of {content}: {found} instead of {wanted}"


def test_what_is_listed_differs_as_it_says() -> None:
    network = Network(lambda x: tuple(function(x) for function, _ in LISTED.values()))
    loaded = load(lower(capture(network, (with_one(0.5),))))
    told = {difference.op.split(".")[1].lstrip("_"): difference for difference in loaded.lowered.nonfinite}
    assert told.keys() == LISTED.keys()
    x = with_one(float("nan"))
    for (name, (_, becomes)), wanted, found in zip(LISTED.items(), network(x), loaded(x), strict=True):
        place = wanted.isnan() & ~found.isnan()
        assert place.any(), f"{name}: NaN stays, and is listed"
        if becomes is not None:
            assert found[place].tolist() == [becomes], name
            assert told[name].becomes in ("the other operand", f"{becomes:g}")


class Lines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.layer(x).relu() + self.layer(x.relu())).cumsum(-1)


def test_a_difference_names_the_users_line() -> None:
    told = lower(capture(Lines(), (with_one(0.5),))).nonfinite
    assert len(told) == 1 and told[0].count == 2
    assert str(told[0]).startswith("NaN: becomes 0 behind relu at ")
    assert str(told[0].source).startswith("test_onednn_nonfinite.py:")


def test_differences_of_one_line_are_one() -> None:
    one = NonFiniteDifference("aten.relu.default", "NaN", "0", "net.py:12")
    other = NonFiniteDifference("aten.relu.default", "NaN", "0", None)
    assert [found.count for found in group_differences([one, other, one])] == [2, 1]
    assert str(one) == "NaN: becomes 0 behind relu at net.py:12"
    assert one.to_json()["source"] == "net.py:12"
