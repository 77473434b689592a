"""`edgex.profile-llm/1`: what was measured of a language model, in llama-bench's terms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

SCHEMA = "edgex.profile-llm/1"


@dataclass(frozen=True)
class LlmTest:
    """One line of the table.

    Attributes:
        kind: `pp`, prompt processing, or `tg`, text generation.
        tokens: How many were run.
        depth: How many the cache held before.
        raw_seconds: Of each run: of a prompt one figure, of generated text one for each token.
        first_token_seconds: Of each run of a prompt: until the token after it was known.
        read_bytes: What a generated token reads at least, on average: weights, and keys and values before it.
        bandwidth_share: Of the measured bandwidth that reading this takes in the measured time, 0 to 1.
    """

    kind: str
    tokens: int
    depth: int
    raw_seconds: Sequence[Sequence[float]]
    first_token_seconds: Sequence[float] | None = None
    read_bytes: int | None = None
    bandwidth_share: float | None = None

    @property
    def name(self) -> str:
        """As llama-bench names it, without its blanks: `pp512`, `tg128@d1024`."""
        return f"{self.kind}{self.tokens}" + (f"@d{self.depth}" if self.depth else "")

    @property
    def rates(self) -> list[float]:
        """Tokens a second of each run."""
        return [self.tokens / sum(run) for run in self.raw_seconds]

    @property
    def token_seconds(self) -> np.ndarray:
        """Of generated text: seconds of each token of all runs. Of a prompt: of each run."""
        return np.concatenate([np.asarray(run) for run in self.raw_seconds])

    def to_json(self) -> dict[str, Any]:
        """The document's entry."""
        is_text = self.kind == "tg"
        p50, p95 = np.percentile(self.token_seconds, [50, 95]).tolist()
        return {
            "name": self.name,
            "tokens": self.tokens,
            "depth": self.depth,
            "tokens_per_second": {
                "mean": fmean(self.rates),
                "sd": stdev(self.rates) if len(self.rates) > 1 else None,
                "median": median(self.rates),
            },
            "first_token_seconds": None if self.first_token_seconds is None else median(self.first_token_seconds),
            "inter_token_seconds": {"p50": p50, "p95": p95} if is_text else None,
            "read_bytes_per_token": self.read_bytes,
            "bandwidth_share": self.bandwidth_share,
            "raw_seconds": [list(run) for run in self.raw_seconds],
        }


@dataclass(frozen=True)
class LlmReport:
    """A measured language model; see the fields of the same names in docs/json.md."""

    artifact: str
    target: str
    executed_on: str
    threads: int | None
    host: Mapping[str, Any]
    load_seconds: float
    tests: Sequence[LlmTest]
    model_bytes: int
    cache_bytes: int
    context: int | None
    memory: Mapping[str, int | None]
    read_bandwidth: float
    apart: Mapping[str, float | None]
    warnings: Sequence[Mapping[str, str]] = ()

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": SCHEMA,
            "artifact": self.artifact,
            "target": self.target,
            "executed_on": self.executed_on,
            "threads": self.threads,
            "host": dict(self.host),
            "load_seconds": self.load_seconds,
            "tests": [test.to_json() for test in self.tests],
            "model_bytes": self.model_bytes,
            "cache_bytes": self.cache_bytes,
            "context": self.context,
            "rss": dict(self.memory),
            "read_bandwidth_bytes_per_second": self.read_bandwidth,
            "apart": dict(self.apart),
            "warnings": [dict(warning) for warning in self.warnings],
        }

    def dumps(self) -> str:
        """The text of the document."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
