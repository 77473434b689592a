"""What can be picked from: targets times precisions and recipes, and what is refused before any slow step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from edgex.delegates.recipes.recipes import get_recipe
from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import EdgexError, UsageError
from edgex.export.settings import ExportSettings, check_settings
from edgex.runtime.execute.base import RunsSomeEngines

if TYPE_CHECKING:
    from edgex.runtime.execute.base import Executor

Stage = Literal["refused", "failed", "over budget", "not run here", "slower", "behind", "not timed"]

# The word for no recipe, as `edgex export --quantize` has it.
FLOAT = "none"


@dataclass(frozen=True)
class Candidate:
    """One combination.

    Attributes:
        target: A delegate's name.
        precision: What floating-point numbers are.
        recipe: A quantization recipe, or None.
    """

    target: str
    precision: str = "fp32"
    recipe: str | None = None

    @property
    def label(self) -> str:
        """`xnnpack`, `onednn bf16`, `onnx-cpu int8`: what differs from float32 is named."""
        return f"{self.target} {self.kind}" if self.kind != "fp32" else self.target

    @property
    def kind(self) -> str:
        """The recipe, or else the precision; names the folder of its trial artifacts."""
        return self.recipe or self.precision

    def to_json(self) -> dict[str, Any]:
        """`{"target", "precision", "recipe"}`."""
        return {"target": self.target, "precision": self.precision, "recipe": self.recipe}


@dataclass(frozen=True)
class Loser:
    """A candidate that is out, why, and what it would take.

    Attributes:
        candidate: Which.
        stage: At what: `refused` before any work, `failed` to export, `over budget`, `not run here`, `slower`,
            `behind` in size, memory or energy, or `not timed` where time ran out.
        reason: A sentence.
        fix: The next command, where one is known.
    """

    candidate: Candidate
    stage: Stage
    reason: str
    fix: str | None = None


def list_candidates(targets: Sequence[str], precisions: Sequence[str], recipes: Sequence[str]) -> list[Candidate]:
    """Every combination, targets in their order; a recipe starts from float32 weights, so it has no other precision.

    Args:
        targets: Names of delegates; `all` is every registered one.
        precisions: Of the float artifacts.
        recipes: Names of recipes; `none` stands for the float artifacts.

    Raises:
        UsageError: There is nothing to choose from.
    """
    names = list(
        dict.fromkeys(name for target in targets for name in (delegate_names() if target == "all" else [target]))
    )
    found = [
        Candidate(target, precision if recipe == FLOAT else "fp32", None if recipe == FLOAT else recipe)
        for target in names
        for recipe in recipes
        for precision in (precisions if recipe == FLOAT else ("fp32",))
    ]
    if not found:
        raise UsageError("there is nothing to pick from", fix="-t all --precision fp32,bf16 --quantize none,int8")
    return list(dict.fromkeys(found))


def check_candidates(
    candidates: Sequence[Candidate], settings: ExportSettings, name: str
) -> tuple[list[Candidate], list[Loser]]:
    """Those that may be exported, and those that are refused as `edgex export` would refuse them.

    Args:
        candidates: What is asked for.
        settings: Common to all; target, precision and recipe are the candidate's.
        name: The artifacts' NAME.

    Raises:
        UsageError: A flag is wrong, whatever the candidate; or all are refused.
    """
    possible, refused = [], []
    for candidate in candidates:
        try:
            check_settings(settings_for(settings, [candidate]), name)
        except UsageError:
            raise
        except EdgexError as error:
            refused.append(Loser(candidate, "refused", _sentence(error), error.fix))
        else:
            possible.append(candidate)
    if not possible:
        first = refused[0]
        raise UsageError(
            "none of the candidates can be exported here",
            why="; ".join(f"{loser.candidate.label}: {loser.reason}" for loser in refused),
            fix=first.fix,
        )
    return possible, refused


def take_runnable(candidates: Sequence[Candidate], executor: Executor) -> tuple[list[Candidate], list[Loser]]:
    """Those whose artifacts a device can run, as far as it tells beforehand.

    Raises:
        UsageError: It can run none of them.
    """
    if not isinstance(executor, RunsSomeEngines):
        return list(candidates), []
    taken, left = [], []
    for candidate in candidates:
        engine = get_delegate(candidate.target).engine
        if engine in executor.engines:
            taken.append(candidate)
        else:
            left.append(Loser(candidate, "refused", f"the device runs no artifacts of the engine {engine}"))
    if not taken:
        raise UsageError(
            "the device runs none of the candidates",
            why=f"it runs artifacts of {' and '.join(executor.engines)}",
            fix="edgex targets shows the engine of each target",
        )
    return taken, left


def settings_for(settings: ExportSettings, candidates: Sequence[Candidate]) -> ExportSettings:
    """The settings of an export to candidates of one kind."""
    first = candidates[0]
    known = {candidate.target for candidate in candidates}
    # What is meant for one target only must not reach an export without it.
    options = {
        key: value for key, value in settings.options.items() if "." not in key or key.rpartition(".")[0] in known
    }
    # Data is for the recipes that need it; the others would refuse it.
    calibrates = first.recipe is not None and get_recipe(first.recipe).needs_calibration
    return replace(
        settings,
        targets=tuple(candidate.target for candidate in candidates),
        precision=first.precision,
        quantize=first.recipe,
        calibration=settings.calibration if calibrates else None,
        calibration_samples=settings.calibration_samples if calibrates else None,
        observer=settings.observer if calibrates else None,
        options=options,
    )


def failed(candidate: Candidate, error: EdgexError) -> Loser:
    """A candidate whose export failed."""
    return Loser(candidate, "failed", _sentence(error), error.fix)


def _sentence(error: EdgexError) -> str:
    where = f" ({error.where})" if error.where else ""
    why = f": {error.why}" if error.why else ""
    return f"{error.what}{where}{why}"
