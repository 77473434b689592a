"""`edgex.export_model`: the pipeline's door for Python code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgex.errors import UsageError
from edgex.export.language_model.request import read_request
from edgex.export.methods.sizes import parse_sizes
from edgex.export.pipeline import export_to_targets
from edgex.export.python_errors import in_python_words
from edgex.export.settings import BISECT_SECONDS, ExportSettings
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.support.arguments import check_mapping, check_path, check_text, names_of


def export_model(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str,
    output: str | Path | None = None,
    dynamic_shapes: Any = None,
    precision: str | None = None,
    quantize: str | None = None,
    calibration: Any = None,
    observer: str | None = None,
    group_size: int | None = None,
    max_drop: float | None = None,
    evaluate: Callable[..., float] | None = None,
    tolerance: Tolerance | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    force: bool = False,
    memory_check: bool = True,
    exclude: Sequence[str] = (),
    verify_data: Any = None,
    bisect: bool = True,
    context: int | None = None,
    chunk: int | None = None,
    head: str | None = None,
    embedding: str | None = None,
    source: int | None = None,
    kv: str | None = None,
    sizes: Sequence[str] = (),
) -> Artifact:
    """Export a module or an ExportedProgram to one target, prove it, and write it.

    Args:
        model: An `nn.Module` (it is captured in eval mode, and has its own again afterwards) or an
            `ExportedProgram`; or several methods by name, each
            `(module or its method, example inputs)` or `(…, …, dynamic shapes)`, without `args` then.
        args: Example inputs by position, or in another form that a model file has: one tensor, a dict of those by
            name, or `(tuple, dict)`.
        kwargs: Example inputs by name.
        target: A delegate's name, for example `xnnpack`.
        output: Folder for `NAME.TARGET.edgex`, or a path that ends in `.edgex`; None is the current folder.
        dynamic_shapes: As `torch.export.export` takes it.
        precision: `fp32` (default), `fp16` or `bf16`.
        quantize: A recipe's name; every target refuses those that it does not offer.
        calibration: Data for recipes that need some: a list of samples in the form of the example inputs, a function
            that gives one, or what the command line's `--calibration` takes.
        observer: `histogram` (default), `minmax` or `percentile`: how ranges are found in the data.
        group_size: Weights that share a scale, for recipes with 4-bit weights.
        max_drop: Accuracy budget: how much less than eager float32 `evaluate` may give.
        evaluate: Takes a function that runs a model, gives a number, higher for better ones; None measures noise.
        tolerance: How far outputs may be from eager's; None is the default of the precision or recipe.
        options: The delegate's options.
        name: The artifact's NAME; None is the class name in lower case.
        force: Replace an existing artifact.
        memory_check: Refuse a model whose export would not fit into memory, its weights on disk: large parameters of
            the model itself may then lie in mapped files, whose values are the same.
        exclude: Operators that stay out of the delegate, each `OP` or `OP@module.path`.
        verify_data: Held-out samples that the artifact is judged on too, in the forms of `calibration`.
        bisect: Look for the operators at fault where the proof fails, for 60 seconds at most.
        context: The model is a language model, and this is how many tokens a text may have; see `docs/llm.md`. None
            for other models. `args` are not needed then.
        chunk: How many tokens one call of `prefill` takes at most; None is 256, or the context if that is less.
        head: With a recipe, `int8` or `none` for the layer that gives a language model's scores.
        embedding: With a recipe, `int8` for a language model's tables of embeddings.
        source: Of a model with an encoder of text: how many tokens it reads at most; None is `context`.
        kv: `fp32` (default) or `int8`: what the cache of a transformers model is kept in.
        sizes: Fixed sizes that become a method each, as the command line's `--sizes` has them: `["x:0=1,4"]`.

    Raises:
        EdgexError: Whatever stage failed; nothing is left on disk then.
    """
    from edgex.export.source.source import wrap_methods, wrap_model
    from edgex.export.source.weights import modes_kept

    with in_python_words():
        _check_types(target=target, precision=precision, quantize=quantize, observer=observer, name=name)
        check_mapping("options", options)
        if output is not None:
            check_path("output", output)

    with in_python_words():
        asked = (context, chunk, source, head, embedding, kv)
        language = read_request(any(one is not None for one in asked), *asked)
        fixed = parse_sizes(names_of("sizes", sizes))
    settings = ExportSettings(
        targets=(target,),
        output=None if output is None else Path(output),
        force=force,
        precision=precision or "fp32",
        quantize=quantize,
        calibration=calibration,
        observer=observer,
        group_size=group_size,
        max_drop=max_drop,
        tolerance=tolerance,
        options=options or {},
        memory_check=memory_check,
        exclude=names_of("exclude", exclude),
        verify_data=verify_data,
        bisect_seconds=BISECT_SECONDS if bisect else 0.0,
        language=language,
        sizes=fixed,
    )
    with in_python_words(), modes_kept(model):
        if isinstance(model, Mapping):
            _check_alone(args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
            found = wrap_methods(model, name)
        else:
            found = wrap_model(model, args, kwargs, dynamic_shapes, name)
        found = replace(found, evaluate=evaluate)
        report = export_to_targets(lambda: found, settings, name=found.name, stop_at_failure=True)
        return open_artifact(str(report.artifacts[0].path), check="size")


def _check_types(**given: Any) -> None:
    """Texts; all but the target may be None.

    Raises:
        UsageError: One is of another type.
    """
    for name, value in given.items():
        if name == "target" and isinstance(value, (list, tuple, set, frozenset)):
            raise UsageError(
                f"target is one name, not a {type(value).__name__}",
                fix="call edgex.export_model for each target; `edgex export -t a,b` captures the model once for all",
            )
        if value is not None or name == "target":
            check_text(name, value)


def _check_alone(**given: Any) -> None:
    """What a dict of methods has in it, and is not given beside it.

    Raises:
        UsageError: It is.
    """
    for name, value in given.items():
        empty = isinstance(value, (tuple, list, Mapping)) and not value and name != "dynamic_shapes"
        if value is not None and not empty:
            raise UsageError(f"{name} does not go with several methods", fix="give it with each method in the dict")
