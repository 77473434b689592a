"""The one place that imports openvino.

Of its package only the runtime is used: what sends usage data, `ovc` and `convert_model`, is never called.
"""

from __future__ import annotations

import re
from types import ModuleType

from edgex.errors import TargetUnavailable
from edgex.runtime.support.machine.c_library import suggest_fix

INSTALL_COMMAND = "pip install 'edgex-toolchain[run-openvino]'"


def import_openvino() -> ModuleType:
    """OpenVINO.

    Raises:
        TargetUnavailable: It is not installed, or does not import.
    """
    try:
        import openvino
    except ImportError as error:
        raise TargetUnavailable(
            "openvino does not import", why=str(error), fix=suggest_fix(str(error), INSTALL_COMMAND)
        ) from error
    module: ModuleType = openvino
    return module


def sentence(error: BaseException) -> str:
    """The last line of OpenVINO's message that says something: the lines before name its own C++ files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not re.match(r"(Exception from|Check '.*' failed at) ?\S*src/", line)]
    return (told or lines or [type(error).__name__])[-1]
