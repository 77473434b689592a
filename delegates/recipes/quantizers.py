"""The PT2E quantizers that targets share: equal ones make one quantized program, which is calibrated once.

A delegate gives a quantizer as a value, so that two targets can be seen to ask for the same; the pipeline makes
torchao's object of it. `int8` is XNNPACK's form for every target: signed per-tensor activations with a zero point,
signed symmetric weights with a scale an output channel, biases in floating point; `a16w8` is the same with 16 bits for
activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.isa import saturates_bytes
from edgex.runtime.support.entry_points import installed_version

if TYPE_CHECKING:
    from torch.fx import Node

# How the range of an activation is found in calibration data; see `edgex.delegates.recipes.observers`.
OBSERVERS = ("histogram", "minmax", "percentile")
# What `LinearWeights` writes.
LINEAR_RECIPES = ("8da8w", "8da4w", "int8-weight", "int4-weight")

_PACKAGES = ("torch", "torchao", "executorch")
_INSTALL_COMMAND = "pip install 'edgex-toolchain[xnnpack]'"


class QuantizerRecipe(Protocol):
    """What `Delegate.quantizer` returns: equal values make equal programs, so it is hashable.

    Attributes:
        observed: Whether the quantizer observes activations, so that calibration data must run through the model.
    """

    @property
    def observed(self) -> bool:
        """See above."""
        ...

    def make(self, observer: str, takes: Callable[[Node], bool]) -> Any:
        """A torchao `Quantizer` for one program.

        Args:
            observer: One of `OBSERVERS`.
            takes: Whether an operator may be quantized; others stay in floating point.
        """
        ...

    def refusal(self, node: Node) -> str | None:
        """Why no engine has a quantized kernel for an operator that has one in other forms; None where it may be."""
        ...


@dataclass(frozen=True)
class SymmetricInt8:
    """8-bit weights, and activations of 8 bits or 16, of convolutions, linear layers and what lies between them.

    Attributes:
        dynamic: Ranges of activations are found at every run, and only convolutions and linear layers are quantized.
        activation_bits: 8 or 16; dynamic ones have 8.
        weight_bits: 8, or 7 for kernels that clip sums of larger ones on this processor.
        spares_few_places: Leave convolutions of single places over `_WRONG_PLACES` of them in floating point, which
            oneDNN 3.2 gets wrong on processors with AMX.
        tables: Functions of one number, such as `sigmoid`, that the engine reads from a table of 256 bytes, where what
            comes before and after them is 8 bits, too. With `sigmoid`, SiLU is the product with it that it is, with
            `hardsigmoid` hard swish.
    """

    dynamic: bool = False
    activation_bits: Literal[8, 16] = 8
    weight_bits: Literal[8, 7] = 8
    spares_few_places: bool = False
    tables: tuple[str, ...] = ()

    @property
    def observed(self) -> bool:
        """See `QuantizerRecipe`."""
        return not self.dynamic

    def make(self, observer: str, takes: Callable[[Node], bool]) -> Any:
        """See `QuantizerRecipe`."""
        from edgex.delegates.recipes.observers import make_xnnpack_quantizer

        return make_xnnpack_quantizer(
            observer,
            takes,
            dynamic=self.dynamic,
            activation_bits=self.activation_bits,
            weight_bits=self.weight_bits,
            tables=self.tables,
        )

    def refusal(self, node: Node) -> str | None:
        """Convolutions that XNNPACK does not run in 8 bits: quantized, kernels that are far slower would, or none.

        Nor what has no weights before it runs, as the modulated convolutions of a StyleGAN.
        """
        name = str(node.target)
        if not name.startswith(("aten.conv", "aten.linear")):
            return None
        if node.all_input_nodes[1].op == "call_function":
            return "its weights are computed in every run"
        if name.startswith("aten.linear"):
            return None
        shape = tuple(node.all_input_nodes[1].meta["val"].shape)
        # Groups come before dilation in the schema of transposed convolutions, last in that of the others.
        groups = node.args[6] if len(node.args) > 6 else 1
        if self.spares_few_places and "transpose" not in name and _is_over_wrong_places(node, shape):
            listed = ", ".join(map(str, _WRONG_PLACES[:-1]))
            return (
                f"oneDNN 3.2 computes it wrongly on processors with AMX: single places, {listed} or {_WRONG_PLACES[-1]}"
            )
        if "transpose" in name:
            if self.dynamic:
                return "XNNPACK has no transposed convolution whose ranges are found at every run"
            return None if groups == 1 else "XNNPACK has no 8-bit transposed convolution in groups"
        if self.dynamic and len(shape) != 4:
            return f"XNNPACK finds ranges at every run for 2-d convolutions, not for {len(shape) - 2}-d ones"
        if self.dynamic and shape[1] == 1:
            # One group with one channel, as of grey images, counts as depthwise too.
            return "XNNPACK finds no ranges at every run for convolutions that read one channel a group"
        return None


# Of single places: those which oneDNN's kernel for AMX takes in three tiles of 9 to 16 rows. With more than 48 channels
# and a zero point it gave -4 to 14 dB on a Xeon and wrote beyond its memory, whichever way the places lie (8 x 6, 1 x
# 48). Every other number from 1 to 109 was right, and so were others up to 3,136, and 48 channels or fewer.
_WRONG_PLACES = (27, 33, 36, 39, 42, 45, 48)
_MOST_RIGHT_CHANNELS = 48


def _is_over_wrong_places(node: Node, weight: tuple[int, ...]) -> bool:
    """Whether a convolution of single places runs, or may run, over as many as oneDNN gets wrong."""
    places = node.meta["val"].shape[2:]
    if any(tap != 1 for tap in weight[2:]) or weight[1] <= _MOST_RIGHT_CHANNELS:
        return False
    return not all(isinstance(size, int) for size in places) or math.prod(places) in _WRONG_PLACES


@dataclass(frozen=True)
class LinearWeights:
    """Linear layers alone, with torchao's operators written into the graph; see `edgex.export.quantization.linear`.

    Bits, groups and whether activations are quantized are the recipe's.
    """

    @property
    def observed(self) -> bool:
        """Activations are quantized token by token, or not at all."""
        return False


Quantizer = QuantizerRecipe | LinearWeights


def shared_quantizer(recipe: str) -> Quantizer | None:
    """The quantizer that writes a recipe into the graph; targets that ask for the same share the program."""
    if recipe in ("int8", "int8-dynamic"):
        return SymmetricInt8(dynamic=recipe == "int8-dynamic")
    if recipe == "a16w8":
        return SymmetricInt8(activation_bits=16)
    return LinearWeights() if recipe in LINEAR_RECIPES else None


def saturating_quantizer(recipe: str) -> Quantizer | None:
    """The shared one, for engines whose kernels clip sums of products of bytes on processors without VNNI.

    Weights have 7 bits on such a processor; see `edgex.runtime.engines.isa.saturates_bytes`.
    """
    quantizer = shared_quantizer(recipe)
    if isinstance(quantizer, SymmetricInt8) and quantizer.activation_bits == 8 and saturates_bytes():
        return replace(quantizer, weight_bits=7)
    return quantizer


def quantizer_availability() -> Availability:
    """Whether the packages that quantizers come from are installed; nothing is imported."""
    missing = [package for package in _PACKAGES if installed_version(package) is None]
    if missing:
        return Availability(False, f"quantizing needs {', '.join(missing)}", _INSTALL_COMMAND)
    return Availability(True)
