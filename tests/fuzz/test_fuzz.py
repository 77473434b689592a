"""A sample of what `make fuzz` does: nothing that edgex reads of others ends in a traceback, or runs."""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.cases import run_case, subject_of
from fuzz.corpus import make_corpus
from fuzz.subjects import SUBJECTS

# Native loaders get bytes in processes of their own: see `python -m fuzz`.
_NATIVE = ("onnx",)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_what_is_not_changed_runs(
    subject: Callable[..., Callable[[], object]],
    exported: Callable[[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the fuzzer would see nothing but refusals."""
    monkeypatch.setattr("fuzz.subjects.mutate_json", lambda _, document: json.dumps(document).encode())
    monkeypatch.setattr("fuzz.subjects.mutate_bytes", lambda _, content: content)
    # A seed with which the subjects change nothing but through these two, nor choose the line of an error.
    subject(random.Random(5), make_corpus(tmp_path, exported))()


@pytest.mark.parametrize("seed", [11, 12])
def test_a_sample(seed: int, exported: Callable[[str, str], Path], tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, exported)
    outcomes: collections.Counter[str] = collections.Counter()
    for number in range(200):
        if subject_of(seed, number) in _NATIVE:
            continue
        outcome, said = run_case(corpus, seed, number)
        outcomes[outcome] += 1
        assert outcome != "failed", f"seed {seed}, case {number}, {subject_of(seed, number)}:\n{said}"
    assert outcomes["ran"] > 10 and outcomes["refused"] > 50, outcomes
    assert {subject_of(seed, number) for number in range(200)} == {subject.__name__ for subject in SUBJECTS}
