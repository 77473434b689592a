"""The methods of a language model's artifact: two signatures of one native program.

One program of any length serves both: its weights are packed once, and its cache is one. What `decode` adds is a
promise of its own, with cases of its own in the proof: one token, one position, no dimension to choose.
"""

from __future__ import annotations

from dataclasses import replace

from edgex.runtime.artifact.language_model import TOKENS, LanguageModel
from edgex.runtime.artifact.manifest import Method


def language_methods(forward: Method, llm: LanguageModel) -> tuple[Method, ...]:
    """`prefill` and `decode`.

    Args:
        forward: What the delegate made of the captured program.
        llm: Names the methods.
    """
    one = tuple(replace(spec, shape=(1, 1)) if spec.name == TOKENS else spec for spec in forward.inputs)
    return (
        replace(forward, name=llm.prefill, native=forward.entry),
        replace(forward, name=llm.decode, native=forward.entry, inputs=one),
    )
