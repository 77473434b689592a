"""Events and nodes brought together: what is certain is found, what is not is left open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgex.runtime.engines.executorch.trace.xnnpack_events import event_type, match_events
from edgex.runtime.engines.trace.alignment import Match, align
from edgex.runtime.engines.trace.sizes import evaluate_size


def align_letters(events: str, nodes: str) -> list[int | None]:
    """Lower-case nodes are often left out."""

    def cost(event: int, node: int) -> float | None:
        return 0.0 if events[event].lower() == nodes[node].lower() else None

    leave = [1.0 if letter.islower() else 4.0 for letter in nodes]
    return [match.node for match in align(len(events), len(nodes), cost, leave, 6.0)]


@pytest.mark.parametrize(
    ("events", "nodes", "found"),
    [
        ("", "", []),
        ("", "AB", []),
        ("ABC", "ABC", [0, 1, 2]),
        ("ABC", "AxBxC", [0, 2, 4]),
        ("AB", "ABC", [0, 1]),
        ("AxB", "AB", [0, None, 1]),
        # Either of two alike may have been left out: nothing says which.
        ("A", "AA", [None]),
        ("AxB", "AxxB", [0, None, 3]),
        # Something between them says it.
        ("AB", "AABA", [None, 2]),
        ("ACB", "ACAB", [0, 1, 3]),
    ],
)
def test_the_best_alignment_is_found_where_there_is_only_one(events, nodes, found):
    assert align_letters(events, nodes) == found


@given(st.text("ABCx", max_size=12), st.data())
def test_what_is_named_is_always_right(nodes, data):
    """Nodes are left out at random: an event is given its own node, or none, for letters that occur once."""
    kept = [index for index, letter in enumerate(nodes) if letter != "x" or data.draw(st.booleans())]
    found = align_letters("".join(nodes[index] for index in kept), nodes)
    for index, answer in zip(kept, found, strict=True):
        assert answer in (None, index)


def test_the_only_node_of_a_kind_is_known_exactly():
    found = align(2, 3, lambda event, node: 0.0 if (event, node) in {(0, 0), (0, 1), (1, 2)} else None, [1.0] * 3, 6.0)
    assert found == [Match(None), Match(2, only_choice=True)]


def node(kind: str, *after: int, inserted: bool = False) -> dict[str, object]:
    return {"kind": kind, "ops": [kind.lower()], "after": list(after), "inserted": inserted}


def matched(names: list[str], nodes: list[dict[str, object]]) -> list[tuple[int, ...]]:
    return [indices for _, indices in match_events(names, nodes)]


def test_an_activation_is_fused_into_what_it_follows():
    nodes = [node("Conv2d"), node("Clamp", 0), node("Add", 1), node("Clamp", 2), node("FullyConnected", 3)]
    names = ["Convolution (NHWC, F32) IGEMM #1", "Add (ND) #1", "Clamp (NC) #1", "Fully Connected (NC, F32) GEMM #1"]
    assert matched(names, nodes) == [(0, 1), (2,), (3,), (4,)]


def test_a_conversion_is_fused_into_what_it_feeds():
    nodes = [node("Convert"), node("FullyConnected", 0), node("Convert", 1), node("FullyConnected", 2)]
    name = "Fully Connected (NC, QDU8, F32, QC8W) GEMM"
    assert matched([f"{name} #1", f"{name} #2"], nodes) == [(1, 0), (3, 2)]


def test_a_small_convolution_may_run_as_a_product():
    nodes = [node("Conv2d"), node("DepthwiseConv2d", 0), node("Conv2d", 1)]
    names = [
        "Fully Connected (NC, F32) GEMM #1",
        "Convolution (NHWC, F32) DWConv #1",
        "Convolution (NHWC, F32) GEMM #1",
    ]
    assert matched(names, nodes) == [(0,), (1,), (2,)]


def test_a_concatenation_has_an_event_for_each_part():
    nodes = [node("Sigmoid"), node("Concatenate3", 0), node("Tanh", 1)]
    names = ["Sigmoid (NC) #1", "Copy (NC, X32) #1", "Copy (NC, X32) #2", "Copy (NC, X32) #3", "TanH (NC) #1"]
    assert matched(names, nodes) == [(0,), (1,), (1,), (1,), (2,)]


def test_unknown_events_have_no_node_and_then_nothing_counts_as_fused():
    nodes = [node("Conv2d"), node("Clamp", 0), node("Add", 1)]
    names = ["Convolution (NHWC, F32) IGEMM #1", "Something New #1", "Add (ND) #1"]
    assert matched(names, nodes) == [(0,), (), (2,)]


def test_the_type_of_an_event_has_no_number():
    assert event_type("Convolution (NHWC, F32) IGEMM #12") == "Convolution (NHWC, F32) IGEMM"


@pytest.mark.parametrize(
    ("size", "value"),
    [
        (7, 7),
        (None, None),
        ("n0", 5),
        ("4*n0 + 1", 21),
        ("-n0 + (n1//2)", -4),
        ("Max(1, n0 - 7)", 1),
        ("FloorDiv(n0, 2)*n1**2", 18),
        ("Mod(n0, 3)", 2),
        ("n9", None),
        ("n0/2", None),
        ("n0.__class__", None),
        ("__import__('os')", None),
        ("2**n0**n0", None),
        ("(", None),
        ("n0//0", None),
    ],
)
def test_sizes_are_arithmetic_and_nothing_else(size, value):
    assert evaluate_size(size, {"n0": 5, "n1": 3}) == value
