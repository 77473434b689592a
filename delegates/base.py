"""The protocol behind which delegates stand, and the values that cross it.

A delegate lowers; an engine runs. A new delegate is a class with these members and an entry point:

```toml
[project.entry-points."edgex.delegates"]
mytarget = "mypackage.delegate:MyDelegate"
```

`edgex.delegates.reference` is the smallest complete one. What only some delegates know stands in protocols of its own
(`ChoosesRewrites`, `Quantizes`, `KnowsMemory`, `SetsTolerances`, ...): a delegate that has their members is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.recipes import Recipe
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.artifact.specs import StateSpec, TensorSpec
from edgex.runtime.engines.base import Availability
from edgex.runtime.session.numerics import Tolerance

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.delegates.recipes.quantizers import Quantizer

DELEGATE_GROUP = "edgex.delegates"

__all__ = [
    "DELEGATE_GROUP",
    "Availability",
    "CapturedProgram",
    "ChoosesRewrites",
    "Delegate",
    "ImportsSlowly",
    "JudgesMethods",
    "JudgesOptions",
    "KnowsMemory",
    "KnowsSpecialValues",
    "LeavesOut",
    "LoweredModule",
    "LowersMethods",
    "Quantizes",
    "SetsTolerances",
    "TakesLanguageModels",
]


@dataclass(frozen=True)
class CapturedProgram:
    """A program as capture leaves it: torch's, plus the names that the user knows.

    Attributes:
        exported: The ExportedProgram. Its user inputs are exactly `inputs`, its user outputs exactly `outputs`,
            in order: tensors only, no containers. It still holds PyTorch's own operators (not decomposed).
        inputs: Name, dtype and shape of each user input.
        outputs: The same of each user output.
        state: The mutated buffers; `StateSpec.name` is the buffer's key in `exported.state_dict` or `constants`.
        source_root: Folder of the user's file; source lines are given relative to it.
        precision: `fp32`, `fp16` or `bf16`: what the floating-point weights were converted to.
        literals: Names of the constants that rewrites made of literals, a mask for example: no weights of the user.
        recipe: The quantization recipe, or None. Where the delegate gives a quantizer for it, the program already
            holds the quantize and dequantize operators of PT2E; else the delegate quantizes while it lowers.
        float_modules: Paths of the modules that stay in floating point, for delegates that quantize while lowering.
        excluded: Names of the nodes that stay out of the delegate (`--exclude`); only for delegates that `LeavesOut`.
    """

    exported: ExportedProgram
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...]
    source_root: Path
    precision: str = "fp32"
    literals: frozenset[str] = frozenset()
    recipe: Recipe | None = None
    float_modules: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    @property
    def method(self) -> Method:
        """The program's signature as a method named `forward`."""
        return Method("forward", self.inputs, self.outputs, self.state)


@dataclass(frozen=True)
class LoweredModule:
    """What a delegate made of a program.

    Attributes:
        files: Names of the native files.
        write: Writes exactly these files into a folder; same program, same bytes.
        methods: The native file's methods; state specs name hidden inputs and outputs where there are some.
        plan: What really happened.
        requirements: What the machine that runs it must have.
        debug: Written as `debug/source_map.json`: native node or handle -> operator, module path, source line.
        method_debug: The same by method, for what `LowersMethods` made; `debug` is empty then.
        options: The options in effect, for the manifest.
        warnings: What the user should know, a sentence each.
        assembled_reason: Why this machine cannot run the result on its target; it is then proved on the engine's CPU
            (`verified_on: cpu-reference`) and gets the status `assembled`. None where it can.
        simulator: What runs the result here in place of its device, see `edgex.runtime.session.simulation`; None where
            nothing does. It is then proved there, gets the status `simulated`, and is never timed.
        regions: Which call into the delegate the operators of the captured program went into, by node name; those that
            were left out are not in it. `edgex bisect` cuts between regions first; empty where it is not known.
    """

    files: tuple[str, ...]
    write: Callable[[Path], None]
    methods: tuple[Method, ...]
    plan: PartitionPlan
    requirements: Requirements
    debug: Mapping[str, Any] = field(default_factory=dict)
    method_debug: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    assembled_reason: str | None = None
    simulator: str | None = None
    regions: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class ChoosesRewrites(Protocol):
    """A delegate that asks for rewrites which help its target and no other; without it there are none of these.

    Attributes:
        rewrites: Names of passes of `edgex.export.rewrites`, beside those that every target gets.
    """

    rewrites: tuple[str, ...]


@runtime_checkable
class ClipsBytes(Protocol):
    """A delegate that quantizes while it lowers, for an engine that clips sums of bytes where there is no VNNI.

    Attributes:
        clipped_recipes: Those that have 7 bits for weights on such a processor; see
            `edgex.runtime.engines.isa.saturates_bytes`. Of quantizers, `weight_bits` tells it.
    """

    clipped_recipes: tuple[str, ...]


@runtime_checkable
class ImportsSlowly(Protocol):
    """A delegate whose planning imports packages that take seconds, and that can do so ahead of time."""

    def import_planner(self) -> None:
        """Import them, without a word on the terminal."""
        ...


@runtime_checkable
class Quantizes(Protocol):
    """A delegate that takes quantization recipes; without it there are none.

    Attributes:
        recipes: Names of the recipes that it lowers, of `edgex.delegates.recipes.recipes`.
    """

    recipes: tuple[str, ...]

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused, one sentence with what to use instead."""
        ...


@runtime_checkable
class KnowsMemory(Protocol):
    """A delegate that was measured: how much memory an export to it takes; others count as the least known."""

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Peak of an export over the bytes of the model's weights, with a quantization recipe or none.

        It counts the model itself, its lowered copies, and what the process that proves the artifact holds.
        """
        ...


@runtime_checkable
class SetsTolerances(Protocol):
    """A delegate whose results are held to other limits than `edgex.delegates.recipes.tolerances` has for all."""

    def tolerance(self, kind: str) -> Tolerance | None:
        """How far float outputs may be from eager's for a precision or recipe; None is what holds for all targets."""
        ...


@runtime_checkable
class JudgesOptions(Protocol):
    """A delegate whose options do not go with every precision or recipe that it takes."""

    def options_refusal(self, options: Any, precision: str, recipe: str | None) -> str | None:
        """Why they do not go together, a sentence with what to use instead; None where they do.

        Args:
            options: A value of `options_type`.
            precision: What floating-point numbers are.
            recipe: The quantization recipe, or None.
        """
        ...


@runtime_checkable
class JudgesMethods(Protocol):
    """A delegate that makes artifacts of several methods, and not with all of its options."""

    def methods_refusal(self, options: Any) -> LoweringError | None:
        """Why they do not go with several methods; None where they do.

        Args:
            options: A value of `options_type`.
        """
        ...


@runtime_checkable
class KnowsSpecialValues(Protocol):
    """A delegate that says which operators make something else of NaN and infinity than PyTorch does.

    Attributes:
        special_values: By operator of the captured program (`aten.relu.default`), what becomes of them, as `NaN
            becomes 0`. It is told beside a difference that the proof has found.
    """

    special_values: Mapping[str, str]


@runtime_checkable
class LeavesOut(Protocol):
    """A delegate that leaves operators on request: what is in `CapturedProgram.excluded` runs in the engine's kernels.

    Attributes:
        leaves_out: True. A delegate whose engine has no other kernels does without this member.
    """

    leaves_out: bool


@runtime_checkable
class TakesLanguageModels(Protocol):
    """A delegate that keeps a cache from call to call, for calls of any length up to a chunk.

    Attributes:
        language_models: True. A delegate that was not proved to do so does without this member.
    """

    language_models: bool


@runtime_checkable
class LowersMethods(Protocol):
    """A delegate that makes one artifact of several programs; without it there is one method an artifact."""

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: Any) -> LoweredModule:
        """Lower all methods of an artifact at once; the inputs are not changed.

        What the target can keep once, it keeps once: weights that several methods read above all.

        Args:
            programs: By method, in the order in which the manifest lists them; none has state.
            options: A value of `options_type`.

        Raises:
            LoweringError: One of them cannot be lowered; every operator in the way is named with its source line.
        """
        ...


class Delegate(Protocol):
    """Lowers captured programs for one target.

    Attributes:
        name: The `--target` value and the manifest's `target`.
        engine: Name of the engine that runs what it makes.
        options_type: Frozen dataclass with defaults; its fields are the `--option key=value` options.
        precisions: Which of `fp32`, `fp16`, `bf16` it takes; others are refused with `precision_refusal`.
        packages: Distributions it needs beside the engine's, for `targets` and the manifest's producer versions.
    """

    name: str
    engine: str
    options_type: type[Any]
    precisions: tuple[str, ...]
    packages: tuple[str, ...]

    def availability(self) -> Availability:
        """Whether it can lower here, found out without importing anything heavy."""
        ...

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused, one sentence with what to use instead."""
        ...

    def plan(self, program: CapturedProgram, options: Any) -> PartitionPlan:
        """Predict the split without looking at weights (they may be fake tensors).

        Raises:
            LoweringError: The program cannot even be brought into the form that the delegate partitions.
        """
        ...

    def lower(self, program: CapturedProgram, options: Any) -> LoweredModule:
        """Lower the program; the input is not changed.

        Raises:
            LoweringError: It cannot be lowered; every operator in the way is named with its source line.
        """
        ...

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The quantizer for a recipe, of `edgex.delegates.recipes.quantizers`; equal ones share one quantized program.

        None where the target quantizes while it lowers, or not at all.
        """
        ...
