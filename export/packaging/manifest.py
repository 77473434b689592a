"""The manifest of an artifact before its proof: it tells the verifying process what to compare the outputs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgex._version import __version__
from edgex.delegates.recipes.tolerances import QUANTIZED_TOLERANCE
from edgex.export.language_model.methods import language_methods
from edgex.export.proof.constants import find_constant_outputs
from edgex.runtime.artifact.manifest import Manifest, Method
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.support.entry_points import installed_version

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.language_model.request import LanguageRequest
    from edgex.export.target_model import TargetModel


def make_manifest(
    model: TargetModel,
    lowered: LoweredModule,
    tolerance: Tolerance,
    quantization: Mapping[str, Any] | None,
    *,
    allow_inconclusive: bool,
    exclude: Sequence[str] = (),
    rewrite: bool = True,
    language: LanguageRequest | None = None,
) -> Manifest:
    """The manifest, still without files and verdict.

    Args:
        model: What was lowered.
        lowered: What the delegate made of it.
        tolerance: How far outputs may be from eager's.
        quantization: What is said of quantizing it.
        allow_inconclusive: Whether outputs about which nothing could be proved are accepted.
        exclude: The operators that the user kept out of the delegate.
        rewrite: Whether rewrites were allowed.
        language: What was asked of a language model.
    """
    delegate, source = model.job.delegate, model.source
    # The file's outputs go by their names, and of several methods some may share one.
    constant = find_constant_outputs(model.program) if len(model.methods) == 1 else ()
    packages = {name: installed_version(name) for name in delegate.packages}
    producer = {**get_engine(delegate.engine).versions(), **{name: found for name, found in packages.items() if found}}
    return Manifest(
        name=source.name,
        target=model.target,
        engine=delegate.engine,
        precision=model.rewritten.program.precision,
        methods=tuple(
            named
            for own, method in zip(model.methods, lowered.methods, strict=True)
            for named in _name_methods(own, method)
        ),
        files=(),
        producer={"edgex": __version__, **dict(sorted(producer.items()))},
        delegation=lowered.plan.to_json(),
        requirements=lowered.requirements,
        quantization=quantization,
        verification={
            "tolerance": tolerance.to_json(),
            "quantized_tolerance": None
            if all(own.quantized_reference is None for own in model.methods)
            else QUANTIZED_TOLERANCE.to_json(),
            "allow_inconclusive": allow_inconclusive,
            **({"constant_outputs": list(constant)} if constant else {}),
        },
        status_reason=None,
        rewrites=model.rewrites,
        options=lowered.options,
        settings={"exclude": list(exclude), "rewrite": rewrite, **({} if language is None else language.settings)},
        model={
            "source": source.description,
            "parameters": source.parameters,
            "card": dict(source.model_card),
        },
        llm=next((own.source.language for own in model.methods if own.source.language is not None), None),
        by_size=source.by_size,
    )


def _name_methods(model: TargetModel, method: Method) -> tuple[Method, ...]:
    """What the manifest lists of a lowered method: of a decoder, `prefill` and `decode`."""
    language = model.source.language
    return (method,) if language is None else language_methods(method, language)
