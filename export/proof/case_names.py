"""What cases of a proof are called: a name that `--skip-case` misspells is found before the model is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edgex.errors import UsageError, nearest_name
from edgex.runtime.artifact.golden import STRESS
from edgex.runtime.artifact.shapes import SPECIAL_INPUTS

EXAMPLE = "example"
AS_QUANTIZED = "example, as quantized"
SCALED = ("large", "large, negative", "tiny", "negative", "zero")
RESHUFFLED = f"{STRESS}reshuffled integers"
TRANSPOSED = f"{STRESS}transposed memory"
CHANNELS_LAST = f"{STRESS}channels_last memory"
ALL_AT = {word: f"all dimensions at {word}" for word in ("min", "max")}

_FIXED = (
    EXAMPLE, AS_QUANTIZED, *(f"{STRESS}{name}" for name in (*SCALED, *SPECIAL_INPUTS)), RESHUFFLED, TRANSPOSED,
    CHANNELS_LAST, *ALL_AT.values(),
)  # fmt: skip
# Of these the model and its data decide the numbers.
_NUMBERED = re.compile(
    r"held-out sample \d+|state: \d+ steps in a row|.+=-?\d+ \((?:min|mid|max|below min|above max)\)"
)


def check_case_names(names: Iterable[str]) -> None:
    """Refuse names that no case of any model of one method has; the model decides which of the others there are.

    Raises:
        UsageError: There is one.
    """
    for name in names:
        if name not in _FIXED and not _NUMBERED.fullmatch(name):
            raise no_such_case(name, _FIXED)


def check_left_out(names: Sequence[str], skip: Sequence[str]) -> None:
    """Refuse to leave out what there is not.

    Args:
        names: Of all cases.
        skip: Of those that the user chose to leave out.

    Raises:
        UsageError: There is no case of such a name.
    """
    for name in skip:
        if name not in names:
            raise no_such_case(name, names)


def no_such_case(name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is none of those."""
    return UsageError(f"--skip-case {name!r}: there is no such case", why=nearest_name(name, known))
