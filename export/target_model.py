"""What one target is given: the captured model as it was rewritten and quantized for it, and what it has to prove.

Every stage of `edgex.export.pipeline` takes these values and returns new ones; none is ever changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from edgex.delegates.recipes.recipes import describe_recipe
from edgex.runtime.artifact.golden import Case

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.capture.program import Capture
    from edgex.export.proof.verification import QuantizedReference
    from edgex.export.quantization.model import QuantizedModel
    from edgex.export.rewrites.base import Rewrite
    from edgex.export.rewrites.proof import ProvedRewrites
    from edgex.export.settings import Job
    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource

_SEVEN_BITS = (
    "weights have 7 bits: this processor has no VNNI, without which the engine clips sums of products of 8 bits; "
    "an export on a processor with it has 8"
)

# Called with a stage and a detail as work goes on.
Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class CapturedModel:
    """The user's model and the program that all targets start from.

    Attributes:
        source: The user's model.
        capture: What was captured of it.
        others: The other methods of the artifact; empty where there is one.
    """

    source: ModelSource
    capture: Capture
    others: tuple[CapturedModel, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know about the model itself."""
        others = (notice for other in self.others for notice in other.notices)
        return (*self.source.notices, *self.capture.notices, *others)


@dataclass(frozen=True)
class TargetModel:
    """One target's model on its way to the artifact.

    Attributes:
        job: The target, its options and the artifact's place.
        source: The user's model.
        eager: It, running in PyTorch.
        rewritten: The program in the target's precision, with the rewrites that hold.
        quantized: What quantizing made of it; None without a recipe, or where the delegate quantizes as it lowers.
        own_reference: What a delegate that quantizes as it lowers is held to; None where eager alone says.
        cases: What the artifact has to prove, with eager's answers; empty for a plan.
        others: The other methods of the artifact; empty where there is one.
    """

    job: Job
    source: ModelSource
    eager: EagerModel
    rewritten: ProvedRewrites
    quantized: QuantizedModel | None = None
    own_reference: QuantizedReference | None = None
    cases: Sequence[Case] = ()
    others: tuple[TargetModel, ...] = ()

    @property
    def methods(self) -> tuple[TargetModel, ...]:
        """The methods of the artifact, this one first."""
        return (self, *self.others)

    @property
    def all_cases(self) -> Sequence[Case]:
        """What all methods have to prove."""
        return [case for method in self.methods for case in method.cases] if self.others else self.cases

    @property
    def quantized_reference(self) -> QuantizedReference | None:
        """PyTorch running the quantized program, where there is one."""
        return self.own_reference if self.quantized is None else self.quantized.reference

    @property
    def target(self) -> str:
        """The delegate's name."""
        return self.job.delegate.name

    @property
    def program(self) -> CapturedProgram:
        """What the target lowers."""
        return self.rewritten.program if self.quantized is None else self.quantized.quantized.program

    def computed_precision(self, asked: str) -> str:
        """The precision that outputs can be judged by: what was asked for, or less where the model computes in less."""
        from edgex.export.proof.inner_precision import find_inner_precision, lower_precision

        for method in self.methods:
            asked = lower_precision(asked, find_inner_precision(method.rewritten.program.exported))
        return asked

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of the program before it is lowered."""
        dropped = (sentence for method in self.methods for sentence in method.rewritten.dropped)
        quantized = (warning for own in self.methods if own.quantized is not None for warning in own.quantized.warnings)
        recipes = (own.rewritten.program.recipe for own in self.methods)
        narrow = any(recipe is not None and recipe.weight_bits == 7 for recipe in recipes)
        return (*dict.fromkeys(dropped), *dict.fromkeys(quantized), *([_SEVEN_BITS] if narrow else []))

    @property
    def quantization(self) -> Mapping[str, Any] | None:
        """The manifest's `quantization`; what a delegate does itself while it lowers is in its plan and options."""
        said = [own.quantized.to_json() for own in self.methods if own.quantized is not None]
        if said:
            return {**said[0], "unquantized": [operator for own in said for operator in own["unquantized"]]}
        recipe = next((own.rewritten.program.recipe for own in self.methods if own.rewritten.program.recipe), None)
        return None if recipe is None else describe_recipe(recipe)

    @property
    def rewrites(self) -> tuple[Mapping[str, Any], ...]:
        """What was rewritten, for the report and the manifest."""
        merged: dict[tuple[str, str], Rewrite] = {}
        for rewrite in (rewrite for method in self.methods for rewrite in method.rewritten.applied):
            known = merged.get((rewrite.name, rewrite.detail))
            if known is not None:
                sources = tuple(dict.fromkeys((*known.sources, *rewrite.sources)))
                rewrite = replace(rewrite, count=known.count + rewrite.count, sources=sources)
            merged[rewrite.name, rewrite.detail] = rewrite
        return tuple(asdict(rewrite) for rewrite in merged.values())
