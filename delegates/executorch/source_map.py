"""`debug/source_map.json` of a .pte: from what the runtime reports back to modules and source lines.

```
{"format": "edgex.source_map/1",
 "ops": [{"id": "aten_cumsum_default", "op": "aten.cumsum.default", "handle": 6, "module": "", "source": "net.py:23",
          "delegate": null}, …],                       # every operator of the edge graph, in program order
 "delegates": [{"id": 0, "backend": "XnnpackBackend", "instruction": 1, "handles": [2, 3, 4]}, …],
 "instructions": [{"id": 2, "handles": [5]}, …]}       # the program's instructions, delegate calls included
```

The runtime names an event by its instruction, which is also the delegate's place in the file; nodes of XNNPACK's
serialized graph carry the handle. Operators that come from one source operator share a handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgex.delegates.executorch.exir import Region, instruction_handles
from edgex.delegates.executorch.partition import EdgeOperator

FORMAT = "edgex.source_map/1"


def make_source_map(operators: Sequence[EdgeOperator], regions: Sequence[Region], emitted: Any) -> dict[str, Any]:
    """The document; the same program gives the same bytes, and no path in it is absolute.

    Args:
        operators: Those of the edge graph, each with the region it went into.
        regions: The calls into backends, in program order.
        emitted: The emitted program, for its instructions.
    """
    instructions, calls = instruction_handles(emitted)
    delegates = [
        {
            "id": index,
            "backend": region.backend,
            "instruction": calls[index] if index < len(calls) else None,
            "handles": sorted({item.handle for item in operators if item.region == index and item.handle is not None}),
        }
        for index, region in enumerate(regions)
    ]
    return {
        "format": FORMAT,
        "ops": [
            {
                "id": item.node,
                "op": item.op,
                "handle": item.handle,
                "module": item.module,
                "source": item.source,
                "delegate": item.region,
            }
            for item in operators
        ],
        "delegates": delegates,
        "instructions": [{"id": number, "handles": list(handles)} for number, handles in sorted(instructions.items())],
    }
