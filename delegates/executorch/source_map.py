"""`debug/source_map.json` of a .pte: from what the runtime reports back to modules and source lines.

```
{"format": "edgex.source_map/1",
 "ops": [{"id": "aten_cumsum_default", "op": "aten.cumsum.default", "handle": 6, "module": "", "source": "net.py:23",
          "delegate": null, "inputs": ["x"], "outputs": ["aten_cumsum_default"], "flops": null}, …],
                                                        # every operator of the edge graph, in program order
 "symbols", "values", "results"                         # sizes and dtypes, see edgex.delegates.graph.values
 "delegates": [{"id": 0, "backend": "XnnpackBackend", "instruction": 1, "handles": [2, 3, 4],
                "nodes": [{"kind": "Conv2d", "ops": ["aten_convolution_default", "aten_relu_default"], "after": [],
                           "inserted": false}, …]}, …],  # what the backend made of the region, where it is known
 "instructions": [{"id": 2, "handles": [5], "kernel": "aten::cumsum.out", "ops": ["aten_cumsum_default"]}, …],
                                                        # delegate calls included
 "arena": [{"name": "x", "offset": 0, "bytes": 4096, "first": 0, "last": 2}, …]}    # planned memory, by instructions
```

The runtime names an event by its instruction, which is also the delegate's place in the file. Operators that come
from one source operator share a handle. `ops` of an instruction or a node name the main operator first; those of a node
that the backend inserted name the operator that it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgex.delegates.executorch import exir
from edgex.delegates.executorch.exir import PlannedSpan, Region
from edgex.delegates.executorch.inner import InnerNode, assign_operators
from edgex.delegates.executorch.partition import EdgeOperator
from edgex.delegates.graph.values import GraphValues

FORMAT = "edgex.source_map/1"

# Reads what a backend serialized for one region.
ReadRegion = Callable[[bytes], Sequence[InnerNode]]


def make_source_map(
    operators: Sequence[EdgeOperator],
    regions: Sequence[Region],
    emitted: Any,
    flow: GraphValues,
    read_region: ReadRegion | None = None,
    method: str = exir.FORWARD,
) -> dict[str, Any]:
    """The document; the same program gives the same bytes, and no path in it is absolute.

    Args:
        operators: Those of the edge graph, each with the region it went into.
        regions: The calls into backends, in program order.
        emitted: The emitted program, for its instructions.
        flow: The values of the edge graph before it was partitioned.
        read_region: Reads a region's bytes; None where the backend reports its operators by their handles.
        method: The method of the emitted program that all these are of.
    """
    handles, calls = exir.instruction_handles(emitted, method)
    delegates = []
    for index, region in enumerate(regions):
        inside = [item for item in operators if item.region == index]
        entry: dict[str, Any] = {
            "id": index,
            "backend": region.backend,
            "instruction": calls[index] if index < len(calls) else None,
            "handles": sorted({item.handle for item in inside if item.handle is not None}),
        }
        if read_region is not None:
            entry["nodes"] = assign_operators(inside, read_region(region.processed), flow)
        delegates.append(entry)
    instructions = _instructions(operators, handles, exir.instruction_kernels(emitted, method))
    return {
        "format": FORMAT,
        "ops": [_describe_operator(item, flow) for item in operators],
        **flow.to_json(),
        "delegates": delegates,
        "instructions": instructions,
        "arena": _arena(exir.planned_spans(emitted, method), instructions, delegates),
    }


def _describe_operator(item: EdgeOperator, flow: GraphValues) -> dict[str, Any]:
    place = flow.nodes.get(item.node)
    return {
        "id": item.node,
        "op": item.op,
        "handle": item.handle,
        "module": item.module,
        "source": item.source,
        "delegate": item.region,
        "inputs": [] if place is None else list(place.inputs),
        "outputs": [] if place is None else list(place.outputs),
        "flops": None if place is None else place.flops,
    }


def _instructions(
    operators: Sequence[EdgeOperator], handles: dict[int, tuple[int, ...]], kernels: dict[int, str]
) -> list[dict[str, Any]]:
    """Each instruction, and for a kernel the operator that it runs: of the operators of its handle the one so named."""
    free = [item for item in operators if item.region is None]
    found = []
    for number in sorted({*handles, *kernels}):
        mine: list[str] = []
        if number in kernels:
            same_handle = [item for item in free if item.handle in handles.get(number, ())]
            named = [item for item in same_handle if _base_name(item.op) == _base_name(kernels[number])]
            for item in (named or same_handle)[:1]:
                free.remove(item)
                mine = [item.node]
        entry = {"id": number, "handles": list(handles.get(number, ())), "kernel": kernels.get(number), "ops": mine}
        found.append(entry)
    return found


def _base_name(operator: str) -> str:
    """`cumsum` of `aten.cumsum.default` and of `aten::cumsum.out`."""
    return operator.replace("::", ".").split(".")[1]


def _arena(
    spans: Sequence[PlannedSpan], instructions: Sequence[dict[str, Any]], delegates: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    names = {item["id"]: item["ops"][0] for item in instructions if item["ops"]}
    names |= {entry["instruction"]: f"{entry['backend']} {entry['id']}" for entry in delegates}
    return [
        {
            "name": span.name or names.get(span.first, f"instruction {span.first}"),
            "offset": span.offset,
            "bytes": span.bytes,
            "first": span.first,
            "last": span.last,
        }
        for span in spans
    ]
