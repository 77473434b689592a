"""Which operator a node of a backend's graph is, where several share a handle."""

from edgex.delegates.executorch.inner import InnerNode, assign_operators
from edgex.delegates.executorch.partition import EdgeOperator
from edgex.delegates.graph.values import GraphValues, NodeValues


def operator(name, kind, handle, source="net.py:1"):
    return EdgeOperator(name, f"aten.{kind}.default", handle, "gru", source, None, 0, None)


def test_of_two_products_of_one_handle_a_node_is_the_one_that_reads_what_it_reads():
    """A GRU's two: of the whole sequence, which comes from a convolution, and of the first state, which comes first."""
    operators = [
        operator("conv", "convolution", 1),
        operator("permute", "permute_copy", 2),
        operator("sequence", "linear", 3),
        operator("state", "linear", 3),
        operator("sum", "add", 3),
    ]
    flow = GraphValues(
        {},
        {},
        {
            "conv": NodeValues(("x",), ("a",), None),
            "permute": NodeValues(("a",), ("b",), None),
            "sequence": NodeValues(("b", "w"), ("c",), None),
            "state": NodeValues(("h", "w"), ("d",), None),
            "sum": NodeValues(("c", "d"), ("e",), None),
        },
        ("e",),
    )
    nodes = [
        InnerNode("StaticTranspose", None, (0,), (1,)),
        InnerNode("Conv2d", 1, (1,), (2,), operators=("convolution",)),
        InnerNode("FullyConnected", 3, (9,), (3,), operators=("linear",)),
        InnerNode("StaticTranspose", 2, (2,), (4,), operators=("permute_copy",)),
        InnerNode("StaticTranspose", None, (4,), (5,)),
        InnerNode("FullyConnected", 3, (5,), (6,), operators=("linear",)),
        InnerNode("Add", 3, (3, 6), (7,), operators=("add",)),
    ]
    ops = [node["ops"] for node in assign_operators(operators, nodes, flow)]
    assert [ops[at] for at in (2, 5, 6)] == [["state"], ["sequence"], ["sum"]]
