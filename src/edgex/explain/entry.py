"""One entry of the dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One message that users meet.

    Attributes:
        code: What `edgex explain CODE` takes: an engine's own code (`0x14`), else a few words with dashes.
        engine: Who says it: `executorch`, `torch.export`, `torch.onnx`, `onnxruntime`, `migraphx`, `qnn`, `rocm`,
            `litert`, `coreai`, `openvino`, `aoti` or `torch`.
        pattern: A regular expression that finds it in a line of a log.
        cause: Why it is said, one or two sentences.
        fix: What to do.
        issues: Upstream threads, as `owner/name#number`.
        quote: The message as upstream's threads show it; empty where a test provokes it in the engine itself.
        general: It says little by itself: what else a log holds comes first.
    """

    code: str
    engine: str
    pattern: str
    cause: str
    fix: str
    issues: tuple[str, ...] = ()
    quote: str = ""
    general: bool = False

    def to_json(self) -> dict[str, Any]:
        """One entry of `matches` without what the search adds."""
        return {
            "code": self.code,
            "engine": self.engine,
            "cause": self.cause,
            "fix": self.fix,
            "issues": [f"https://github.com/{issue.replace('#', '/issues/')}" for issue in self.issues],
        }
