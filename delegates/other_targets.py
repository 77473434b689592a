"""What to do about operators that a target does not run: only what is true of them."""

from __future__ import annotations

from collections.abc import Iterable

# Operators of PyTorch's own; others exist in the user's Python only, and an artifact runs without that.
_OWN = ("aten.", "prims.", "quantized_decomposed.")


def name_other_targets(operators: Iterable[str], targets: str) -> str:
    """What to do about operators that a target does not run, a phrase.

    Args:
        operators: Their names, for example `aten.sort.default`.
        targets: Targets by comma that may take PyTorch's own operators.
    """
    foreign = [name for name in operators if not name.startswith(_OWN) and "." in name]
    if foreign:
        return (
            f"write {', '.join(dict.fromkeys(foreign))} in PyTorch's own operators: an artifact runs without the "
            "Python that defines others, on every target"
        )
    return f"rewrite what is at these lines, or see with `edgex why MODEL -t {targets}` which other target takes it"
