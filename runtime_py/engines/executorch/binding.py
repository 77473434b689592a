"""The one adapter over ExecuTorch's Python binding, `executorch.extension.pybindings._C`.

The documented door, `executorch.runtime`, imports all of `executorch.exir`: seconds, and 125 MiB. The binding itself
loads in 0.03 s once torch is there. It is private, so that everything edgex uses of it is here, and
`tests/runtime/engines/executorch/test_executorch_engine.py` fails by name when an upgrade moves a piece.

```
_C._load_program(path, enable_etdump=…, debug_buffer_size=…, program_verification=…) -> program
program.load_method("forward") -> method        method([tensor, …], clone_outputs=False) -> [tensor, …]
method.get_attribute(name) -> tensor            both kinds share the method's memory
```
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgex.errors import TargetUnavailable
from edgex.runtime.support.native_stderr import capture_native_stderr

INSTALL_COMMAND = "pip install 'edgex-toolchain[run-xnnpack]'"

# What is used of the binding; a test compares it with the installed one.
BINDING_NAMES = (
    "Verification",
    "_get_operator_names",
    "_get_registered_backend_names",
    "_load_program",
    "_threadpool_get_thread_count",
    "_unsafe_reset_threadpool",
)
PROGRAM_NAMES = ("load_method", "write_etdump_result_to_file")
METHOD_NAMES = ("__call__", "get_attribute")

_IMPORT_LOCK = threading.Lock()


@cache
def import_binding() -> Any:
    """The binding's module.

    Raises:
        TargetUnavailable: torch or executorch is missing, or does not fit.
    """
    for package in ("torch", "executorch"):
        if find_spec(package) is None:
            raise TargetUnavailable(f"{package} is not installed; a .pte needs it to run", fix=INSTALL_COMMAND)
    with _IMPORT_LOCK, capture_native_stderr() as stderr:
        try:
            # The binding links torch's libraries and finds them only once torch has loaded them.
            import torch  # noqa: F401
            from executorch.extension.pybindings import _C
        except ImportError as error:
            raise TargetUnavailable(
                "ExecuTorch's runtime cannot be loaded", why=f"{error}\n{stderr.tail()}".strip(), fix=INSTALL_COMMAND
            ) from error
    missing = [name for name in BINDING_NAMES if not hasattr(_C, name)]
    if missing:
        raise TargetUnavailable(
            f"the installed executorch lacks what edgex uses: {', '.join(missing)}", fix=INSTALL_COMMAND
        )
    return _C


def thread_count() -> int:
    """Threads in the process-wide pool."""
    with capture_native_stderr():  # the first call makes the pool and prints what it read of the processor
        return int(import_binding()._threadpool_get_thread_count())


def reset_thread_pool(threads: int) -> None:
    """Give the pool another size; crashes or hangs when a program is loaded."""
    with capture_native_stderr():
        import_binding()._unsafe_reset_threadpool(threads)


def operator_names() -> frozenset[str]:
    """Kernels that the runtime has, for example `aten::cumsum.out`."""
    return frozenset(import_binding()._get_operator_names())


def backend_names() -> frozenset[str]:
    """Backends that the runtime has, for example `XnnpackBackend`."""
    return frozenset(import_binding()._get_registered_backend_names())


def load_program(path: Path, trace: bool) -> Any:
    """Load a .pte file.

    Args:
        path: The file; it is mapped, not read.
        trace: Record events for an ETDump, which costs time at every run.

    Raises:
        RuntimeError: The runtime refused; the cause is on file descriptor 2.
    """
    module = import_binding()
    return module._load_program(
        str(path),
        enable_etdump=trace,
        debug_buffer_size=0,
        program_verification=module.Verification.InternalConsistency,
    )
