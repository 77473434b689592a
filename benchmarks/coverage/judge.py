"""Whether a run is worse than the committed one, and what may excuse that.

The baseline is `docs/benchmarks/data/coverage.json` as it is in git, at HEAD or at the revision that `--against`
names; a file that was edited and not committed counts for nothing. Better outcomes and new models are recorded as they
come. A worse outcome fails, unless `known_issues.json` has an entry with its exit code and a reason, *in that same
revision*: so the change that breaks a model cannot excuse it, since its own entry is not in the baseline yet. An entry
has to be committed, and reviewed, on its own before.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.coverage.outcome import Outcome
from benchmarks.processes import ROOT

SCHEMA = "edgex.coverage/1"
RESULTS = "docs/benchmarks/data/coverage.json"
ISSUES = "benchmarks/coverage/known_issues.json"
# The suite's own: time, memory.
LIMIT_CODES = (124, 137)

Key = tuple[str, str]


@dataclass(frozen=True)
class Issue:
    """A failure that was looked at and is kept for now.

    Attributes:
        model: `group/architecture`.
        target: The delegate's name.
        exit_code: The only one that is excused.
        reason: What is wrong and who has to mend it, a sentence.
    """

    model: str
    target: str
    exit_code: int
    reason: str


@dataclass(frozen=True)
class Baseline:
    """What a revision says: outcomes and issues by model and target."""

    outcomes: Mapping[Key, Outcome] = field(default_factory=dict)
    issues: Mapping[Key, Issue] = field(default_factory=dict)


def read_baseline(revision: str = "HEAD", root: Path = ROOT) -> Baseline:
    """What a revision of the repository says; where there is none, or not these files, nothing is known."""
    results, issues = (_show(revision, path, root) for path in (RESULTS, ISSUES))
    return Baseline(
        {} if results is None else parse_outcomes(results),
        {} if issues is None else parse_issues(issues),
    )


def _show(revision: str, path: str, root: Path) -> str | None:
    command = ["git", "show", f"{revision}:{path}"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def parse_outcomes(text: str) -> dict[Key, Outcome]:
    """The outcomes of a coverage.json."""
    document = json.loads(text)
    if document["schema"] != SCHEMA:
        raise ValueError(f"{RESULTS} has schema {document['schema']}, not {SCHEMA}")
    found = [Outcome.from_json(entry) for entry in document["outcomes"]]
    return {(outcome.model, outcome.target): outcome for outcome in found}


def parse_issues(text: str) -> dict[Key, Issue]:
    """The entries of a known_issues.json.

    Raises:
        ValueError: An entry gives no reason.
    """
    found = [Issue(**entry) for entry in json.loads(text)]
    for issue in found:
        if len(issue.reason.split()) < 3:
            raise ValueError(f"{ISSUES}: {issue.model} on {issue.target} gives no reason")
    return {(issue.model, issue.target): issue for issue in found}


def find_regressions(outcomes: Iterable[Outcome], baseline: Baseline) -> list[str]:
    """A sentence for each outcome that is worse than the baseline's and not excused there."""
    found = []
    for outcome in outcomes:
        before = baseline.outcomes.get((outcome.model, outcome.target))
        if before is None or _rank(outcome) <= _rank(before):
            continue
        issue = baseline.issues.get((outcome.model, outcome.target))
        if issue is None or issue.exit_code != outcome.exit_code:
            found.append(f"{outcome.model} on {outcome.target}: was {tell(before)}, is {tell(outcome)}")
    return found


def _rank(outcome: Outcome) -> int:
    """0 verified, 1 an error that says what to do, 2 a limit of time or memory, 3 a defect."""
    if outcome.verified:
        return 0
    if outcome.exit_code in LIMIT_CODES:
        return 2
    return 3 if outcome.defect else 1


def find_surprises(outcomes: Iterable[Outcome], expected: Mapping[Key, tuple[int, str]]) -> list[str]:
    """A sentence for each hard case whose outcome is not the expected one, better ones included.

    Args:
        outcomes: Those of other models are passed over.
        expected: Exit code (0 is verified) and what the sentence begins with, by model and target.
    """
    found = []
    for outcome in outcomes:
        wanted = expected.get((outcome.model, outcome.target))
        if wanted is None:
            continue
        code, words = wanted
        if outcome.exit_code != code or not (outcome.what or "").startswith(words):
            wish = "verified" if code == 0 else f"exit code {code}, {words!r}"
            found.append(f"{outcome.model} on {outcome.target}: expected {wish}, is {tell(outcome)}")
    return found


def tell(outcome: Outcome) -> str:
    """An outcome in words."""
    return "verified" if outcome.verified else f"exit code {outcome.exit_code} at {outcome.stage}: {outcome.what}"


def merge(order: Sequence[Key], baseline: Mapping[Key, Outcome], run: Mapping[Key, Outcome]) -> list[Outcome]:
    """All outcomes in the suite's order: those of a run, for the rest the baseline's. What left the suite is gone."""
    return [run.get(key) or baseline[key] for key in order if key in run or key in baseline]
