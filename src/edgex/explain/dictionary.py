"""The messages that users of the engines really meet, by engine in `messages/`.

An entry without `quote` is provoked in the installed engine by tests/explain/test_provoked.py; one with it is quoted
from the thread that it names, because no machine of ours can provoke it. ExecuTorch's codes come from
`edgex.runtime.engines.executorch.errors`, the same table that feeds the errors of a run.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgex.explain.entry import Entry
from edgex.explain.messages import aoti, coreai, executorch, litert, onnxruntime, openvino, qnn, rocm, torch
from edgex.runtime.engines.executorch.errors import ERROR_CODES

# Threads about ExecuTorch's bare codes.
_CODE_ISSUES: Mapping[int, tuple[str, ...]] = {
    0x10: ("pytorch/executorch#9749",),
    0x12: ("pytorch/executorch#6095", "pytorch/executorch#3848"),
    0x14: ("pytorch/executorch#21950", "pytorch/executorch#4035"),
    0x20: ("pytorch/torchchat#662", "pytorch/executorch#7527"),
    0x23: ("pytorch/executorch#2533",),
}

_EXECUTORCH_CODES = tuple(
    Entry(
        code=f"0x{number:02x}",
        engine="executorch",
        pattern=rf"(?i)(?:error|status|failed|operator)\b.*?\b0x:?{number:02x}\b",
        cause=f"{known.name}: {known.meaning}. ExecuTorch's exceptions carry only this code; the cause is in the lines "
        f"that it writes to stderr before.",
        fix=known.fix,
        issues=_CODE_ISSUES.get(number, ()),
        general=True,
    )
    for number, known in ERROR_CODES.items()
)


DICTIONARY: tuple[Entry, ...] = (
    *_EXECUTORCH_CODES,
    *executorch.MESSAGES,
    *torch.MESSAGES,
    *onnxruntime.MESSAGES,
    *qnn.MESSAGES,
    *rocm.MESSAGES,
    *litert.MESSAGES,
    *coreai.MESSAGES,
    *openvino.MESSAGES,
    *aoti.MESSAGES,
)
