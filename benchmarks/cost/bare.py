"""The engines' own calls, beside which a Session is timed; imports nothing of edgex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np


def bare_call(engine: str, path: Path, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """The engine's own call on the artifact's native file, with nothing left to prepare."""
    if engine == "litert":
        return _litert(path, arrays)
    if engine == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path / "model.onnx"), options, providers=["CPUExecutionProvider"])
        feed = {node.name: array for node, array in zip(session.get_inputs(), arrays, strict=True)}
        return partial(session.run, [node.name for node in session.get_outputs()], feed)
    import torch
    from executorch.extension.pybindings import _C

    # The thread pool belongs to the process: it has the one thread that the Session, opened before, asked for.
    program = _C._load_program(
        str(path / "model.pte"),
        enable_etdump=False,
        debug_buffer_size=0,
        program_verification=_C.Verification.InternalConsistency,
    )
    method = program.load_method("forward")
    return partial(method, [torch.from_numpy(array) for array in arrays])


def qnn_call(path: Path, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """ONNX Runtime's own call on the QNN provider, opened as its documentation says."""
    import json

    import onnxruntime
    import onnxruntime_qnn

    folder = Path(onnxruntime_qnn.__file__).parent
    if not any("QNN" in device.ep_name for device in onnxruntime.get_ep_devices()):
        library = folder / "libonnxruntime_providers_qnn.so"
        onnxruntime.register_execution_provider_library("QNNExecutionProvider", str(library))
    device = next(device for device in onnxruntime.get_ep_devices() if "QNN" in device.ep_name)
    given = json.loads((path / "manifest.json").read_text())["options"]["provider_options"]
    texts = {name: str(int(value)) for name, value in given.items()}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_provider_for_devices([device], {**texts, "backend_path": str(folder / "libQnnHtp.so")})
    session = onnxruntime.InferenceSession(str(path / "model.onnx"), options)
    feed = {node.name: array for node, array in zip(session.get_inputs(), arrays, strict=True)}
    return partial(session.run, [node.name for node in session.get_outputs()], feed)


def _litert(path: Path, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """Inputs set, run, outputs copied; the inputs are in the file's order."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path / "model.tflite"), num_threads=1)
    interpreter.allocate_tensors()
    indices = [details["index"] for details in interpreter.get_input_details()]
    outputs = [details["index"] for details in interpreter.get_output_details()]

    def call() -> object:
        for index, array in zip(indices, arrays, strict=True):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return call
