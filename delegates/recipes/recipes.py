"""Quantization recipes: the names users give, and what each makes of weights and activations.

One name means the same numbers on every target; how they are written down is each delegate's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from edgex.errors import UsageError, nearest_name

# Of language models: the last layer, which gives the scores, as the recipe has every linear layer, or otherwise; and
# the tables of embeddings, which no recipe takes by itself.
Head = Literal["recipe", "int8", "float"]
Table = Literal["float", "int8"]


@dataclass(frozen=True)
class Recipe:
    """What is stored and computed in few bits.

    Attributes:
        name: The `--quantize` value.
        activations: `static` (ranges from calibration data), `dynamic` (ranges found at every run) or `float` (only
            weights are stored in few bits).
        weight_bits: 8 or 4, signed and symmetric; 7 where the target and this processor clip sums of larger ones.
        group_size: How many consecutive weights of an output channel share a scale; None for the whole channel.
        activation_bits: 8 or 16, signed with a zero point, unless activations are `float`.
        head: Of a language model: `int8` gives the layer of the scores 8-bit weights (and leaves its activations to the
            recipe), `float` leaves it alone.
        embedding: `int8` keeps tables of embeddings in 8 bits, with one scale a row.
    """

    name: str
    activations: Literal["static", "dynamic", "float"]
    weight_bits: Literal[8, 7, 4] = 8
    group_size: int | None = None
    activation_bits: Literal[8, 16] = 8
    head: Head = "recipe"
    embedding: Table = "float"

    @property
    def needs_calibration(self) -> bool:
        """Whether ranges of activations come from data."""
        return self.activations == "static"


# `a16w8` is Qualcomm's name; `int8-dynamic` quantizes convolutions too where the target can; `8da8w` and `8da4w` are
# torchao's names, for linear layers only, with activations token by token.
_RECIPES = (
    Recipe("int8", "static"),
    Recipe("a16w8", "static", activation_bits=16),
    Recipe("int8-dynamic", "dynamic"),
    Recipe("8da8w", "dynamic"),
    Recipe("8da4w", "dynamic", 4, 32),
    Recipe("int8-weight", "float"),
    Recipe("int4-weight", "float", 4, 32),
)
RECIPE_NAMES = tuple(recipe.name for recipe in _RECIPES)


def get_recipe(name: str, group_size: int | None = None) -> Recipe:
    """A recipe by its name.

    Args:
        name: One of `RECIPE_NAMES`.
        group_size: Replaces the recipe's own; only recipes with 4-bit weights have groups.

    Raises:
        UsageError: There is no such recipe, or it has no groups, or the size is not a power of two from 16 to 256.
    """
    recipe = next((recipe for recipe in _RECIPES if recipe.name == name), None)
    if recipe is None:
        raise UsageError(f"unknown quantization recipe {name!r}", why=nearest_name(name, RECIPE_NAMES))
    if group_size is None:
        return recipe
    if recipe.group_size is None:
        raise UsageError(f"--group-size: {name} has one scale an output channel", fix="--quantize 8da4w or int4-weight")
    if group_size not in (16, 32, 64, 128, 256):
        raise UsageError(f"--group-size is 16, 32, 64, 128 or 256, not {group_size}")
    return replace(recipe, group_size=group_size)


def head_recipe(recipe: Recipe) -> Recipe | None:
    """What a recipe makes of the layer that gives a language model's scores; None leaves it in float."""
    if recipe.head == "float":
        return None
    return recipe if recipe.head == "recipe" else replace(recipe, weight_bits=8, group_size=None)


def describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """The manifest's `quantization` as far as the recipe tells; what calibration adds is None."""
    return {
        "recipe": recipe.name,
        "activations": recipe.activations,
        "weight_bits": recipe.weight_bits,
        "group_size": recipe.group_size,
        **({} if recipe.head == "recipe" else {"head": recipe.head}),
        **({} if recipe.embedding == "float" else {"embedding": recipe.embedding}),
        "observer": None,
        "calibration": None,
        "unquantized": None,
    }
