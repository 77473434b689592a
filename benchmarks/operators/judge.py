"""What came of an operator on a target: right, refused before lowering with a reason, or a listed known issue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.operators.opinfo import Sample
from benchmarks.operators.proof import prove

KNOWN_ISSUES = Path(__file__).parent / "known_issues.json"
TARGETS = ("xnnpack", "onnx-cpu", "onednn")
Kind = Literal["right", "refused", "known", "wrong"]


@dataclass(frozen=True)
class Outcome:
    """One sample on one target.

    Attributes:
        sample: Its name.
        target: The target.
        kind: `wrong` is whatever is none of the others; there may be none of it.
        exit_code: Of the export.
        reason: Why it is not right, first lines.
    """

    sample: str
    target: str
    kind: Kind
    exit_code: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """One line of the results."""
        return asdict(self)


def read_known_issues() -> dict[str, str]:
    """Reasons by `target/operator`."""
    found: dict[str, str] = json.loads(KNOWN_ISSUES.read_text(encoding="utf-8"))
    return found


def judge(sample: Sample, target: str, known: Mapping[str, str]) -> Outcome:
    """Export a sample to a target."""
    proved = prove(sample.module, sample.tensors, target, allow_inconclusive=True)
    if proved.exit_code == 0:
        return Outcome(sample.name, target, "right")
    reason = proved.reason[:600]
    operator = sample.name.partition("#")[0]
    # Refused by capture, or before lowering with the operator's name.
    if proved.exit_code in (3, 5) and reason:
        return Outcome(sample.name, target, "refused", proved.exit_code, reason)
    listed = known.get(f"{target}/{operator}") or known.get(f"*/{operator}")
    if listed is not None:
        return Outcome(sample.name, target, "known", proved.exit_code, listed)
    return Outcome(sample.name, target, "wrong", proved.exit_code, reason)
