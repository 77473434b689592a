"""The delegate `xnnpack`: fp32 and fp16 on CPUs, through ExecuTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.executorch.rewrites import PORTABLE_REWRITES
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, SymmetricInt8, shared_quantizer
from edgex.runtime.support.entry_points import installed_version

INSTALL_COMMAND = "pip install 'edgex-toolchain[xnnpack]'"
# What XNNPACK computes in bytes, of the functions of one number that ExecuTorch hands it; see `…xnnpack.partitioner`.
_TABLES = ("sigmoid", "hardswish", "tanh", "gelu", "leaky_relu", "elu")
# An export's peak over the weights, by recipe, and of every other recipe: docs/decisions/0009-memory-factors.md.
_PEAK_FACTORS, _MOST = {None: 3.0, "8da4w": 3.0, "8da8w": 3.0}, 5.0


@dataclass(frozen=True)
class XnnpackOptions:
    """Options of the target `xnnpack`.

    Attributes:
        plan_inputs: Give inputs a place in the program's planned memory, into which each run copies them, for
            runtimes that write inputs there; otherwise runs read the caller's memory.
    """

    plan_inputs: bool = False


class XnnpackDelegate:
    """Lowers with `XnnpackPartitioner`; what XNNPACK does not take runs on ExecuTorch's portable kernels."""

    name = "xnnpack"
    engine = "executorch"
    options_type: type[Any] = XnnpackOptions
    precisions: tuple[str, ...] = ("fp32", "fp16")
    packages: tuple[str, ...] = ("executorch", "torch", "torchao")
    recipes: tuple[str, ...] = ("int8", "int8-dynamic", "8da8w", "8da4w")
    leaves_out = True
    language_models = True
    rewrites: tuple[str, ...] = (
        *(
            "split_complex",
            "add_elements",
            "add_known_rows",
            "multiply_parts",
            "weigh_extremes",
            "reduce_planes",
            "keep_planes",
            "loop_recurrences",
            "write_recurrences",
            "fold_literals",
            "fold_lookups",
            "fold_tables",
            "join_ranks",
            "unfold_attention",
            "split_alpha",
            "pad_averages",
            "write_gelu",
        ),
        *(
            "order_weights",
            "turn_weights",
            "share_factors",
            "slice_pieces",
            "write_batches",
            "write_activations",
            "split_depthwise",
        ),
        *(
            "write_plane_norms",
            "write_layer_norms",
            "write_variances",
            "write_channel_means",
            "part_softmax",
            "step_truths",
            "select_by_comparisons",
            "rank_by_comparisons",
            "move_softmax",
            "permute_pixels",
        ),
        *(
            "repeat_pixels",
            "gather_samples",
            "write_plane_means",
            "write_row_means",
            "pool_extremes",
            "bound_lengths",
            "write_phases",
            "write_dense_phases",
            "block_signals",
            "write_spans",
            "repeat_by_products",
            "split_sums",
            "interleave_by_transposing",
            "pool_as_batches",
            "widen_convolutions",
            "select_by_masks",
            "bound_by_masks",
            "spare_portable_functions",
            "multiply_windows",
        ),
        *PORTABLE_REWRITES,
    )

    @property
    def special_values(self) -> Mapping[str, str]:
        """See `KnowsSpecialValues`."""
        from edgex.delegates.xnnpack.workarounds import SPECIAL_VALUES

        return SPECIAL_VALUES

    def availability(self) -> Availability:
        """Whether executorch, torch and torchao are installed; nothing is imported."""
        missing = [package for package in self.packages if installed_version(package) is None]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            return Availability(False, f"{', '.join(missing)} {verb} not installed", INSTALL_COMMAND)
        return Availability(True)

    def precision_refusal(self, precision: str) -> str:
        """Why bf16 is refused."""
        return (
            f"XNNPACK takes no {precision}: every operator would run on ExecuTorch's portable kernels, where one "
            "convolution can take a second; use fp16 or fp32"
        )

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured, by recipe; see `KnowsMemory`."""
        return _PEAK_FACTORS.get(recipe, _MOST)

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        from edgex.delegates.executorch.exir import import_dialect

        import_dialect()
        _make_partitioner(lambda _program, _refuse: None)

    def plan(self, program: CapturedProgram, options: XnnpackOptions) -> PartitionPlan:
        """Predict the split; see `Delegate.plan`. No option changes it."""
        from edgex.delegates.executorch.lowering import predict_plan

        del options
        return predict_plan(program, self.name, _make_partitioner)

    def lower(self, program: CapturedProgram, options: XnnpackOptions) -> LoweredModule:
        """Lower to `model.pte`; see `Delegate.lower`."""
        from edgex.delegates.executorch.lowering import lower_program

        return self._lower(lower_program, program, options)

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: XnnpackOptions) -> LoweredModule:
        """Lower to the methods of one `model.pte`; see `LowersMethods`."""
        from edgex.delegates.executorch.lowering import lower_methods

        return self._lower(lower_methods, programs, options)

    def _lower(self, lower: Callable[..., LoweredModule], given: Any, options: XnnpackOptions) -> LoweredModule:
        from edgex.delegates.xnnpack.layout_pass import (
            dynamic_inputs_in_order,
            sizes_of_run_time_in_order,
            softmax_in_order,
        )
        from edgex.delegates.xnnpack.pad_pass import float_pads
        from edgex.delegates.xnnpack.pattern_passes import possible_patterns
        from edgex.delegates.xnnpack.permute_pass import permutes_as_views
        from edgex.delegates.xnnpack.serialized import read_nodes
        from edgex.delegates.xnnpack.transposed_products import products_transpose

        orders = softmax_in_order(), dynamic_inputs_in_order(), sizes_of_run_time_in_order(), permutes_as_views()
        with ExitStack() as known:
            for adapted in (*orders, possible_patterns(), products_transpose(), float_pads()):
                known.enter_context(adapted)
            return lower(
                given,
                self.name,
                _make_partitioner,
                plan_inputs=options.plan_inputs,
                options=dataclasses.asdict(options),
                read_region=read_nodes,
            )

    def recipe_refusal(self, recipe: str) -> str:
        """Why weight-only recipes are refused."""
        return (
            f"{recipe} stores only weights in few bits, and ExecuTorch lowers such linear layers to XNNPACK without "
            "their scales: the outputs are garbage; 8da8w and 8da4w quantize activations too"
        )

    def quantizer(self, recipe: str) -> Quantizer | None:
        """XNNPACK's own, with tables; see `Delegate.quantizer`."""
        quantizer = shared_quantizer(recipe) if recipe in self.recipes else None
        if isinstance(quantizer, SymmetricInt8) and recipe == "int8":
            return dataclasses.replace(quantizer, tables=_TABLES)
        return quantizer


def _make_partitioner(on_partition: Any, excluded: frozenset[str] = frozenset()) -> Any:
    from edgex.runtime.support.dependency_messages import quiet_import

    # Importing the partitioner imports torchao, which prints what optional libraries are not there.
    with quiet_import():
        from edgex.delegates.xnnpack.partitioner import make_partitioner
    return make_partitioner(on_partition, excluded)
