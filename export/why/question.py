"""What the user asks of `edgex why`, and the checks that come before any slow step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgex.delegates.base import Delegate, TakesLanguageModels
from edgex.delegates.registry import delegate_names, get_delegate, parse_options
from edgex.errors import EdgexError, TargetUnavailable, UsageError, nearest_name
from edgex.export.language_model.request import LanguageRequest
from edgex.export.settings import PRECISIONS, refuse_language
from edgex.export.source.naming import parse_model_name
from edgex.runtime.artifact.specs import Dim


@dataclass(frozen=True)
class Question:
    """What the user asks.

    Attributes:
        targets: Names of delegates, in the order of the answer.
        precision: `fp32`, `fp16` or `bf16`.
        rewrite: Count with the rewrites that `export` would apply.
        dynamic: Bounds by input name and axis.
        options: Delegate options by name; `target.key` reaches one target only.
        shapes: Shapes of example inputs by name.
        language: What is asked of a language model; None where the model is none.
        method: The one that is asked about, of several; None asks about all.
    """

    targets: tuple[str, ...]
    precision: str = "fp32"
    rewrite: bool = True
    dynamic: Mapping[tuple[str, int], Dim] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    language: LanguageRequest | None = None
    method: str | None = None


def targets_to_ask(precision: str, *, language: bool = False) -> tuple[str, ...]:
    """Every target that can be asked here about such a precision; a broken plug-in is none of them.

    Args:
        precision: `fp32`, `fp16` or `bf16`.
        language: Only those that take language models.
    """
    found = []
    for name in delegate_names():
        try:
            delegate = get_delegate(name)
            takes = precision in delegate.precisions and delegate.availability().available
            takes = takes and (not language or isinstance(delegate, TakesLanguageModels))
        except EdgexError:  # `edgex targets` tells it
            continue
        if takes:
            found.append(name)
    return tuple(found)


def check_question(model: str, question: Question) -> None:
    """Check the model's path and every flag; nothing heavy is imported.

    Raises:
        UsageError: A path, target, precision or option is wrong.
        TargetUnavailable: None of the targets can be used here; with one that can, the others are failures beside it.
    """
    parse_model_name(model)
    if question.language is not None:
        if question.shapes:
            raise UsageError("--input-shape does not go with --llm", fix="say the sizes by --context and --chunk")
        if question.dynamic:
            fix = "leave --dynamic out: --context and --chunk say the sizes"
            raise UsageError("--dynamic does not go with --llm", fix=fix)
    check_targets(question)


def check_targets(question: Question) -> None:
    """Check the targets and what they are asked; nothing heavy is imported.

    Raises:
        UsageError: A target, precision or option is wrong.
        TargetUnavailable: None of the targets can be used here; with one that can, the others are failures beside it.
    """
    if question.precision not in PRECISIONS:
        raise UsageError(f"unknown precision {question.precision!r}", why=nearest_name(question.precision, PRECISIONS))
    if not question.targets:
        raise UsageError("no target given", fix="--target xnnpack,onnx-cpu; `edgex targets` lists them")
    if len(set(question.targets)) < len(question.targets):
        raise UsageError(f"a target is given twice: {', '.join(question.targets)}")
    delegates = [get_delegate(target) for target in question.targets]
    taken = set[str]()
    for delegate in delegates:
        chosen = choose_options(delegate, question.options)
        parse_options(delegate, chosen)
        taken.update(key for key in question.options if key.rpartition(".")[2] in chosen)
    if question.language is not None and not any(isinstance(one, TakesLanguageModels) for one in delegates):
        raise refuse_language(delegates[0])
    if not any(delegate.availability().available for delegate in delegates):
        require_available(delegates[0])
    if unknown := [key for key in question.options if key not in taken]:
        known = {f"{d.name}.{item.name}" for d in delegates for item in dataclasses.fields(d.options_type)}
        raise UsageError(f"no given target has an option {unknown[0]!r}", why=nearest_name(unknown[0], known))


def require_available(delegate: Delegate) -> None:
    """Refuse a target that cannot be used here, with what is missing.

    Raises:
        TargetUnavailable: It cannot.
    """
    found = delegate.availability()
    if not found.available:
        raise TargetUnavailable(f"target {delegate.name!r} cannot be used here", why=found.reason, fix=found.fix)


def choose_options(delegate: Delegate, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that name this target, and those without a target's name that it knows."""
    known = {item.name for item in dataclasses.fields(delegate.options_type)}
    chosen = {}
    for key, value in given.items():
        prefix, _, plain = key.rpartition(".")
        if prefix == delegate.name or (not prefix and plain.replace("-", "_") in known):
            chosen[plain] = value
    return chosen
