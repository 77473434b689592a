"""The adapter over torchao's observers and ExecuTorch's XNNPACKQuantizer. Importing it imports both: seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar

from edgex.delegates.recipes.range_search import find_range
from edgex.runtime.support.dependency_messages import quiet_import

with quiet_import():
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils import propagate_annotation
    from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationAnnotation

if TYPE_CHECKING:
    from torch.fx import Node

# Which share of the values stays inside the range with `--observer percentile`, half of the rest on each side.
PERCENTILE = 99.99

# As in XNNPACK's own configuration: a smaller scale would overflow its fixed-point arithmetic.
_LEAST_SCALE = 2**-12


class _Quantizer(XNNPACKQuantizer):  # type: ignore[misc]  # executorch ships no types
    """XNNPACK's quantizer with other patterns.

    Those with batch norm are left out: it is folded before, and looking for each costs a trace by dynamo. Dynamic
    convolutions before a ReLU are let in: the pattern of plain ones skips them, so that most would stay in float.
    That of `nn.GRU` as a whole asserts both outputs of a module; the layers in it are found by themselves.

    Args:
        tables: Names of functions of one number that are taken, too, where they read what is 8 bits already.
    """

    def __init__(self, tables: Collection[str]) -> None:
        super().__init__()
        self._tables = {f"aten.{name}.default" for name in tables}

    SUPPORTED_PATTERNS: ClassVar[list[Any]] = [
        dataclasses.replace(pattern, is_dynamic=pattern.is_dynamic or pattern.name == "conv_relu")
        for pattern in XNNPACKQuantizer.SUPPORTED_PATTERNS
        if "bn" not in pattern.name and pattern.name != "gru_io_only"
    ]

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Scalars of additions and products as tensors, which can be observed; those beside integers stay as they are.

        XNNPACK's own makes float tensors of all, and with them floats of positions, which then index nothing.
        """
        kinds = (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
        integers = {
            node: node.args
            for node in model.graph.nodes
            if node.target in kinds and not node.meta["val"].is_floating_point()
        }
        model = super().transform_for_annotation(model)
        for node, args in integers.items():
            made = [value for value in node.args if value not in args]
            node.args = args
            for constant in made:
                model.graph.erase_node(constant)
                delattr(model, constant.target)
        model.recompile()
        return model

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """As XNNPACK's, but for two faults.

        It takes all operators of an `nn.AdaptiveAvgPool2d` for adaptive poolings and fails, where a rewrite has put an
        average pooling or a reshape; and it does not ask whether a concatenation may be quantized.
        """
        others = [node for node in model.graph.nodes if _is_in_place_of_pooling(node)]
        kept = [node.meta.pop("nn_module_stack") for node in others]
        joins = model.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
        left = [node for node in joins if self.filter_fn is not None and not self.filter_fn(node)]
        for node in left:  # what is annotated already is passed over
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)
        try:
            annotated: torch.fx.GraphModule = super().annotate(model)
        finally:
            for node, stack in zip(others, kept, strict=True):
                node.meta["nn_module_stack"] = stack
            for node in left:
                del node.meta[Q_ANNOTATION_KEY]
        self._annotate_tables(annotated)
        # Slices and views of what a table gives keep its range: XNNPACK has none from one range to another.
        propagate_annotation(annotated)
        return annotated

    def _annotate_tables(self, model: torch.fx.GraphModule) -> None:
        config = self.global_config
        for node in model.graph.nodes:
            if str(node.target) not in self._tables or not (self.filter_fn is None or self.filter_fn(node)):
                continue
            # Read from a float, 8 bits would cost digits and a conversion more.
            before = node.args[0].meta.get(Q_ANNOTATION_KEY)
            if before is None or before.output_qspec is None or node.meta["val"].dtype != torch.float32:
                continue
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                input_qspec_map={node.args[0]: config.input_activation},
                output_qspec=config.output_activation,
                _annotated=True,
            )


def _is_in_place_of_pooling(node: Node) -> bool:
    stack = list(node.meta.get("nn_module_stack", {}).values())
    inside = bool(stack) and str(stack[-1][1]).rstrip("'>").endswith(".AdaptiveAvgPool2d")
    return inside and node.target != torch.ops.aten.adaptive_avg_pool2d.default


class _Finite:
    """Observes finite values only, and remembers that there were others: a mask may hold -inf."""

    saw_others = False

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        finite = torch.isfinite(values)
        if bool(finite.all()):
            super().forward(values)  # type: ignore[misc]
        else:
            self.saw_others = True
            if bool(finite.any()):
                super().forward(values[finite])  # type: ignore[misc]
        return values


class _MinMax(_Finite, MinMaxObserver):  # type: ignore[misc]  # torchao ships no types
    """The whole range that was observed."""


class _Histogram(_Finite, HistogramObserver):  # type: ignore[misc]
    """The range with the least squared error, by a histogram of what was observed.

    Converting again with other layers in floating point asks again for what was found.
    """

    _found: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self._found = None
        return super().forward(values)

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ends of the range, 0-dimensional; HistogramObserver asks for them when scales are made."""
        if self._found is None:
            self._found = self._search()
        return self._found

    def _search(self) -> tuple[torch.Tensor, torch.Tensor]:
        counts = self.histogram.double().numpy()
        low, high = find_range(counts, float(self.min_val), float(self.max_val), self.dst_nbins)
        return torch.tensor(low), torch.tensor(high)


class _Percentile(_Histogram):
    """The range that holds `PERCENTILE` percent of the observed values; outliers are clipped."""

    def _search(self) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.cumsum(self.histogram.double(), 0)
        width = (self.max_val - self.min_val) / self.bins
        outside = total[-1] * (1 - PERCENTILE / 100) / 2
        low = int(torch.searchsorted(total, outside, right=True))
        high = int(torch.searchsorted(total, total[-1] - outside))
        return self.min_val + width * low, self.min_val + width * min(high + 1, self.bins)


_OBSERVERS: dict[str, Any] = {
    "histogram": _Histogram,
    "minmax": _MinMax,
    "percentile": _Percentile,
}


def make_xnnpack_quantizer(
    observer: str,
    takes: Callable[[Node], bool],
    *,
    dynamic: bool,
    activation_bits: int = 8,
    weight_bits: int = 8,
    tables: Collection[str] = (),
) -> Any:
    """XNNPACK's quantizer, per channel, with another observer of activations.

    Args:
        observer: One of `edgex.delegates.recipes.quantizers.OBSERVERS`; dynamic ranges need none.
        takes: Whether an operator may be quantized.
        dynamic: Find ranges of activations at every run.
        activation_bits: 8, or 16 for ranges that are not dynamic.
        weight_bits: 8, or 7 in bytes.
        tables: Functions of one number that are quantized, too; see `SymmetricInt8`.
    """
    # A copy: the original is cached and shared by whoever asks for it.
    config = dataclasses.replace(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic))
    if not dynamic:
        wide = activation_bits == 16
        # XNNPACK runs none of 16 bits, whose steps are 256 times finer.
        made = _OBSERVERS[observer].with_args(eps=_LEAST_SCALE / 256 if wide else _LEAST_SCALE)
        spec = dataclasses.replace(config.input_activation, observer_or_fake_quant_ctr=made)
        if wide:
            spec = dataclasses.replace(spec, dtype=torch.int16, quant_min=-(2**15), quant_max=2**15 - 1)
        config = dataclasses.replace(config, input_activation=spec, output_activation=spec)
    if weight_bits == 7:
        narrow = dataclasses.replace(config.weight, quant_min=-63, quant_max=63)
        config = dataclasses.replace(config, weight=narrow)
    return _Quantizer(tables).set_global(config).set_filter_function(takes)
