"""What ExecuTorch's error codes mean. Its exceptions carry only a code; this table turns it into a sentence.

The codes are those of `executorch/runtime/core/error.h`. One table feeds the errors of the engine and `edgex explain`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import RunError

_EXPORT_AGAIN = "export the model again with the installed versions"


@dataclass(frozen=True)
class ErrorCode:
    """One code of the runtime.

    Attributes:
        name: Its name in ExecuTorch.
        meaning: A clause that goes on "ExecuTorch could not ...: ".
        fix: What to do next.
    """

    name: str
    meaning: str
    fix: str


ERROR_CODES: Mapping[int, ErrorCode] = {
    0x01: ErrorCode("Internal", "an internal check of the runtime failed", _EXPORT_AGAIN),
    0x02: ErrorCode("InvalidState", "the program is in no state for this", "load the artifact again"),
    0x03: ErrorCode("EndOfMethod", "there is nothing left to execute", "load the artifact again"),
    0x04: ErrorCode("AlreadyLoaded", "it is loaded already", "load the artifact once"),
    0x10: ErrorCode(
        "NotSupported",
        "an operator or a backend does not support this size, dtype or memory layout",
        "edgex verify ARTIFACT shows which inputs it was proved with",
    ),
    0x11: ErrorCode("NotImplemented", "the runtime has not implemented this", _EXPORT_AGAIN),
    0x12: ErrorCode(
        "InvalidArgument", "an argument does not fit the program", "edgex inspect ARTIFACT shows what it takes"
    ),
    0x13: ErrorCode("InvalidType", "a value has another type than the program expects", _EXPORT_AGAIN),
    0x14: ErrorCode(
        "OperatorMissing",
        "the runtime has no kernel for an operator of the program",
        "edgex export MODEL -t xnnpack --dry-run names it",
    ),
    0x15: ErrorCode(
        "RegistrationExceedingMaxKernels", "too many kernels are registered", "load fewer operator libraries"
    ),
    0x16: ErrorCode("RegistrationAlreadyRegistered", "a kernel is registered twice", "load each operator library once"),
    0x20: ErrorCode(
        "NotFound",
        "the program needs a backend, a method or data that is not there",
        "pip install --force-reinstall 'edgex-toolchain[xnnpack]'",
    ),
    0x21: ErrorCode("MemoryAllocationFailed", "there is not enough memory", "free memory, or use a smaller model"),
    0x22: ErrorCode("AccessFailed", "a file could not be read", "check the permissions of the artifact's files"),
    0x23: ErrorCode("InvalidProgram", "the file is not a valid program", _EXPORT_AGAIN),
    0x24: ErrorCode("InvalidExternalData", "the data beside the program is not valid", _EXPORT_AGAIN),
    0x25: ErrorCode("OutOfResources", "the runtime ran out of a resource", "free memory, or close other sessions"),
    0x30: ErrorCode(
        "DelegateInvalidCompatibility",
        "the backend cannot read its part, or has no kernel for it on this processor",
        f"{_EXPORT_AGAIN}, on this machine",
    ),
    0x31: ErrorCode(
        "DelegateMemoryAllocationFailed", "the backend could not allocate memory", "free memory, or use a smaller model"
    ),
    0x32: ErrorCode("DelegateInvalidHandle", "the backend was closed", "load the artifact again"),
}

# What the runtime writes of a file without the data that its tensors begin with: older edgex made such programs where
# state begins with the bytes of a constant.
_NO_DATA = re.compile(r"No mutable data segments|offset index \d+ out of range|getTensorDataPtr\(\) failed")
_DATA_NOT_FOUND = ErrorCode("NotFound", "data that the program begins with is not in its file", _EXPORT_AGAIN)

# The binding writes both `error 0x14` and `error: 0x:14`.
_CODE = re.compile(r"\b0x:?([0-9a-fA-F]{1,8})\b")


# A failed kernel is followed by a line for each argument, which says nothing.
_NOISE = re.compile(r"\] arg \d+ with type id \d+$")


def explain_error(text: str) -> tuple[str, ErrorCode] | None:
    """The code that an exception's text carries, as `0x14`, with its entry; None where it carries none we know."""
    for match in _CODE.finditer(text):
        code = int(match[1], 16)
        if code in ERROR_CODES:
            return f"0x{code:02x}", ERROR_CODES[code]
    return None


def engine_error(doing: str, error: Exception, tail: str, where: str) -> RunError:
    """A `RunError` for an exception of the binding.

    Args:
        doing: What failed, for example `load the program`.
        error: The binding's exception.
        tail: The last lines that ExecuTorch wrote to stderr.
        where: The artifact.
    """
    known = explain_error(str(error))
    why = "\n".join(line for line in tail.splitlines() if not _NOISE.search(line)) or str(error)
    if known is None:
        return RunError(f"ExecuTorch could not {doing}", where, why=why)
    code, entry = known
    if entry.name == _DATA_NOT_FOUND.name and _NO_DATA.search(why):
        entry = _DATA_NOT_FOUND
    return RunError(f"ExecuTorch could not {doing}: {entry.meaning} ({entry.name}, {code})", where, entry.fix, why=why)
