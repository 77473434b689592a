"""The delegate `onednn`: fp32, bf16 and int8 on x86 CPUs, fused by oneDNN Graph, inside ExecuTorch programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.executorch.rewrites import PORTABLE_REWRITES
from edgex.delegates.onednn.special_values import SPECIAL_VALUES
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, SymmetricInt8, saturating_quantizer
from edgex.delegates.recipes.recipes import get_recipe
from edgex.errors import LoweringError
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.engines.onednn.plugin import NAME as PLUGIN
from edgex.runtime.engines.onednn.plugin import OneDnnPlugin
from edgex.runtime.support.entry_points import installed_version

INSTALL_COMMAND = "pip install 'edgex-toolchain[onednn]'"
# An export's peak over the weights, by recipe, and of every other recipe: docs/decisions/0009-memory-factors.md.
_PEAK_FACTORS, _MOST = {None: 4.0, "8da4w": 3.0, "8da8w": 3.0}, 5.0
# Processors with AMX for bfloat16 have this too.
BF16_ISA = ("avx512_bf16",)
# Without it oneDNN 3.2 has no bfloat16 at all.
EMULATION_ISA = ("avx512bw",)


@dataclass(frozen=True)
class OneDnnOptions:
    """Options of the target `onednn`.

    Attributes:
        allow_emulated: Take bf16 also where the processor computes it in float32, which is slower than fp32.
    """

    allow_emulated: bool = False


class OneDnnDelegate:
    """Lowers regions to oneDNN Graph; what oneDNN does not take runs on ExecuTorch's portable kernels."""

    name = "onednn"
    engine = "executorch"
    options_type: type[Any] = OneDnnOptions
    precisions: tuple[str, ...] = ("fp32", "bf16")
    packages: tuple[str, ...] = ("executorch", "onednn-cpu-gomp", "torch", "torchao")
    recipes: tuple[str, ...] = ("int8", "8da8w", "8da4w")
    leaves_out = True
    language_models = True
    rewrites: tuple[str, ...] = (
        *(
            "write_cached_attention",
            "write_cached_attention_int8",
            "split_complex",
            "add_rows",
            "keep_planes",
            "loop_recurrences",
            "write_recurrences",
            "fold_literals",
            "fold_lookups",
            "fold_tables",
            "join_ranks",
            "write_masks",
            "copy_returned_constants",
        ),
        *("write_corners", "write_statistics", "write_activations", "write_phases", "block_signals", "lay_flat"),
        "write_spans",
        *(
            "gather_samples",
            "share_weights",
            "reduce_softmax",
            "step_truths",
            "select_by_comparisons",
            "weigh_extremes",
            "write_row_extremes",
            "halve_extremes",
            "multiply_parts",
            "interleave_by_transposing",
            "rank_by_comparisons",
        ),
        *PORTABLE_REWRITES,
    )

    special_values: Mapping[str, str] = SPECIAL_VALUES

    def availability(self) -> Availability:
        """Whether ExecuTorch, the library, its headers and a compiler are there; nothing is imported or compiled."""
        missing = [package for package in ("executorch", "torch", "torchao") if installed_version(package) is None]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            return Availability(False, f"{', '.join(missing)} {verb} not installed", INSTALL_COMMAND)
        return OneDnnPlugin().availability()

    def precision_refusal(self, precision: str) -> str:
        """Why fp16 is refused."""
        return f"oneDNN's library of 2023 computes {precision} on few processors; use bf16 or fp32"

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured, by recipe; see `KnowsMemory`."""
        return _PEAK_FACTORS.get(recipe, _MOST)

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        from edgex.delegates.executorch.exir import import_dialect

        import_dialect()
        _make_partitioner(lambda _program, _refuse: None)

    def plan(self, program: CapturedProgram, options: OneDnnOptions) -> PartitionPlan:
        """Predict the split; see `Delegate.plan`."""
        from edgex.delegates.executorch.lowering import predict_plan

        _require_one_form(program, options)
        return predict_plan(_prepared(program), self.name, _make_partitioner)

    def lower(self, program: CapturedProgram, options: OneDnnOptions) -> LoweredModule:
        """Lower to `model.pte`; see `Delegate.lower`."""
        from edgex.delegates.executorch.lowering import lower_program

        _require_one_form(program, options)
        lowered = lower_program(
            _prepared(program),
            self.name,
            _make_partitioner,
            plan_inputs=False,
            options=dataclasses.asdict(options),
        )
        return _finish(lowered, options, program)

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: OneDnnOptions) -> LoweredModule:
        """Lower to the methods of one `model.pte`, each with its own copy of weights; see `LowersMethods`."""
        from edgex.delegates.executorch.lowering import lower_methods

        first, *_ = programs.values()
        _require_one_form(first, options)
        lowered = lower_methods(
            {name: _prepared(program) for name, program in programs.items()},
            self.name,
            _make_partitioner,
            plan_inputs=False,
            options=dataclasses.asdict(options),
        )
        return _finish(lowered, options, first)

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        if get_recipe(recipe).activations == "static":
            return f"{recipe} has activations in 16 bits, which oneDNN has no products for; int8 has 8"
        if get_recipe(recipe).activations == "dynamic":
            return (
                f"{recipe} measures whole activations at every run, which oneDNN's library of 2023 fuses into nothing: "
                "it would convert each tensor apart and multiply in float32; 8da8w measures them token by token, in a "
                "kernel of the backend's own, and int8 has int8 kernels, for calibration data"
            )
        return (
            f"{recipe} stores only weights in few bits, which oneDNN's library of 2023 unpacks to float32 before it "
            "multiplies, at the speed and memory of fp32; 8da4w, 8da8w and int8 multiply in few bits"
        )

    def quantizer(self, recipe: str) -> Quantizer | None:
        """XNNPACK's, whose programs are brought into oneDNN's form; see `Delegate.quantizer`."""
        quantizer = saturating_quantizer(recipe) if recipe in self.recipes else None
        if isinstance(quantizer, SymmetricInt8):
            return dataclasses.replace(quantizer, spares_few_places=True)
        return quantizer


def _require_one_form(program: CapturedProgram, options: OneDnnOptions) -> None:
    """Refuse bf16 where the processor has none, and bf16 and int8 together."""
    if program.precision == "bf16" and program.recipe is not None:
        raise LoweringError(
            f"oneDNN does not run {program.recipe.name} with bf16: what is quantized is dequantized to float32 here",
            fix="use --quantize int8 without --precision, or --precision bf16 without --quantize",
        )
    if program.precision != "bf16":
        return
    missing = missing_isa(EMULATION_ISA)
    if missing:
        raise LoweringError(
            f"this processor has no {', '.join(missing)}, without which oneDNN has no bf16",
            fix="use --precision fp32",
            why="every verification runs the artifact on this machine",
        )
    missing = missing_isa(BF16_ISA) if not options.allow_emulated else []
    if missing:
        raise LoweringError(
            f"this processor has no {', '.join(missing)}, so bf16 would be slower here than fp32",
            fix="use --precision fp32, or --option allow_emulated=true for a processor that has it",
            why="every verification runs the artifact on this machine",
        )


def _finish(lowered: LoweredModule, options: OneDnnOptions, program: CapturedProgram) -> LoweredModule:
    """What was lowered, with what the machine that runs it must have."""
    isa = () if program.precision != "bf16" else EMULATION_ISA if options.allow_emulated else BF16_ISA
    requirements = dataclasses.replace(
        lowered.requirements,
        isa=isa,
        plugins=(PLUGIN,) if lowered.plan.delegate_calls else (),
    )
    return dataclasses.replace(lowered, requirements=requirements, warnings=_warnings(lowered, options, program))


def _warnings(lowered: LoweredModule, options: OneDnnOptions, program: CapturedProgram) -> tuple[str, ...]:
    emulated = program.precision == "bf16" and options.allow_emulated and bool(missing_isa(BF16_ISA))
    text = f"bf16 was proved without {', '.join(BF16_ISA)}: other processors may round in another order"
    return (*lowered.warnings, text) if emulated else lowered.warnings


def _prepared(program: CapturedProgram) -> CapturedProgram:
    from edgex.delegates.onednn.layout.reshaping import free_of_strides
    from edgex.delegates.onednn.quantized.dynamic import write_dynamic_linear

    return dataclasses.replace(program, exported=write_dynamic_linear(free_of_strides(program.exported)))


def _make_partitioner(on_partition: Any, excluded: frozenset[str] = frozenset()) -> Any:
    from edgex.runtime.support.dependency_messages import quiet_import

    with quiet_import():
        from edgex.delegates.onednn.partitioner import make_partitioner
    return make_partitioner(on_partition, excluded)
