"""The QNN provider: a plug-in of ONNX Runtime, whose library for x86-64 holds a simulator of the HTP.

Its Python package is never imported: it only says where its libraries lie, which the package's place does too.
"""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path

from edgex.runtime.engines.onnxruntime.provider.known import Option, Provider
from edgex.runtime.support.entry_points import installed_version

DISTRIBUTION = "onnxruntime-qnn"
INSTALL_COMMAND = "pip install 'edgex-toolchain[run-qnn]'"
LICENCE = (
    "its libraries are Qualcomm's, under the licence in the wheel (Qualcomm_LICENSE.pdf), which you accept by "
    "installing it"
)
# Before, the distribution was a build of ONNX Runtime itself and no plug-in.
OLDEST = "2.7"
# What onnxruntime-qnn 2.7.0 says that it needs.
_OLDEST_RUNTIME = "1.24.2"

QNN = Provider(
    name="QNNExecutionProvider",
    title="QNN",
    install_fix=INSTALL_COMMAND,
    # On x86-64 the simulator is offered as a CPU.
    device_types=("NPU", "CPU"),
    takes_its_name=True,
    packages={"onnxruntime": _OLDEST_RUNTIME, DISTRIBUTION: OLDEST},
    options={
        "backend_path": Option(str, "backend_path"),
        "soc_model": Option(int, "soc_model"),
        "htp_arch": Option(int, "htp_arch"),
        "enable_htp_fp16_precision": Option(bool, "enable_htp_fp16_precision"),
        "offload_graph_io_quantization": Option(bool, "offload_graph_io_quantization"),
        "htp_graph_finalization_optimization_mode": Option(int, "htp_graph_finalization_optimization_mode"),
        "vtcm_mb": Option(int, "vtcm_mb"),
        "enable_framework_op_trace": Option(bool, "enable_framework_op_trace"),
        "framework_op_trace_dir": Option(str, "framework_op_trace_dir"),
        "device_id": Option(int, "device_id"),
    },
)


def find_folder() -> Path | None:
    """Where the provider's libraries lie; None where it is not installed."""
    spec = find_spec("onnxruntime_qnn")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def find_provider() -> Path | None:
    """The provider's library; None where it is not installed."""
    folder = find_folder()
    return None if folder is None else folder / "libonnxruntime_providers_qnn.so"


def find_htp() -> Path | None:
    """The library of the HTP, or of its simulator; None where it is not installed."""
    folder = find_folder()
    return None if folder is None else folder / "libQnnHtp.so"


def simulates() -> bool:
    """Whether the library of the HTP for this machine is its simulator: the one for x86-64 is."""
    return platform.machine().lower() in ("x86_64", "amd64")


def describe_simulator(soc: str) -> str:
    """What runs in place of a SoC: `HTP simulator of onnxruntime-qnn 2.7.0 as sm8650 (HTP v75)`."""
    return f"HTP simulator of {DISTRIBUTION} {installed_version(DISTRIBUTION)} as {soc}"
