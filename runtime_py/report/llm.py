"""A measured language model as rows of text: llama-bench's columns, and what bounds the figures.

TTFT is the time to the first token, p50 and p95 are times between tokens, and `reads` is what a token reads at least.
"""

from __future__ import annotations

from statistics import median

from edgex.runtime.measure.llm.report import LlmReport, LlmTest
from edgex.runtime.report.figures import format_bytes

HEAD = ("test", "tokens/s", "±", "TTFT", "p50", "p95", "reads", "of bandwidth")


def list_tests(report: LlmReport) -> list[tuple[str, ...]]:
    """A row for each test, below `HEAD`."""
    return [HEAD, *(_row(test) for test in report.tests)]


def _row(test: LlmTest) -> tuple[str, ...]:
    entry = test.to_json()
    rate = entry["tokens_per_second"]
    between, first = entry["inter_token_seconds"], test.first_token_seconds
    return (
        test.name,
        f"{rate['mean']:,.1f}",
        "" if rate["sd"] is None else f"{rate['sd']:,.1f}",
        "" if first is None else _milliseconds(median(first)),
        "" if between is None else _milliseconds(between["p50"]),
        "" if between is None else _milliseconds(between["p95"]),
        "" if test.read_bytes is None else format_bytes(test.read_bytes),
        "" if test.bandwidth_share is None else f"{test.bandwidth_share:.0%}",
    )


def list_facts(report: LlmReport) -> list[tuple[str, str]]:
    """(label, sentence) of what stands around the table."""
    memory, apart = report.memory, report.apart
    context = "" if report.context is None else f" for {report.context:,} tokens"
    facts = [
        ("load", f"{report.load_seconds:.2f} s"),
        (
            "memory",
            f"{format_bytes(memory['peak_bytes'])} at most, {format_bytes(memory['before_load_bytes'])} before loading",
        ),
        ("files", f"{format_bytes(report.model_bytes)}; cache {format_bytes(report.cache_bytes)}{context}"),
        ("bandwidth", f"{report.read_bandwidth / 1e9:.1f} GB/s read by {report.threads or 'its'} threads"),
    ]
    parts = [
        f"{words} {_microseconds(seconds)}"
        for key, words in (
            ("greedy_seconds", "taking the likeliest"),
            ("drawn_seconds", "drawing"),
            ("encode_seconds", "text to ids"),
            ("decode_seconds", "ids to text"),
            ("loop_seconds", "the loop"),
        )
        if (seconds := apart[key]) is not None
    ]
    facts.append(("apart", f"for each token, not in the figures: {', '.join(parts)}"))
    return facts + [("warning", warning["text"]) for warning in report.warnings]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms"


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"
