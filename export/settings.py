"""What the user asks of an export, and the checks that come before any slow step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgex.delegates.base import Delegate, JudgesMethods, JudgesOptions, LeavesOut, TakesLanguageModels
from edgex.delegates.recipes.quantizers import LINEAR_RECIPES, OBSERVERS, quantizer_availability
from edgex.delegates.recipes.recipes import Recipe, get_recipe
from edgex.delegates.recipes.tolerances import CACHE_IN_BYTES
from edgex.delegates.registry import check_recipe, find_tolerance, get_delegate, parse_options
from edgex.errors import LoweringError, TargetUnavailable, UsageError, nearest_name
from edgex.export.language_model.request import LanguageRequest
from edgex.export.methods.sizes import Sizes
from edgex.export.packaging.package import Destination, resolve_destination
from edgex.export.proof.case_names import check_case_names
from edgex.export.proof.held_out import check_verify_data
from edgex.export.quantization.calibration.samples import check_calibration
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.support.arguments import check_number

PRECISIONS = ("fp32", "fp16", "bf16")
# How long the operators at fault are looked for where a proof fails.
BISECT_SECONDS = 60.0


@dataclass(frozen=True)
class Limits:
    """Single limits of a tolerance that the user replaces; None keeps the target's. See `Tolerance`.

    An absolute limit on a precision or recipe that is judged by SQNR alone adds that limit.
    """

    min_sqnr_db: float | None = None
    atol: float | None = None
    rtol: float | None = None

    def replaced_in(self, tolerance: Tolerance) -> Tolerance:
        """The tolerance with these limits."""
        return dataclasses.replace(
            tolerance, **{name: value for name, value in vars(self).items() if value is not None}
        )


@dataclass(frozen=True)
class ExportSettings:
    """What the user asked for.

    Attributes:
        targets: Names of delegates, in the order in which they are exported.
        optional: Those of them that `all` stands for: one that cannot take the model is left out, with a note.
        output: Folder, or path that ends in `.edgex`; None is the current folder.
        force: Replace an existing artifact.
        precision: One of `PRECISIONS`.
        quantize: A recipe's name, or None.
        group_size: Replaces the recipe's own; see `get_recipe`.
        calibration: `--calibration`, or what Python code hands over; None is the model file's `calibration_data`.
        calibration_samples: Most samples to use; None is all of them, `MOST_SAMPLES` at most.
        observer: How ranges are found in calibration data; None is the default.
        max_drop: Accuracy budget: how much less than eager float32 `evaluate` may give; None is no budget.
        keep_best: Save the best artifact even where the budget is not met.
        speed_check: Time a quantized artifact against its float sibling.
        require_speedup: Refuse a quantized artifact that is not faster than its float sibling.
        tolerance: How far float outputs may be from eager's, or limits that replace single ones of the target's
            tolerance for the precision or recipe; None replaces none.
        min_delegation: Least share of the work (of the operators where work is unknown) to be delegated, or None.
        options: Delegate options by name; `target.key` reaches one target only.
        rewrite: Apply the rewrites.
        allow_inconclusive: Accept outputs about which nothing could be proved.
        skip_cases: Names of verification cases to leave out.
        dynamic: Bounds from the command line by input name and axis.
        memory_check: Refuse a model whose export would not fit into memory.
        exclude: Operators that stay out of the delegate, each `OP[@module]`; see `edgex.export.excluding`.
        verify_data: Held-out samples that float artifacts are judged on too: as `calibration`, or True for the model
            file's `calibration_data`; None for none.
        bisect_seconds: How long the operators at fault are looked for where a proof fails; 0 is not at all.
        language: What is asked of a language model; None where the model is none.
        sizes: The fixed sizes that become a method each; see `edgex.export.methods.sizes`.
    """

    targets: tuple[str, ...]
    output: Path | None = None
    force: bool = False
    precision: str = "fp32"
    quantize: str | None = None
    group_size: int | None = None
    calibration: Any = None
    calibration_samples: int | None = None
    observer: str | None = None
    max_drop: float | None = None
    keep_best: bool = False
    speed_check: bool = False
    require_speedup: bool = False
    tolerance: Tolerance | Limits | None = None
    min_delegation: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    rewrite: bool = True
    allow_inconclusive: bool = False
    skip_cases: tuple[str, ...] = ()
    dynamic: Mapping[tuple[str, int], Dim] = field(default_factory=dict)
    memory_check: bool = True
    exclude: tuple[str, ...] = ()
    verify_data: Any = None
    bisect_seconds: float = BISECT_SECONDS
    language: LanguageRequest | None = None
    optional: tuple[str, ...] = ()
    sizes: tuple[Sizes, ...] = ()

    def tolerance_for(self, delegate: Delegate, precision: str | None = None) -> Tolerance:
        """The user's tolerance, else the target's for the recipe or the precision, with the user's limits.

        Args:
            delegate: The target.
            precision: What the model computes in where that is less than what was asked for.
        """
        if isinstance(self.tolerance, Tolerance):
            return self.tolerance
        in_bytes = self.language is not None and self.language.kv == "int8"
        known = find_tolerance(delegate, self.quantize or (CACHE_IN_BYTES if in_bytes else precision or self.precision))
        return known if self.tolerance is None else self.tolerance.replaced_in(known)

    @property
    def judges_float32(self) -> bool:
        """Whether outputs are held to float32's default tolerance, and not to what the user asked for."""
        in_bytes = self.language is not None and self.language.kv == "int8"
        return self.precision == "fp32" and self.recipe is None and self.tolerance is None and not in_bytes

    @property
    def recipe(self) -> Recipe | None:
        """The quantization recipe; `check_settings` has found it right."""
        if self.quantize is None:
            return None
        recipe = get_recipe(self.quantize, self.group_size)
        asked = self.language
        return recipe if asked is None else dataclasses.replace(recipe, head=asked.head, embedding=asked.embedding)


@dataclass(frozen=True)
class Job:
    """One target with everything that was settled before the slow steps."""

    delegate: Delegate
    options: Any
    destination: Destination


def check_settings(settings: ExportSettings, name: str) -> list[Job]:
    """Check every flag and turn the targets into jobs.

    Args:
        settings: What the user asked for.
        name: The artifacts' NAME.

    Raises:
        UsageError: A target, option, precision or path is wrong.
        TargetUnavailable: A target's packages are missing.
        LoweringError: A target does not take the precision; QuantizationError: nor the recipe.
    """
    if settings.precision not in PRECISIONS:
        raise UsageError(f"unknown precision {settings.precision!r}", why=nearest_name(settings.precision, PRECISIONS))
    if not settings.targets:
        raise UsageError("no target given", fix="--target xnnpack; `edgex targets` lists them")
    if len(set(settings.targets)) < len(settings.targets):
        raise UsageError(f"a target is given twice: {', '.join(settings.targets)}")
    _check_limits(settings.tolerance)
    # Cases of language models have names of their own, and models of several methods take no such flag.
    if settings.language is None and not settings.sizes:
        check_case_names(settings.skip_cases)
    if settings.min_delegation is not None:
        check_number("--min-delegation", settings.min_delegation, most=1.0)
    check_quantization(settings)
    if settings.verify_data is not None:
        check_verify_data(settings.verify_data)
    if settings.language is not None:
        _check_language(settings)
    if settings.sizes:
        _check_sizes(settings)
    delegates = [get_delegate(target) for target in settings.targets]
    options = _split_options(delegates, settings.options)
    for delegate, option in zip(delegates, options, strict=True):
        check_options(delegate, option, settings.precision, settings.quantize)
        if settings.sizes and isinstance(delegate, JudgesMethods):
            refusal = delegate.methods_refusal(option)
            if refusal is not None:
                raise refusal
    single = len(delegates) == 1
    return [
        Job(
            check_delegate(delegate, settings),
            option,
            resolve_destination(settings.output, name, delegate.name, force=settings.force, single=single),
        )
        for delegate, option in zip(delegates, options, strict=True)
    ]


def _check_limits(asked: Tolerance | Limits | None) -> None:
    """Refuse limits that nothing can be held to: NaN is above and below none, and infinity allows everything.

    Raises:
        UsageError: One is no finite number, or negative.
    """
    if asked is None:
        return
    if not isinstance(asked, (Tolerance, Limits)):
        raise UsageError(
            f"tolerance is an object of type {type(asked).__name__}",
            fix="give edgex.runtime.session.numerics.Tolerance(min_sqnr_db=60.0)",
        )
    flags = {"min_sqnr_db": "--min-sqnr", "atol": "--atol", "rtol": "--rtol"} if isinstance(asked, Limits) else {}
    needed = () if flags else ("min_sqnr_db", "min_equal")
    for name, value in vars(asked).items():
        if value is not None or name in needed:
            check_number(flags.get(name, name), value, most=1.0 if name == "min_equal" else None)


def _check_language(settings: ExportSettings) -> None:
    """What does not go with a language model, whose inputs and sizes are known."""
    idle = {
        "--dynamic": settings.dynamic,
        "--verify-data": settings.verify_data,
        "--max-drop": settings.max_drop is not None,
        "--require-speedup": settings.require_speedup,
    }
    given = next((flag for flag, is_given in idle.items() if is_given), None)
    if given is not None:
        raise UsageError(
            f"{given} does not go with --llm", fix=f"leave {given} out: --context and --chunk say the sizes"
        )
    recipe, asked = settings.recipe, settings.language
    alone = None if asked is None else asked.quantized_alone
    if recipe is None and alone is not None:
        raise UsageError(f"{alone} without a recipe", fix="name the recipe of the other layers: --quantize 8da4w")
    if alone is not None and settings.quantize not in LINEAR_RECIPES:
        raise UsageError(
            f"{alone} does not go with --quantize {settings.quantize}",
            fix=f"use a recipe for linear layers: --quantize {' or '.join(LINEAR_RECIPES)}",
        )
    if recipe is not None and recipe.needs_calibration:
        raise UsageError(
            f"--quantize {recipe.name} does not go with --llm",
            why="it needs the ranges of activations, which would have to be calibrated on texts",
            fix="use a recipe that needs none: --quantize 8da4w",
        )


def _check_sizes(settings: ExportSettings) -> None:
    """Refuse flags that mean one size of the model beside `--sizes`.

    Raises:
        UsageError: There is one.
    """
    flags = {
        "--dynamic": settings.dynamic,
        "--llm": settings.language is not None,
        "--exclude": settings.exclude,
        "--skip-case": settings.skip_cases,
        "--verify-data": settings.verify_data is not None,
        "--max-drop": settings.max_drop is not None,
        "--require-speedup": settings.require_speedup,
    }
    given = next((flag for flag, is_given in flags.items() if is_given), None)
    if given == "--dynamic":
        raise UsageError(
            "--dynamic does not go with --sizes",
            why="one lets a size vary between bounds, the other makes a method for each of some sizes",
            fix="leave --sizes out on targets that take sizes that vary; `edgex targets` lists them",
        )
    if given is not None:
        raise UsageError(f"{given} does not go with --sizes", fix=f"leave {given} out, or export one size")


def check_options(delegate: Delegate, options: Any, precision: str, recipe: str | None) -> None:
    """Refuse options that do not go with the precision or the recipe.

    Raises:
        LoweringError: They do not.
    """
    why = delegate.options_refusal(options, precision, recipe) if isinstance(delegate, JudgesOptions) else None
    if why is not None:
        raise LoweringError(f"target {delegate.name!r} does not take these options together", why=why)


def _check_budget(settings: ExportSettings) -> None:
    asked = {
        "--max-drop": settings.max_drop is not None,
        "--require-speedup": settings.require_speedup,
    }
    given = next((flag for flag, is_given in asked.items() if is_given), None)
    if settings.quantize is None and given is not None:
        raise UsageError(f"{given} without a recipe", fix="name the recipe, for example --quantize int8")
    if settings.keep_best and settings.max_drop is None:
        raise UsageError("--keep-best without a budget", fix="give the budget, for example --max-drop 0.01")
    if settings.max_drop is not None:
        check_number("--max-drop", settings.max_drop)


def check_quantization(settings: ExportSettings) -> None:
    """Check what is asked of quantization against itself; targets are asked later.

    Raises:
        UsageError: A flag is wrong, or has nothing to act on.
    """
    recipe = settings.recipe
    asked = {
        "--calibration": settings.calibration is not None,
        "--calibration-samples": settings.calibration_samples is not None,
        "--observer": settings.observer is not None,
    }
    _check_budget(settings)
    given = next((flag for flag, is_given in asked.items() if is_given), None)
    if recipe is None:
        if settings.group_size is not None:
            given = given or "--group-size"
        if given is not None:
            raise UsageError(f"{given} without a recipe", fix="name the recipe, for example --quantize int8")
        return
    if given is not None and not recipe.needs_calibration:
        raise UsageError(
            f"{given} does not go with --quantize {recipe.name}",
            why="it finds the ranges of activations at every run"
            if recipe.activations == "dynamic"
            else "it leaves activations in floating point",
            fix=f"leave {given} out, or use --quantize int8",
        )
    if settings.precision != "fp32":
        raise UsageError(
            f"--precision {settings.precision} does not go with --quantize {recipe.name}",
            why="recipes start from float32 weights, and what they leave in floating point stays float32",
            fix="leave one of the two out",
        )
    if settings.observer is not None and settings.observer not in OBSERVERS:
        raise UsageError(f"unknown observer {settings.observer!r}", why=nearest_name(settings.observer, OBSERVERS))
    if settings.calibration_samples is not None and settings.calibration_samples < 1:
        raise UsageError(f"--calibration-samples must be 1 or more, not {settings.calibration_samples}")
    check_calibration(settings.calibration)


def check_delegate(delegate: Delegate, settings: ExportSettings) -> Delegate:
    """Refuse a target that cannot be used here, or does not take what is asked.

    Raises:
        TargetUnavailable: Packages are missing.
        LoweringError: It does not take the precision, the recipe (QuantizationError), or another flag.
    """
    availability = delegate.availability()
    if not availability.available:
        raise TargetUnavailable(
            f"target {delegate.name!r} cannot be used here", why=availability.reason, fix=availability.fix
        )
    # A recipe starts from float32, whatever the target computes floating point in.
    if settings.precision not in delegate.precisions and settings.quantize is None:
        raise LoweringError(
            f"target {delegate.name!r} does not take --precision {settings.precision}",
            why=delegate.precision_refusal(settings.precision),
            fix=f"it takes {', '.join(delegate.precisions)}",
        )
    if settings.exclude and not isinstance(delegate, LeavesOut):
        raise LoweringError(
            f"target {delegate.name!r} takes no --exclude",
            why="it runs the whole model itself: there is no other kernel that could run what it leaves out",
            fix="leave --exclude out, or choose a target that leaves operators to other kernels: xnnpack, onednn",
        )
    if settings.language is not None and not isinstance(delegate, TakesLanguageModels):
        raise refuse_language(delegate)
    if settings.quantize is not None:
        check_recipe(delegate, delegate.name, settings.quantize)
        packages = quantizer_availability()
        if delegate.quantizer(settings.quantize) is not None and not packages.available:
            raise TargetUnavailable(
                f"--quantize {settings.quantize} cannot be used here", why=packages.reason, fix=packages.fix
            )
    return delegate


def refuse_language(delegate: Delegate) -> LoweringError:
    """The error for a target that takes no language models."""
    return LoweringError(
        f"target {delegate.name!r} does not take --llm",
        why="nobody has proved a cache on it that two methods share",
        fix="export to a target that does: xnnpack, onednn, onnx-cpu, reference",
    )


def _split_options(delegates: Sequence[Delegate], given: Mapping[str, Any]) -> list[Any]:
    """Each delegate's options: `key` goes to every target that knows it, `target.key` to that one."""
    known = {d.name: {f.name for f in dataclasses.fields(d.options_type)} for d in delegates}
    chosen: dict[str, dict[str, Any]] = {delegate.name: {} for delegate in delegates}
    for key, value in given.items():
        prefix, _, plain = key.rpartition(".")
        takers = [name for name in chosen if (name == prefix if prefix else plain.replace("-", "_") in known[name])]
        if not takers:
            everything = {f"{name}.{option}" for name, options in known.items() for option in options}
            raise UsageError(f"no given target has an option {key!r}", why=nearest_name(key, everything))
        for name in takers:
            chosen[name][plain] = value
    return [parse_options(delegate, chosen[delegate.name]) for delegate in delegates]
