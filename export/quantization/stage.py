"""The pipeline's fourth stage: one quantized program for all targets that ask for the same, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.base import ClipsBytes
from edgex.delegates.recipes.quantizers import LINEAR_RECIPES, LinearWeights, SymmetricInt8
from edgex.errors import QuantizationError, UsageError
from edgex.export.proof.verification import QuantizedReference
from edgex.export.quantization.calibration.samples import Samples, find_calibration, of_method
from edgex.export.quantization.linear.layers import quantize_linear, quantize_tables
from edgex.export.quantization.linear.products import write_layers
from edgex.export.quantization.model import QuantizedModel, quantize_once
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.editing.mutation import writes_in_place
from edgex.export.rewrites.stage import check_signature
from edgex.runtime.engines.isa import saturates_bytes
from edgex.runtime.report.figures import count

if TYPE_CHECKING:
    from edgex.delegates.base import Delegate
    from edgex.delegates.recipes.quantizers import Quantizer
    from edgex.delegates.recipes.recipes import Recipe
    from edgex.export.settings import ExportSettings
    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource
    from edgex.export.target_model import CapturedModel, Progress, TargetModel

DEFAULT_OBSERVER = "histogram"


def quantize_for_targets(
    models: Mapping[str, TargetModel],
    captured: CapturedModel,
    recipe: Recipe,
    settings: ExportSettings,
    progress: Progress,
) -> tuple[dict[str, TargetModel], dict[str, QuantizationError]]:
    """Quantize for the targets whose delegate gives a quantizer; the others do it themselves while they lower.

    Args:
        models: The float model of each target.
        captured: The program of which all of these are rewrites.
        recipe: What the user asks for.
        settings: Names observer, data, and number of samples.
        progress: Called with a stage and a detail.

    Returns:
        The models of the targets that can quantize this model, and why the others cannot.

    Raises:
        UsageError: The calibration data is missing or wrong.
    """
    if captured.source.by_size:
        return _quantize_sizes(models, captured, recipe, settings, progress)
    speaks = any(one.source.language is not None for one in (captured, *captured.others))
    methods = [_quantize_method(models, captured, recipe, settings, progress, speaks=speaks)]
    for at, other in enumerate(captured.others):
        own = {name: model.others[at] for name, model in models.items()}
        methods.append(_quantize_method(own, other, recipe, settings, progress, speaks=speaks))
    if len(methods) == 1:
        return methods[0]
    joined: dict[str, TargetModel] = {}
    failed: dict[str, QuantizationError] = {}
    for name, model in models.items():
        if all(name in errors for _, errors in methods):
            failed[name] = methods[0][1][name]
            continue
        # A method in which nothing can be quantized stays as it is; that is said.
        parts = [
            found[name] if name in found else _left_float(own, errors[name])
            for own, (found, errors) in zip(model.methods, methods, strict=True)
        ]
        joined[name] = replace(parts[0], others=tuple(parts[1:]))
    return joined, failed


def _left_float(model: TargetModel, error: QuantizationError) -> TargetModel:
    """A method that stays in floating point, with a warning that says why."""
    warning = f"method {model.source.method} stays in floating point: {error.what}"
    return replace(model, rewritten=replace(model.rewritten, dropped=(*model.rewritten.dropped, warning)))


def _quantize_method(
    models: Mapping[str, TargetModel],
    captured: CapturedModel,
    recipe: Recipe,
    settings: ExportSettings,
    progress: Progress,
    *,
    speaks: bool,
) -> tuple[dict[str, TargetModel], dict[str, QuantizationError]]:
    """`quantize_for_targets` of one method, whatever others the models have; `speaks`: of a language model."""
    quantizers = {name: model.job.delegate.quantizer(recipe.name) for name, model in models.items()}
    recipes = {name: _recipe_here(recipe, quantizers[name], model.job.delegate) for name, model in models.items()}
    observed = any(quantizer is not None and quantizer.observed for quantizer in quantizers.values())
    eager = captured.capture.eager
    if observed and captured.source.method is not None and captured.capture.program.state:
        raise UsageError(
            f"--quantize {recipe.name} does not go with method {captured.source.method!r}, which keeps state",
            captured.source.description,
            "use a recipe that needs no calibration, such as 8da4w or 8da8w",
            why="ranges of what it reads would have to be observed over runs of all methods in a row",
        )
    models = _with_layers(models)
    samples = _open_samples(captured.source, eager, settings, progress) if observed else None
    exported = captured.capture.program.exported
    # Where an operator writes in place, `Calibrated` traces again, and names are those of other values.
    common_values = frozenset(() if writes_in_place(exported) else (node.name for node in exported.graph.nodes))
    made: dict[tuple[int, Quantizer], QuantizedModel] = {}
    found: dict[str, TargetModel] = {}
    failed: dict[str, QuantizationError] = {}
    # Targets that share a program share what is wrong with it.
    errors: dict[tuple[int, Quantizer], QuantizationError] = {}
    lowered_later: list[str] = []
    for name, quantizer in quantizers.items():
        model = models[name]
        program = model.rewritten.program
        under_recipe = replace(model.rewritten, program=replace(program, recipe=recipes[name]))
        if quantizer is None:
            lowered_later.append(name)
            continue
        key = (id(program), quantizer)
        if key not in made and key not in errors:
            own = samples if quantizer.observed else None
            observer = settings.observer or DEFAULT_OBSERVER
            calibrated = Calibrated(program, recipes[name], quantizer, observer, own, progress=progress)
            # Targets ask for rewrites of their own. What these left alone has the range that was seen before.
            for (_, other), quantized in made.items():
                if _sees_the_same(other, quantizer):
                    ranges = quantized.calibrated.ranges
                    calibrated.ranges.update({value: ranges[value] for value in ranges.keys() & common_values})
            progress("quantize", recipe.name)
            try:
                made[key] = quantize_once(calibrated)
                check_signature(program, made[key].quantized.program)
            except QuantizationError as error:
                errors[key] = error
        if key in errors:
            failed[name] = errors[key]
        else:
            found[name] = replace(model, rewritten=under_recipe, quantized=made[key])
    references = [quantized.reference for (_, quantizer), quantized in made.items() if quantizer == LinearWeights()]
    for name in lowered_later:
        try:
            found[name] = _leave_to_delegate(models[name], recipes[name], references, progress, speaks=speaks)
        except QuantizationError as error:
            failed[name] = error
    return found, failed


def _with_layers(models: Mapping[str, TargetModel]) -> dict[str, TargetModel]:
    """The models with their products of weights as linear layers; targets that share a program go on sharing it."""
    written = {id(model.rewritten.program): write_layers(model.rewritten.program) for model in models.values()}
    found = {}
    for name, model in models.items():
        program, rewrite = written[id(model.rewritten.program)]
        applied = model.rewritten.applied if rewrite is None else (*model.rewritten.applied, rewrite)
        found[name] = replace(model, rewritten=replace(model.rewritten, program=program, applied=applied))
    return found


def _recipe_here(recipe: Recipe, quantizer: Quantizer | None, delegate: Delegate) -> Recipe:
    """With weights of 7 bits where the delegate's engine would clip sums of larger ones on this processor."""
    if isinstance(quantizer, SymmetricInt8):
        return replace(recipe, weight_bits=quantizer.weight_bits)
    clips = isinstance(delegate, ClipsBytes) and recipe.name in delegate.clipped_recipes and saturates_bytes()
    return replace(recipe, weight_bits=7) if clips else recipe


def _sees_the_same(one: Quantizer, other: Quantizer) -> bool:
    """Whether both see the same ranges of activations: bits of weights and what is left out make no difference."""
    if isinstance(one, SymmetricInt8) and isinstance(other, SymmetricInt8):
        return (one.dynamic, one.activation_bits) == (other.dynamic, other.activation_bits)
    return one == other


def _leave_to_delegate(
    model: TargetModel, recipe: Recipe, references: list[QuantizedReference], progress: Progress, *, speaks: bool
) -> TargetModel:
    """The model of a target that quantizes linear layers while it lowers.

    A language model's answers are held to those of the same recipe in PyTorch, as a target's that is given a quantized
    program: 4 bits alone take the scores of a small one so far from float that a wrong cache would pass for them.

    Args:
        model: In float.
        recipe: What is asked for.
        references: What other targets are held to under the recipe; one is added where there is none.
        progress: Called with a stage and a detail.
        speaks: Whether it is a method of a language model.

    Raises:
        QuantizationError: The recipe does not fit the program.
    """
    program = model.rewritten.program
    if recipe.embedding == "int8":
        program = quantize_tables(program, recipe)
        check_signature(model.rewritten.program, program)
    rewritten = replace(model.rewritten, program=replace(program, recipe=recipe))
    if not speaks or recipe.name not in LINEAR_RECIPES:
        return replace(model, rewritten=rewritten)
    if recipe.weight_bits == 7:
        references = []  # others have 8
    if not references:
        progress("quantize", f"{recipe.name}, for the proof")
        quantized = quantize_linear(model.rewritten.program, recipe, frozenset())
        references.append(QuantizedReference(GraphRunner(quantized.program)))
    return replace(model, rewritten=rewritten, own_reference=references[0])


def _quantize_sizes(
    models: Mapping[str, TargetModel],
    captured: CapturedModel,
    recipe: Recipe,
    settings: ExportSettings,
    progress: Progress,
) -> tuple[dict[str, TargetModel], dict[str, QuantizationError]]:
    """The same for one model at several sizes: see `edgex.export.methods.ranges`."""
    from edgex.export.methods.ranges import find_calibrated_size, join_sizes

    captures = [captured, *captured.others]
    methods = [
        _with_layers({name: replace(model.methods[place], others=()) for name, model in models.items()})
        for place in range(len(captures))
    ]
    at = find_calibrated_size(captures, settings) if recipe.needs_calibration else 0
    own = captures[at]
    alone = replace(own, source=replace(own.source, by_size=False, method=None, others=()), others=())
    methods[at], failed = quantize_for_targets(methods[at], alone, recipe, settings, progress)
    found, failed_others = join_sizes(methods, at, recipe, progress)
    return found, {**failed, **failed_others}


def _open_samples(source: ModelSource, eager: EagerModel, settings: ExportSettings, progress: Progress) -> Samples:
    data = find_calibration(of_method(settings.calibration, source.method), source, eager)

    def tell(number: int | None, samples: Samples) -> None:
        if number is not None:
            limit = settings.calibration_samples
            of_all = "" if limit is None else f" of at most {limit}"
            progress("calibrate", f"{data.origin}: sample {number}{of_all}")
        else:
            # A stage of its own: a log shows one line a stage, and the number is known only now.
            held_out = f", {len(samples.held_out)} held out for the proof" if samples.held_out else ""
            progress("calibrated", f"on {count(samples.used, 'sample')}{held_out}")

    return Samples(data, eager, source.source_root, settings.calibration_samples, tell)
