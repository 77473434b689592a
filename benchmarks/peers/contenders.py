"""The same model in every runtime that it is measured with. Each gives a function that runs it once.

Nothing of edgex is imported for the peers, so that they also run where edgex is not installed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes:
        module: In float32, in evaluation mode.
        args: Its inputs; floating-point ones are float32.
        precision: "fp32" or "bf16".
        threads: For the runtime to use.
        artifacts: Folder with `NAME.TARGET.edgex`, for the runtimes that need files.
        name: The model's name.
    """

    module: torch.nn.Module
    args: tuple[torch.Tensor, ...]
    precision: str
    threads: int
    artifacts: Path
    name: str

    @property
    def has_image(self) -> bool:
        """Whether memory formats mean something for the input."""
        return self.args[0].dim() == 4


def eager(case: Case) -> Call:
    """PyTorch without a compiler, images in channels_last."""
    module, args = _converted(case, channels_last=True)
    return lambda: module(*args)


def optimize_for_inference(case: Case) -> Call:
    """TorchScript: traced, frozen, `torch.jit.optimize_for_inference`."""
    module, args = _converted(case)
    optimized = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, args, check_trace=False)))
    return lambda: optimized(*args)


def optimize_for_inference_fp32(case: Case) -> Call:
    """The same in float32 whatever the row's precision: it fuses in no other."""
    return optimize_for_inference(replace(case, precision="fp32"))


def llga(case: Case) -> Call:
    """TorchScript with oneDNN Graph's fuser, `torch.jit.enable_onednn_fusion`."""
    torch.jit.enable_onednn_fusion(True)
    # Its documentation asks for autocast in the tracing, and switches off autocast's own cache and pass.
    module, args = _converted(case, dtype=torch.float32)
    if case.precision == "bf16":
        torch._C._jit_set_autocast_mode(False)
    with torch.autocast("cpu", torch.bfloat16, case.precision == "bf16", cache_enabled=False):
        traced = torch.jit.freeze(torch.jit.trace(module, args, check_trace=False))
    for _ in range(3):  # it records shapes in the first, fuses in the second
        traced(*args)
    return lambda: traced(*args)


def inductor(case: Case) -> Call:
    """`torch.compile` with `freezing`."""
    import torch._inductor.config

    torch._inductor.config.freezing = True
    module, args = _converted(case)
    compiled = torch.compile(module)
    compiled(*args)
    return lambda: compiled(*args)


def onnxruntime(case: Case) -> Call:
    """ONNX Runtime on the file that `edgex export -t onnx-cpu` made."""
    import onnxruntime as engine

    _require_fp32(case, "ONNX Runtime's CPU kernels take no bfloat16")
    options = engine.SessionOptions()
    options.intra_op_num_threads = case.threads
    path = case.artifacts / f"{case.name}.onnx-cpu.edgex" / "model.onnx"
    session = engine.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {item.name: arg.numpy() for item, arg in zip(session.get_inputs(), case.args, strict=True)}
    return lambda: session.run(None, feed)


def openvino(case: Case) -> Call:
    """OpenVINO on the same ONNX file."""
    import openvino as engine

    path = case.artifacts / f"{case.name}.onnx-cpu.edgex" / "model.onnx"
    settings = {
        "INFERENCE_NUM_THREADS": case.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[case.precision],
    }
    request = engine.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    tensors = [engine.Tensor(arg.numpy(), shared_memory=True) for arg in case.args]
    for number, tensor in enumerate(tensors):
        request.set_input_tensor(number, tensor)
    return lambda: request.infer()


def xnnpack(case: Case) -> Call:
    """ExecuTorch with XNNPACK: the artifact of `edgex export -t xnnpack`."""
    _require_fp32(case, "XNNPACK takes no bfloat16")
    return _session(case, "xnnpack")


def onednn(case: Case) -> Call:
    """ExecuTorch with oneDNN Graph: the artifact of `edgex export -t onednn`."""
    return _session(case, "onednn" if case.precision == "fp32" else f"onednn-{case.precision}")


CONTENDERS: dict[str, Callable[[Case], Call]] = {
    made.__name__: made
    for made in (
        *(onednn, optimize_for_inference, optimize_for_inference_fp32, llga, inductor),
        *(xnnpack, onnxruntime, openvino, eager),
    )
}


def _session(case: Case, target: str) -> Call:
    import edgex

    session = edgex.load(case.artifacts / f"{case.name}.{target}.edgex", threads=case.threads)
    arrays = [arg.numpy() for arg in case.args]
    return lambda: session.run(*arrays)


def _require_fp32(case: Case, why: str) -> None:
    if case.precision != "fp32":
        raise ValueError(why)


def _converted(
    case: Case, *, channels_last: bool = False, dtype: torch.dtype | None = None
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    dtype = dtype or {"fp32": torch.float32, "bf16": torch.bfloat16}[case.precision]
    module = case.module.to(dtype)
    args = tuple(arg.to(dtype) if arg.is_floating_point() else arg for arg in case.args)
    if channels_last and case.has_image:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        args = tuple(arg.to(memory_format=torch.channels_last) for arg in args)
    return module, args


def prepare_process(threads: int) -> None:
    """Threads of torch, and a folder of its own for what Inductor compiles."""
    torch.set_num_threads(threads)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"inductor-{os.getuid()}"))
