"""Whether a part gives eager's numbers by itself: lowered as the whole was, run in another process, compared."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.errors import EdgexError, LoweringError
from edgex.export.bisect.parts.cutting import Part
from edgex.export.bisect.parts.recording import Recording
from edgex.export.packaging.stage import write_native
from edgex.export.proof.verification import to_array
from edgex.export.rewrites.proof import ProvedRewrites
from edgex.export.settings import ExportSettings
from edgex.export.target_model import TargetModel
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import Arrays
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.session.numerics import Comparison, Tolerance, compare_output
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.process.child import ChildEnded

# How often a part runs on each case: runs that differ are told.
RUNS = 2


@dataclass(frozen=True)
class Verdict:
    """What became of a part.

    Attributes:
        state: `right`; `wrong`: it ran and its numbers are not eager's; `fails`: the engine crashed, or refused to load
            or run it, as it does the whole; `refused`: it cannot stand alone, though it runs in the whole.
        error_db: Worst SQNR of its float outputs, in dB; None where there is none.
        reason: Why it is not right.
        case: On which case the worst was seen.
        engine: Who ran it; None where nobody did.
        delegated: Whether the delegate took all of its operators; None where nobody knows.
        outputs: By case, what the engine gave, by the part's `gives`.
        runs_differ: Whether runs on the same inputs gave other numbers.
    """

    state: str
    error_db: float | None = None
    reason: str | None = None
    case: str | None = None
    engine: str | None = None
    delegated: bool | None = None
    outputs: Mapping[str, Mapping[str, np.ndarray]] | None = None
    runs_differ: bool = False

    @property
    def is_at_fault(self) -> bool:
        """Whether something is wrong with it."""
        return self.state in ("wrong", "fails")


class Judge:
    """Judges parts of one model, one after the other, in a process that outlives those which do not crash it.

    Args:
        model: The model whose parts come; gives target, options and recipe.
        settings: Of the export.
        tolerance: What outputs are held to.
        folder: For the parts' artifacts; each is gone when it was judged.
        whole_runs: The artifact itself runs. A part that does not then is one that cannot stand alone.
    """

    def __init__(
        self, model: TargetModel, settings: ExportSettings, tolerance: Tolerance, folder: Path, *, whole_runs: bool
    ) -> None:
        self._model, self._settings, self._tolerance, self._folder = model, settings, tolerance, folder
        self._whole_runs = whole_runs
        self._process = KeptProcess("a part of the model")
        self.judged = 0

    def judge(self, part: Part, recordings: Sequence[Recording], model: TargetModel | None = None) -> Verdict:
        """Lower a part, feed it with eager's values, and compare what it gives with eager's.

        Args:
            part: Cut from the program that was recorded.
            recordings: A case each; all with the same sizes.
            model: Another target's, or with other options; None is the judge's own.
        """
        wanted = [recording.values({*part.reads, *part.gives}) for recording in recordings]
        feeds = [
            {spec.name: to_array(found[name]) for spec, name in zip(part.program.inputs, part.reads, strict=True)}
            for found in wanted
        ]
        expected = [{name: to_array(found[name]) for name in part.gives} for found in wanted]
        names = [recording.feed.name for recording in recordings]
        return self.judge_program(part.program, part.gives, dict(zip(names, feeds, strict=True)), expected, model)

    def judge_program(
        self,
        program: CapturedProgram,
        gives: Sequence[str],
        feeds: Mapping[str, Arrays],
        expected: Sequence[Arrays],
        model: TargetModel | None = None,
    ) -> Verdict:
        """As `judge`, for a program and values that are at hand."""
        self.judged += 1
        chosen = as_model(model or self._model, program)
        try:
            with quiet_dependencies():
                lowered = chosen.job.delegate.lower(program, chosen.job.options)
        except LoweringError as error:
            return Verdict("refused", reason=first_line(error))
        folder = self._folder / f"part{self.judged}"
        try:
            return self._run(folder, chosen, lowered, gives, feeds, expected)
        except EdgexError as error:
            self._process.close()
            return Verdict("refused" if self._whole_runs else "fails", reason=first_line(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(
        self,
        folder: Path,
        model: TargetModel,
        lowered: LoweredModule,
        gives: Sequence[str],
        feeds: Mapping[str, Arrays],
        expected: Sequence[Arrays],
    ) -> Verdict:
        write_native(folder, model, lowered, self._settings, self._model.quantization)
        artifact = open_artifact(folder, "size")
        sequences = tuple((feed,) for feed in feeds.values() for _ in range(RUNS))
        result = self._process.execute(artifact, RunRequest(sequences, check="size"))
        for error in result.refused.values():
            raise error
        specs = artifact.manifest.method.outputs
        taken = [
            {name: np.array(runs[0][spec.name]) for name, spec in zip(gives, specs, strict=True)}
            for runs in result.outputs
        ]
        firsts = taken[::RUNS]
        differ = any(
            not np.array_equal(taken[at][name], taken[at + 1][name], equal_nan=taken[at][name].dtype.kind == "f")
            for at in range(0, len(taken), RUNS)
            for name in gives
        )
        delegated = lowered.plan.delegated_ops == lowered.plan.total_ops
        verdict = self._compare(list(feeds), firsts, expected)
        return replace(
            verdict,
            engine=result.executed_on,
            delegated=delegated,
            outputs=dict(zip(feeds, firsts, strict=True)),
            runs_differ=differ,
        )

    def _compare(self, cases: Sequence[str], given: Sequence[Arrays], expected: Sequence[Arrays]) -> Verdict:
        """The worst of all outputs on all cases."""
        found: list[tuple[bool, float, str, Comparison]] = []
        for case, outputs, references in zip(cases, given, expected, strict=True):
            for name, reference in references.items():
                compared = compare_output(reference, outputs[name], self._tolerance)
                order = -1e9 if compared.sqnr_db is None else compared.sqnr_db
                found.append((compared.verdict != "fail", order, case, compared))
        if not found:
            return Verdict("right")
        right, _, case, worst = min(found, key=lambda entry: entry[:2])
        measured = [compared.sqnr_db for *_, compared in found if compared.sqnr_db is not None]
        error_db = min(measured, default=None)
        return Verdict("right", error_db) if right else Verdict("wrong", error_db, worst.reason, case)

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()


def as_model(model: TargetModel, program: CapturedProgram) -> TargetModel:
    """A part in the place of the model that it is from: one method, whose inputs and outputs are tensors of the graph.

    It reads no text, shows no picture and has no labels, whatever the model does.
    """
    source = replace(model.source, language=None, method=None, others=(), by_size=False, model_card={})
    return replace(model, source=source, rewritten=ProvedRewrites(program, ()), quantized=None, cases=(), others=())


def first_line(error: EdgexError) -> str:
    """An error in one line; of a process that failed by itself the last line that it wrote, which is its exception."""
    lines = (error.why or "").splitlines()
    if isinstance(error, ChildEnded):
        # What a process wrote before a signal or a time limit ended it is not the reason.
        lines = [] if error.signal or error.timed_out else lines[-1:]
    return " ".join(": ".join([error.what, *lines[:1]]).split())
