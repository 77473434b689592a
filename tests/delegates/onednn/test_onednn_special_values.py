"""NaN and infinity through every operator that oneDNN takes: as eager, or in the delegate's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Network, capture, load, lower, needs_onednn

from edgex.delegates.onednn.special_values import SPECIAL_VALUES

pytestmark = needs_onednn
Function = Callable[[torch.Tensor], torch.Tensor]


def half() -> torch.Tensor:
    return torch.full((4, 8), 0.5)


def as_image(x: torch.Tensor) -> torch.Tensor:
    return x.view(1, 4, 2, 4)


AS_EAGER: Mapping[str, Function] = {
    **{"sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": F.hardswish, "mish": F.mish, "silu": F.silu},
    **{"elu": F.elu, "softplus": F.softplus},
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
    "max_pool2d": (lambda x: F.max_pool2d(as_image(x), 2), None),
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


def operators(program) -> set[str]:
    return {str(node.target) for node in program.exported.graph.nodes if node.op == "call_function"}


def test_what_is_not_listed_is_as_eager() -> None:
    network = Network(lambda x: tuple(function(x) for function in AS_EAGER.values()))
    program = capture(network, (with_one(0.5),))
    assert not operators(program) & SPECIAL_VALUES.keys()
    lowered = lower(program)
    assert lowered.plan.delegated_ops >= len(AS_EAGER)
    answers = {}
    with load(lowered) as loaded:
        for content in (float("nan"), float("inf"), float("-inf")):
            answers[content] = loaded(with_one(content))
    for content, answer in answers.items():
        for name, wanted, found in zip(AS_EAGER, network(with_one(content)), answer, strict=True):
            assert torch.equal(kinds(wanted), kinds(found)), f"{name} of {content}: {found} instead of {wanted}"


def test_what_is_listed_differs() -> None:
    network = Network(lambda x: tuple(function(x) for function, _ in LISTED.values()))
    program = capture(network, (with_one(0.5),))
    told = {name.split(".")[1] for name in operators(program) & SPECIAL_VALUES.keys()}
    assert told == LISTED.keys()
    x = with_one(float("nan"))
    with load(lower(program)) as loaded:
        answer = loaded(x)
    for (name, (_, becomes)), wanted, found in zip(LISTED.items(), network(x), answer, strict=True):
        place = wanted.isnan() & ~found.isnan()
        assert place.any(), f"{name}: NaN stays, and is listed"
        if becomes is not None:
            assert found[place].tolist() == [becomes], name


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_may_make_nan_of_infinity_and_no_number(approximate: str) -> None:
    """Without AVX-512 it does."""
    program = capture(Network(lambda x: F.gelu(x, approximate=approximate)), (with_one(0.5),))
    assert "aten.gelu.default" in operators(program) & SPECIAL_VALUES.keys()
    with load(lower(program)) as loaded:
        for content in (float("nan"), float("inf")):
            (found,) = loaded(with_one(content))
            assert not found[1, 3].isfinite() and found.isfinite().sum() == found.numel() - 1


@pytest.mark.parametrize("reduce", ["amax", "amin", "sum", "mean"])
def test_few_planes_are_reduced_as_eager_does(reduce: str) -> None:
    network = Network(lambda x: getattr(x.unflatten(0, (2, 2)) * 2, reduce)(1) + 1)
    inputs = [with_one(content) for content in (0.5, float("nan"), float("inf"), float("-inf"))]
    with load(lower(capture(network, (inputs[0],)))) as loaded:
        for x in inputs:
            (wanted,), (found,) = network(x).unsqueeze(0), loaded(x)
            assert torch.equal(kinds(wanted), kinds(found)) and torch.allclose(wanted, found, equal_nan=True), x
