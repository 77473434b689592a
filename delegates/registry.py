"""Delegates by name."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from edgex.delegates.base import DELEGATE_GROUP, Delegate, Quantizes, SetsTolerances
from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES
from edgex.delegates.third_party import guard_delegate
from edgex.errors import QuantizationError, UsageError, nearest_name
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.support.entry_points import find_plugins, load_plugin


def delegate_names() -> list[str]:
    """Names of all registered delegates, sorted; nothing is imported."""
    return list(find_plugins(DELEGATE_GROUP))


def get_delegate(name: str) -> Delegate:
    """The delegate of that name.

    Raises:
        UsageError: No installed package registers it.
        TargetUnavailable: Its package is broken.
    """
    found = find_plugins(DELEGATE_GROUP)
    if name not in found:
        raise UsageError(f"unknown target {name!r}", why=nearest_name(name, found), fix="edgex targets lists them")
    delegate: Delegate = load_plugin(DELEGATE_GROUP, name, found[name])
    return guard_delegate(delegate, found[name])


def parse_options(delegate: Delegate, given: Mapping[str, Any]) -> Any:
    """Make the delegate's options value from `--option key=value` texts (or Python values).

    Raises:
        UsageError: An option is unknown, or its text does not fit its type.
    """
    hints = typing.get_type_hints(delegate.options_type)
    known = {field.name for field in dataclasses.fields(delegate.options_type)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        field_name = key.replace("-", "_")
        if field_name not in known:
            raise UsageError(f"target {delegate.name!r} has no option {key!r}", why=nearest_name(key, known))
        values[field_name] = _convert_option(key, value, hints[field_name]) if isinstance(value, str) else value
    try:
        return delegate.options_type(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the options for target {delegate.name!r} do not fit: {error}") from error


def _convert_option(key: str, text: str, hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if text.lower() in ("none", "null"):
            return None
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    try:
        if hint is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if hint in (int, float, str):
            return hint(text)
    except (KeyError, ValueError):
        raise UsageError(f"--option {key}={text}: expected {hint.__name__}") from None
    raise UsageError(f"--option {key}: its type {hint} cannot be given as text")


def check_recipe(delegate: object, target: str, recipe: str) -> None:
    """Refuse a recipe that a target does not take.

    Raises:
        QuantizationError: With what it takes.
    """
    recipes = delegate.recipes if isinstance(delegate, Quantizes) else ()
    if recipe not in recipes:
        raise QuantizationError(
            f"target {target!r} does not take --quantize {recipe}",
            why=delegate.recipe_refusal(recipe) if isinstance(delegate, Quantizes) else None,
            fix=f"it takes {', '.join(recipes)}" if recipes else "it takes no recipe; leave --quantize out",
        )


def find_tolerance(delegate: object, kind: str) -> Tolerance:
    """What a precision or recipe is held to on a target: the delegate's own limits, else those for all targets."""
    own = delegate.tolerance(kind) if isinstance(delegate, SetsTolerances) else None
    return own or DEFAULT_TOLERANCES[kind]
