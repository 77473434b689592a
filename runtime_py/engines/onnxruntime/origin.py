"""The operator of the user's model behind a node that ONNX Runtime names in an error.

Its messages name a node in quotes or brackets, `Name:'node_view_3'` or `Node (node_view_3) Op (Reshape)`. The nodes of
an exported file have the names that `debug/source_map.json` knows, or are found by the value that they make.
"""

from __future__ import annotations

import re

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.trace.source_map import read_source_map

_NAMED = re.compile(r"""['"(]([^'"()\s,]+)['"),]""")


def locate(error: EdgexError, artifact: Artifact) -> EdgexError:
    """The same error at the user's line, where ONNX Runtime's message names a node that comes from one.

    Args:
        error: Its `why` is the message.
        artifact: Its source map is read; a device has none.
    """
    try:
        operators = read_source_map(artifact, {}).operators
    except EdgexError:  # damaged or not here: the message itself is what matters
        return error
    by_output = {output: operator for operator in operators.values() for output in operator.outputs}
    for name in _NAMED.findall(error.why or ""):
        found = operators.get(name) or by_output.get(name)
        if found is not None:
            error.where = found.source or error.where
            error.why = f"{error.why} ({name} is {found.op}{f' in {found.module}' if found.module else ''})"
            break
    return error
