"""The engines' own calls, beside which a Session is timed; imports nothing of edgex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np


def bare_call(engine: str, path: Path, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """The engine's own call on the artifact's native file, with nothing left to prepare."""
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
