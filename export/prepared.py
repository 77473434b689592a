"""What all targets of an export share: the model, captured, rewritten and quantized, with eager's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from edgex.delegates.recipes.recipes import describe_recipe
from edgex.errors import CaptureError, EdgexError, QuantizationError
from edgex.export.proof.verification import make_cases, require_state_shown
from edgex.export.result import StageClock
from edgex.export.settings import ExportSettings
from edgex.runtime.artifact.golden import Case
from edgex.runtime.support.memory import read_available_bytes

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, Delegate
    from edgex.export.capture.program import Capture
    from edgex.export.quantization.stage import QuantizedModel
    from edgex.export.rewrites.proof import ProvedRewrites
    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource

Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class Prepared:
    """What all targets share, the program of each in its precision, and the targets that got none."""

    source: ModelSource
    programs: Mapping[str, ProvedRewrites]
    cases: Mapping[str, Sequence[Case]]
    notices: tuple[str, ...]
    quantized: Mapping[str, QuantizedModel]
    eager: EagerModel
    failures: Mapping[str, EdgexError]

    def cases_of(self, target: str, settings: ExportSettings, progress: Progress) -> Sequence[Case]:
        """What a target's artifact has to prove, with the answers."""
        steps = [self.eager.flatten(args, kwargs) for args, kwargs in self.source.example_sequence or ()]
        model = self.quantized.get(target)
        cases = make_cases(
            self.programs[target].program,
            self.eager,
            steps,
            settings.skip_cases,
            lambda case: progress("reference", case),
            None if model is None else model.reference,
        )
        require_state_shown(cases, settings.allow_inconclusive)
        return cases

    def program(self, target: str) -> CapturedProgram:
        """What a target lowers."""
        model = self.quantized.get(target)
        return self.programs[target].program if model is None else model.quantized.program

    def warnings(self, target: str) -> tuple[str, ...]:
        """What is to be said of the target's program before it is lowered."""
        model = self.quantized.get(target)
        return (*self.programs[target].dropped, *(() if model is None else model.warnings))

    def describe_quantization(self, target: str) -> Mapping[str, Any] | None:
        """The manifest's `quantization`; what a delegate does itself while it lowers is in its plan and options."""
        model = self.quantized.get(target)
        recipe = self.programs[target].program.recipe
        if model is not None:
            return model.to_json()
        return None if recipe is None else describe_recipe(recipe)

    def rewrites(self, target: str) -> tuple[Mapping[str, Any], ...]:
        """What was rewritten for a target, for the report and the manifest."""
        return tuple(asdict(rewrite) for rewrite in self.programs[target].applied)


def prepare(
    find: Callable[[], ModelSource],
    settings: ExportSettings,
    delegates: Sequence[Delegate],
    clock: StageClock,
    progress: Progress,
    *,
    with_cases: bool,
) -> Prepared:
    """Find, capture, rewrite, and let eager answer every case."""
    with clock.stage("import"):
        progress("import", "torch")
        from edgex.export.rewrites import wanted_rewrites
        from edgex.export.rewrites.precision import convert_precision
        from edgex.export.rewrites.proof import ProvedRewrites, rewrite_and_prove
        from edgex.export.source.weights import check_weights
    with clock.stage("find"):
        progress("find", "the model and its example inputs")
        source = _find(find, settings, delegates)
        check_weights(source.module)
    with clock.stage("capture"):
        progress("capture", source.description)
        captured = _capture(source, settings, progress)
    programs: dict[str, ProvedRewrites] = {}
    with clock.stage("rewrite"):
        # Targets that ask for the same rewrites share their program.
        made: dict[tuple[str, ...], ProvedRewrites] = {}
        for delegate in delegates:
            wanted = wanted_rewrites(delegate)
            if wanted not in made:
                proved = ProvedRewrites(captured.program, ())
                if settings.rewrite:
                    progress("rewrite", "what helps the targets")
                    proved = rewrite_and_prove(captured.program, captured.eager, wanted)
                made[wanted] = replace(proved, program=convert_precision(proved.program, settings.precision))
                _check_signature(captured.program, made[wanted].program)
            programs[delegate.name] = made[wanted]
    quantized: dict[str, QuantizedModel] = {}
    failures: dict[str, QuantizationError] = {}
    recipe = settings.recipe
    if recipe is not None:
        with clock.stage("quantize"):
            from edgex.export.quantization.stage import quantize_for_targets

            floats = {name: proved.program for name, proved in programs.items()}
            common = frozenset(node.name for node in captured.program.exported.graph.nodes)
            quantized, failures = quantize_for_targets(
                floats, common, delegates, recipe, source, captured.eager, settings, progress
            )
            for name, model in quantized.items():
                _check_signature(floats[name], model.quantized.program)
            programs = {
                name: replace(proved, program=replace(proved.program, recipe=recipe))
                for name, proved in programs.items()
                if name not in failures
            }
    notices = (*source.notices, *captured.notices)
    prepared = Prepared(source, programs, {}, notices, quantized, captured.eager, failures)
    cases: dict[str, Sequence[Case]] = {}
    if with_cases:
        with clock.stage("reference"):
            known: dict[int, Sequence[Case]] = {}
            for name in programs:
                reference = id(quantized.get(name))
                if reference not in known:
                    known[reference] = prepared.cases_of(name, settings, progress)
                cases[name] = known[reference]
    return replace(prepared, cases=cases)


def _find(find: Callable[[], ModelSource], settings: ExportSettings, delegates: Sequence[Delegate]) -> ModelSource:
    """Find the model; refuse one that memory will not hold, while it is made or right after."""
    from edgex.export.source.memory import check_memory, refusing_large_models

    if not settings.memory_check:
        return find()
    with refusing_large_models(read_available_bytes()):
        source = find()
    check_memory(source.module, delegates, read_available_bytes(), settings.quantize)
    return source


def _capture(source: ModelSource, settings: ExportSettings, progress: Progress) -> Capture:
    """Capture; where that fails, the error names everything that is in the way."""
    from edgex.export.capture.diagnosis.blockers import find_blockers
    from edgex.export.capture.program import capture

    try:
        return capture(
            source.module,
            source.args,
            source.kwargs,
            source.dynamic_shapes,
            source_root=source.source_root,
            dynamic=settings.dynamic,
        )
    except CaptureError as error:
        progress("blockers", "what else keeps the model from being captured")
        first, *others = find_blockers(source, error)
        first.others = tuple(others)
        raise


def _check_signature(before: CapturedProgram, after: CapturedProgram) -> None:
    """A rewrite keeps the name, dtype and shape of every input and output: the graph's, not only what is said of it."""
    from edgex.export.rewrites.editing.editor import signature_of

    for word, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
        ("graph's signature", signature_of(before.exported), signature_of(after.exported)),
    ):
        if old != new:
            raise AssertionError(f"a rewrite changed the {word} from {old} to {new}")
