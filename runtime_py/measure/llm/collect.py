"""Measure a language model: prompts and generated text, at depths of the cache, in a process of its own.

What a token costs at least is known: each weight, and each key and value before it, is read once. Together with the
bandwidth that this machine reads memory with, that says how near a figure is to what can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from statistics import median
from typing import Any

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import Method
from edgex.runtime.generation.limits import read_limits
from edgex.runtime.measure.llm.bandwidth import measure_read_bandwidth
from edgex.runtime.measure.llm.plan import LlmPlan
from edgex.runtime.measure.llm.report import LlmReport, LlmTest
from edgex.runtime.measure.llm.weights import count_read_bytes
from edgex.runtime.support.machine.host import read_host
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.process.child import Child

Progress = Callable[[str, str], None]


def _decoding(artifact: Artifact) -> Method:
    """The method that takes one token."""
    llm = artifact.manifest.llm
    return artifact.manifest.method if llm is None else artifact.manifest.find_method(llm.decode)


def profile_llm(
    artifact: Artifact,
    plan: LlmPlan,
    *,
    threads: int | None = None,
    tuned: bool = True,
    progress: Progress = lambda _stage, _detail: None,
) -> LlmReport:
    """Measure.

    Args:
        artifact: Of a language model, opened and checked.
        plan: What is measured.
        threads: Of a run; None as `edgex.load` takes them.
        tuned: As `edgex.load` takes it.
        progress: Told what is going on.

    Raises:
        EdgexError: The engine refused, or the process that measures ended.
    """
    limits = read_limits(artifact)

    def tell(event: Any) -> None:
        at = f" at depth {event['depth']}" if event["depth"] else ""
        what = {"pp": f"a prompt of {event['tokens']}", "tg": f"{event['tokens']} tokens of text"}
        progress("measure", what.get(event["kind"], "sampling and text") + at)

    progress("measure", "the memory's bandwidth")
    bandwidth = measure_read_bandwidth(threads or default_threads())
    progress("load", artifact.path.name)
    request = {
        "do": "measure",
        "artifact": str(artifact.path.resolve()),
        "threads": threads,
        "tuned": tuned,
        "prompts": plan.prompts,
        "new": plan.new,
        "depths": plan.depths,
        "runs": plan.runs,
    }
    with Child("edgex.runtime.measure.llm.worker:answer", f"the process that ran {artifact.path.name}") as child:
        found = child.ask(request, tell)
    cache_bytes = sum(prod(spec.shape) * spec.numpy_dtype.itemsize for spec in _decoding(artifact).state)
    weights = count_read_bytes(artifact)
    tests = [LlmTest(**test) for test in found["tests"]]
    return LlmReport(
        artifact=str(artifact.path),
        target=artifact.manifest.target,
        executed_on=found["executed_on"],
        threads=found["threads"],
        host=read_host().to_json(),
        load_seconds=found["load_seconds"],
        tests=[_with_bytes(test, weights, cache_bytes, limits.context, bandwidth) for test in tests],
        model_bytes=artifact.manifest.model_bytes,
        cache_bytes=cache_bytes,
        context=limits.context,
        memory=found["memory"],
        read_bandwidth=bandwidth,
        apart=found["apart"],
        warnings=found["warnings"],
    )


def _with_bytes(test: LlmTest, weights: int, cache_bytes: int, context: int | None, bandwidth: float) -> LlmTest:
    """The test with what its tokens read at least."""
    if test.kind != "tg":
        return test
    # A cache without an end is a ring that is read whole.
    share = 1.0 if context is None else (test.depth + test.tokens / 2) / context
    read = weights + int(cache_bytes * share)
    seconds = median(test.token_seconds.tolist())
    return replace(test, read_bytes=read, bandwidth_share=read / seconds / bandwidth)
