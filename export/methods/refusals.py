"""What does not go with several methods in one artifact: said before the slow steps, or as soon as it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgex.delegates.base import LowersMethods
from edgex.errors import LoweringError, UsageError

if TYPE_CHECKING:
    from edgex.delegates.base import Delegate
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource


def check_methods(source: ModelSource, settings: ExportSettings) -> None:
    """Refuse flags that mean a model of one method; where the model has one, nothing is refused.

    Raises:
        UsageError: A flag means one method.
    """
    if source.method is None:
        return
    flags = {
        "--max-drop": settings.max_drop is not None,
        "--require-speedup": settings.require_speedup,
        "--dynamic": settings.dynamic,
        "--exclude": settings.exclude,
        "--skip-case": settings.skip_cases,
        "--verify-data": settings.verify_data is not None,
        "--llm": settings.language is not None,
        "--sizes": settings.sizes,
    }
    instead = {
        "--dynamic": "say in methods() which dimensions are dynamic, as the third value of a method",
        "--sizes": "give each size a method of its own in methods()",
        "--llm": "name the decoder, for example file.py:get_model: --llm makes its own methods",
    }
    given = next((flag for flag, is_given in flags.items() if is_given), None)
    if given is not None:
        raise UsageError(
            f"{given} does not go with several methods",
            source.description,
            instead.get(given, f"leave {given} out, or export one method by its own file.py:NAME"),
        )


def refuse_targets(source: ModelSource, delegates: Sequence[Delegate]) -> dict[str, LoweringError]:
    """Why targets make no artifact of a model of several methods.

    Returns:
        The error of each target that makes artifacts of one method only, by its name.

    Raises:
        LoweringError: None of the targets takes several.
    """
    if source.method is None:
        return {}
    refused = {
        delegate.name: LoweringError(
            f"target {delegate.name!r} makes artifacts of one method",
            source.description,
            "export with --dynamic, which this target takes, or to a target that takes --sizes: xnnpack, "
            "onnx-cpu, onednn, and for NPUs and GPUs onnx-qnn, litert, onnx-rocm"
            if source.by_size
            else "export to one that takes several: xnnpack, onednn, onnx-cpu, reference; or each method by itself",
        )
        for delegate in delegates
        if not isinstance(delegate, LowersMethods)
    }
    if refused and len(refused) == len(delegates):
        raise next(iter(refused.values()))
    return refused
