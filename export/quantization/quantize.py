"""Quantize a program: calibrate once, convert as often as wanted, and say what stayed in floating point and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import module_path_of
from edgex.delegates.recipes.quantizers import LinearWeights, Quantizer, SymmetricInt8
from edgex.delegates.recipes.recipes import Recipe
from edgex.errors import QuantizationError
from edgex.export.quantization import pt2e
from edgex.export.quantization.calibration.samples import Samples
from edgex.export.quantization.float_sums import find_float_gates, find_float_sums
from edgex.export.quantization.linear.layers import quantize_linear
from edgex.export.quantization.quantized import Quantized, is_inside, list_float
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.editing.building import KEEPS_FLOAT
from edgex.export.rewrites.editing.mutation import without_writes
from edgex.export.rewrites.editing.substitution import Rule, substitute

if TYPE_CHECKING:
    from torch.fx import Node

# How often operators are taken out before giving up: what is taken out can leave others that only float ones read.
_ROUNDS = 8
# How many samples a model with state sees before it starts over.
STEPS_IN_A_ROW = 16


@dataclass
class Calibrated:
    """A float program with the ranges of its values.

    Attributes:
        program: In float32. Of one whose operators write in place, what returns instead what they write is observed and
            converted: between a buffer and what writes to it, PT2E would put a copy, and the write would be lost.
        recipe: What it is quantized to.
        quantizer: Of the delegate.
        observer: One of `edgex.delegates.recipes.quantizers.OBSERVERS`.
        samples: The data; None for recipes that need none.
        ranges: The observers that saw the data, by the name of the value that they saw.
        progress: Called with a stage and a detail.
        borrowed: The ranges are those of the same model at another size, which the data has: it is not run here.
    """

    program: CapturedProgram
    recipe: Recipe
    quantizer: Quantizer
    observer: str
    samples: Samples | None
    ranges: dict[str, Any] = field(default_factory=dict)
    progress: Callable[[str, str], None] = lambda _stage, _detail: None
    borrowed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.quantizer, LinearWeights):
            self.program = _without_copies(without_writes(self.program))
        if isinstance(self.quantizer, SymmetricInt8):
            self.program = _with_gates(self.program, self.quantizer.tables)

    def quantize(self, keep_float: frozenset[str] = frozenset()) -> Quantized:
        """Convert.

        The data is gone through the first time, and again only if a value is met that was not observed then.

        Args:
            keep_float: Paths of modules that stay in floating point, with all that is inside of them.

        Raises:
            QuantizationError: There is nothing to quantize.
        """
        if isinstance(self.quantizer, LinearWeights):
            return quantize_linear(self.program, self.recipe, keep_float)
        refusals = {node.name: self.quantizer.refusal(node) for node in self.program.exported.graph.nodes}
        excluded = {name: reason for name, reason in refusals.items() if reason is not None}
        for _ in range(_ROUNDS):
            takes = _filter_of(keep_float, excluded)
            observed = pt2e.prepare(self.program, self.quantizer, self.observer, takes)
            wanted = {node.name for node in pt2e.annotated(observed)}
            if found := self._better_in_float(wanted):
                excluded.update(found)
                continue
            if not self.quantizer.observed:
                pt2e.observe_weights(observed)
            else:
                self._fill(observed)
                if found := _without_range(observed):
                    excluded.update(found)
                    continue
            self.progress("convert", f"{self.recipe.name}: {len(wanted)} operators")
            converted = pt2e.convert(observed)
            break
        else:
            raise QuantizationError(
                f"{self.recipe.name}: values without a finite range remain",
                why="; ".join(f"{name}: {why}" for name, why in list(excluded.items())[:4]),
                fix="leave --quantize out for this model",
            )
        if not wanted:
            raise QuantizationError(
                f"there is nothing in this model that {self.recipe.name} can quantize",
                why="; ".join(f"{item.op}: {item.reason}" for item in list_float(converted, keep_float, excluded)[:4]),
                fix="leave --quantize out",
            )
        program = dataclasses.replace(converted, recipe=self.recipe, float_modules=keep_float)
        return Quantized(program, list_float(program, keep_float, excluded))

    def _better_in_float(self, wanted: Collection[str]) -> dict[str, str]:
        """What 8 bits would cost accuracy and save nothing, of the operators that the quantizer takes."""
        found: dict[str, str] = {}
        if self.quantizer.observed:
            found.update(find_float_sums(self.program.exported.graph, wanted))
        if isinstance(self.quantizer, SymmetricInt8) and self.quantizer.tables:
            found.update(find_float_gates(self.program.exported.graph, wanted))
        return found

    def _fill(self, observed: pt2e.Observed) -> None:
        """Give every observer what it must have seen."""
        missing = pt2e.adopt(observed, self.ranges)
        if missing and self.borrowed:
            raise QuantizationError(
                f"{self.recipe.name}: at this size the model computes values that it does not at the data's",
                why=f"no range is known of {', '.join(sorted(missing)[:4])}",
                fix="export this size by itself, with data of its size",
            )
        if missing:
            assert self.samples is not None
            self._run(observed, self.samples)
            self.ranges.update(observed.observers())
        else:
            pt2e.observe_weights(observed)

    def _run(self, observed: pt2e.Observed, samples: Samples) -> None:
        """Let every sample run; models with state keep it for some samples in a row, as in use."""
        runner = GraphRunner(self.program, observed.module)
        for number, sample in enumerate(samples):
            fresh = number % STEPS_IN_A_ROW == 0
            if fresh:
                runner.reset()
            try:
                runner.run(sample)
            except Exception as error:  # the model's own operators, on the user's data
                explained = samples.explain(error, sample)
                if explained is not None:
                    raise explained from error
                if fresh or not self.program.state:
                    raise
                # A cache that is full, for example: from the initial state eager runs it.
                runner.reset()
                runner.run(sample)


def _without_copies(program: CapturedProgram) -> CapturedProgram:
    """A program without writes reads the originals of its copies.

    ```
    before:  y = aten.clone.default(pixels); z = aten.reshape.default(y, [64, 49])
    after:   z = aten.reshape.default(pixels, [64, 49])
    ```

    PT2E knows no copy whose result has its operand's range: what comes behind would be in another, and XNNPACK has no
    reshape from one range to another.
    """
    aten = torch.ops.aten
    rule = Rule(lambda x, _memory_format: x, where=lambda node: all(user.op == "call_function" for user in node.users))
    changed, _ = substitute(
        program, "drop_copies", {aten.clone.default: rule, aten.contiguous.default: rule}, "{count}"
    )
    return changed


def _with_gates(program: CapturedProgram, tables: Collection[str]) -> CapturedProgram:
    """SiLU and hard swish as products with a sigmoid, both of which an engine has in 8 bits.

    ```
    before:  y = aten.silu.default(x)
    after:   g = aten.sigmoid.default(x); y = aten.mul.Tensor(x, g)
    ```
    """
    aten = torch.ops.aten
    rules: dict[Any, Rule] = {}
    if "sigmoid" in tables:
        rules[aten.silu.default] = Rule(lambda x: x * torch.sigmoid(x), where=_is_float32)
    if "hardsigmoid" in tables:
        rules[aten.hardswish.default] = Rule(lambda x: x * F.hardsigmoid(x), where=_is_float32)
    changed, _ = substitute(program, "open_gates", rules, "{count}")
    return changed


def _is_float32(node: Node) -> bool:
    return bool(node.meta["val"].dtype == torch.float32)


def _filter_of(keep_float: frozenset[str], excluded: Mapping[str, str]) -> Callable[[Node], bool]:
    def takes(node: Node) -> bool:
        if KEEPS_FLOAT in node.meta:
            return False
        return node.name not in excluded and not is_inside(module_path_of(node), keep_float)

    return takes


def _without_range(observed: pt2e.Observed) -> dict[str, str]:
    """Operators whose inputs or result cannot be held in 8 bits, each with the reason."""
    observers = observed.observers()
    found: dict[str, str] = {}
    for node in pt2e.annotated(observed):
        values = [node, *node.all_input_nodes, *node.users]
        names = {_seen(value) for value in values}
        for name in names & observers.keys():
            if getattr(observers[name], "saw_others", False):
                found[node.name] = "it computes with infinite values, as masks hold"
        vanishing = _vanishing(node, observers)
        if vanishing is not None:
            found.setdefault(node.name, vanishing)
    return found


def _seen(node: Node) -> str:
    """The value's name: behind an observer, what it observes."""
    return node.all_input_nodes[0].name if node.op == "call_module" else node.name


def _vanishing(node: Node, observers: Mapping[str, Any]) -> str | None:
    """A sum one of whose terms is smaller than the step of the result: it would be lost."""
    if not str(node.target).startswith("aten.add"):
        return None
    observer = observers.get(node.name)
    result = _range_of(observer)
    if observer is None or result is None:
        return None
    steps = int(observer.quant_max) - int(observer.quant_min)
    step = (max(result[1], 0.0) - min(result[0], 0.0)) / steps
    for term in node.all_input_nodes:
        own = _range_of(observers.get(_seen(term)))
        if own is not None and 0.0 < max(abs(own[0]), abs(own[1])) < step:
            largest = max(abs(own[0]), abs(own[1]))
            return f"a term (up to {largest:.3g}) would be lost: the result has steps of {step:.3g}"
    return None


def _range_of(observer: Any) -> tuple[float, float] | None:
    low, high = getattr(observer, "min_val", None), getattr(observer, "max_val", None)
    if low is None or high is None or low.numel() != 1 or not bool(low <= high):
        return None
    return float(low), float(high)
